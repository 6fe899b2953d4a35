"""A lock at a store, where no process can hold a file open.

The lock is a file with the name of its holder and a number that the holder raises all the time. A
number that stands still belongs to a process that was killed, and its lock is taken over.
"""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator

from fives_tf.errors import UserError

BEAT_SECONDS = 5.0
LOST_SECONDS = 4 * BEAT_SECONDS


class Lease:
    """A lock in a file that can be read and written as a whole."""

    def __init__(
        self,
        path: str,
        read: Callable[[], bytes | None],
        write: Callable[[bytes], None],
        remove: Callable[[], None],
    ):
        """Takes what can be done with the file.

        Args:
            path: Its path, for messages.
            read: Its content; None if it is not there.
            write: Replaces it.
            remove: Removes it.
        """
        self._path, self._read, self._write, self._remove = path, read, write, remove
        self._name = uuid.uuid4().hex

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Holds the lock, or refuses if another process does."""
        self._wait_for_the_lost()
        self._beat(0)
        time.sleep(0.2)  # of two that begin at the same moment, the last to write wins
        if not self._is_mine():
            raise self._taken()
        over = threading.Event()
        beating = threading.Thread(target=self._keep, args=(over,), daemon=True)
        beating.start()
        try:
            yield
        finally:
            over.set()
            beating.join()
            if self._is_mine():
                self._remove()

    def _wait_for_the_lost(self) -> None:
        """Returns if nobody holds the lock, be it after waiting for a beat in vain."""
        first = now = self._read()
        until = time.monotonic() + LOST_SECONDS
        while now is not None and time.monotonic() < until:
            time.sleep(BEAT_SECONDS / 10)
            now = self._read()
            if now != first and now is not None:
                raise self._taken()

    def _keep(self, over: threading.Event) -> None:
        number = 0
        while not over.wait(BEAT_SECONDS):
            number += 1
            with contextlib.suppress(OSError, UserError):  # the next beat may come through
                self._beat(number)

    def _beat(self, number: int) -> None:
        self._write(f"{self._name} {number}".encode())

    def _is_mine(self) -> bool:
        return (self._read() or b"").split(b" ")[0] == self._name.encode()

    def _taken(self) -> UserError:
        return UserError(f"{self._path}: another process is at work here; wait for its end.")
