"""FIVES-TF: finds the useful feature crosses in click logs and serves them."""

__version__ = "0.1.0"


def __getattr__(name: str):
    """Loads `fives_tf.search` when it is first asked for: TensorFlow takes seconds to import."""
    if name == "search":
        import importlib

        return importlib.import_module("fives_tf.search")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
