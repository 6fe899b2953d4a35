import math

import numpy as np
import pytest
from scipy import stats

from fives_tf.bench.statistics import Spread, stars, welch


def test_a_spread_is_that_of_a_sample():
    spread = Spread.of([0.1, 0.2, 0.6])
    assert spread.mean == pytest.approx(0.3)
    assert spread.deviation == pytest.approx(math.sqrt((0.04 + 0.01 + 0.09) / 2))
    assert (spread.runs, str(spread)) == (3, "0.3000 ± 0.2646")
    assert spread.told("+.1f") == "+0.3 ± 0.2646"
    assert Spread.of([0.5]).deviation == 0
    assert str(Spread.of([0.5])) == "0.5000"


def test_the_p_value_is_that_of_the_formula_of_welch():
    one, other = [0.81, 0.83, 0.82, 0.86], [0.80, 0.79, 0.81]
    parts = [np.var(values, ddof=1) / len(values) for values in (one, other)]
    t = (np.mean(one) - np.mean(other)) / math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2)
    assert welch(one, other) == pytest.approx(2 * stats.t.sf(abs(t), freedom))
    assert welch(one, other) == pytest.approx(stats.ttest_ind(one, other, equal_var=False).pvalue)
    assert welch(one, other) == pytest.approx(welch(other, one))
    # With two degrees of freedom the distribution has a closed form; here t is 1 / sqrt(2).
    t = 1 / math.sqrt(2)
    assert welch([0, 2], [1, 3]) == pytest.approx(1 - t / math.sqrt(2 + t**2))


def test_nothing_is_tested_by_too_little():
    assert welch([0.5], [0.4, 0.6]) is None
    assert welch([0.5, 0.5], [0.4, 0.4]) is None
    assert welch([0.5, 0.5], [0.4, 0.6]) is not None


@pytest.mark.parametrize(
    ("p", "expected"), [(None, ""), (0.05, ""), (0.0499, "*"), (0.01, "*"), (0.0099, "**")]
)
def test_stars_are_those_of_the_paper(p, expected):
    assert stars(p) == expected
