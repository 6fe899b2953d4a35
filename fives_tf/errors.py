"""The one error a user's mistake raises, and the end of work that was told to stop."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Input that the user can mend: shown as one message, without a traceback, exit code 2.

    The message names the file, row or column, says what was expected, and ends with what to do.
    """


class WorkerLostError(Exception):
    """Another process of the same job is gone, so that this one cannot go on."""


class Interrupted(Exception):  # noqa: N818 - no error: what was asked for has been done
    """Work that a signal stopped, raised when its state is saved; exit code 128 + `signal`.

    Attributes:
        signal: The number of the signal.
    """

    def __init__(self, signal: int, message: str):
        super().__init__(message)
        self.signal = signal


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: "; did you mean `min_count`?", or "." if no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else "."
