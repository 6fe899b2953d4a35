"""What a cross adds to a model that has the fields already."""

import numpy as np

from fives_tf.training.metrics import log_loss


def held_out_gain(
    fitted: tuple[np.ndarray, np.ndarray, np.ndarray],
    held_out: tuple[np.ndarray, np.ndarray, np.ndarray],
    strength: float,
) -> float:
    """By how much a cross lowers the log loss on rows that its weights were not learned from.

    Each value of the cross gets the weight of one Newton step from the logits of the model, which
    stay as they are.

    Args:
        fitted: The ids of the cross, from 0 on, the labels and the model's logits of the rows that
            the weights are learned from; each [rows].
        held_out: The same of the rows that the gain is measured on.
        strength: The strength of the L2 penalty on the weights.
    """
    size = max(fitted[0].max(initial=-1), held_out[0].max(initial=-1)) + 1
    weights = newton_weights(*fitted, strength, size)
    ids, label, logit = held_out
    before, after = sigmoid(logit), sigmoid(logit + weights[ids])
    return log_loss(label, before) - log_loss(label, after)


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
    probability = sigmoid(logit)
    gradient = np.bincount(ids, label - probability, size)
    curvature = np.bincount(ids, probability * (1 - probability), size)
    total = curvature + strength  # 0 for values that none of these rows has, without a penalty
    return np.divide(gradient, total, np.zeros_like(total), where=total > 0)


def sigmoid(logit: np.ndarray) -> np.ndarray:
    """The probabilities of logits, in double precision."""
    return 1 / (1 + np.exp(-np.clip(logit.astype(np.float64), -50, 50)))
