"""Random crosses: against all crosses, listed one by one."""

import itertools
from collections import Counter

import pytest

from fives_tf.generators.random import random_crosses

from .samples import make_encoding

# Siblings need not stand side by side in what is drawn; six fields of four columns.
COLUMNS = {"a": (2,), "b": (2, 3), "c": (2,), "d": (2, 3)}


def every_cross(encoding, order: int) -> set[tuple[str, ...]]:
    return {
        tuple(field.name for field in fields)
        for fields in itertools.combinations(encoding.fields, order)
        if len({field.column for field in fields}) == order
    }


@pytest.mark.parametrize("order", [2, 3, 4])
def test_all_are_drawn_once_if_more_are_asked_for(order):
    encoding = make_encoding(COLUMNS)
    crosses = random_crosses(encoding, {order: 10_000}, seed=1)
    names = [cross.fields for cross in crosses]
    assert len(set(names)) == len(names)
    assert set(names) == every_cross(encoding, order)
    assert {cross.score for cross in crosses} == {0.0}


def test_there_is_none_of_more_fields_than_columns():
    assert random_crosses(make_encoding(COLUMNS), {5: 3}) == []


def test_orders_come_one_after_the_other_and_do_not_depend_on_each_other():
    encoding = make_encoding(COLUMNS)
    crosses = random_crosses(encoding, {3: 4, 2: 5}, seed=2)
    assert [cross.order for cross in crosses] == [2] * 5 + [3] * 4
    assert crosses[5:] == random_crosses(encoding, {3: 4}, seed=2)


def test_the_seed_decides():
    encoding = make_encoding({f"c{i}": (2,) for i in range(30)})
    first, again, other = (random_crosses(encoding, {2: 20}, seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@pytest.mark.parametrize(("order", "count"), [(2, 4), (3, 1)])
def test_each_cross_has_the_same_chance_at_any_place(order, count):
    encoding = make_encoding(COLUMNS)
    expected, draws = every_cross(encoding, order), 4000
    drawn = [random_crosses(encoding, {order: count}, seed) for seed in range(draws)]
    for place in range(count):
        seen = Counter(crosses[place].fields for crosses in drawn)
        assert set(seen) == expected
        mean = draws / len(expected)
        # The chi-square statistic has a mean of its degrees of freedom, and twice that as variance.
        freedom = len(expected) - 1
        chi = sum((number - mean) ** 2 / mean for number in seen.values())
        assert chi < freedom + 4.5 * (2 * freedom) ** 0.5


def test_crosses_without_number_are_not_listed():
    """2,000 columns have 10^27 crosses of ten fields."""
    encoding = make_encoding({f"c{i}": (2, 3) for i in range(2000)})
    crosses = random_crosses(encoding, {10: 50})
    assert len({cross.fields for cross in crosses}) == 50
    places = {field.name: place for place, field in enumerate(encoding.fields)}
    for cross in crosses:
        own = [places[name] for name in cross.fields]
        assert own == sorted(own)
        assert len({name.partition("@")[0] for name in cross.fields}) == 10
