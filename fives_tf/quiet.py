"""Keeps what libraries tell their developers away from the user."""

import contextlib
import os
from collections.abc import Iterator


def import_tensorflow() -> None:
    """Imports TensorFlow, unheard; devices can still be chosen after that.

    It tells things once a process, past Python and past TF_CPP_MIN_LOG_LEVEL, that would stand
    between the lines of a progress bar.
    """
    with silence():
        import tensorflow  # noqa: F401


def start_xla() -> None:
    """Starts the compiler of TensorFlow, which tells such things too."""
    with silence():
        import tensorflow as tf

        tf.function(lambda: tf.zeros([]) + 1, jit_compile=True)()


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Turns standard error away, also that of native code."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
