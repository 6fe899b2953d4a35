import csv
import datetime
import decimal
import io

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fives_tf.errors import UserError
from fives_tf.parsing import CATEGORY, Reject, parse_batch, parse_text
from fives_tf.schema import Schema
from fives_tf.scored_log import Scoring

NAMES = ("y", "n", "c", "d")
SIGNS = st.sampled_from("ab\"',;|\t \r\n#ä日\N{GRINNING FACE}\x00")


def schema(**changes):
    values = {"label": {"column": "y"}, "numeric": ["n"], "categorical": ["c", "d"]} | changes
    return Schema.parse(yaml.safe_dump(values))


def parse(data, first_row=0, first_line=1, **changes):
    return parse_text(data, NAMES, schema(**changes), first_row, first_line)


def categories(rows, name="c"):
    column = rows.batch.column(name)
    assert column.type == CATEGORY
    return column.to_pylist()


def numbers(rows):
    column = rows.batch.column("n")
    assert column.type == pa.float64()
    return column.to_pylist()


def good_rows(rows):
    """Label, number and categories of the good rows, and their row numbers."""
    assert rows.label.dtype == np.float32
    columns = (rows.label.tolist(), numbers(rows), categories(rows), categories(rows, "d"))
    return list(zip(*columns, strict=True)), rows.number.tolist()


def tables(values=None):
    values = st.text(SIGNS, max_size=6) if values is None else values
    number = st.just("") | st.floats(allow_nan=False).map(repr) | st.integers().map(str)
    row = st.tuples(st.sampled_from("01"), number, values, values)
    return st.lists(row, max_size=8)


def written(table, delimiter=",", quote='"', newline="\n", always=False):
    def cell(value):
        if not always and not {delimiter, quote, "\r", "\n"} & set(value):
            return value
        return quote + value.replace(quote, 2 * quote) + quote

    return "".join(delimiter.join(map(cell, row)) + newline for row in table)


def expected(records):
    return [(float(y), float(n) if n else None, c.encode(), d.encode()) for y, n, c, d in records]


@given(
    tables(),
    st.sampled_from([",", ";", "\t", "|", " "]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(['"', "'"]),
    st.booleans(),
)
@settings(deadline=None)
def test_text_is_read_as_the_csv_module_reads_it(table, delimiter, newline, quote, always):
    text = written(table, delimiter, quote, newline, always)
    dialect = {"delimiter": delimiter, "quotechar": quote}
    records = list(csv.reader(io.StringIO(text, newline=""), **dialect))
    assert records == [list(row) for row in table]
    rows = parse(text.encode(), first_row=7, delimiter=delimiter, quote=quote)
    assert good_rows(rows) == (expected(records), list(range(7, 7 + len(records))))
    assert rows.rejects == ()


@given(tables(st.text(st.sampled_from("a\"' ,ä"), max_size=4)))
@settings(deadline=None)
def test_without_a_quote_sign_quotes_are_text(table):
    data = "".join("\t".join(row) + "\n" for row in table).encode()
    rows = parse(data, format="tsv")
    assert good_rows(rows) == (expected(table), list(range(len(table))))


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\n\n"])
def test_the_last_record_may_lack_its_line_break(ending):
    assert categories(parse(b"1,2,a,b\n0,3,e,f" + ending)) == [b"a", b"e"]


@given(tables(st.text(st.sampled_from("a \t\x0b\x0cä\N{NO-BREAK SPACE}"), max_size=5)))
@settings(deadline=None)
def test_trim_removes_ascii_blanks_around_every_value(table):
    padded = [[f" {value}\t " for value in row] for row in table]
    rows = parse(written(padded).encode(), trim=True)
    stripped = [[v.strip(" \t\x0b\x0c") for v in row] for row in table]
    assert good_rows(rows)[0] == expected(stripped)


def test_trim_reaches_into_quotes_and_bytes_that_are_no_text():
    rows = parse(b'1,2," a ",\xff \n1,"3 ", a, \xff\n', trim=True)
    assert good_rows(rows)[0] == [(1.0, 2.0, b"a", b"\xff"), (1.0, 3.0, b"a", b"\xff")]


def test_without_trim_blanks_belong_to_the_value():
    rows = parse(b"1,2, a ,b\n 1,2,a,b\n1, 2,a,b\n")
    assert categories(rows) == [b" a "]
    assert [reject.line for reject in rows.rejects] == [2, 3]


def test_comment_lines_are_passed_over_and_lines_still_count():
    data = b"//head, of\n1,2,a,b\n//\n0,x,a,b\n// 1,2,a,b\n0,4,//a,b"
    rows = parse(data, first_row=5, first_line=10, comment="//")
    assert good_rows(rows) == ([(1.0, 2.0, b"a", b"b"), (0.0, 4.0, b"//a", b"b")], [6, 10])
    assert [reject.line for reject in rows.rejects] == [13]


def test_a_comment_sign_within_quotes_is_text():
    rows = parse(b'1,2,"a\n#b",c\n0,3,d,e\n', comment="#")
    assert categories(rows) == [b"a\n#b", b"d"]


def test_textual_missing_markers_of_a_number_become_null_and_numeric_ones_stay():
    rows = parse(b"1,NA,a,b\n1,-1,a,b\n1,,a,b\n1,-1.0,a,b\n1,?,a,b\n", missing=["NA", "-1", "?"])
    assert numbers(rows) == [None, -1.0, None, -1.0, None]
    assert rows.rejects == ()


def test_missing_markers_of_a_category_stay_as_they_are():
    rows = parse(b"1,2,NA,b\n1,2,,b\n1,2,-1,b\n", missing=["NA", "-1"])
    assert categories(rows) == [b"NA", b"", b"-1"]


@pytest.mark.parametrize(
    "text",
    ["NA", "x", "1 ", "1,5", "0x1f", "1_000", "--1", "1e", "\N{FULLWIDTH DIGIT FIVE}", "1\n"],
)
def test_a_number_that_cannot_be_read_is_rejected(text):
    line = f'1,"{text}",a,b'
    rows = parse(b"1,2,a,b\n" + line.encode() + b"\n1,3,a,b\n", missing=["null"])
    assert numbers(rows) == [2.0, 3.0]
    hint = "; set `trim: true`" if text.strip() == "1" else ""
    assert rows.rejects == (Reject(2, f"column `n` is {text!r}, expected a number{hint}", line),)


@pytest.mark.parametrize(
    ("text", "value"), [("+2", 2.0), (".5", 0.5), ("-0", 0.0), ("1E3", 1000.0), ("inf", np.inf)]
)
def test_other_spellings_of_numbers_are_read(text, value):
    assert numbers(parse(f"1,{text},a,b\n1,7,a,b\n".encode())) == [value, 7.0]


def test_a_number_beside_one_that_cannot_be_read_is_exact():
    assert numbers(parse(b"1,0.1,a,b\n1,x,a,b\n1,-1.7976931348623157e308,a,b\n")) == [
        0.1,
        -1.7976931348623157e308,
    ]


def test_an_unknown_label_is_rejected():
    label = {"column": "y", "positive": ["yes", "y"], "negative": "no"}
    rows = parse(b"yes,1,a,b\n1,2,a,b\nno,3,a,b\n,4,a,b\ny,5,a,b\nYES,6,a,b\n", label=label)
    assert rows.label.tolist() == [1.0, 0.0, 1.0]
    assert rows.number.tolist() == [0, 2, 4]
    reason = "label column `y` is {}, expected one of yes, y, no"
    assert rows.rejects == (
        Reject(2, reason.format("'1'"), "1,2,a,b"),
        Reject(4, reason.format("''"), ",4,a,b"),
        Reject(6, reason.format("'YES'"), "YES,6,a,b"),
    )


def test_a_record_with_too_few_or_too_many_values_is_rejected():
    rows = parse(b"1,2,a\n1,2,a,b\n1,2,a,b,e\nword\n0,3,e,f\n", first_row=10, first_line=100)
    assert good_rows(rows) == ([(1.0, 2.0, b"a", b"b"), (0.0, 3.0, b"e", b"f")], [11, 14])
    assert rows.rejects == (
        Reject(100, "has 3 columns, expected 4", "1,2,a"),
        Reject(102, "has 5 columns, expected 4", "1,2,a,b,e"),
        Reject(103, "has 1 columns, expected 4", "word"),
    )


def test_a_record_with_several_mistakes_is_rejected_once():
    rows = parse(b"2,x,a,b\n1,2,a,b\n")
    assert rows.rejects == (Reject(1, "column `n` is 'x', expected a number", "2,x,a,b"),)
    assert rows.number.tolist() == [1]


def test_a_block_of_nothing_but_bad_records_has_no_rows():
    rows = parse(b"1,2\n9,1,a,b\n1,x,a,b\n")
    assert good_rows(rows) == ([], [])
    assert [reject.line for reject in rows.rejects] == [1, 2, 3]


LINES = {
    "1,2,a,b": None,
    '0,3,"a\nb\n\nc","d,""e"""': None,
    '1,,"a\n",b': None,
    "": "blank",
    "1,x,a,b": "column `n` is 'x', expected a number",
    '1,x,"a\nb",b': "column `n` is 'x', expected a number",
    "2,1,a,b": "label column `y` is '2', expected one of 1, 0",
    '2,1,a,"\n\n"': "label column `y` is '2', expected one of 1, 0",
    "1,2,a": "has 3 columns, expected 4",
    '1,2,"a\nb",d,e': "has 5 columns, expected 4",
}


@given(
    st.lists(st.sampled_from(sorted(LINES)), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
@settings(deadline=None)
def test_rejects_tell_line_reason_and_text_whatever_stands_before(records, newline, closed):
    line, row, numbered, rejects = 50, 300, [], []
    for record in records:
        text, reason = record.replace("\n", newline), LINES[record]
        if reason is None:
            numbered.append(row)
        elif reason != "blank":
            rejects.append(Reject(line, reason, text))
        row += 1
        line += record.count("\n") + 1
    data = newline.join(record.replace("\n", newline) for record in records)
    rows = parse((data + newline * closed).encode(), first_row=300, first_line=50)
    assert rows.number.tolist() == numbered
    assert rows.rejects == tuple(rejects)


def test_a_quote_within_a_value_does_not_shift_the_lines_of_rejects():
    rows = parse(b'1,2,5",b\n1,2,a,b\n1,x,a,b\n0,3,6",7"\n9,3,a,b\n')
    assert categories(rows) == [b'5"', b"a", b'6"']
    assert [(reject.line, reject.text) for reject in rows.rejects] == [
        (3, "1,x,a,b"),
        (5, "9,3,a,b"),
    ]


@pytest.mark.parametrize("bom", [b"", "\N{BYTE ORDER MARK}".encode()])
def test_a_malformed_record_that_is_not_utf8_is_rejected_as_any_other(bom):
    data = bom + b'\xff,1\n\n1,2,\xe4,b\n1,"\xff\n",\r\n0,3,a,\xff\n\xff'
    rows = parse(data)
    assert good_rows(rows)[0] == [(1.0, 2.0, b"\xe4", b"b"), (0.0, 3.0, b"a", b"\xff")]
    assert rows.number.tolist() == [2, 4]
    assert [(reject.line, reject.reason) for reject in rows.rejects] == [
        (1, "has 2 columns, expected 4"),
        (4, "has 3 columns, expected 4"),
        (7, "has 1 columns, expected 4"),
    ]
    assert rows.rejects[1].text == '1,"\N{REPLACEMENT CHARACTER}\n",'


def test_bytes_that_are_not_utf8_are_categories_but_no_numbers_and_no_labels():
    rows = parse(b"1,2,\xff\xfe,b\n1,\xff,a,b\n\xff,3,a,b\n0,\xc3\xa4,a,b\n0,4,\xff,b\n")
    assert good_rows(rows) == (
        [(1.0, 2.0, b"\xff\xfe", b"b"), (0.0, 4.0, b"\xff", b"b")],
        [0, 4],
    )
    assert [(reject.line, reject.text) for reject in rows.rejects] == [
        (2, "1,\N{REPLACEMENT CHARACTER},a,b"),
        (3, "\N{REPLACEMENT CHARACTER},3,a,b"),
        (4, "0,ä,a,b"),
    ]


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n\r\n", b"# only a comment\n", b"\n#\n#"])
def test_an_empty_block_has_no_rows_but_its_columns(data):
    rows = parse(data, comment="#")
    assert good_rows(rows) == ([], [])
    assert rows.rejects == ()


def test_a_record_of_empty_values_is_not_taken_for_an_empty_line():
    rows = parse(b"\t\t\t\n", format="tsv")
    assert [(reject.line, reject.text) for reject in rows.rejects] == [(1, "\t\t\t")]


def test_columns_that_the_schema_does_not_use_are_left_out():
    changed = schema(categorical=["d"], drop=["c"])
    rows = parse_text(b"1,2,a,b\n", NAMES, changed, 0, 1)
    assert rows.batch.schema.names == ["n", "d"]


def test_the_column_of_the_split_is_kept():
    split = {"by": "hash", "key": "c"}
    rows = parse_text(b"1,2,a,b\n", NAMES, schema(categorical=["d"], split=split), 0, 1)
    assert rows.keys["c"].to_pylist() == [b"a"]
    assert rows.batch.schema.names == ["n", "d"]


@pytest.mark.parametrize(
    ("bound", "good", "bad"),
    [("20", b"21", b"soon"), ("20", b"21", b""), ("2024-01", b"2023", b"")],
)
def test_a_row_whose_time_cannot_be_compared_is_rejected(bound, good, bad):
    split = {"by": "time", "column": "c", "valid_from": bound}
    data = b"1,2,%s,b\n1,2,%s,b\n" % (good, bad)
    rows = parse_text(data, NAMES, schema(categorical=["d"], split=split), 0, 1)
    assert rows.keys["c"].to_pylist() == [good]
    [reject] = rows.rejects
    assert reject.reason == f"time `c` is {bad.decode()!r}, expected a time"


def read_batch(first_row=0, first_line=1, **columns):
    size = len(next(iter(columns.values())))
    values = {"y": ["1"] * size, "n": [1.0] * size, "c": ["a"] * size, "d": ["b"] * size}
    batch = pa.RecordBatch.from_pydict(values | columns)
    return parse_batch(batch, schema(), first_row, first_line)


DAY = datetime.date(2014, 10, 21)
CATEGORIES = {
    "int64": (pa.array([2**53 + 1, -3, None]), [b"9007199254740993", b"-3"]),
    "uint64": (pa.array([2**64 - 1, 0, None], pa.uint64()), [b"18446744073709551615", b"0"]),
    "int8": (pa.array([-1, 7, None], pa.int8()), [b"-1", b"7"]),
    "bool": (pa.array([True, False, None]), [b"true", b"false"]),
    "float64": (pa.array([0.1, 1.0, None]), [b"0.1", b"1"]),
    "float32": (pa.array([0.1, 2.5, None], pa.float32()), [b"0.1", b"2.5"]),
    "decimal": (pa.array([decimal.Decimal("1.50"), 7, None]), [b"1.50", b"7.00"]),
    "date": (pa.array([DAY, DAY, None]), [b"2014-10-21"] * 2),
    "string": (pa.array(["ä", "", None]), ["ä".encode(), b""]),
    "large_string": (pa.array(["ä", "", None], pa.large_string()), ["ä".encode(), b""]),
    "string_view": (pa.array(["ä", "", None], pa.string_view()), ["ä".encode(), b""]),
    "binary": (pa.array([b"\xff", b"", None]), [b"\xff", b""]),
    "large_binary": (pa.array([b"\xff", b"", None], pa.large_binary()), [b"\xff", b""]),
    "dictionary": (pa.array(["x", "y", None]).dictionary_encode(), [b"x", b"y"]),
    "dictionary of bytes": (pa.array([b"x", b"y", None]).dictionary_encode(), [b"x", b"y"]),
    "dictionary of numbers": (pa.array([7, 8, None]).dictionary_encode(), [b"7", b"8"]),
    "null": (pa.nulls(3), [b"", b""]),
}


@pytest.mark.parametrize(("values", "texts"), CATEGORIES.values(), ids=CATEGORIES)
def test_a_category_of_any_simple_type_is_its_text_and_empty_where_it_is_null(values, texts):
    assert categories(read_batch(c=values)) == [*texts, b""]


NUMBERS = {
    "int64": (pa.array([3, -(2**62), None]), [3.0, -(2.0**62)]),
    "uint8": (pa.array([0, 255, None], pa.uint8()), [0.0, 255.0]),
    "bool": (pa.array([True, False, None]), [1.0, 0.0]),
    "float32": (pa.array([0.5, -2, None], pa.float32()), [0.5, -2.0]),
    "decimal": (pa.array([decimal.Decimal("1.50"), decimal.Decimal(-2), None]), [1.5, -2.0]),
    "string": (pa.array(["0.1", "1e3", ""]), [0.1, 1000.0]),
    "large_string": (pa.array(["0.1", "", None], pa.large_string()), [0.1, None]),
    "string_view": (pa.array(["0.1", "", None], pa.string_view()), [0.1, None]),
    "binary": (pa.array([b"0.1", b"", None]), [0.1, None]),
    "dictionary": (pa.array(["7", "8", None]).dictionary_encode(), [7.0, 8.0]),
    "dictionary of numbers": (pa.array([7, 8, None]).dictionary_encode(), [7.0, 8.0]),
    "null": (pa.nulls(3), [None, None]),
}


@pytest.mark.parametrize(("values", "result"), NUMBERS.values(), ids=NUMBERS)
def test_a_number_of_any_simple_type_is_read(values, result):
    assert numbers(read_batch(n=values)) == [*result, None]


@pytest.mark.parametrize(
    "values",
    [pa.array(["7", "x"]), pa.array(["7", "x"], pa.large_string()), pa.array([b"7", b"x"])],
    ids=lambda values: str(values.type),
)
def test_text_in_a_batch_that_is_no_number_is_rejected_with_its_row(values):
    rows = read_batch(n=values, first_row=40, first_line=20)
    assert (numbers(rows), rows.number.tolist()) == ([7.0], [40])
    (reject,) = rows.rejects
    assert (reject.line, reject.reason) == (21, "column `n` is 'x', expected a number")
    assert "'c': 'a'" in reject.text


@pytest.mark.parametrize("name", ["c", "n", "y"])
@pytest.mark.parametrize(
    "values", [pa.array([[1], None]), pa.array([{"a": 1}, None])], ids=["list", "struct"]
)
def test_a_nested_column_is_refused_and_named(name, values):
    with pytest.raises(UserError) as caught:
        read_batch(**{name: values})
    assert str(caught.value).startswith(f"column `{name}` has the type {values.type}, which cannot")


def test_a_date_cannot_be_a_number():
    with pytest.raises(UserError) as caught:
        read_batch(n=pa.array([DAY]))
    assert str(caught.value).startswith("column `n` has the type date32[day], which cannot be ")


def test_labels_of_a_batch_are_compared_as_text():
    rows = read_batch(y=pa.array([1, 0, 2, None]), first_row=5)
    assert (rows.label.tolist(), rows.number.tolist()) == ([1.0, 0.0], [5, 6])
    assert [(r.line, r.reason) for r in rows.rejects] == [
        (3, "label column `y` is '2', expected one of 1, 0"),
        (4, "label column `y` is '', expected one of 1, 0"),
    ]
    assert read_batch(y=pa.array([1.0, 0.0])).label.tolist() == [1.0, 0.0]
    assert read_batch(y=pa.array(["1", "0"]).dictionary_encode()).label.tolist() == [1.0, 0.0]


def test_an_empty_batch_has_no_rows():
    assert good_rows(read_batch(c=pa.array([], pa.string()))) == ([], [])


@given(tables(st.text(SIGNS, max_size=4)))
@settings(deadline=None)
def test_text_and_batches_give_the_same_rows(table):
    columns = dict(zip(NAMES, zip(*table, strict=True), strict=True)) if table else {}
    batch = pa.RecordBatch.from_pydict(
        {n: pa.array(columns.get(n, ()), pa.string()) for n in NAMES}
    )
    from_batch = parse_batch(batch, schema(), 3, 1)
    from_text = parse(written(table).encode(), first_row=3)
    assert good_rows(from_batch) == good_rows(from_text)


def score(data, names=NAMES, keep=(), first_row=0, **changes):
    return parse_text(data, names, schema(**changes).for_scoring(Scoring(keep)), first_row, 1)


def test_rows_that_are_scored_keep_their_place_whatever_is_wrong_with_them():
    rows = score(b"1,2,a,b\n0,x,c,d\n\n1,2\n?,5,e,f\n", keep=("n", "d"), first_row=10)
    assert rows.number.tolist() == [10, 11, 13, 14]
    assert rows.bad.tolist() == [False, True, True, False]
    assert numbers(rows) == [2.0, None, None, 5.0]
    assert categories(rows) == [b"a", b"c", None, b"e"]
    kept = {name: values.to_pylist() for name, values in rows.kept.items()}
    assert kept == {"n": [b"2", b"x", None, b"5"], "d": [b"b", b"d", None, b"f"]}
    np.testing.assert_array_equal(rows.label, np.array([1, 0, np.nan, np.nan], np.float32))
    assert [reject.line for reject in rows.rejects] == [2, 4]


def test_rows_that_are_scored_need_neither_label_nor_time():
    split = {"by": "time", "column": "t", "valid_from": 3, "test_from": 4}
    rows = score(b"2,a,b,more\n", ("n", "c", "d", "new"), split=split)
    assert (rows.keys, rows.kept, rows.rejects) == ({}, {}, ())
    assert np.isnan(rows.label).tolist() == [True]
    assert numbers(rows) == [2.0]


def test_a_column_that_cannot_be_text_cannot_be_kept():
    columns = {"y": [1], "n": [1.5], "c": ["a"], "d": ["b"], "i": [[7]]}
    with pytest.raises(UserError) as caught:
        parse_batch(pa.record_batch(columns), schema().for_scoring(Scoring(("i",))), 0, 1)
    assert str(caught.value) == (
        "column `i` has the type list<item: int64>, which cannot be kept as text; leave it out or "
        "convert it."
    )


def test_a_feature_that_a_scored_file_lacks_is_not_in_the_batch():
    rows = score(b"1,a\n", ("y", "c"))
    assert rows.batch.schema.names == ["c"]


def test_kept_values_of_a_batch_are_text_and_null_stays_null():
    columns = {"y": [1, 0], "n": [1.5, None], "c": ["a", None], "d": ["b", "b"], "i": [7, None]}
    scored = schema().for_scoring(Scoring(("i", "c")))
    rows = parse_batch(pa.record_batch(columns), scored, 0, 1)
    kept = {name: values.to_pylist() for name, values in rows.kept.items()}
    assert kept == {"i": [b"7", None], "c": [b"a", None]}
    assert categories(rows) == [b"a", b""]
