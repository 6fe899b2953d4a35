"""Runs TensorFlow functions as plain Python for a while.

To trace the functions of a network takes about a second each time; a few hundred rows are learned
in less than that.
"""

import contextlib
import threading
import warnings
from collections.abc import Iterator

import tensorflow as tf

_lock = threading.Lock()
_open_blocks = 0  # in all threads


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """Within the block nothing is traced, but for what runs inside of `tf.data`.

    TensorFlow has one switch for all threads: the first block sets it, the last one takes it off.
    """
    global _open_blocks
    with _lock:
        _open_blocks += 1
        tf.config.run_functions_eagerly(True)
    try:
        with warnings.catch_warnings():
            # It says that what runs inside of `tf.data` is traced still.
            warnings.filterwarnings("ignore", message=".*does not apply to tf.data functions.*")
            yield
    finally:
        with _lock:
            _open_blocks -= 1
            tf.config.run_functions_eagerly(_open_blocks > 0)
