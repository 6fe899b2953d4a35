"""What a cross adds to a model that has the fields already."""

from typing import NamedTuple

import numpy as np

from fives_tf.training.metrics import log_loss

# Strengths of the L2 penalty on the weights of a cross, beside the sum of the loss over rows. How
# strong it must be depends on how few rows a combination has, not on what suits single fields.
STRENGTHS = (0.5, 2.0, 7.0, 20.0, 70.0, 200.0)
FOLDS = 5
MOST_WEIGHT = 3.0  # one step from logits that are far off would lead too far


class Gain(NamedTuple):
    """What a cross adds.

    Attributes:
        gain: By how much it lowers the log loss.
        strength: The strength of the penalty with which it does so.
    """

    gain: float
    strength: float


def held_out_gain(ids: np.ndarray, label: np.ndarray, logit: np.ndarray) -> Gain:
    """By how much a cross lowers the log loss on rows that its weights were not learned from.

    The rows are dealt out to folds. In each fold the values of the cross have the weights of one
    Newton step on the rows of the others, from the logits of the model, which stay as they are. Of
    several strengths of a penalty on the weights, the best one counts.

    Args:
        ids: The ids of the cross, from 0 on, [rows].
        label: The labels.
        logit: The logits of the model.
    """
    if not len(ids):
        return Gain(0.0, STRENGTHS[-1])
    size = int(ids.max()) + 1
    place = np.arange(len(ids)) % FOLDS * size + ids
    of_folds = np.reshape(_sums(place, label, logit, FOLDS * size), (2, FOLDS, size))
    gradient, curvature = of_folds.sum(axis=1, keepdims=True) - of_folds
    before = log_loss(label, sigmoid(logit))

    def gain(strength: float) -> Gain:
        weights = _step(gradient, curvature, strength).ravel()[place]
        return Gain(before - log_loss(label, sigmoid(logit + weights)), strength)

    return max(map(gain, STRENGTHS))


def newton_weights(
    ids: np.ndarray, label: np.ndarray, logit: np.ndarray, strength: float, size: int
) -> np.ndarray:
    """The weight of each value of a cross after one Newton step from the logits of a model.

    Args:
        ids: The ids of the cross, from 0 on, [rows].
        label: The labels.
        logit: The logits of the model.
        strength: The strength of the L2 penalty on the weights.
        size: The number of ids.
    """
    return _step(*_sums(ids, label, logit, size), strength)


def tell_the_same(ids: np.ndarray, others: np.ndarray) -> bool:
    """Whether two features tell the rows apart in the same way, each by ids from 0 on."""
    both = ids * (others.max(initial=0).astype(np.int64) + 1) + others
    kinds = {len(np.unique(one)) for one in (ids, others, both)}
    return len(kinds) == 1


def sigmoid(logit: np.ndarray) -> np.ndarray:
    """The probabilities of logits, in double precision."""
    return 1 / (1 + np.exp(-np.clip(logit.astype(np.float64), -50, 50)))


def _sums(
    ids: np.ndarray, label: np.ndarray, logit: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """How steep the log likelihood of the rows of each id is, and how curved."""
    probability = sigmoid(logit)
    return (
        np.bincount(ids, label - probability, size),
        np.bincount(ids, probability * (1 - probability), size),
    )


def _step(gradient: np.ndarray, curvature: np.ndarray, strength: float) -> np.ndarray:
    total = curvature + strength  # 0 for values that none of the rows has, without a penalty
    weights = np.divide(gradient, total, np.zeros_like(total), where=total > 0)
    return np.clip(weights, -MOST_WEIGHT, MOST_WEIGHT)
