import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fives_tf.errors import UserError
from fives_tf.parsing import parse_text
from fives_tf.schema import Schema, SplitRule
from fives_tf.splitting import TEST, TRAIN, VALID, Splitter, file_split, shard_of, shuffle_key

ROWS = 50_000
NUMBER = np.arange(ROWS)


def assign(split, number=NUMBER, total=ROWS, file="train", **columns):
    batch = pa.RecordBatch.from_pydict(
        {
            name: pa.array(values, pa.binary()).dictionary_encode()
            for name, values in columns.items()
        }
        or {"c": pa.nulls(len(number))}
    )
    codes = Splitter(split, total).assign(number, batch, file)
    assert len(codes) == len(number)
    return codes


def shares(codes):
    return np.bincount(codes, minlength=3) / len(codes)


def near(share, rows=ROWS):
    """Five standard deviations of a share that is drawn by chance."""
    return pytest.approx(share, abs=5 * np.sqrt(0.25 / rows))


def users(count):
    return [f"user {number}".encode() for number in range(count)]


def schema(**changes):
    values = {"label": {"column": "y"}, "numeric": ["n"], "categorical": ["c"]} | changes
    return Schema.parse(yaml.safe_dump(values))


@pytest.mark.parametrize(("valid", "test"), [(0.1, 0.1), (0.3, 0.2), (0.05, 0.0), (0.5, 0.45)])
@pytest.mark.parametrize("seed", [0, 1, 2**70])
def test_a_random_split_reaches_its_fractions(valid, test, seed):
    codes = assign(SplitRule("random", valid, test, seed))
    assert list(shares(codes)) == [near(1 - valid - test), near(valid), near(test)]


@pytest.mark.parametrize(("valid", "test"), [(0.1, 0.1), (0.3, 0.2), (0.05, 0.0)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_split_by_hash_reaches_its_fractions(valid, test, seed):
    codes = assign(SplitRule("hash", valid, test, seed, key="user"), user=users(ROWS))
    assert list(shares(codes)) == [near(1 - valid - test), near(valid), near(test)]


def test_another_seed_draws_other_rows_independently():
    first, second = (assign(SplitRule("random", 0.3, 0.3, seed)) for seed in (0, 1))
    assert (first == second).mean() == near(0.4**2 + 0.3**2 + 0.3**2)
    first, second = (
        assign(SplitRule("hash", 0.3, 0.3, seed, key="user"), user=users(ROWS)) for seed in (0, 1)
    )
    assert (first == second).mean() == near(0.4**2 + 0.3**2 + 0.3**2)


def test_a_part_that_grows_keeps_its_test_rows():
    small, large = (assign(SplitRule("random", valid, 0.2)) for valid in (0.1, 0.3))
    assert ((small == TEST) == (large == TEST)).all()


@given(
    st.sampled_from(
        [
            SplitRule("random", 0.3, 0.3, 5),
            SplitRule("hash", 0.3, 0.3, 5, key="user"),
            SplitRule("position", 0.3, 0.3, valid_rows="random"),
            SplitRule("position", 0.3, 0.3, valid_rows="last"),
            SplitRule("time", None, None, column="user", valid_from="user 3", test_from="user 6"),
            SplitRule("files", 0.3, None, files={"train": ("*",)}),
        ]
    ),
    st.lists(st.integers(0, 9), max_size=40),
    st.integers(0, 40),
)
@settings(deadline=None)
def test_no_split_depends_on_how_the_log_is_cut(split, drawn, cut):
    number, keys = np.arange(len(drawn)) + 1000, [users(10)[user] for user in drawn]
    whole = assign(split, number, 1040, user=keys)
    parts = [
        assign(split, number[part], 1040, user=keys[part])
        for part in (slice(cut), slice(cut, None))
    ]
    assert np.concatenate(parts).tolist() == whole.tolist()


def test_rows_with_the_same_key_stay_together():
    keys = users(300) * 20
    split = SplitRule("hash", 0.3, 0.3, key="user")
    codes = assign(split, np.arange(6000), 6000, user=keys).reshape(20, 300)
    assert (codes == codes[0]).all()
    assert set(codes[0]) == {TRAIN, VALID, TEST}


def test_a_missing_key_is_a_key_like_any_other():
    split = SplitRule("hash", 0.3, 0.3, key="user")
    assert len(set(assign(split, np.arange(4), 4, user=[b""] * 4))) == 1


def test_a_split_by_position_counts_exactly():
    number = np.arange(137_139)
    codes = assign(SplitRule("position", 0.1, 0.2, valid_rows="last"), number, len(number))
    assert np.bincount(codes).tolist() == [137_139 - 27_428 - 13_714, 13_714, 27_428]
    assert (np.diff(codes.astype(int)) >= 0).all()


def test_a_split_by_position_can_draw_the_validation_rows_from_the_rest():
    number = np.arange(137_139)
    codes = assign(SplitRule("position", 0.1, 0.2, valid_rows="random"), number, len(number))
    assert (codes == TEST).sum() == 27_428
    assert (codes[-27_428:] == TEST).all()
    assert shares(codes)[VALID] == near(0.1, len(number))
    halves = np.array_split(codes[:-27_428] == VALID, 2)
    assert halves[0].mean() == near(halves[1].mean())


def test_a_split_by_position_without_test_rows_has_none():
    codes = assign(SplitRule("position", 0.25, 0.0, valid_rows="last"), np.arange(8), 8)
    assert codes.tolist() == [TRAIN] * 6 + [VALID] * 2


def by_time(valid_from, test_from, times):
    split = SplitRule("time", None, None, column="t", valid_from=valid_from, test_from=test_from)
    return assign(split, np.arange(len(times)), len(times), t=times).tolist()


def test_a_split_by_time_compares_numbers_as_numbers():
    times = [b"9", b"1e1", b"10.0", b"99", b"100", b"-5"]
    late = [TRAIN, VALID, VALID, VALID, TEST, TRAIN]
    assert by_time("10", "100", times) == late
    assert by_time("10", None, times) == [min(code, VALID) for code in late]


def test_a_split_by_time_compares_dates_in_iso_order():
    times = [b"2014-10-20 23:59:59", b"2014-10-21", b"2014-10-29T01", b"2014-10-30"]
    late = [TRAIN, VALID, VALID, TEST]
    assert by_time("2014-10-21", "2014-10-30", times) == late
    assert by_time("2014-10-21", None, times) == [min(code, VALID) for code in late]


@pytest.mark.parametrize(
    ("split", "codes"),
    [
        ({"by": "time", "column": "n", "valid_from": 10, "test_from": "20.5"}, [0, 1, 2, 1]),
        ({"by": "time", "column": "c", "valid_from": "b", "test_from": "d"}, [0, 1, 1, 2]),
    ],
    ids=["numeric", "categorical"],
)
def test_the_column_of_the_split_can_be_a_feature_too(split, codes):
    read = schema(split=split)
    rows = parse_text(b"1,9,a\n0,10,b\n1,21,c\n0,20,d\n", ("y", "n", "c"), read, 0, 1)
    assert Splitter(read.split, 4).assign(rows.number, rows.keys, "train").tolist() == codes


def test_a_numeric_feature_can_be_the_key_of_the_split():
    read = schema(split={"by": "hash", "key": "n", "valid": 0.3, "test": 0.3})
    data = b"".join(b"1,%d,a\n" % (row % 50) for row in range(500))
    rows = parse_text(data, ("y", "n", "c"), read, 0, 1)
    codes = Splitter(read.split, 500).assign(rows.number, rows.keys, "train").reshape(10, 50)
    assert (codes == codes[0]).all()
    assert set(codes[0]) == {TRAIN, VALID, TEST}


def test_files_with_a_validation_pattern_go_whole_to_their_split():
    files = {"train": ("a*",), "valid": ("b",), "test": ("c", "d")}
    split = SplitRule("files", None, None, files=files)
    for code, file in enumerate(("train", "valid", "test")):
        assert set(assign(split, file=file)) == {code}


def test_without_a_validation_pattern_a_part_of_the_training_files_is_drawn():
    split = SplitRule("files", 0.2, None, files={"train": ("a*",), "test": ("b",)})
    assert list(shares(assign(split))) == [near(0.8), near(0.2), 0]
    assert set(assign(split, file="test")) == {TEST}


def test_a_file_belongs_to_the_split_whose_pattern_its_name_matches():
    files = {"train": ["day-[0-8].csv", "old*"], "valid": "day-9.*", "test": "day-??.csv"}
    read = schema(split={"by": "files", "files": files})
    paths = ["/x/day-3.csv", "old", "a/old.csv", "../day-9.csv.gz", "day-10.csv", "x\\day-9.csv"]
    splits = ["train", "train", "train", "valid", "test", "valid"]
    assert [file_split(read, path) for path in paths] == splits


def test_a_file_that_matches_no_pattern_is_refused():
    read = schema(split={"by": "files", "files": {"train": "a*", "test": ["b", "c"]}})
    with pytest.raises(UserError) as caught:
        file_split(read, "/a/d.csv")
    assert str(caught.value) == (
        "/a/d.csv: matches no pattern of the schema's split.files (a*, b, c); add one for it."
    )


def test_for_other_splits_every_file_is_alike():
    assert file_split(schema(), "/a/d.csv") == "train"


def test_shuffle_keys_are_unique_and_without_order():
    keys = shuffle_key(np.concatenate([NUMBER, NUMBER + 2**40]), seed=3)
    assert keys.dtype == np.uint64
    assert len(np.unique(keys)) == 2 * ROWS
    assert (np.diff(keys.astype(np.float64)) > 0).mean() == near(0.5, 2 * ROWS)


def test_shuffle_keys_depend_on_number_and_seed_alone():
    whole = shuffle_key(NUMBER, 3)
    assert (shuffle_key(NUMBER[77:99], 3) == whole[77:99]).all()
    assert not np.isin(shuffle_key(NUMBER, 4), whole).any()


@pytest.mark.parametrize("shards", [1, 2, 7, 16])
@pytest.mark.parametrize("seed", [0, 1])
def test_shards_are_balanced_within_every_split(shards, seed):
    codes = assign(SplitRule("random", 0.2, 0.2, seed))
    shard = shard_of(shuffle_key(NUMBER, seed), shards)
    for code in (TRAIN, VALID, TEST):
        sizes = np.bincount(shard[codes == code], minlength=shards)
        assert len(sizes) == shards
        expected = sizes.sum() / shards
        assert np.abs(sizes - expected).max() < 5 * np.sqrt(expected)
