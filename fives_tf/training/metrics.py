"""Exact metrics over all predictions of a split; nothing is binned."""

import numpy as np


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """The chance that a click has a higher score than a row without one; ties count half.

    NaN if there is no click, or nothing else.

    Args:
        label: 1 for a click, 0 for none.
        score: Any number that rises with the chance of a click.
    """
    clicks = int(np.sum(label == 1))
    others = len(label) - clicks
    if clicks == 0 or others == 0:
        return float("nan")
    values, place, counts = np.unique(score, return_inverse=True, return_counts=True)
    clicks_at = np.bincount(place, weights=label, minlength=len(values))
    others_at = counts - clicks_at
    others_below = np.cumsum(others_at) - others_at
    return float(np.sum(clicks_at * (others_below + others_at / 2)) / (clicks * others))


def log_loss(label: np.ndarray, probability: np.ndarray) -> float:
    """The mean cross-entropy; a certain and wrong prediction counts as one in 10 million."""
    probability = np.clip(probability.astype(np.float64), 1e-7, 1 - 1e-7)
    return float(-np.mean(np.where(label == 1, np.log(probability), np.log1p(-probability))))


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """The ranks from 1 on; equal values have the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]
