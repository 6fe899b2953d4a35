"""What the entries of an adjacency tensor indicate."""

import itertools

import numpy as np
import pytest
from scipy import stats

from fives_tf.edges import correlations, indicated

COLUMNS = ["a", "b", "b", "c"]  # of the fields a, b@10, b@100, c


def test_an_entry_adds_its_field_to_the_strongest_path_before_it():
    strength = np.zeros((3, 4, 4))
    strength[0, 0] = [0, 0.2, 0.9, 0.5]
    found = dict(indicated(strength, COLUMNS))
    pairs = {key: cross for key, cross in found.items() if key[0] == 0}
    allowed = [
        (one, two)
        for one, two in itertools.permutations(range(4), 2)
        if COLUMNS[one] != COLUMNS[two]
    ]
    assert pairs == {(0, one, two): tuple(sorted((one, two))) for one, two in allowed}
    # From a, the strongest edge of layer 1 leads to b@100; only c is of another column then.
    assert {key: cross for key, cross in found.items() if key[:2] == (1, 0)} == {
        (1, 0, 3): (0, 2, 3)
    }
    assert not any(layer == 2 for layer, _, _ in found)


def test_correlations_are_of_values_and_of_ranks():
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 9, 50).astype(float), rng.random(50).round(1)
    found = correlations(one.tolist(), other.tolist())
    assert found["pearson"] == pytest.approx(stats.pearsonr(one, other).statistic)
    assert found["spearman"] == pytest.approx(stats.spearmanr(one, other).statistic)
    assert correlations([1.0, 1.0], [1.0, 2.0]) == {"pearson": None, "spearman": None}
