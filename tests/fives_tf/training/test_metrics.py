import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fives_tf.training.metrics import auc, log_loss

ROWS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0])))


def auc_slowly(rows):
    """All pairs of a click and a row without one."""
    pairs = [(a, b) for label, a in rows if label for other, b in rows if not other]
    return sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs) if pairs else math.nan


@given(ROWS)
def test_auc_is_the_share_of_pairs_in_the_right_order(rows):
    label, score = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    assert auc(label, score) == pytest.approx(auc_slowly(rows), nan_ok=True)


def test_auc_is_exact_for_rare_clicks():
    rng = np.random.default_rng(0)
    label = (rng.random(20_000) < 0.002).astype(np.float32)
    score = rng.normal(size=20_000).astype(np.float32) * 1e-4 + label * 1e-4
    rows = list(zip(label.tolist(), score.tolist(), strict=True))
    assert auc(label, score) == pytest.approx(auc_slowly(rows), abs=1e-12)


def test_log_loss_is_the_mean_cross_entropy():
    label, probability = np.array([1, 0, 1]), np.array([0.9, 0.2, 0.5])
    expected = -(math.log(0.9) + math.log(0.8) + math.log(0.5)) / 3
    assert log_loss(label, probability) == pytest.approx(expected)


def test_a_certain_mistake_is_not_infinitely_bad():
    assert log_loss(np.array([1]), np.array([0.0])) == pytest.approx(-math.log(1e-7))
