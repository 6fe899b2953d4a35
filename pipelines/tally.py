"""Counts the rows of a log that is read through, and remembers the first that are bad."""

from typing import Any, BinaryIO

import numpy as np

from fives_tf.errors import UserError
from fives_tf.parsing import Rows

_SHOWN_REJECTS = 5


class Tally:
    """The rows of a log that were read.

    Attributes:
        lacks: What a bad row does not get, for messages.
        rows: The number of rows.
        bad: How many of them could not be read.
        rejects: File, line and reason of the first of those.
    """

    lacks = "nothing"

    def __init__(self):
        self.rows = self.bad = 0
        self.rejects: list[str] = []

    def add(self, rows: Rows, path: str) -> None:
        """Adds the rows of a block.

        Args:
            rows: The rows.
            path: The file they stand in.
        """
        self.rows += len(rows.bad)
        self.bad += len(rows.rejects)
        self._show([f"{path}:{reject.line}: {reject.reason}" for reject in rows.rejects])

    def save(self, file: BinaryIO) -> None:
        """Writes all that was added, for `merge`."""
        np.savez(file, **self._arrays())

    def merge(self, file: BinaryIO) -> None:
        """Adds what another tally has saved."""
        with np.load(file, allow_pickle=False) as saved:
            self._merge(dict(saved))

    def check_bad(self, max_bad_fraction: float, rows: int | None = None) -> None:
        """Fails if too many rows are bad, with the first of them.

        Args:
            max_bad_fraction: The part of the rows that may be bad.
            rows: The number of rows in the end, if there are more to come.
        """
        if self.bad <= max_bad_fraction * (rows or self.rows):
            return
        shown = "\n".join(f"  {reject}" for reject in self.rejects)
        raise UserError(
            f"{self.bad:,} of {self.rows:,} rows are bad, more than "
            f"--max_bad_fraction={max_bad_fraction:g} allows. The first:\n{shown}\n"
            f"Correct the log, or allow more; bad rows keep their place and get {self.lacks}."
        )

    def _arrays(self) -> dict[str, Any]:
        return {
            "counts": np.array([self.rows, self.bad]),
            "rejects": np.array(self.rejects, str),
        }

    def _merge(self, saved: dict[str, np.ndarray]) -> None:
        rows, bad = saved["counts"].tolist()
        self.rows += rows
        self.bad += bad
        self._show(saved["rejects"].tolist())

    def _show(self, rejects: list[str]) -> None:
        self.rejects += rejects[: _SHOWN_REJECTS - len(self.rejects)]
