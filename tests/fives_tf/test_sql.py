"""The SQL of all dialects, run by DuckDB: sqlglot translates from the others."""

import argparse
import csv
import io
import json
import math
import re

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from fives_tf.commands.crosses import add_flags
from fives_tf.cross_values import cross_values
from fives_tf.crosses import Cross
from fives_tf.encoding import MISSING, BucketField, Encoding, HashField, VocabularyField
from fives_tf.errors import UserError
from fives_tf.parsing import parse_text, to_category
from fives_tf.schema import Schema
from fives_tf.sql import DIALECTS, cross_expressions, select
from tests.fives_tf import samples

BLANKS = [" ", "\t", "\n", "\v", "\f", "\r", " \t\n\v\f\r "]
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


def run(statement, table, dialect="ansi", name="log"):
    """The names of the columns of a statement in whichever dialect, and its rows."""
    if dialect != "ansi":
        [statement] = sqlglot.transpile(statement, read=dialect, write="duckdb")
    with duckdb.connect() as connection:
        connection.register(name, table)
        result = connection.execute(statement)
        return [column[0] for column in result.description], result.fetchall()


def check(crosses, encoding, raw, batch, dialect, trim=False):
    """Demands that the SQL finds in a raw table what `cross_values` finds in the clean batch."""
    statement = select(crosses, encoding, trim=trim, dialect=dialect)
    if dialect == "bigquery":  # where no column has a dot in its name
        for name in raw.column_names:
            statement = statement.replace(f"`{name}`", f"`{name.replace('.', '_')}`")
        raw = raw.rename_columns([name.replace(".", "_") for name in raw.column_names])
    _, rows = run(statement, raw, dialect)
    values = [column.to_pylist() for column in cross_values(batch, crosses, encoding)]
    for row, expected in zip(rows, zip(*values, strict=True), strict=True):
        assert row[raw.num_columns :] == expected, row


def check_buckets(field, numbers, dialect="ansi", as_text=False):
    """Demands that the SQL gives the buckets of the encoding, row by row."""
    raw = pa.array(numbers, pa.float64())
    if as_text:
        raw = pa.array([None if x is None else repr(x) for x in numbers], pa.string())
    others = pa.array(["o"] * len(numbers))
    table = pa.table({field.column: raw, "other": others})
    numbers = pa.array(numbers, pa.float64())
    batch = pa.record_batch({field.column: numbers, "other": to_category(others, "other")})
    encoding = Encoding((category_field("other"), field), 1)
    cross = Cross(("other", field.name), 1.0)
    check([cross], encoding, table, batch, dialect)
    [values] = cross_values(batch, [cross], encoding)
    buckets = [value.removeprefix("o x ") for value in values.to_pylist()]
    found = [field.ids[int(bucket)] if bucket else MISSING for bucket in buckets]
    assert found == field.encode(numbers).tolist()


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


@pytest.mark.parametrize("dialect", DIALECTS)
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
def test_buckets_are_those_of_the_encoding(edges, as_text, dialect):
    markers = ("", "NA", "3", "0.3")
    field = bucket_field("n@9", "n", edges, markers)
    finite = [edge for edge in edges if abs(edge) < FLOAT_MAX]
    numbers = [None, math.nan, *HARD_NUMBERS, *around([*finite, 3, 0.3])]
    if as_text:
        numbers = [x for x in numbers if x is None or x == 0 or abs(x) > 1e-300]
    for edge in edges:
        numbers += [edge, math.nextafter(edge, -math.inf), math.nextafter(edge, math.inf)]
    numbers += [3.4028235677973362e38, 3.4028235677973366e38, -3.4028235677973366e38]
    check_buckets(field, numbers, dialect, as_text)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("marker", ["0", "-1", "inf", "-inf", "nan"])
def test_markers_that_are_numbers_are_compared_as_numbers(marker, dialect):
    field = bucket_field("n@3", "n", [-1.0, 0.0], ("", marker))
    numbers = [None, math.nan, *HARD_NUMBERS, -1.0, *around([0, -1, FLOAT_MAX])]
    check_buckets(field, numbers, dialect)


def test_a_field_of_a_thousand_buckets():
    random = np.random.default_rng(0)
    edges = np.unique(random.normal(0, 100, 1000).astype(np.float32))
    numbers = [*random.normal(0, 100, 2000).tolist(), *edges.astype(float).tolist()]
    check_buckets(bucket_field("n@1000", "n", edges), numbers)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", [pa.int64(), pa.float32(), pa.decimal128(25, 2), pa.bool_()])
def test_a_numeric_column_may_have_any_type(kind, dialect):
    field = bucket_field("n@3", "n", [1.0, 2.0])
    numbers = pa.array([0, 1, 1, None], pa.int64()).cast(kind)
    table = pa.table({"n": numbers, "c": ["x"] * 4})
    encoding = Encoding((field, category_field("c")), 1)
    _, rows = run(select([Cross(("n@3", "c"), 1.0)], encoding, dialect=dialect), table, dialect)
    assert [row[-1] for row in rows] == ["0 x x", "1 x x", "1 x x", " x x"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_text_that_is_no_number_is_missing_if_it_is_a_marker(dialect):
    field = bucket_field("n@2", "n", [5.0], ("", "NA", "it's"))
    table = pa.table({"n": ["1", "NA", "", None, "it's", "5"] * 1000, "c": ["x"] * 6000})
    encoding = Encoding((field, category_field("c")), 1)
    _, rows = run(select([Cross(("n@2", "c"), 1.0)], encoding, dialect=dialect), table, dialect)
    values = ["0 x x", " x x", " x x", " x x", " x x", "1 x x"]
    assert [row[-1] for row in rows] == values * 1000


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d != "ansi"])
def test_other_text_that_is_no_number_stops_only_ansi_sql(dialect):
    cross, encoding = (
        Cross(("n@2", "c"), 1.0),
        Encoding((bucket_field("n@2", "n", [5.0]), category_field("c")), 1),
    )
    table = pa.table({"n": ["1", "none"], "c": ["x", "x"]})
    _, rows = run(select([cross], encoding, dialect=dialect), table, dialect)
    assert [row[-1] for row in rows] == ["0 x x", " x x"]
    with pytest.raises(duckdb.ConversionException):
        run(select([cross], encoding), table)


def parse(rows, schema):
    """Rows of text by column as the parser of logs reads them."""
    lines = io.StringIO(newline="")
    csv.writer(lines, quoting=csv.QUOTE_ALL).writerows(
        [*row, "1"] for row in zip(*rows.values(), strict=True)
    )
    return parse_text(lines.getvalue().encode(), (*rows, "click"), schema, 0, 1).batch


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("trim", [False, True])
def test_a_categorical_part_is_the_text_of_the_value(dialect, trim):
    markers = ["", "NA", "it's", "-1", "a\\", "b\nc", "\\n", "`", "x\ty", "{}"]
    texts = [*markers, "na", 'say "x"', "-1.0", "ü東\U0001f600", "a''b", "\\\\", "%", "\\%", ";--"]
    texts += ["", "x", " x", "x ", " x ", "a x b", " \\x", " x x", "/*", "\x85", "a\u2028", "\xa0"]
    texts += [blank + text + blank for text in ("NA", "a  b", "", "\x85") for blank in BLANKS]
    other = ["o", " x", "", "p\\"]
    pairs = [(text, part) for text in texts for part in other]
    rows = dict(zip("cd", zip(*pairs, strict=True), strict=True))
    form = f"label: {{column: click}}\ntrim: {str(trim).lower()}\ncategorical: [c, d]\n"
    schema = Schema.parse(form + f"missing: {json.dumps(markers)}")
    batch = parse(rows, schema)
    assert batch.num_rows == len(pairs)
    vocabulary = VocabularyField(
        "v", "d", ("", "o"), 0, 0, pa.array([b"na"], pa.large_binary()), np.array([1])
    )
    encoding = Encoding((HashField("h", "c", tuple(markers), 0, 0, 7), vocabulary), 1)
    crosses = [Cross(("h", "v"), 1.0), Cross(("v", "h", "v"), 1.0)]
    raw = pa.table({name: pa.array([text or None for text in c]) for name, c in rows.items()})
    for table in (raw, pa.table({name: list(texts) for name, texts in rows.items()})):
        check(crosses, encoding, table, batch, dialect, trim)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_blanks_around_numbers_do_not_count_where_the_schema_trims(dialect):
    numbers = ["5", "4.9", "NA", "", "-3", "-3.0", "inf", "-inf", "nan", "1e300", "1e-42", "0"]
    rows = {"n": [f"{blank}{n}{blank}" for n in numbers for blank in ("", *BLANKS)]}
    rows["c"] = ["o"] * len(rows["n"])
    form = "label: {column: click}\ntrim: true\nnumeric: [n]\ncategorical: [c]\nmissing: [NA, '-3']"
    batch = parse(rows, Schema.parse(form))
    assert batch.num_rows == len(rows["n"])
    field = bucket_field("n@3", "n", [0.0, 5.0], ("", "NA", "-3"))
    encoding = Encoding((field, category_field("c")), 1)
    check([Cross(("n@3", "c"), 1.0)], encoding, pa.table(rows), batch, dialect, trim=True)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", samples.LOGS)
def test_real_logs(name, dialect, data_directory):
    sample = samples.read(name, data_directory)
    trim = sample.schema.format.trim
    assert trim == (name == "adult")
    check(sample.crosses(), sample.encoding, sample.raw, sample.batch, dialect, trim)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_may_hold_anything(dialect):
    names = ['say "x"', "it's", "ünï; --", "a.b", "`tick`", "\\", "*/ two\nlines", "{}"]
    if dialect == "bigquery":
        names.remove("a.b")  # a dot stands between the parts of a path
    encoding = Encoding(tuple(map(category_field, names)), 1)
    crosses = [Cross(tuple(names[:2]), 1.0), Cross(tuple(names), 0.5), Cross(tuple(names[5:]), 0.5)]
    table = pa.table({name: [str(index), None] for index, name in enumerate(names)})
    log = 'the "log" `'
    columns, rows = run(select(crosses, encoding, table=log, dialect=dialect), table, dialect, log)
    assert columns[: len(names)] == names  # all columns are kept
    assert rows[0][len(names) :] == (
        "0 x 1",
        " x ".join(rows[0][: len(names)]),
        " x ".join(rows[0][5 : len(names)]),
    )
    assert rows[1][len(names) :] == (" x ", " x " * (len(names) - 1), " x " * (len(names) - 6))
    added = columns[len(names) :]
    if dialect == "ansi":
        assert added == [cross.name for cross in crosses]
    else:
        assert added[0] == "cross_say_x_x_it_s"
        assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in added)


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d != "ansi"])
def test_plain_names_occur_once_and_are_not_too_long(dialect):
    names = ["I5@1", "i5_1", "C", "ü", "ö", "long" * 50, "long" * 51]
    encoding = Encoding(tuple(map(category_field, names)), 1)
    crosses = [Cross((name, "C"), 1.0) for name in names if name != "C"]
    table = pa.table({name: ["v"] for name in names})
    statement = select(crosses, encoding, dialect=dialect)
    added = run(statement, table, dialect)[0][len(names) :]
    assert added[:4] == ["cross_I5_1_x_C", "cross_i5_1_x_C_2", "cross_x_C", "cross_x_C_2"]
    assert len({name.lower() for name in added}) == len(added)
    assert max(map(len, added)) <= 122
    for cross, name in zip(crosses, added, strict=True):
        assert re.search(f"-- {re.escape(cross.name)}\n[^`]*`{cross.fields[0]}`", statement)
        assert f" AS `{name}`" in statement


STATEMENTS = {
    "ansi": """\
SELECT *,
CASE
  WHEN CAST("C14" AS VARCHAR) IS NULL OR CAST("C14" AS VARCHAR) IN ('', 'it''s') THEN ''
  ELSE REPLACE(REPLACE(CAST("C14" AS VARCHAR), '\\', '\\\\'), ' x', ' \\x')
END
|| ' x ' || CASE
  WHEN CAST("I5" AS VARCHAR) IS NULL OR CAST("I5" AS VARCHAR) IN ('') THEN ''
  WHEN CAST("I5" AS DOUBLE PRECISION) < 0.4999999850988388e0 THEN '0'
  WHEN CAST("I5" AS DOUBLE PRECISION) < 7.999999761581421e0 THEN '1'
  WHEN CAST("I5" AS DOUBLE PRECISION) <= CAST('Infinity' AS DOUBLE PRECISION) THEN '2'
  ELSE ''
END AS "C14 x I5@3"
FROM "log\"""",
    "bigquery": """\
SELECT *,
-- C14 x I5@3
CASE
  WHEN CAST(`C14` AS STRING) IS NULL OR CAST(`C14` AS STRING) IN ('', 'it\\'s') THEN ''
  ELSE REPLACE(REPLACE(CAST(`C14` AS STRING), '\\\\', '\\\\\\\\'), ' x', ' \\\\x')
END
|| ' x ' || CASE
  WHEN CAST(`I5` AS STRING) IS NULL OR CAST(`I5` AS STRING) IN ('') THEN ''
  WHEN SAFE_CAST(`I5` AS FLOAT64) < 0.4999999850988388e0 THEN '0'
  WHEN SAFE_CAST(`I5` AS FLOAT64) < 7.999999761581421e0 THEN '1'
  WHEN SAFE_CAST(`I5` AS FLOAT64) <= SAFE_CAST('Infinity' AS FLOAT64) THEN '2'
  ELSE ''
END AS `cross_C14_x_I5_3`
FROM `log`""",
    "spark": """\
SELECT *,
-- C14 x I5@3
CASE
  WHEN CAST(`C14` AS STRING) IS NULL OR CAST(`C14` AS STRING) IN ('', 'it\\'s') THEN ''
  ELSE REPLACE(REPLACE(CAST(`C14` AS STRING), '\\\\', '\\\\\\\\'), ' x', ' \\\\x')
END
|| ' x ' || CASE
  WHEN CAST(`I5` AS STRING) IS NULL OR CAST(`I5` AS STRING) IN ('') THEN ''
  WHEN TRY_CAST(`I5` AS DOUBLE) < 0.4999999850988388e0 THEN '0'
  WHEN TRY_CAST(`I5` AS DOUBLE) < 7.999999761581421e0 THEN '1'
  WHEN TRY_CAST(`I5` AS DOUBLE) <= TRY_CAST('Infinity' AS DOUBLE) THEN '2'
  ELSE ''
END AS `cross_C14_x_I5_3`
FROM `log`""",
    "hive": """\
SELECT *,
-- C14 x I5@3
CONCAT(CASE
  WHEN CAST(`C14` AS STRING) IS NULL OR CAST(`C14` AS STRING) IN ('', 'it\\'s') THEN ''
  ELSE REPLACE(REPLACE(CAST(`C14` AS STRING), '\\\\', '\\\\\\\\'), ' x', ' \\\\x')
END,
' x ', CASE
  WHEN CAST(`I5` AS STRING) IS NULL OR CAST(`I5` AS STRING) IN ('') THEN ''
  WHEN CAST(`I5` AS DOUBLE) < 0.4999999850988388e0 THEN '0'
  WHEN CAST(`I5` AS DOUBLE) < 7.999999761581421e0 THEN '1'
  WHEN CAST(`I5` AS DOUBLE) <= CAST('Infinity' AS DOUBLE) THEN '2'
  ELSE ''
END) AS `cross_C14_x_I5_3`
FROM `log`""",
}
TRIMS = {
    "ansi": "TRIM(BOTH ' ' || CHR(9) || CHR(10) || CHR(11) || CHR(12) || CHR(13) FROM "
    'CAST("C14" AS VARCHAR))',
    "bigquery": r"TRIM(CAST(`C14` AS STRING), ' \t\n\v\f\r')",
    "spark": r"REGEXP_REPLACE(CAST(`C14` AS STRING), "
    r"'^[ \\t\\n\\x0B\\f\\r]+|[ \\t\\n\\x0B\\f\\r]+\\z', '')",
}
TRIMS["hive"] = TRIMS["spark"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_statement_can_be_read(dialect):
    fields = category_field("C14", ("", "it's")), bucket_field("I5@3", "I5", [0.5, 8.0])
    crosses, encoding = [Cross(("C14", "I5@3"), 1.0)], Encoding(fields, 1)
    assert select(crosses, encoding, dialect=dialect) == STATEMENTS[dialect]
    assert f"WHEN {TRIMS[dialect]} IS NULL OR" in select(
        crosses, encoding, trim=True, dialect=dialect
    )


@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d != "ansi"])
def test_a_text_stays_on_its_line(dialect):
    """BigQuery takes no line breaks in a text."""
    encoding = Encoding((category_field("a", ("", "b\nc\rd")), category_field("b")), 1)
    assert r"IN ('', 'b\nc\rd')" in select([Cross(("a", "b"), 1.0)], encoding, dialect=dialect)


def test_without_crosses_the_log_stays_as_it_is():
    assert select([], Encoding((category_field("c"),), 1)) == 'SELECT *\nFROM "log"'


def test_crosses_of_another_dataset_are_refused():
    encoding = Encoding((category_field("C14"), category_field("C15")), 1)
    with pytest.raises(UserError, match="field `C51`, which the dataset does not have"):
        cross_expressions([Cross(("C14", "C51"), 1.0)], encoding)


def test_an_unknown_dialect_is_refused():
    with pytest.raises(UserError, match="`sparc`; did you mean `spark`[?] Known: ansi,"):
        select([], Encoding((category_field("c"),), 1), dialect="sparc")


def test_the_command_knows_every_dialect():
    parser = argparse.ArgumentParser()
    add_flags(parser)
    for dialect in DIALECTS:
        assert parser.parse_args(["run", "--dialect", dialect]).dialect == dialect


def test_a_dialect_without_sql_is_refused(cli, tmp_path):
    done = cli("crosses", tmp_path, "--dialect=spark")
    assert done.returncode == 2
    assert "--dialect: is for SQL; add --format sql." in done.stderr
