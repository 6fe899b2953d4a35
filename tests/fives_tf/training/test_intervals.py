"""Intervals hold what they are said to hold."""

import itertools

import numpy as np
import pytest

from fives_tf.training.intervals import AucIntervals, rate_interval
from fives_tf.training.metrics import auc


def sample(rng, rows=60):
    """Labels and two scores of the same rows, with ties."""
    label = (rng.random(rows) < 0.3).astype(np.float32)
    common = label + rng.normal(size=rows)
    return label, [(common + rng.normal(size=rows)).round(1), (common * 2).round(0)]


def kernel(click: float, other: float) -> float:
    return (click > other) + 0.5 * (click == other)


def covariance_slowly(label, scores):
    """DeLong's formula, pair by pair."""
    clicks, others = np.flatnonzero(label == 1), np.flatnonzero(label == 0)
    parts = []
    for first, second in ((clicks, others), (others, clicks)):
        values = [
            [
                np.mean(
                    [
                        kernel(score[one], score[two])
                        if first is clicks
                        else kernel(score[two], score[one])
                        for two in second
                    ]
                )
                for one in first
            ]
            for score in scores
        ]
        parts.append(np.cov(values) / len(first))
    return sum(parts)


@pytest.mark.parametrize("seed", range(3))
def test_the_covariances_of_aucs_are_those_of_delong(seed):
    label, scores = sample(np.random.default_rng(seed))
    found = AucIntervals.of(label, scores)
    assert found.auc == pytest.approx([auc(label, score) for score in scores])
    expected = covariance_slowly(label, scores)
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-9)
    one, two = found.interval(0), found.difference(0, 1)
    assert one == pytest.approx(
        [found.auc[0] + side * 1.959964 * expected[0, 0] ** 0.5 for side in (-1, 1)]
    )
    variance = expected[0, 0] + expected[1, 1] - 2 * expected[0, 1]
    assert two[1] - two[0] == pytest.approx(2 * 1.959964 * variance**0.5)
    assert sum(two) / 2 == pytest.approx(found.auc[0] - found.auc[1])


def test_an_interval_of_an_auc_holds_the_true_one_in_most_samples():
    rng = np.random.default_rng(0)
    label, scores = sample(rng, 200_000)
    truth = auc(label, scores[0]) - auc(label, scores[1])
    held = 0
    for _ in range(200):
        few = rng.integers(0, len(label), 300)
        low, high = AucIntervals.of(label[few], [score[few] for score in scores]).difference(0, 1)
        held += low <= truth <= high
    assert 180 <= held <= 199


def test_one_score_has_an_interval_too_and_one_click_none():
    label = np.array([1, 0, 1, 0, 0])
    score = np.array([0.9, 0.1, 0.4, 0.5, 0.2])
    low, high = AucIntervals.of(label, [score]).interval(0)
    assert 0 <= low < 5 / 6 < high == 1
    assert AucIntervals.of(np.array([1, 0, 0]), [score[:3]]) is None


def test_the_ends_of_an_interval_of_a_rate_are_where_the_rate_is_just_possible():
    clicks, rows = np.array([0, 3, 10, 400]), np.array([5, 7, 10, 1000])
    low, high = rate_interval(clicks, rows)
    for rate, end in itertools.product((low, high), range(4)):
        p, n, k = rate[end], rows[end], clicks[end]
        if 1e-9 < p < 1 - 1e-9:  # Wilson's ends solve |k / n - p| = z * sqrt(p * (1 - p) / n)
            assert abs(k / n - p) == pytest.approx(1.959964 * np.sqrt(p * (1 - p) / n))
    assert (low[0], high[2]) == pytest.approx((0, 1))
