"""Mean, standard deviation, and the paper's test of whether one method is better than another."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """How figures of several runs spread.

    Attributes:
        mean: Their mean.
        deviation: Their standard deviation, of a sample; 0 for one run.
        runs: Their number.
    """

    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of one figure or more."""
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(statistics.mean(values), deviation, len(values))

    def __str__(self) -> str:
        return self.told(".4f")

    def told(self, form: str) -> str:
        """The mean in a form such as `+.4f`, and the deviation, which one run does not have."""
        mean = format(self.mean, form)
        return f"{mean} ± {self.deviation:.4f}" if self.runs > 1 else mean


def welch(one: Sequence[float], other: Sequence[float]) -> float | None:
    """The p-value of Welch's t-test, two-sided; None if there is nothing to test by.

    That takes two runs of each, and a deviation of at least one of them.
    """
    from scipy.stats import ttest_ind_from_stats

    if min(len(one), len(other)) < 2 or len(set(one)) == len(set(other)) == 1:
        return None
    # By its figures: given the values, scipy warns of those that are all the same.
    figures = [(s.mean, s.deviation, s.runs) for s in (Spread.of(one), Spread.of(other))]
    return float(ttest_ind_from_stats(*figures[0], *figures[1], equal_var=False).pvalue)


def stars(p: float | None) -> str:
    """Two stars for p < 0.01, one for p < 0.05, as in the paper."""
    if p is None or p >= 0.05:
        return ""
    return "**" if p < 0.01 else "*"
