"""Field-wise logistic regression: weights for the values of one feature beside fixed logits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

BATCH = 1024  # rows of a step
BLOCK = 8192  # rows that all candidates learn from at least


@dataclass(frozen=True, eq=False)
class Base:
    """Rows, and the logits that a model gives them.

    Attributes:
        label: 1 for a click, 0 for none.
        logit: The logits.
    """

    label: np.ndarray
    logit: np.ndarray

    def loss(self, added: np.ndarray | float = 0.0) -> float:
        """The mean log loss if something is added to the logits."""
        logit = self.logit + added
        # log(1 + exp(logit)) - label * logit, without overflow.
        softplus = np.maximum(logit, 0) + np.log1p(np.exp(-np.abs(logit)))
        return float(np.mean(softplus - self.label * logit))

    def plus(self, added: np.ndarray) -> "Base":
        """The same rows with more logit."""
        return Base(self.label, self.logit + added)


class FieldWise:
    """The weights of the values of one feature, learned in one pass over the rows.

    A step adds to the weight of each value that a mini-batch has

        sum (label - p) / (strength + sum over all rows so far of p (1 - p)),

    p being the probabilities before the step. So each value has a rate of its own, which falls as
    its rows add up: for a quadratic loss this pass would end at the very ridge solution. The value
    0, which stands for all that are too rare, has a weight like the others.
    """

    def __init__(self, train: np.ndarray, judge: np.ndarray, strength: float):
        """Starts with weights of 0.

        Args:
            train: The values of the rows to learn from, from 0 on.
            judge: Those of the rows to judge by.
            strength: The strength of the L2 penalty, beside the sum of the loss over rows.
        """
        self._train, self._judge = train, judge
        size = int(max(train.max(initial=0), judge.max(initial=0))) + 1
        self.weights = np.zeros(size)
        self._curvature, self._error = np.full(size, float(strength)), np.zeros(size)

    def learn(self, base: Base, last: int) -> None:
        """Learns from so many of the rows, one mini-batch after the other."""
        for start in range(0, last, BATCH):
            rows = slice(start, min(start + BATCH, last))
            values = self._train[rows].astype(np.intp)
            logit = np.clip(base.logit[rows] + self.weights[values], -50, 50)
            probability = 1 / (1 + np.exp(-logit))
            np.add.at(self._curvature, values, probability * (1 - probability))
            np.add.at(self._error, values, base.label[rows] - probability)
            # A value that occurs twice is set twice to the same.
            self.weights[values] += self._error[values] / self._curvature[values]
            self._error[values] = 0

    def loss(self, base: Base) -> float:
        """The log loss of the rows to judge by."""
        return base.loss(self.weights[self._judge])

    def added(self) -> tuple[np.ndarray, np.ndarray]:
        """What it adds to the logits of the rows to learn from and to judge by."""
        return self.weights[self._train], self.weights[self._judge]


def block_rows(rows: int, candidates: int) -> int:
    """How many rows all candidates learn from, before the first half of them goes.

    As many as let the last of them have all rows, but not so few that chance would decide.
    """
    rounds = max(candidates - 1, 1).bit_length()
    return max(-(-rows // (2**rounds - 1)), BLOCK)


def successive_halving(
    candidates: Sequence[Callable[[], FieldWise]], train: Base, judge: Base, block: int
) -> tuple[int, FieldWise]:
    """The candidate that lowers the log loss most: its place, and what has learned from all rows.

    All learn from the first block of rows. The half with the lower log loss goes on, with twice as
    many of the rows that follow, and so on. If the rows end while several are left, the best of
    these wins. What a candidate has learned is not kept until the next round, but learned again:
    that is less than twice the learning, and memory for a few candidates instead of thousands.

    Args:
        candidates: What makes features that have learned nothing yet, one at least.
        train: The rows to learn from.
        judge: The rows to judge by.
        block: The rows of the first round.
    """
    left, last, rows = list(range(len(candidates))), 0, len(train.label)
    while True:
        last = rows if len(left) == 1 else min(last + block, rows)
        losses, least = {}, np.inf
        for place in left:
            learner = candidates[place]()
            learner.learn(train, last)
            losses[place] = learner.loss(judge)
            if losses[place] < least:
                best, least = learner, losses[place]
        left.sort(key=lambda place: losses[place])
        if last == rows:
            return left[0], best
        left, block = left[: -(-len(left) // 2)], 2 * block
