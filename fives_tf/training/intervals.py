"""How sure figures are: intervals that hold the true value in 95 of 100 samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fives_tf.training.metrics import mean_ranks

Interval = tuple[float, float]

_NORMAL = 1.959964  # standard deviations that 95 % of a normal law are within


@dataclass(frozen=True, eq=False)
class AucIntervals:
    """The AUCs of several scores of the same rows, and how they vary.

    Attributes:
        auc: The AUC of each score.
        covariance: Their covariances, [scores, scores].
    """

    auc: list[float]
    covariance: np.ndarray

    @classmethod
    def of(cls, label: np.ndarray, scores: Sequence[np.ndarray]) -> "AucIntervals | None":
        """By the method of DeLong et al. (1988); None unless there are two clicks and two others.

        The AUC is a mean over the clicks of the part of the others that they are above, and over
        the others of the part of the clicks that they are below. The covariances of these parts
        tell how much it varies from sample to sample.

        Args:
            label: 1 for a click, 0 for none.
            scores: Scores, [rows] each.
        """
        click = label == 1
        clicks, others = int(click.sum()), int((~click).sum())
        if min(clicks, others) < 2:
            return None
        above, below = [], []
        for score in scores:
            ranks = mean_ranks(score)
            above.append((ranks[click] - mean_ranks(score[click])) / others)
            below.append(1 - (ranks[~click] - mean_ranks(score[~click])) / clicks)
        covariance = np.cov(above) / clicks + np.cov(below) / others
        return cls([float(part.mean()) for part in above], np.atleast_2d(covariance))

    def interval(self, index: int) -> Interval:
        """The interval of an AUC."""
        low, high = self._around(self.auc[index], self.covariance[index, index])
        return max(low, 0.0), min(high, 1.0)

    def difference(self, one: int, other: int) -> Interval:
        """The interval of how much higher one AUC is than another."""
        cov = self.covariance
        variance = cov[one, one] + cov[other, other] - 2 * cov[one, other]
        return self._around(self.auc[one] - self.auc[other], variance)

    def _around(self, value: float, variance: float) -> Interval:
        half = _NORMAL * float(np.sqrt(max(variance, 0.0)))
        return value - half, value + half


def rate_interval(clicks: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper ends of the intervals of click rates.

    By Wilson's method, which holds for few rows too.

    Args:
        clicks: The numbers of clicks.
        rows: The numbers of rows, each above 0.
    """
    rate, square = clicks / rows, _NORMAL**2
    centre = (rate + square / (2 * rows)) / (1 + square / rows)
    spread = np.sqrt(rate * (1 - rate) / rows + square / (4 * rows**2))
    half = _NORMAL * spread / (1 + square / rows)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
