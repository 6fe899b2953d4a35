"""The SavedModel: raw rows of a log in, click probabilities out."""

from typing import Any

__all__ = ["export"]


def __getattr__(name: str) -> Any:
    # Late: whoever only predicts needs nothing of what an export is made from.
    if name == "export":
        from fives_tf.serving.versions import export

        return export
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
