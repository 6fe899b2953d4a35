import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fives_tf.encoding import (
    FIRST_VALUE,
    MISSING,
    RARE,
    BucketField,
    Encoding,
    HashField,
    VocabularyField,
)
from fives_tf.frequency import coarse_rows, frequencies


def categories(counts, missing=0, rare=0, name="city"):
    values = pa.array([b"%d" % i for i in range(len(counts))], pa.large_binary())
    return VocabularyField(name, name, (), missing, rare, values, np.array(counts))


def number(counts, ids, missing=0, rare=0):
    """A numeric field; `ids` are those of its buckets in the order of the values."""
    edges = np.arange(len(ids) - 1, dtype=np.float32)
    return BucketField("age", "age", (), missing, rare, edges, np.array(ids), np.array(counts))


def hashed(buckets, missing=0):
    return HashField("user", "user", (), missing, 0, buckets)


def encode(*fields, rows=100):
    return Encoding(fields, rows)


def test_frequencies_are_the_parts_of_the_rows():
    encoding = encode(
        categories([50, 20, 10], missing=15, rare=5),
        number([30, 60], ids=[3, 1, 2], missing=3, rare=7),
    )
    expected = [0.15, 0.05, 0.5, 0.2, 0.1, 0.03, 0.07, 0.3, 0.6]
    np.testing.assert_allclose(frequencies(encoding), expected)


def test_hashed_values_are_taken_to_be_equally_frequent():
    found = frequencies(encode(hashed(4, missing=20)))
    np.testing.assert_allclose(found, [0.2, 0, 0.2, 0.2, 0.2, 0.2])


def test_frequencies_of_no_rows_are_zero():
    assert not frequencies(encode(categories([]), rows=0)).any()


def test_categories_below_the_count_share_the_row_of_the_rare_ones():
    found = coarse_rows(encode(categories([50, 20, 12, 9, 2], missing=4, rare=3)), 10, 10)
    assert found.tolist() == [0, 1, 2, 3, 4, 1, 1]


def test_missing_keeps_a_row_of_its_own_however_few_there_are():
    found = coarse_rows(encode(categories([50, 50], missing=0)), 60, 10)
    assert found.tolist() == [0, 1, 1, 1]


def test_hashed_values_share_a_row_if_they_are_expected_to_be_rare():
    assert coarse_rows(encode(hashed(4, missing=20)), 20, 10).tolist() == [0, 1, 2, 3, 4, 5]
    assert coarse_rows(encode(hashed(4, missing=20)), 21, 10).tolist() == [0, 1, 1, 1, 1, 1]


def test_neighbouring_buckets_are_merged_in_the_order_of_the_values():
    # By value: 10 and 25 make a share, 40 is one, 5 and 20 come last.
    field = number([40, 25, 20, 10, 5], ids=[5, 3, 2, 6, 4])
    found = coarse_rows(encode(field), 10, buckets=3)[FIRST_VALUE:]
    groups = [set(np.flatnonzero(found == row) + FIRST_VALUE) for row in np.unique(found)]
    assert {frozenset(group) for group in groups} == {
        frozenset({5, 3}),
        frozenset({2}),
        frozenset({6, 4}),
    }


def test_a_bucket_that_holds_just_its_share_stands_alone():
    assert coarse_rows(encode(number([50, 50], ids=[2, 3])), 10, buckets=2).tolist() == [0, 1, 2, 3]


def test_missing_and_rare_numbers_are_not_merged_with_others():
    field = number([30, 30, 20], ids=[2, 1, 3, 1, 4], missing=15, rare=5)
    found = coarse_rows(encode(field), 10, buckets=1)
    assert found.tolist() == [0, 1, 2, 2, 2]


@st.composite
def encodings(draw):
    fields, rows = [], 1000
    for _ in range(draw(st.integers(1, 3))):
        counts = draw(st.lists(st.integers(1, 50), max_size=12))
        counts.sort(reverse=True)
        if draw(st.booleans()):
            fields.append(categories(counts, missing=draw(st.integers(0, 9))))
        else:
            ids = [*range(FIRST_VALUE, FIRST_VALUE + len(counts)), RARE]
            fields.append(number(counts, draw(st.permutations(ids))))
    return encode(*fields, rows=rows)


def rows_of_fields(encoding, rows):
    """For each field, the row of each of its ids, and how often each id occurs."""
    counts = np.rint(frequencies(encoding) * encoding.rows)
    for field, offset in zip(encoding.fields, encoding.offsets, strict=True):
        part = slice(offset, offset + field.size)
        yield field, rows[part], counts[part]


@given(encodings(), st.integers(1, 60), st.integers(1, 60))
def test_rows_are_numbered_without_gaps_and_fields_share_none(encoding, min_count, buckets):
    rows = coarse_rows(encoding, min_count, buckets)
    assert rows.dtype == np.int32
    assert set(rows) == set(range(rows.max() + 1))
    used = [set(part) for _, part, _ in rows_of_fields(encoding, rows)]
    assert sum(map(len, used)) == len(set.union(*used))


@given(encodings(), st.integers(1, 60), st.integers(1, 60))
def test_a_category_has_its_own_row_if_it_is_frequent_and_else_that_of_the_rare_ones(
    encoding, min_count, buckets
):
    rows = coarse_rows(encoding, min_count, buckets)
    for field, part, counts in rows_of_fields(encoding, rows):
        if isinstance(field, VocabularyField):
            for identity in range(FIRST_VALUE, field.size):
                same = set(np.flatnonzero(part == part[identity]))
                assert same == {identity} or RARE in same
                assert (same == {identity}) == (counts[identity] >= min_count)
        assert (part == part[MISSING]).sum() == 1


@given(encodings(), st.integers(1, 60))
def test_a_group_of_buckets_ends_as_soon_as_it_holds_its_share(encoding, buckets):
    rows = coarse_rows(encoding, 10, buckets)
    for field, part, counts in rows_of_fields(encoding, rows):
        if not isinstance(field, BucketField):
            continue
        assert (part == part[RARE]).sum() == 1
        ids = [identity for identity in field.ids if identity != RARE]
        groups = []  # what follows each other in the order of the values
        for identity in ids:
            if not groups or part[groups[-1][-1]] != part[identity]:
                groups.append([])
            groups[-1].append(identity)
        assert len(groups) == len({part[identity] for identity in ids})
        assert len(groups) <= buckets
        left = sum(counts[ids])
        for number, group in enumerate(groups):
            share = max(left / max(buckets - number, 1), 10)  # of what is left
            assert sum(counts[group[:-1]]) < share
            assert sum(counts[group]) >= share or group == groups[-1]
            left -= sum(counts[group])


def test_a_value_of_most_rows_leaves_groups_to_the_others():
    counts = [9000, *[10] * 100]
    field = number(counts, ids=list(range(FIRST_VALUE, FIRST_VALUE + len(counts))))
    found = coarse_rows(encode(field, rows=10_000), 10, 5)[FIRST_VALUE:]
    groups = np.split(np.arange(len(counts)), np.flatnonzero(np.diff(found)) + 1)
    assert [len(group) for group in groups] == [1, 25, 25, 25, 25]


def test_many_small_buckets_become_about_as_many_as_asked_for():
    field = number([10] * 1000, ids=list(range(FIRST_VALUE, FIRST_VALUE + 1000)))
    for buckets in (5, 10, 30):
        found = coarse_rows(encode(field, rows=10_000), 10, buckets)[FIRST_VALUE:]
        held = np.bincount(found)[np.unique(found)] * 10
        assert len(held) == pytest.approx(buckets, abs=1)
        np.testing.assert_allclose(held[:-1], 10_000 / buckets, rtol=0.03)


def test_a_count_of_0_leaves_categories_as_they_are():
    encoding = encode(categories([50, 1], missing=0, rare=0), hashed(3))
    assert coarse_rows(encoding, 0, 10).tolist() == list(range(9))


def test_0_buckets_leave_numbers_as_they_are():
    field = number([30, 30, 20], ids=[2, 1, 3, 1, 4], missing=15, rare=5)
    found = coarse_rows(encode(categories([50, 1]), field), 10, buckets=0)
    assert found.tolist() == [0, 1, 2, 1, 3, 4, 5, 6, 7]
