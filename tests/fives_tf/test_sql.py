import math

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from fives_tf.crosses import Cross
from fives_tf.encoding import MISSING, BucketField, Encoding, HashField, VocabularyField
from fives_tf.errors import UserError
from fives_tf.parsing import to_category
from fives_tf.sql import cross_expressions, select

HARD_NUMBERS = [0.0, -0.0, 1e300, -1e300, 1e-42, -1e-42, 5e-324, 2.0**24 + 1, math.inf, -math.inf]
FLOAT_MAX = float(np.finfo(np.float32).max)


def bucket_field(name, column, edges, missing=("",)):
    """A field whose every bucket has an id of its own."""
    count = len(edges) + 1
    edges = np.array(edges, np.float32)
    return BucketField(
        name, column, missing, 0, 0, edges, np.arange(2, 2 + count), np.ones(count, int)
    )


def category_field(column, missing=("",)):
    return HashField(column, column, missing, 0, 0, 7)


def run(statement, table, name="log"):
    """The rows of a statement as dictionaries."""
    with duckdb.connect() as connection:
        connection.register(name, table)
        result = connection.execute(statement)
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def check_buckets(field, numbers, as_text=False):
    """Demands that the SQL gives the buckets of the encoding, row by row."""
    raw = pa.array(numbers, pa.float64())
    if as_text:
        raw = pa.array([None if x is None else repr(x) for x in numbers], pa.string())
    table = pa.table({field.column: raw, "other": ["o"] * len(numbers)})
    encoding = Encoding((category_field("other"), field), 1)
    cross = Cross(("other", field.name), 1.0)
    buckets = [row[cross.name] for row in run(select([cross], encoding), table)]
    assert all(bucket.startswith("o x ") for bucket in buckets)
    buckets = [bucket.removeprefix("o x ") for bucket in buckets]
    found = [field.ids[int(bucket)] if bucket else MISSING for bucket in buckets]
    expected = field.encode(pa.array(numbers, pa.float64()))
    for number, a, b in zip(numbers, found, expected.tolist(), strict=True):
        assert a == b, f"{number!r}"


def around(singles):
    """Doubles on both sides of where rounding to single precision reaches some numbers."""
    singles = np.array(singles, np.float32)
    with np.errstate(over="ignore"):
        singles = np.concatenate(
            [singles, np.nextafter(singles, np.float32(9)), np.nextafter(singles, np.float32(-9))]
        )
    doubles = singles.astype(np.float64)
    middles = (doubles[:, None] + doubles[None, :]).ravel() / 2
    middles = np.concatenate([doubles, middles])
    sides = [np.nextafter(middles, -np.inf), middles, np.nextafter(middles, np.inf)]
    return np.unique(np.concatenate(sides)).tolist()


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(
    "edges",
    [
        [],
        [0.0],
        [0.1],
        [-1.0, 0.0, 0.1, 7.0],
        [-1e38, -1.1754944e-38, 1e-40, 1.1754944e-38, 1e38],
        [-FLOAT_MAX, FLOAT_MAX, math.inf],
    ],
)
def test_buckets_are_those_of_the_encoding(edges, as_text):
    markers = ("", "NA", "3", "0.3")
    field = bucket_field("n@9", "n", edges, markers)
    finite = [edge for edge in edges if abs(edge) < FLOAT_MAX]
    numbers = [None, math.nan, *HARD_NUMBERS, *around([*finite, 3, 0.3])]
    if as_text:
        numbers = [x for x in numbers if x is None or x == 0 or abs(x) > 1e-300]
    for edge in edges:
        numbers += [edge, math.nextafter(edge, -math.inf), math.nextafter(edge, math.inf)]
    numbers += [3.4028235677973362e38, 3.4028235677973366e38, -3.4028235677973366e38]
    check_buckets(field, numbers, as_text)


@pytest.mark.parametrize("marker", ["0", "-1", "inf", "-inf", "nan"])
def test_markers_that_are_numbers_are_compared_as_numbers(marker):
    field = bucket_field("n@3", "n", [-1.0, 0.0], ("", marker))
    numbers = [None, math.nan, *HARD_NUMBERS, -1.0, *around([0, -1, FLOAT_MAX])]
    check_buckets(field, numbers)


def test_a_field_of_a_thousand_buckets():
    random = np.random.default_rng(0)
    edges = np.unique(random.normal(0, 100, 1000).astype(np.float32))
    numbers = [*random.normal(0, 100, 2000).tolist(), *edges.astype(float).tolist()]
    check_buckets(bucket_field("n@1000", "n", edges), numbers)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float32(), pa.decimal128(25, 2), pa.bool_()])
def test_a_numeric_column_may_have_any_type(kind):
    field = bucket_field("n@3", "n", [1.0, 2.0])
    numbers = pa.array([0, 1, 1, None], pa.int64()).cast(kind)
    table = pa.table({"n": numbers, "c": ["x"] * 4})
    encoding = Encoding((field, category_field("c")), 1)
    rows = run(select([Cross(("n@3", "c"), 1.0)], encoding), table)
    assert [row["n@3 x c"] for row in rows] == ["0 x x", "1 x x", "1 x x", " x x"]


def test_text_that_is_no_number_is_missing_if_it_is_a_marker():
    field = bucket_field("n@2", "n", [5.0], ("", "NA", "it's"))
    table = pa.table({"n": ["1", "NA", "", None, "it's", "5"] * 1000, "c": ["x"] * 6000})
    encoding = Encoding((field, category_field("c")), 1)
    rows = run(select([Cross(("n@2", "c"), 1.0)], encoding), table)
    values = ["0 x x", " x x", " x x", " x x", " x x", "1 x x"]
    assert [row["n@2 x c"] for row in rows] == values * 1000


def test_a_categorical_part_is_the_raw_text_and_empty_where_the_encoding_has_no_value():
    markers = ("", "NA", "it's", "-1")
    values = [None, "", "NA", "na", "it's", 'say "x"', "-1", "-1.0", " a ", "ü\n東", "a''b"]
    values += [r"\n", "%", "x", ";--"]
    vocabulary = VocabularyField(
        "v", "c", markers, 0, 0, pa.array([b"na"], pa.large_binary()), np.array([1])
    )
    for field in (HashField("h", "c", markers, 0, 0, 7), vocabulary):
        encoding = Encoding((field, category_field("d")), 1)
        cross = Cross((field.name, "d"), 1.0)
        table = pa.table({"c": values, "d": ["d"] * len(values)})
        found = [row[cross.name] for row in run(select([cross], encoding), table)]
        ids = field.encode(to_category(pa.array(values, pa.string()), "c"))
        expected = ["" if i == MISSING else value for i, value in zip(ids, values, strict=True)]
        assert found == [f"{value} x d" for value in expected]


def test_names_may_hold_quotes():
    names = ['say "x"', "it's", "ünï; --"]
    encoding = Encoding(tuple(map(category_field, names)), 1)
    crosses = [Cross(tuple(names[:2]), 1.0), Cross(tuple(names), 0.5)]
    table = pa.table({name: [str(index), None] for index, name in enumerate(names)})
    rows = run(select(crosses, encoding, 'the "log"'), table, 'the "log"')
    assert list(rows[0]) == [*names, crosses[0].name, crosses[1].name]  # all columns are kept
    assert rows[0][crosses[1].name] == "0 x 1 x 2"
    assert rows[1][crosses[1].name] == " x  x "


def test_the_statement_can_be_read():
    encoding = Encoding((category_field("C14"), bucket_field("I5@3", "I5", [0.5, 8.0])), 1)
    assert select([Cross(("C14", "I5@3"), 1.0)], encoding) == (
        """\
SELECT *,
CASE
  WHEN CAST("C14" AS VARCHAR) IS NULL OR CAST("C14" AS VARCHAR) IN ('') THEN ''
  ELSE CAST("C14" AS VARCHAR)
END
|| ' x ' || CASE
  WHEN CAST("I5" AS VARCHAR) IS NULL OR CAST("I5" AS VARCHAR) IN ('') THEN ''
  WHEN CAST("I5" AS DOUBLE PRECISION) < 0.4999999850988388e0 THEN '0'
  WHEN CAST("I5" AS DOUBLE PRECISION) < 7.999999761581421e0 THEN '1'
  WHEN CAST("I5" AS DOUBLE PRECISION) <= CAST('Infinity' AS DOUBLE PRECISION) THEN '2'
  ELSE ''
END AS "C14 x I5@3"
FROM "log\""""
    )


def test_without_crosses_the_log_stays_as_it_is():
    assert select([], Encoding((category_field("c"),), 1)) == 'SELECT *\nFROM "log"'


def test_crosses_of_another_dataset_are_refused():
    encoding = Encoding((category_field("C14"), category_field("C15")), 1)
    with pytest.raises(UserError, match="field `C51`, which the dataset does not have"):
        cross_expressions([Cross(("C14", "C51"), 1.0)], encoding)
