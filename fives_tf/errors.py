"""The one error a user's mistake raises."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Input that the user can mend: shown as one message, without a traceback, exit code 2.

    The message names the file, row or column, says what was expected, and ends with what to do.
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence: "; did you mean `min_count`?", or "." if no known word is close."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else "."
