"""What a scored log amounts to: rows, bad rows, and figures where the label is known."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fives_tf.parsing import Rows
from fives_tf.training import metrics
from pipelines.tally import Tally

JUDGED_ROWS = 20_000_000  # for an exact AUC, 50 bytes a row are held for a moment


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


class ScoreTally(Tally):
    """Counts scored rows.

    Of each row with a label it holds 5 bytes, for exact figures; above `JUDGED_ROWS` none.
    """

    lacks = "no probability"

    def __init__(self):
        super().__init__()
        self._labelled = 0
        self._total = 0.0
        self._clicks: list[np.ndarray] = []
        self._probabilities: list[np.ndarray] = []

    def add_scores(self, rows: Rows, path: str, probability: np.ndarray) -> None:
        """Adds the rows of a block with their probabilities; see `Tally.add`."""
        self.add(rows, path)
        self._total += float(probability[~rows.bad].sum(dtype=np.float64))
        judged = ~rows.bad & ~np.isnan(rows.label)
        self._judge(int(judged.sum()), rows.label[judged] == 1, probability[judged])

    def summary(self) -> Summary:
        """The sums and figures."""
        good = self.rows - self.bad
        auc = log_loss = None
        if self._clicks:
            clicks, probability = np.concatenate(self._clicks), np.concatenate(self._probabilities)
            auc, log_loss = metrics.auc(clicks, probability), metrics.log_loss(clicks, probability)
        return Summary(
            rows=self.rows,
            bad=self.bad,
            rejects=tuple(self.rejects),
            mean_probability=self._total / good if good else float("nan"),
            labelled=self._labelled,
            auc=auc,
            log_loss=log_loss,
        )

    def _arrays(self) -> dict[str, Any]:
        return super()._arrays() | {
            "labelled": self._labelled,
            "total": self._total,
            "clicks": np.concatenate([*self._clicks, np.zeros(0, bool)]),
            "probabilities": np.concatenate([*self._probabilities, np.zeros(0, np.float32)]),
        }

    def _merge(self, saved: dict[str, np.ndarray]) -> None:
        super()._merge(saved)
        self._total += float(saved["total"])
        self._judge(int(saved["labelled"]), saved["clicks"], saved["probabilities"])

    def _judge(self, labelled: int, clicks: np.ndarray, probability: np.ndarray) -> None:
        """Adds rows with a label, of which another tally may hold no more than the number."""
        self._labelled += labelled
        if self._labelled > JUDGED_ROWS:
            self._clicks, self._probabilities = [], []
        elif len(clicks):
            self._clicks.append(clicks)
            self._probabilities.append(probability)
