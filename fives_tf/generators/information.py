"""How much a cross tells of the clicks beyond its parts, from counts.

Let c be a cross and s one of the crosses that are left if one of its fields is taken away. The rows
of one combination of s are a stratum of N rows with K clicks, and c divides it into cells of n rows
with k clicks. The plain conditional mutual information of c and the label, given s, is the mean
over all rows of H(K / N) - H(k / n), with H the entropy of a click in nats. Of few rows it is too
large: a cell of one row seems to tell everything. So H(K / N) is replaced by

    E(n, N, K) = the mean of H(k / n) over all ways to deal the K clicks to the N rows,

which is the entropy that the cell would show if it told nothing. So labels that were shuffled
within the strata score 0 in the mean, whatever the number of cells; cells of one row, and cells
that are the whole stratum, score 0 exactly.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np

from fives_tf.generators.label_counts import LabelCounts

_MOST_TERMS = 50  # of a sum over the clicks of a cell; above that there are formulas
_STEP, _MOST_MEAN = 0.01, 50.0  # of the table of Poisson means
_DENSE = 4  # strata for each cell up to which a table of all of them is faster than to sort


def information_beyond_parts(counts: LabelCounts, shape: Sequence[int]) -> float:
    """The least I(c; y | s) over all crosses s that lack one field of c, in nats for each row.

    Below 0 if it is less than chance would show.

    Args:
        counts: The counts of the combinations of c.
        shape: The number of values of each of its fields, by which the keys are made.
    """
    return min(information_given(counts, shape, axis) for axis in range(len(shape)))


def information_given(counts: LabelCounts, shape: Sequence[int], axis: int) -> float:
    """The conditional mutual information of a cross and the label, given all fields but one.

    Args:
        counts: The counts of the combinations of the cross.
        shape: The number of values of each of its fields.
        axis: The place in the cross of the field that is not given.
    """
    below = math.prod(shape[axis + 1 :])
    strata = counts.keys // (below * shape[axis]) * below + counts.keys % below
    size = math.prod(shape) // shape[axis]
    if size > _DENSE * len(strata):
        strata = np.unique(strata, return_inverse=True)[1]
    total = np.bincount(strata, counts.rows).astype(np.int64)[strata]
    total_clicks = np.bincount(strata, counts.clicks).astype(np.int64)[strata]
    # All other cells score 0.
    tells = (counts.rows > 1) & (counts.rows < total)
    tells &= (total_clicks > 0) & (total_clicks < total)
    rows, clicks = counts.rows[tells], counts.clicks[tells]
    expected = expected_entropy(rows, total[tells], total_clicks[tells])
    return float(np.sum(rows * (expected - entropy(clicks, rows)))) / max(counts.rows.sum(), 1)


def entropy(clicks: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The entropy, in nats, of a click in so many rows."""
    return np.log(rows) - (_log_power(clicks) + _log_power(rows - clicks)) / rows


def expected_entropy(rows: np.ndarray, total: np.ndarray, total_clicks: np.ndarray) -> np.ndarray:
    """The mean entropy of some rows of a stratum if its clicks are dealt at random.

    It is a sum over the clicks that the rows may get, with the chances of the hypergeometric law.
    Where that could have more than 50 terms, the mean of k log k is that of the Poisson law; what
    it is above the k log k of the mean is multiplied by the ratio of the two variances.

    Args:
        rows: The numbers of rows, n, each from 1 to N.
        total: The rows of the strata, N.
        total_clicks: The clicks of the strata, K.
    """
    total_clicks = np.minimum(total_clicks, total - total_clicks)  # the entropy is the same
    outside = 2 * rows > total  # then fewer clicks fall outside than among them
    drawn = np.where(outside, total - rows, rows)
    terms = np.minimum(drawn, total_clicks)
    result, few = np.empty(len(rows)), terms <= _MOST_TERMS
    result[few] = _by_terms(
        rows[few], total[few], total_clicks[few], drawn[few], terms[few], outside[few]
    )
    result[~few] = _by_formula(rows[~few], total[~few], total_clicks[~few])
    return result


def _by_terms(
    rows: np.ndarray,
    total: np.ndarray,
    total_clicks: np.ndarray,
    drawn: np.ndarray,
    terms: np.ndarray,
    outside: np.ndarray,
) -> np.ndarray:
    """The sum, term by term; each term's chance follows from the one before."""
    order = np.argsort(-terms.astype(np.int8), kind="stable")  # those with many terms first
    longest = -np.sort(-terms)
    rows, total, total_clicks, drawn, outside = (
        one[order].astype(np.float64) for one in (rows, total, total_clicks, drawn, outside)
    )
    weight = np.ones(len(rows))
    weights = weight.copy()
    # The clicks among the rows are those drawn, or all but those.
    first, step = outside * total_clicks, 1 - 2 * outside
    mean = _log_power(first) + _log_power(rows - first)
    for term in range(1, int(longest[0]) + 1 if len(rows) else 0):
        has = slice(np.searchsorted(-longest, -term, side="right"))
        weight[has] *= (total_clicks[has] - term + 1) * (drawn[has] - term + 1)
        weight[has] /= term * (total[has] - total_clicks[has] - drawn[has] + term)
        clicks = first[has] + step[has] * term
        weights[has] += weight[has]
        mean[has] += weight[has] * (_log_power(clicks) + _log_power(rows[has] - clicks))
    result = np.empty(len(rows))
    result[order] = np.log(rows) - mean / weights / rows
    return result


def _by_formula(rows: np.ndarray, total: np.ndarray, total_clicks: np.ndarray) -> np.ndarray:
    rate, left = total_clicks / total, (total - rows) / (total - 1)
    excess = (1 - rate) * _poisson_excess(rows * rate) + rate * _poisson_excess(rows * (1 - rate))
    return entropy(total_clicks, total) - left * excess / rows


def _poisson_excess(mean: np.ndarray) -> np.ndarray:
    """By how much the mean of k log k is above m log m, for k of the Poisson law of the mean m."""
    small = np.minimum(mean, _MOST_MEAN)
    means, expected = _poisson_table()
    excess = np.interp(small, means, expected) - _log_power(small)
    return np.where(mean < _MOST_MEAN, excess, 0.5 + 1 / (12 * np.maximum(mean, 1)))


@functools.cache
def _poisson_table() -> tuple[np.ndarray, np.ndarray]:
    """Means of the Poisson law, and the mean of k log k for each."""
    means = np.arange(0, _MOST_MEAN + _STEP, _STEP)
    chance, expected = np.exp(-means), np.zeros(len(means))
    for clicks in range(1, int(_MOST_MEAN + 12 * math.sqrt(_MOST_MEAN))):
        chance = chance * means / clicks
        expected += chance * clicks * math.log(clicks)
    return means, expected


def _log_power(number: np.ndarray) -> np.ndarray:
    """The number times its logarithm; 0 for 0."""
    return number * np.log(np.maximum(number, np.finfo(np.float64).tiny))
