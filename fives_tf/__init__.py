"""FIVES-TF: finds the useful feature crosses in click logs and serves them."""

__version__ = "0.1.0"


def __getattr__(name: str):
    """Loads `fives_tf.search` and `fit` when they are asked for: TensorFlow takes seconds."""
    if name in ("search", "fit"):
        import importlib

        return importlib.import_module(f"fives_tf.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
