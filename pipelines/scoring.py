"""What a scored log amounts to: rows, bad rows, and how good the scores are."""

from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from fives_tf.errors import UserError
from fives_tf.parsing import Rows
from fives_tf.training import metrics

JUDGED_ROWS = 20_000_000  # for an exact AUC, 50 bytes a row are held for a moment
_SHOWN_REJECTS = 5


@dataclass(frozen=True)
class Summary:
    """What a log was scored to.

    Attributes:
        rows: The number of rows.
        bad: How many of them could not be read, and so have no probability.
        rejects: File, line and reason of the first of those.
        mean_probability: The mean over the others; NaN if there are none.
        labelled: How many rows have a probability and a label.
        auc: The AUC over those; None if there are none, or too many to hold.
        log_loss: The log loss over those, likewise.
    """

    rows: int
    bad: int
    rejects: tuple[str, ...]
    mean_probability: float
    labelled: int
    auc: float | None
    log_loss: float | None


class Tally:
    """Counts scored rows.

    Of each row with a label it holds 5 bytes, for exact figures; above `JUDGED_ROWS` none.
    """

    def __init__(self):
        self._rows = self._bad = self._labelled = 0
        self._total = 0.0
        self._rejects: list[str] = []
        self._clicks: list[np.ndarray] = []
        self._probabilities: list[np.ndarray] = []

    def add(self, rows: Rows, probability: np.ndarray, path: str) -> None:
        """Adds the rows of a block.

        Args:
            rows: The rows.
            probability: Their probabilities.
            path: The file they stand in.
        """
        self._rows += len(rows.bad)
        self._bad += len(rows.rejects)
        self._total += float(probability[~rows.bad].sum(dtype=np.float64))
        self._show([f"{path}:{reject.line}: {reject.reason}" for reject in rows.rejects])
        judged = ~rows.bad & ~np.isnan(rows.label)
        self._judge(int(judged.sum()), rows.label[judged] == 1, probability[judged])

    def save(self, file: BinaryIO) -> None:
        """Writes all that was added, for `merge`."""
        np.savez(
            file,
            counts=np.array([self._rows, self._bad, self._labelled]),
            total=self._total,
            rejects=np.array(self._rejects, str),
            clicks=np.concatenate([*self._clicks, np.zeros(0, bool)]),
            probabilities=np.concatenate([*self._probabilities, np.zeros(0, np.float32)]),
        )

    def merge(self, file: BinaryIO) -> None:
        """Adds what another tally has saved."""
        with np.load(file) as saved:
            rows, bad, labelled = saved["counts"].tolist()
            self._rows += rows
            self._bad += bad
            self._total += float(saved["total"])
            self._show(saved["rejects"].tolist())
            self._judge(labelled, saved["clicks"], saved["probabilities"])

    def check_bad(self, max_bad_fraction: float, rows: int | None = None) -> None:
        """Fails if too many rows are bad, with the first of them.

        Args:
            max_bad_fraction: The part of the rows that may be bad.
            rows: The number of rows in the end, if there are more to come.
        """
        if self._bad <= max_bad_fraction * (rows or self._rows):
            return
        shown = "\n".join(f"  {reject}" for reject in self._rejects)
        raise UserError(
            f"{self._bad:,} of {self._rows:,} rows are bad, more than "
            f"--max_bad_fraction={max_bad_fraction:g} allows. The first:\n{shown}\n"
            "Correct the log, or allow more; bad rows keep their place and get no probability."
        )

    def summary(self) -> Summary:
        """The sums and figures."""
        good = self._rows - self._bad
        auc = log_loss = None
        if self._clicks:
            clicks, probability = np.concatenate(self._clicks), np.concatenate(self._probabilities)
            auc, log_loss = metrics.auc(clicks, probability), metrics.log_loss(clicks, probability)
        return Summary(
            rows=self._rows,
            bad=self._bad,
            rejects=tuple(self._rejects),
            mean_probability=self._total / good if good else float("nan"),
            labelled=self._labelled,
            auc=auc,
            log_loss=log_loss,
        )

    def _show(self, rejects: list[str]) -> None:
        self._rejects += rejects[: _SHOWN_REJECTS - len(self._rejects)]

    def _judge(self, labelled: int, clicks: np.ndarray, probability: np.ndarray) -> None:
        """Adds rows with a label, of which another tally may hold no more than the number."""
        self._labelled += labelled
        if self._labelled > JUDGED_ROWS:
            self._clicks, self._probabilities = [], []
        elif len(clicks):
            self._clicks.append(clicks)
            self._probabilities.append(probability)
