"""Crosses as fields: both faces against a slow reference, and the files."""

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from fives_tf.cross_encoding import CROSS_ENCODING, CrossEncoding
from fives_tf.cross_fitting import CrossCounter, fit_crosses, possible_values
from fives_tf.crosses import Cross
from fives_tf.encoding import Encoding, HashField
from fives_tf.errors import UserError

SIZES = (4, 5, 6, 7)
CROSSES = [Cross(("f0", "f2"), 0.9), Cross(("f0", "f1", "f3"), 0.5), Cross(("f1", "f3"), 0.4)]


@pytest.fixture
def encoding() -> Encoding:
    fields = tuple(
        HashField(f"f{index}", f"f{index}", ("",), 0, 0, buckets=size)
        for index, size in enumerate(SIZES)
    )
    return Encoding(fields, rows=300)


def random_rows(encoding: Encoding, rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    local = [random.integers(0, field.size, rows) for field in encoding.fields]
    return (np.column_stack(local) + encoding.offsets).astype(np.int32)


def encode_slowly(
    encoding: Encoding, fitted: np.ndarray, rows: np.ndarray, min_count: int
) -> np.ndarray:
    """The ids by their definition, one row after the other."""
    names = [field.name for field in encoding.fields]
    columns, offset = [], encoding.size
    for cross in CROSSES:
        places = [names.index(field) for field in cross.fields]

        def combination(row: np.ndarray, places: list[int] = places) -> tuple[int, ...]:
            return tuple(int(row[place]) - encoding.offsets[place] for place in places)

        counts = Counter(combination(row) for row in fitted)
        often = [
            key for key, count in counts.items() if count >= min_count and 1 not in key and any(key)
        ]
        often.sort(key=lambda key, counts=counts: (-counts[key], key))
        ids = {key: 2 + place for place, key in enumerate(often)} | {(0,) * len(places): 0}
        columns.append([offset + ids.get(combination(row), 1) for row in rows])
        offset += 2 + len(often)
    return np.array(columns).T


@pytest.mark.parametrize("min_count", [1, 3])
def test_both_faces_equal_the_definition(encoding, min_count):
    fitted, rows = random_rows(encoding, 300, 0), random_rows(encoding, 200, 1)
    rows[0] = encoding.offsets  # all missing
    rows[1] = np.array(encoding.offsets) + 1  # all rare
    blocks = [fitted[:1], fitted[1:1], fitted[1:120], fitted[120:]]
    crosses = fit_crosses(CROSSES, encoding, blocks, min_count)

    expected = encode_slowly(encoding, fitted, rows, min_count)
    np.testing.assert_array_equal(crosses.encode(rows), expected)
    np.testing.assert_array_equal(crosses.module(tf.constant(rows)), expected)
    assert (expected[0] == crosses.offsets).all()
    assert (expected[1] == crosses.offsets + 1).all()
    assert len(np.unique(expected)) > 20


def test_every_row_counts_once(encoding):
    crosses = fit_crosses(CROSSES, encoding, [random_rows(encoding, 300, 0)])
    for field in crosses.fields:
        assert field.missing_count + field.rare_count + field.counts.sum() == 300
    frequencies = crosses.frequencies()
    assert len(frequencies) == crosses.size
    assert frequencies.sum() == pytest.approx(len(CROSSES))


def test_no_rows_and_no_crosses(encoding):
    crosses = fit_crosses(CROSSES, encoding, [random_rows(encoding, 300, 0)])
    empty = np.empty((0, len(SIZES)), np.int32)
    assert crosses.encode(empty).shape == (0, 3)
    assert crosses.module(tf.constant(empty)).shape == (0, 3)
    unfitted = fit_crosses(CROSSES, encoding, [])
    rows = random_rows(encoding, 50, 1)
    np.testing.assert_array_equal(unfitted.module(tf.constant(rows)), unfitted.encode(rows))
    assert fit_crosses([], encoding, []).size == 0


def test_files_are_read_back(encoding):
    rows = random_rows(encoding, 300, 0)
    crosses = fit_crosses(CROSSES, encoding, [rows])
    files = crosses.to_files()
    again = CrossEncoding.from_files(files.__getitem__, encoding)
    assert again.to_files() == files
    np.testing.assert_array_equal(again.encode(rows), crosses.encode(rows))

    cut = files | {"cross_vocab/0.txt": files["cross_vocab/0.txt"][:-4]}
    with pytest.raises(UserError, match=r"cross_vocab/0\.txt: is not as it was written"):
        CrossEncoding.from_files(cut.__getitem__, encoding)
    later = files | {CROSS_ENCODING: b'{"version": 9}'}
    with pytest.raises(UserError, match="version 9 is not known"):
        CrossEncoding.from_files(later.__getitem__, encoding)


def test_hashed_crosses(encoding):
    rows = random_rows(encoding, 300, 0)
    rows[0] = encoding.offsets  # all missing
    rows[1] = np.array(encoding.offsets) + 1  # all rare
    assert [possible_values(cross, encoding) for cross in CROSSES] == [34, 239, 47]
    mixed = fit_crosses(CROSSES, encoding, [rows[:100], rows[100:]], hash_buckets=40)
    assert [field.is_hashed for field in mixed.fields] == [False, True, True]
    assert [field.size for field in mixed.fields[1:]] == [42, 42]
    ids = mixed.encode(rows)
    np.testing.assert_array_equal(mixed.module(tf.constant(rows)), ids)
    np.testing.assert_array_equal(ids[0], mixed.offsets)
    np.testing.assert_array_equal(ids[1], mixed.offsets + 1)

    plain = fit_crosses(CROSSES, encoding, [rows], min_count=1)
    known = plain.encode(rows)
    np.testing.assert_array_equal(
        ids[:, 0], fit_crosses(CROSSES, encoding, [rows]).encode(rows)[:, 0]
    )
    for column in (1, 2):
        # The same combination has the same bucket, and those that are missing or rare have none.
        pairs = {(int(a), int(b)) for a, b in zip(known[:, column], ids[:, column], strict=True)}
        assert len(pairs) == len(np.unique(known[:, column]))
        used = np.unique(ids[:, column] - mixed.offsets[column])
        assert used.min() == 0
        assert used.max() < 42
        assert len(used) > 20
        field = mixed.fields[column]
        assert field.missing_count + field.rare_count + field.counts.sum() == 300
        counted = np.bincount(ids[:, column] - mixed.offsets[column], minlength=42)
        np.testing.assert_array_equal(counted[2:], field.counts)
    files = mixed.to_files()
    again = CrossEncoding.from_files(files.__getitem__, encoding)
    assert again.to_files() == files
    np.testing.assert_array_equal(again.encode(rows), ids)
    np.testing.assert_array_equal(again.module(tf.constant(rows)), ids)


def test_buckets_are_equally_full():
    fields = tuple(
        HashField(f"f{index}", f"f{index}", ("",), 0, 0, buckets=500) for index in range(2)
    )
    large = Encoding(fields, rows=300)
    every = np.stack(np.meshgrid(np.arange(2, 502), np.arange(2, 502)), axis=-1).reshape(-1, 2)
    rows = (every + large.offsets).astype(np.int32)
    for buckets in (1024, 1000):
        field = fit_crosses([Cross(("f0", "f1"), 1.0)], large, [rows], hash_buckets=buckets).fields[
            0
        ]
        # As thrown by chance: 250,000 combinations in 1,000 buckets deviate by about 16.
        assert 0.8 < field.counts.std() / np.sqrt(field.counts.mean()) < 1.2


def test_counts_of_parts_add_up(encoding):
    rows = random_rows(encoding, 300, 0)
    counter = CrossCounter(CROSSES, encoding, min_count=1)
    whole = counter.fit([counter.count(rows)])
    parts = counter.fit([counter.count(rows[i : i + 70]) for i in range(0, 300, 70)])
    assert parts.to_files() == whole.to_files()


def test_a_cross_of_a_field_that_is_gone_is_refused(encoding):
    with pytest.raises(UserError, match="needs the field `f9`"):
        fit_crosses([Cross(("f0", "f9"), 1.0)], encoding, [])
