"""The values of crosses against their definition, row by row, and against the ids."""

import math
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fives_tf.cross_fitting import fit_crosses
from fives_tf.cross_values import cross_values
from fives_tf.crosses import Cross
from fives_tf.encoding import BucketField, Encoding, HashField
from fives_tf.errors import UserError
from fives_tf.parsing import to_category
from fives_tf.schema import Column, Discretize
from tests.fives_tf import samples

MARKERS = ("", "NA", "-1")
CROSSES = [
    Cross(("c", "d"), 1.0),
    Cross(("c", "n@3", "d"), 1.0),
    Cross(("n@3", "n@value"), 1.0),
    Cross(("d", "c", "n@value", "n@3"), 1.0),
]
TEXTS = st.text(st.sampled_from([" ", "x", "\\", "a", "ü", "東", "\n", "'"]), max_size=6)
VALUES = TEXTS | st.sampled_from(["NA", "-1", " x ", " x", "x ", "\\x", " \\x", "a x b"])
NUMBERS = st.none() | st.floats() | st.sampled_from([-1.0, 0.0, -0.0, 1e-42, 1e300, 0.1, 2.0])
COLUMNS = (
    Column("c", False, MARKERS, 1, max_vocab=5),
    Column("d", False, MARKERS, 2, max_vocab=100),
    Column("n", True, MARKERS, 1, Discretize("quantile", (3,), values=True)),
)


def clean(c, d, n):
    """A clean batch."""
    texts = {"c": pa.array(c, pa.binary()), "d": pa.array(d, pa.binary())}
    columns = {name: to_category(values, name) for name, values in texts.items()}
    return pa.RecordBatch.from_pydict(columns | {"n": pa.array(n, pa.float64())})


def fit(batch):
    fields = (f for column in COLUMNS for f in samples.fit(column, batch.column(column.name)))
    return Encoding(tuple(fields), batch.num_rows)


def parts_slowly(batch, cross, encoding):
    """What the parts of a cross should be, from the definition: a list of texts a row."""
    fields = {field.name: field for field in encoding.fields}
    columns = []
    for name in cross.fields:
        field = fields[name]
        markers = [number for number in map(_number, field.missing) if number is not None]
        values = batch.column(field.column).to_pylist()
        columns.append([_part(field, value, markers) for value in values])
    return [list(row) for row in zip(*columns, strict=True)]


def _part(field, value, markers):
    if not isinstance(field, BucketField):
        text = (value or b"").decode()
        return "" if text in field.missing else text
    if value is None or math.isnan(value):
        return ""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if abs(single) < np.finfo(np.float32).tiny:
        single = np.float32(0)
    if single in markers:
        return ""
    return str(sum(bool(edge <= single) for edge in field.edges))


def _number(marker):
    try:
        return np.float32(marker)
    except ValueError:
        return None


def read_back(text):
    """The parts that a text says, from left to right."""
    parts, rest = [], text
    while rest is not None:
        part, found, behind = rest.partition(" x")
        assert not found or behind.startswith(" ")
        parts.append(part.replace("\\\\", "\0\0").replace("\\x", "x").replace("\0\0", "\\"))
        rest = behind[1:] if found else None
    return parts


def written(part):
    return part.replace("\\", "\\\\").replace(" x", " \\x")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES, NUMBERS), max_size=12))
def test_values_are_those_of_the_definition(rows):
    c, d, n = zip(*rows, strict=True) if rows else ((), (), ())
    batch = clean([text.encode() for text in c], [text.encode() for text in d], n)
    encoding = fit(batch)
    found = cross_values(batch, CROSSES, encoding)
    for cross, values in zip(CROSSES, found, strict=True):
        expected = [" x ".join(map(written, row)) for row in parts_slowly(batch, cross, encoding)]
        assert values.to_pylist() == expected
        texts = values.dictionary.to_pylist()
        assert len(set(texts)) == len(texts)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=4))
def test_the_parts_can_be_read_back_from_a_value(parts):
    columns = {f"f{index}": [part.encode()] for index, part in enumerate(parts)}
    fields = tuple(HashField(name, name, ("",), 0, 0, 7) for name in columns)
    batch = pa.RecordBatch.from_pydict(
        {name: to_category(pa.array(c, pa.binary()), name) for name, c in columns.items()}
    )
    [values] = cross_values(batch, [Cross(tuple(columns), 1.0)], Encoding(fields, 1))
    assert read_back(values[0].as_py()) == parts


def test_usual_values_stay_as_they_are():
    batch = clean([b"tax", b"x", b"new york"], [b"a/b", b"NA", b""], [1.0, None, 2.0])
    fields = (*(HashField(name, name, MARKERS, 0, 0, 7) for name in "cd"), *fit(batch).fields[2:])
    [values] = cross_values(batch, [Cross(("c", "d", "n@value"), 1.0)], Encoding(fields, 3))
    assert values.to_pylist() == ["tax x a/b x 0", "x x  x ", "new york x  x 1"]


def test_rows_that_could_not_be_read_have_no_values():
    batch = clean([b"a", b"b"], [b"c", b"d"], [1.0, 2.0])
    encoding = fit(batch)
    batch = batch.take(pa.array([1, None, 0]))
    pair, triple, *_ = cross_values(batch, CROSSES, encoding)
    assert pair.to_pylist() == ["b x d", " x ", "a x c"]
    assert triple.to_pylist() == ["b x 1 x d", " x  x ", "a x 0 x c"]
    assert cross_values(batch.slice(2), CROSSES, encoding)[0].to_pylist() == ["a x c"]


def test_bytes_that_are_not_utf8_stay_apart():
    odd = [b"\xe9t\xe9", b"\xe8t\xe9", "été".encode(), b"\\E9t", b" x\xff", b" \xff", b" xff"]
    batch = clean(odd, [b"d"] * len(odd), [None] * len(odd))
    [values] = cross_values(batch, CROSSES[:1], fit(batch))
    expected = ["\\E9t\\E9", "\\E8t\\E9", "été", "\\\\E9t", " \\x\\FF", " \\FF", " \\xff"]
    assert values.to_pylist() == [f"{text} x d" for text in expected]


def test_values_that_differ_in_trimmed_blanks_only_have_one_text():
    doubled = pa.DictionaryArray.from_arrays([0, 1, 2], pa.array([b"a", b"b", b"a"]))
    batch = pa.RecordBatch.from_pydict({"c": doubled, "d": doubled})
    fields = tuple(HashField(name, name, ("",), 0, 0, 7) for name in "cd")
    [values] = cross_values(batch, [Cross(("c", "d"), 1.0)], Encoding(fields, 3))
    assert values.to_pylist() == ["a x a", "b x b", "a x a"]
    assert len(values.dictionary) == 2


def check_ids(batch, crosses, encoding):
    """Demands that texts and ids tell the same rows apart, but for rare ones."""
    ids = encoding.encode(batch)
    fitted = fit_crosses(crosses, encoding, [ids])
    values = cross_values(batch, crosses, encoding)
    kept = 0
    for index, column in enumerate(values):
        local = fitted.encode_one(index, ids) - fitted.offsets[index]
        pairs = set(zip(column.to_pylist(), local.tolist(), strict=True))
        texts = [text for text, _ in pairs]
        assert len(set(texts)) == len(texts)  # equal texts have equal ids
        own = [number for _, number in pairs if number != 1]
        assert len(set(own)) == len(own)  # equal ids of their own have equal texts
        kept += len(own)
    return kept


def test_equal_texts_have_equal_ids_and_the_other_way_round():
    random = np.random.default_rng(0)
    texts = [b"", b"NA", b"a", b" x ", b"x", b"\\", b"b x", b"\xe9", b"a\nb"]
    c, d = (random.choice(np.array(texts, object), 500).tolist() for _ in range(2))
    n = random.choice([math.nan, -1, 0, 1e-42, 0.5, 3, 1e300, math.inf], 500)
    batch = clean(c, d, n)
    assert check_ids(batch, CROSSES, fit(batch)) > 100


@pytest.mark.parametrize("name", samples.LOGS)
def test_real_logs(name, data_directory):
    sample = samples.read(name, data_directory)
    crosses = sample.crosses()
    assert {cross.order for cross in crosses} == {2, 3}
    found = cross_values(sample.batch, crosses, sample.encoding)
    for cross, values in zip(crosses, found, strict=True):
        parts = parts_slowly(sample.batch, cross, sample.encoding)
        assert values.to_pylist() == [" x ".join(map(written, row)) for row in parts]
    hashed = {field.name for field in sample.encoding.fields if isinstance(field, HashField)}
    told_apart = [cross for cross in crosses if not hashed & set(cross.fields)]
    assert check_ids(sample.batch, told_apart, sample.encoding) > 100


def test_it_is_fast():
    rows, random = 200_000, np.random.default_rng(0)
    columns = {
        name: pa.DictionaryArray.from_arrays(
            pa.array(random.integers(0, size, rows), pa.int32()),
            pa.array([b"value %d" % value for value in range(size)]),
        )
        for name, size in {"a": 10, "b": 1000, "c": 50_000}.items()
    }
    columns["n"] = pa.array(random.normal(0, 100, rows))
    edges = np.unique(random.normal(0, 100, 999).astype(np.float32))
    count = len(edges) + 1
    fields = (
        *(HashField(name, name, ("",), 0, 0, 7) for name in "abc"),
        BucketField("n", "n", ("",), 0, 0, edges, np.arange(2, 2 + count), np.ones(count, int)),
    )
    names = [("a", "b"), ("a", "c"), ("b", "c"), ("a", "n"), ("a", "b", "n")]
    crosses = [Cross(fields, 1.0) for fields in names]
    batch = pa.RecordBatch.from_pydict(columns)
    start = time.perf_counter()
    cross_values(batch, crosses, Encoding(fields, rows))
    assert rows / (time.perf_counter() - start) > 40_000


def test_crosses_of_another_dataset_are_refused():
    batch = clean([b"a"], [b"b"], [1.0])
    with pytest.raises(UserError, match="field `e`, which the dataset does not have"):
        cross_values(batch, [Cross(("c", "e"), 1.0)], fit(batch))
