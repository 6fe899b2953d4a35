"""Signals that ask a training loop to stop."""

import signal
import threading
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interrupts:
    """Turns the first SIGTERM or SIGINT into a flag, so that the loop can save its state and stop.

    A SIGINT after that raises KeyboardInterrupt at once, for a user who does not want to wait.
    Handlers can only be set in the main thread; in another one nothing happens. A signal that the
    process was told to ignore, as a shell tells a job in the background, stays ignored.

    Example:
        with Interrupts() as interrupts:
            for batch in batches:
                step(batch)
                if interrupts.requested:
                    save()
                    raise Interrupted(interrupts.requested, "the state is saved")
    """

    def __init__(self):
        self._requested: signal.Signals | None = None
        self._former: dict[int, object] = {}

    @property
    def requested(self) -> signal.Signals | None:
        """The signal that asks to stop, or None."""
        return self._requested

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._former[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        while self._former:
            number, handler = self._former.popitem()
            # None is a handler that was not set by Python and cannot be set by it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._requested is None:
            self._requested = signal.Signals(number)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
