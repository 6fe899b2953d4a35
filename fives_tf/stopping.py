"""Lets SIGTERM end a command in order."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

from fives_tf.errors import Interrupted


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Raises `Interrupted` at SIGTERM, also where no training loop waits for it."""

    stopped = False

    def stop(number: int, frame: Any) -> None:
        nonlocal stopped
        stopped = True
        raise _Stop

    former = signal.getsignal(signal.SIGTERM)
    if former is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except (_Stop, Exception):
        if not stopped:
            raise
        # Native code that was waiting may have made something else of it.
        raise Interrupted(signal.SIGTERM, "stopped outside of a training loop") from None
    finally:
        signal.signal(signal.SIGTERM, former)


class _Stop(BaseException):
    """No `Exception`, which TensorFlow would turn into one of its own while it traces."""
