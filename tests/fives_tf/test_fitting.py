import collections
import fractions
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fives_tf.encoding import FIRST_VALUE, RARE, to_single
from fives_tf.fitting import (
    COUNT_SCHEMA,
    EXACT_VALUES,
    NumericSummary,
    bucket_edges,
    bucket_fields,
    count_values,
    frequent_values,
    merge_counts,
    partition,
)
from fives_tf.schema import Column, Discretize

HUGE = float(np.finfo(np.float32).max)
VALUES = st.sampled_from([b"", b"a", b"b", b"ab", b"\xff", b"a\nb", b"a\rb", b"0"]) | st.binary(
    max_size=3
)
FLOATS = st.floats(width=32, allow_subnormal=False) | st.sampled_from(
    [0.0, -0.0, 1.0, math.nan, math.inf, -math.inf]
)


def encoded(values):
    return pa.array(values, pa.binary()).dictionary_encode()


def as_counter(counts):
    assert counts.schema == COUNT_SCHEMA
    return collections.Counter(dict(zip(*counts.to_pydict().values(), strict=True)))


def counted(counter):
    return pa.RecordBatch.from_pydict(
        {"value": list(counter), "count": list(counter.values())}, COUNT_SCHEMA
    )


def summarize(numbers):
    numbers = np.asarray(numbers, np.float32)
    return NumericSummary.of(numbers, np.isnan(numbers))


def edges_of(kind, buckets, numbers):
    summary = numbers if isinstance(numbers, NumericSummary) else summarize(numbers)
    edges = bucket_edges(Discretize(kind, (buckets,)), buckets, summary)
    assert edges.dtype == np.float32
    return edges.tolist()


@given(st.lists(st.tuples(VALUES, st.booleans()), max_size=30))
@settings(deadline=None)
def test_values_are_counted_as_counter_counts_them(rows):
    values = encoded([value for value, _ in rows])
    assert as_counter(count_values(values)) == collections.Counter(value for value, _ in rows)
    kept = values.filter(pa.array([keep for _, keep in rows], pa.bool_()))
    counts = count_values(kept)
    assert as_counter(counts) == collections.Counter(value for value, keep in rows if keep)
    assert counts.num_rows == len(set(kept.to_pylist()))


@given(st.lists(st.lists(VALUES, max_size=10), max_size=5))
@settings(deadline=None)
def test_merged_counts_are_the_sum_with_each_value_once(parts):
    merged = merge_counts([count_values(encoded(part)) for part in parts])
    together = collections.Counter(itertools.chain.from_iterable(parts))
    assert as_counter(merged) == together
    assert merged.num_rows == len(together)


def test_values_that_trimming_made_alike_are_merged():
    doubled = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int32()), [b"a", b"a"])
    assert as_counter(merge_counts([count_values(doubled)])) == {b"a": 3}


@given(
    st.dictionaries(VALUES, st.integers(1, 6), max_size=20), st.integers(1, 6), st.integers(1, 9)
)
@settings(deadline=None)
def test_frequent_values_are_ordered_by_falling_count_and_then_by_bytes(
    counter, min_count, max_vocab
):
    frequent = frequent_values(counted(counter), min_count, max_vocab)
    slow = [
        (value, count)
        for value, count in sorted(counter.items(), key=lambda item: (-item[1], item[0]))
        if count >= min_count and b"\n" not in value and b"\r" not in value
    ]
    assert list(zip(*frequent.to_pydict().values(), strict=True)) == slow[:max_vocab]


@given(st.lists(VALUES, max_size=20), st.integers(0, 20), st.integers(1, 16))
@settings(deadline=None)
def test_the_part_of_a_value_depends_on_its_bytes_alone(values, cut, parts):
    alone = {value: int(partition(pa.array([value]), parts)[0]) for value in values}
    assert all(0 <= part < parts for part in alone.values())
    whole = pa.array(values, pa.binary())
    for array in (whole, whole[cut:], whole[:cut], encoded(values[::-1]).dictionary):
        assert partition(array, parts).tolist() == [alone[value] for value in array.to_pylist()]


@pytest.mark.parametrize(
    "make",
    [str, "{:08x}".format, "user_{}".format, lambda i: f"{i * 2654435761 % 2**32:08x}"],
    ids=["numbers", "rising hex", "names", "hashes"],
)
def test_values_are_spread_over_all_parts(make):
    values = pa.array([make(i).encode() for i in range(10_000, 60_000)])
    sizes = np.bincount(partition(values, 16), minlength=16)
    assert sizes.max() < 3 * sizes.mean()
    assert sizes.min() > 0


@given(st.lists(FLOATS, max_size=40), st.integers(1, 4))
@settings(deadline=None)
def test_a_summary_is_exact_for_few_distinct_values(numbers, parts):
    numbers = np.array(numbers, np.float32)
    summary = NumericSummary.merge([summarize(part) for part in np.array_split(numbers, parts)])
    finite = np.sort(numbers[np.isfinite(numbers)] + 0)
    assert summary.missing == np.isnan(numbers).sum()
    assert summary.total == len(finite)
    assert np.repeat(summary.values, summary.counts).tolist() == finite.tolist()
    assert len(np.unique(summary.values)) == len(summary.values)
    if len(finite):
        assert summary.range() == (finite[0], finite[-1])
        ranks = np.arange(8) / 8
        assert summary.quantiles(ranks).tolist() == [
            finite[int(rank * len(finite))] for rank in ranks
        ]
    edges = np.array([-1, 0, 1e30], np.float32)
    below, low, high, above = (
        ((low <= numbers) & (numbers < high)).sum()
        for low, high in itertools.pairwise([-math.inf, *edges, math.inf])
    )
    above += (numbers == math.inf).sum()
    assert summary.bucket_counts(edges).tolist() == [below, low, high, above]


@pytest.mark.parametrize("kind", ["quantile", "width", "log"])
@pytest.mark.parametrize("spread", [1.0, 1000.0])
def test_counts_of_sketched_buckets_are_right_in_spite_of_frequent_values(kind, spread):
    rng = np.random.default_rng(0)
    numbers = np.floor(rng.lognormal(5, 2, 200_000)) if spread > 1 else rng.lognormal(1, 1, 200_000)
    numbers[:80_000] = 5.0
    numbers[80_000:90_000] = 0.0
    rng.shuffle(numbers)
    numbers = numbers.astype(np.float32)
    summary = NumericSummary.merge([summarize(part) for part in np.array_split(numbers, 20)])
    assert summary.sketch
    edges = bucket_edges(Discretize(kind, (100,)), 100, summary)
    true = np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(edges) + 1)
    estimated = summary.bucket_counts(edges)
    assert np.abs(estimated - true).max() < 0.01 * len(numbers)
    assert estimated.sum() == pytest.approx(len(numbers), abs=len(edges))
    if spread > 1 and kind == "quantile":
        assert (true > 0).all(), "no bucket between whole numbers"


def test_missing_values_are_counted_and_left_out_with_infinities():
    numbers = np.array([math.nan, -1, -1, math.inf, -math.inf, 2], np.float32)
    summary = NumericSummary.of(numbers, np.isnan(numbers) | (numbers == -1))
    assert (summary.missing, summary.total, summary.range()) == (3, 1, (2.0, 2.0))


def test_negative_zero_is_zero():
    summary = summarize([-0.0, 0.0, -0.0])
    assert (summary.values.tolist(), summary.counts.tolist()) == ([0.0], [3])
    assert not np.signbit(summary.values[0])


@pytest.mark.parametrize("distinct", [EXACT_VALUES, EXACT_VALUES + 1])
def test_a_summary_is_sketched_only_beyond_the_limit(distinct):
    halves = np.array_split(np.arange(distinct), 2)
    for summary in (summarize(range(distinct)), NumericSummary.merge([*map(summarize, halves)])):
        assert (summary.sketch is not None) == (distinct > EXACT_VALUES)
        assert summary.total == distinct
        assert summary.range() == (0.0, distinct - 1)


def draw(kind):
    random = np.random.default_rng(5)
    drawn = {
        "normal": random.normal(size=30_000),
        "heavy tail": random.lognormal(3, 2, 30_000),
        "huge": random.uniform(-HUGE, HUGE, 30_000),
        "half of it one": np.append(np.ones(15_000), random.integers(0, 6000, 15_000)),
        "mostly zero": np.append(np.zeros(27_000), random.normal(size=3000)),
        "rising": np.arange(30_000),
    }[kind]
    return drawn.astype(np.float32)


SKETCHED = ("normal", "heavy tail", "huge", "half of it one", "mostly zero", "rising")


def sketches(numbers):
    """The sketch of all numbers, and one that is merged from parts of different sizes."""
    parts = np.split(numbers, [10, 3000, 3001, 20_000])
    summaries = summarize(numbers), NumericSummary.merge([summarize(part) for part in parts])
    assert all(summary.sketch is not None for summary in summaries)
    return summaries


def rank_error(numbers, value, rank):
    """How far a rank is from those that a value has, which are several if it occurs often."""
    below, upto = (numbers < value).mean(), (numbers <= value).mean()
    return max(below - rank, rank - upto, 0)


@pytest.mark.parametrize("kind", SKETCHED)
def test_quantiles_of_many_distinct_values_are_off_by_less_than_a_hundredth(kind):
    numbers = draw(kind)
    ranks = np.arange(1, 100) / 100
    for summary in sketches(numbers):
        assert summary.total == len(numbers)
        assert summary.range() == (numbers.min(), numbers.max())
        quantiles = summary.quantiles(ranks)
        assert quantiles.dtype == np.float32
        errors = [rank_error(numbers, *pair) for pair in zip(quantiles, ranks, strict=True)]
        assert max(errors) < 0.01


@pytest.mark.parametrize("kind", SKETCHED)
def test_bucket_counts_of_many_distinct_values_are_off_by_less_than_a_hundredth(kind):
    numbers = draw(kind)
    edges = np.unique(np.append(np.quantile(numbers, np.arange(1, 10) / 10), [0, 1, 2]))
    edges = edges.astype(np.float32)
    true = np.bincount(np.searchsorted(edges, numbers, side="right"), minlength=len(edges) + 1)
    for summary in sketches(numbers):
        counts = summary.bucket_counts(edges)
        assert counts.min() >= 0
        assert abs(counts.sum() - len(numbers)) <= len(counts)
        assert np.abs(np.cumsum(counts) - np.cumsum(true)).max() < 0.01 * len(numbers)


def test_sketches_merged_in_the_same_order_are_the_same_bytes():
    parts = np.array_split(draw("heavy tail"), 7)
    first, second = (NumericSummary.merge([*map(summarize, parts)]) for _ in range(2))
    assert first.sketch == second.sketch
    exact_then_sketched = [summarize([1, 2, 2, math.nan]), first]
    first, second = (NumericSummary.merge(exact_then_sketched) for _ in range(2))
    assert first.sketch == second.sketch
    assert (first.total, first.missing) == (30_003, 1)


def slow_quantile_edges(numbers, buckets):
    ordered = np.sort(np.array(numbers, np.float32)).tolist()
    places = [number * len(ordered) // buckets for number in range(1, buckets)]
    return sorted({ordered[place] for place in places} - {ordered[0]})


@given(
    st.lists(
        st.integers(-20, 20) | st.floats(-HUGE, HUGE, width=32, allow_subnormal=False),
        min_size=1,
        max_size=60,
    ),
    st.integers(2, 120),
)
@example(list(range(100)), 100)
@settings(deadline=None)
def test_quantile_edges_cut_the_ordered_values_into_equal_parts(numbers, buckets):
    assert edges_of("quantile", buckets, numbers) == slow_quantile_edges(numbers, buckets)


def slow_spaced_edges(low, high, buckets, to, back):
    low, high = to(low), to(high)
    places = (fractions.Fraction(number, buckets) for number in range(1, buckets))
    return [back(low + float(place) * (high - low)) for place in places]


def signed_log(number):
    return math.copysign(math.log1p(abs(number)), number)


def signed_exp(number):
    return math.copysign(math.expm1(abs(number)), number)


@given(st.integers(-1000, 1000), st.integers(1, 1000), st.integers(2, 50))
@settings(deadline=None)
def test_width_edges_are_evenly_spaced_and_log_edges_so_on_a_signed_log_scale(low, size, buckets):
    numbers = [low, low + size, math.nan]
    for kind, to, back in (("width", float, float), ("log", signed_log, signed_exp)):
        slow = slow_spaced_edges(low, low + size, buckets, to, back)
        assert edges_of(kind, buckets, numbers) == pytest.approx(slow, rel=1e-6, abs=1e-6)


@given(st.lists(FLOATS, max_size=20), st.integers(2, 30))
@example([-HUGE, HUGE], 10)
@example([HUGE, HUGE], 10)
@example([1e38, -1e38, 0.0], 3)
@example([1e-45, 2e-45], 5)
@settings(deadline=None)
def test_edges_rise_and_leave_no_bucket_without_a_value_at_both_ends(numbers, buckets):
    finite = [number for number in numbers if math.isfinite(number)]
    for kind in ("quantile", "width", "log"):
        edges = edges_of(kind, buckets, numbers)
        assert all(low < high for low, high in itertools.pairwise(edges))
        assert len(edges) < buckets
        assert all(min(finite) < edge <= max(finite) for edge in edges)


@pytest.mark.parametrize("kind", ["quantile", "width", "log"])
@pytest.mark.parametrize("numbers", [[], [math.nan] * 5, [3] * 9, [-0.0, 0.0], [math.inf, 5, 5]])
def test_a_column_with_at_most_one_value_has_no_edge(kind, numbers):
    assert edges_of(kind, 10, numbers) == []


def test_two_values_and_heavy_ties_make_few_edges():
    assert edges_of("quantile", 10, [1, 1, 1, 7]) == [7.0]
    assert edges_of("width", 3, [1, 1, 1, 7]) == [3.0, 5.0]
    assert edges_of("quantile", 4, [0] * 90 + [1, 2, 3, 4] + [5] * 6) == []
    assert edges_of("quantile", 10, [0] * 60 + [*range(1, 41)]) == [1.0, 11.0, 21.0, 31.0]


def test_given_edges_are_taken_in_single_precision_each_once():
    close = (0.1, 0.1 + 1e-12, 5.0, 1e38)
    edges = bucket_edges(Discretize("edges", (), close), 0, summarize([]))
    assert edges.tolist() == np.array([0.1, 5, 1e38], np.float32).tolist()


def numeric_column(discretize, min_count=1, missing=("",)):
    return Column("age", True, missing, min_count, discretize)


def test_rare_buckets_share_an_id_and_the_others_have_ids_that_rise():
    column = numeric_column(Discretize("edges", (), (1.0, 2.0, 3.0, 9.0)), min_count=5)
    numbers = [0] * 10 + [1] * 2 + [2] * 5 + [3] * 4 + [9] * 7 + [math.nan] * 3
    (field,) = bucket_fields(column, summarize(numbers))
    assert field.ids.tolist() == [2, RARE, 3, RARE, 4]
    assert field.counts.tolist() == [10, 5, 7]
    assert (field.rare_count, field.missing_count, field.size) == (6, 3, 5)
    assert (field.name, field.column, field.missing) == ("age", "age", ("",))


def test_each_granularity_is_a_field_of_its_own():
    column = numeric_column(Discretize("width", (2, 4)))
    coarse, fine = bucket_fields(column, summarize(range(8)))
    assert (coarse.name, fine.name, fine.column) == ("age@2", "age@4", "age")
    assert coarse.edges.tolist() == [3.5]
    assert fine.edges.tolist() == [1.75, 3.5, 5.25]
    assert fine.counts.tolist() == [2, 2, 2, 2]


def test_each_distinct_value_can_have_a_bucket():
    column = numeric_column(Discretize("width", (2,), values=True), min_count=2)
    numbers = [0, 0, 0, 2.5, 7, 7, 9, math.nan]
    coarse, fine = bucket_fields(column, summarize(numbers))
    assert (coarse.name, fine.name, fine.column) == ("age@2", "age@value", "age")
    assert fine.edges.tolist() == [2.5, 7, 9]
    assert fine.ids.tolist() == [2, RARE, 3, RARE]
    # A value that was not seen falls to the next lower one.
    assert fine.encode(pa.array([-5.0, 0.0, 2.5, 7.0, 8.5, 100.0])).tolist() == [2, 2, 1, 3, 3, 1]


@pytest.mark.parametrize(("distinct", "fields"), [(EXACT_VALUES, 2), (EXACT_VALUES + 1, 1)])
def test_a_column_of_many_values_has_no_bucket_for_each(distinct, fields):
    column = numeric_column(Discretize("quantile", (2,), values=True))
    found = bucket_fields(column, summarize(range(distinct)))
    assert [field.name for field in found] == ["age@2", "age@value"][:fields]


def test_a_column_without_any_value_has_only_the_ids_for_missing_and_rare():
    (field,) = bucket_fields(numeric_column(Discretize("log", (9,))), summarize([math.nan] * 4))
    assert (field.size, field.missing_count, field.rare_count) == (FIRST_VALUE, 4, 0)
    assert field.encode(pa.array([None, 5.0])).tolist() == [0, RARE]


@given(
    st.lists(st.integers(-9, 9) | st.floats(-HUGE, HUGE, width=32) | st.none(), max_size=50),
    st.sampled_from(["quantile", "width", "log"]),
    st.integers(2, 12),
    st.integers(1, 8),
)
@example([-1e-45], "quantile", 2, 1)  # is zero in single precision, as TensorFlow has it
@settings(deadline=None)
def test_the_counts_of_a_field_are_those_of_the_ids_that_it_gives(numbers, kind, buckets, often):
    values = pa.array(numbers, pa.float64())
    single = to_single(values)
    summary = NumericSummary.of(single, np.isnan(single) | (single == -1))
    column = numeric_column(Discretize(kind, (buckets,)), often, missing=("", "-1"))
    (field,) = bucket_fields(column, summary)
    ids = np.bincount(field.encode(values), minlength=field.size)
    assert ids.tolist() == [field.missing_count, field.rare_count, *field.counts]
    assert all(count >= often for count in field.counts)
