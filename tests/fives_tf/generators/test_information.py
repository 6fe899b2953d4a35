"""Conditional mutual information: against loops, exact chances and shuffled labels."""

import itertools
import math

import numpy as np
import pytest

from fives_tf.generators.information import (
    entropy,
    expected_entropy,
    information_beyond_parts,
    information_given,
)
from fives_tf.generators.label_counts import LabelCounter, LabelCounts

from .samples import draw_ids, make_encoding


def slow_entropy(clicks: int, rows: int) -> float:
    return -sum(part / rows * math.log(part / rows) for part in (clicks, rows - clicks) if part)


def slow_expected(rows: int, total: int, clicks: int) -> float:
    """The mean over the clicks that some rows may get, by binomial coefficients."""
    ways = [math.comb(clicks, k) * math.comb(total - clicks, rows - k) for k in range(rows + 1)]
    assert sum(ways) == math.comb(total, rows)
    return sum(
        way / math.comb(total, rows) * slow_entropy(k, rows) for k, way in enumerate(ways) if way
    )


def slow_information(values: list[tuple], label: list[int], axis: int, plain: bool) -> float:
    """Row by row, from the definition; `plain` is without correction."""
    strata, cells = {}, {}
    for row, click in zip(values, label, strict=True):
        strata.setdefault(row[:axis] + row[axis + 1 :], []).append(click)
        cells.setdefault(row, []).append(click)
    sum_ = 0.0
    for row, clicks in cells.items():
        stratum = strata[row[:axis] + row[axis + 1 :]]
        n, total, of_total = len(clicks), len(stratum), sum(stratum)
        before = slow_entropy(of_total, total) if plain else slow_expected(n, total, of_total)
        sum_ += n * (before - slow_entropy(sum(clicks), n))
    return sum_ / len(label)


def count(local: np.ndarray, label: np.ndarray, shape: tuple[int, ...]) -> LabelCounts:
    keys = np.ravel_multi_index(tuple(local.T), shape)
    return LabelCounts.of(keys, label, math.prod(shape))


def one(*numbers: int) -> list[np.ndarray]:
    return [np.array([number]) for number in numbers]


def test_the_expected_entropy_is_the_mean_over_all_deals():
    """Each deal of the clicks to the rows, listed."""
    for total in (2, 5, 7):
        for clicks, rows in itertools.product(range(total + 1), range(1, total + 1)):
            deals = list(itertools.combinations(range(total), clicks))
            mean = sum(
                slow_entropy(sum(place < rows for place in deal), rows) for deal in deals
            ) / len(deals)
            found = expected_entropy(*one(rows, total, clicks))[0]
            assert found == pytest.approx(mean, abs=1e-12)


def test_it_is_exact_where_a_sum_is_short():
    rng = np.random.default_rng(0)
    for _ in range(300):
        total = int(10 ** rng.uniform(0.4, 2.8))
        rows = int(rng.integers(1, total + 1))
        clicks = int(rng.integers(0, min(total, 50) + 1))
        for few in (
            (rows, total, clicks),
            (max(clicks, 1), total, rows),
            (rows, total, total - clicks),
        ):
            found = expected_entropy(*one(*few))[0]
            assert found == pytest.approx(slow_expected(*few), abs=1e-9)


@pytest.mark.parametrize(
    ("rows", "total", "clicks"),
    [
        (60, 200, 80),
        (140, 200, 80),
        (60, 5_000, 2_000),
        (60, 5_000, 60),  # 0.7 clicks in the mean
        (100, 5_000, 51),
        (2_000, 5_000, 100),
        (4_900, 5_000, 4_800),
    ],
)
def test_the_formula_for_long_sums_is_close(rows, total, clicks):
    found = expected_entropy(*one(rows, total, clicks))[0]
    exact = slow_expected(rows, total, clicks)
    missing = slow_entropy(clicks, total) - exact
    assert found == pytest.approx(exact, abs=0.02 * missing)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 3)])
def test_it_is_what_the_definition_says(shape, seed):
    rng = np.random.default_rng(seed)
    local = np.column_stack([rng.integers(0, size, 80) for size in shape])
    label = (rng.random(80) < 0.2 + 0.5 * (local.sum(axis=1) % 2)).astype(np.float32)
    counts = count(local, label, shape)
    values, clicks = [tuple(row) for row in local.tolist()], label.astype(int).tolist()
    slow = [slow_information(values, clicks, axis, plain=False) for axis in range(len(shape))]
    for axis, expected in enumerate(slow):
        assert information_given(counts, shape, axis) == pytest.approx(expected, abs=1e-12)
    assert information_beyond_parts(counts, shape) == pytest.approx(min(slow), abs=1e-12)
    assert max(map(abs, slow)) > 1e-3


def test_combinations_of_one_row_tell_nothing():
    local = np.column_stack([np.arange(100), np.arange(100)[::-1]])
    label = (np.arange(100) % 3 == 0).astype(np.float32)
    assert information_beyond_parts(count(local, label, (100, 100)), (100, 100)) == 0


def test_a_field_that_follows_from_the_other_adds_nothing():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 20, 1000)
    label = (rng.random(1000) < 0.2 + 0.5 * (first % 2)).astype(np.float32)
    counts = count(np.column_stack([first, first // 2]), label, (20, 10))
    assert information_given(counts, (20, 10), axis=1) == 0
    assert information_given(counts, (20, 10), axis=0) > 0.01
    assert information_beyond_parts(counts, (20, 10)) == 0


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_shuffled_labels_score_about_zero_whatever_the_cardinality(rate):
    rng, rows = np.random.default_rng(0), 4000
    for shape in ((5, 5), (20, 200), (300, 300)):
        local = np.column_stack([rng.integers(0, size, rows) for size in shape])
        scores = []
        for _ in range(40):
            label = (rng.random(rows) < rate).astype(np.float32)
            scores.append(information_given(count(local, label, shape), shape, axis=1))
        error = np.std(scores) / math.sqrt(len(scores))
        assert abs(np.mean(scores)) < 4 * error + 1e-9
    # Without correction noise of that many values seems to tell much.
    values, clicks = [tuple(row) for row in local.tolist()], label.astype(int).tolist()
    plain = slow_information(values, clicks, 1, plain=True)
    assert plain > 50 * abs(np.mean(scores))
    assert plain > 0.5 * slow_entropy(sum(clicks), rows)


def test_no_rows_tell_nothing():
    none = np.empty(0, np.int64)
    assert information_beyond_parts(LabelCounts.of(none, none, 6), (2, 3)) == 0


def test_the_entropy_of_a_click():
    clicks, rows = np.array([0, 1, 2, 4]), np.array([4, 4, 4, 4])
    expected = [slow_entropy(k, 4) for k in (0, 1, 2, 4)]
    np.testing.assert_allclose(entropy(clicks, rows), expected, atol=1e-12)


class TestCounts:
    @pytest.mark.parametrize("sizes", [(3, 4), (3, 5000)])
    def test_rows_and_clicks_of_each_combination(self, sizes):
        """By a table and by sorting."""
        encoding = make_encoding({"a": sizes[:1], "b": sizes[1:]})
        ids = draw_ids(encoding, 200, seed=0)
        label = (np.arange(200) % 3 == 0).astype(np.float32)
        counter = LabelCounter([(0, 1)], encoding, len(ids))
        [found] = counter.count(ids, label)
        rows, clicks = {}, {}
        for row, click in zip(map(tuple, ids.tolist()), label, strict=True):
            rows[row] = rows.get(row, 0) + 1
            clicks[row] = clicks.get(row, 0) + int(click)
        assert sorted(zip(found.rows, found.clicks, strict=True)) == sorted(
            zip(rows.values(), clicks.values(), strict=True)
        )
        assert (np.diff(found.keys) > 0).all()
        assert found.keys[-1] < math.prod(counter.shapes[0])

    def test_parts_can_be_added_up(self):
        encoding = make_encoding({"a": (4,), "b": (50,), "c": (6,)})
        ids = draw_ids(encoding, 300, seed=1)
        label = (np.arange(300) % 4 == 0).astype(np.float32)
        counter = LabelCounter([(0, 1), (0, 1, 2)], encoding, len(ids))
        whole = list(counter.count(ids, label))
        cuts = [0, 10, 10, 200, 300]
        parts = [counter.count(ids[a:b], label[a:b]) for a, b in itertools.pairwise(cuts)]
        for expected, column in zip(whole, zip(*parts, strict=True), strict=True):
            found = LabelCounts.sum(column)
            for name in ("keys", "rows", "clicks"):
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))

    def test_the_rarest_values_are_one_where_there_are_too_many_combinations(self):
        encoding = make_encoding({"a": (98,), "b": (3,)})
        ids = draw_ids(encoding, 1000, seed=2)
        counter = LabelCounter([(0, 1)], encoding, len(ids), most=60)
        assert counter.shapes == [(12, 5)]
        assert counter.cells(0) == 60
        [found] = counter.count(ids, np.zeros(1000))
        # All values are equally frequent here, so that the first eleven come first.
        first = np.bincount(np.minimum(ids[:, 0] - 2, 11)[ids[:, 0] >= 2], minlength=12)
        by_first = np.bincount(found.keys // 5, found.rows, 12)
        np.testing.assert_array_equal(by_first[:11], first[:11])
        assert by_first[11] == 1000 - first[:11].sum()

    def test_all_values_count_if_there_are_few_rows(self):
        encoding = make_encoding({"a": (98,), "b": (3,)})
        assert LabelCounter([(0, 1)], encoding, 60, most=60).shapes == [(100, 5)]

    def test_many_large_fields_have_keys_within_64_bits(self):
        encoding = make_encoding(dict.fromkeys("abcdef", (60_000,)))
        ids = draw_ids(encoding, 50, seed=3)
        counter = LabelCounter([(0, 1, 2, 3, 4, 5)], encoding, len(ids))
        [found] = counter.count(ids, np.ones(50))
        assert found.keys.min() >= 0
        assert found.rows.sum() == found.clicks.sum() == 50
