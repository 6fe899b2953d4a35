import argparse
import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fives_tf.commands import schema as command
from fives_tf.errors import UserError
from fives_tf.infer import infer_schema, sample
from fives_tf.schema import Schema
from pipelines.sources import open_log

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("FIVES_DATA", ROOT.parent / "shared" / "data"))
RANDOM = np.random.default_rng(0)


def kinds(schema):
    """The names of the numeric, categorical and dropped columns."""
    numeric = [column.name for column in schema.columns if column.numeric]
    return numeric, [c.name for c in schema.columns if not c.numeric], list(schema.drop)


def note(text, name):
    """The comment that stands beside a column."""
    return next(line for line in text.splitlines() if line.startswith(f"  - {name} ")).split("# ")[
        1
    ]


@pytest.fixture
def write(tmp_path):
    """Writes a file and gives its path."""

    def write_file(content, name="log.csv"):
        path = tmp_path / name
        content = content.encode() if isinstance(content, str) else content
        if name.endswith(".gz"):
            content = gzip.compress(content)
        if name.endswith(".zst"):
            content = zstandard.compress(content)
        path.write_bytes(content)
        return str(path)

    return write_file


@pytest.fixture
def table(write):
    """Writes columns beside a label `click` of zeros and ones."""

    def write_table(name="log.csv", **columns):
        rows = len(next(iter(columns.values())))
        columns = {"click": [int(row % 4 == 0) for row in range(rows)], **columns}
        lines = [columns, *zip(*columns.values(), strict=True)]
        return write("".join(",".join(map(str, line)) + "\n" for line in lines), name)

    return write_table


@pytest.fixture
def guess(table):
    """The kind that one column of values gets, and the comment beside it."""

    def guess_kind(values, name="x"):
        other = ["ab"[row % 2] for row in range(len(values))]
        text = infer_schema([table(other=other, **{name: values})])
        numeric, categorical, drop = kinds(Schema.parse(text))
        found = {"numeric": numeric, "categorical": categorical, "drop": drop}
        return next(kind for kind, names in found.items() if name in names), note(text, name)

    return guess_kind


# Layout.


@pytest.mark.parametrize(
    ("name", "delimiter", "kind"),
    [
        ("log.csv", ",", "csv"),
        ("log.csv", ";", "csv"),
        ("log.csv.gz", "|", "csv"),
        ("log.csv.zst", ",", "csv"),
        ("log.tsv", "\t", "tsv"),
        ("log.data", "\t", "tsv"),
        ("log.data.gz", ";", "csv"),
        ("log", ",", "csv"),
    ],
)
def test_the_delimiter_is_found_whatever_the_ending_says(write, name, delimiter, kind):
    rows = [
        ("click", "age", "city"),
        *(("1" if i % 3 else "0", 20 + i * 7 % 31, "ab"[i % 2]) for i in range(30)),
    ]
    path = write("".join(delimiter.join(map(str, row)) + "\n" for row in rows), name)
    schema = Schema.parse(infer_schema([path]))
    assert (schema.format.kind, schema.format.delimiter) == (kind, delimiter)
    assert schema.format.header
    assert kinds(schema) == (["age"], ["city"], [])


def test_a_tsv_full_of_commas_is_cut_at_its_tabs(write):
    path = write("click\ttext\n" + "1\ta,b,c\n0\td,e,f\n" * 10, "log.tsv")
    assert Schema.parse(infer_schema([path])).format.delimiter == "\t"


def test_decimal_commas_do_not_beat_the_semicolon(write):
    path = write("click;a;b\n" + "1;1,5;x\n0;2,5;y\n" * 10)
    assert Schema.parse(infer_schema([path])).format.delimiter == ";"


def test_quotes_around_fields_switch_quoting_on_even_with_tabs(write):
    path = write('"click"\t"city"\n' + '"1"\t"a\tb"\n"0"\t"c"\n' * 10, "log.tsv")
    schema = Schema.parse(infer_schema([path]))
    assert schema.format.quote == '"'
    assert schema.label.column == "click"


@pytest.mark.parametrize(("name", "delimiter"), [("log.csv", ","), ("log.tsv", "\t")])
def test_quotes_within_fields_switch_quoting_off(write, name, delimiter):
    rows = [("click", "size"), *[("1", '5" pipe'), ("0", '6" pipe')] * 10]
    path = write("".join(delimiter.join(row) + "\n" for row in rows), name)
    assert Schema.parse(infer_schema([path])).format.quote is None


def test_without_any_quote_csv_has_quoting_on_and_tsv_off(write):
    csv, tsv = "click,a\n" + "1,x\n0,y\n" * 5, "click\ta\n" + "1\tx\n0\ty\n" * 5
    assert Schema.parse(infer_schema([write(csv)])).format.quote == '"'
    assert Schema.parse(infer_schema([write(tsv, "log.tsv")])).format.quote is None


def test_a_line_break_within_quotes_ends_no_row(write):
    path = write("click,text\n" + '1,"two\nlines"\n0,one\n' * 10)
    assert "20 rows" in infer_schema([path]).splitlines()[0]


def test_blanks_after_the_delimiter_are_trimmed(write):
    path = write(
        "click, city, age\n" + "".join(f"{i % 2}, {'xy'[i % 2]}, {i}\n" for i in range(40))
    )
    schema = Schema.parse(infer_schema([path]))
    assert schema.format.trim
    assert schema.label.column == "click"
    assert {"city", "age"} <= schema.used_columns() | set(schema.drop)


def test_a_comment_line_at_the_top_is_no_row(write):
    path = write("# made by hand, in a hurry, today\n" + "1,a\n0,b\n1,b\n" * 10)
    text = infer_schema([path])
    assert Schema.parse(text).format.comment == "#"
    assert "30 rows" in text.splitlines()[0]


def test_a_header_that_begins_with_a_comment_sign_is_a_header(write):
    schema = Schema.parse(infer_schema([write("#a,click\n" + "x,1\ny,0\n" * 10)]))
    assert schema.format.comment is None
    assert kinds(schema)[1] == ["#a"]


def test_a_byte_order_mark_is_not_part_of_the_first_name(write):
    path = write(b"\xef\xbb\xbfclick,a\n" + b"1,x\n0,y\n" * 10)
    assert Schema.parse(infer_schema([path])).label.column == "click"


def test_windows_line_ends_are_not_part_of_the_last_column(write):
    schema = Schema.parse(infer_schema([write("a,click\r\n" + "x,1\r\ny,0\r\n" * 10)]))
    assert schema.label == type(schema.label)("click", ("1",), ("0",))


def test_rows_of_another_width_are_counted_and_left_out(write):
    text = infer_schema([write("click,a\n" + "1,x\n0,y\n" * 10 + "1\n")])
    assert "another number of columns in the sample: 1." in text
    assert "20 rows" in text.splitlines()[0]


# Header.


@pytest.mark.parametrize(
    ("content", "header"),
    [
        ("click,a\n1,x\n0,y\n", True),
        ("1,x\n0,y\n1,y\n", False),
        ("yes,a\nno,b\nyes,b\nno,a\n", False),
        ("sold,colour\nyes,a\nno,b\nyes,b\nno,a\n", True),
        (",click,a\n0,1,x\n1,0,y\n", True),
        ("a,,c\n1,2,0\n1,2,1\n", False),
        ("a,?,no\nb,1,yes\nb,1,no\n", False),
    ],
)
def test_a_header_is_told_from_a_row(write, content, header):
    schema = Schema.parse(infer_schema([write(content)]))
    assert schema.format.header is header
    if not header:
        assert schema.format.columns[:2] == ("column_1", "column_2")


def test_without_a_header_the_user_is_asked_for_names(write):
    assert "replace these names" in infer_schema([write("1,x\n0,y\n" * 10)])


# Columns.


def test_measures_are_numeric_with_range_median_and_missing_rate(guess):
    kind, comment = guess([*range(-10, 5000), "", "NA"])
    assert kind == "numeric"
    assert comment == "-10 .. 4,999, median 2,494, 0.04 % missing"


def test_fractions_are_numeric_even_if_they_are_few(guess):
    assert guess([0.5, 1.5, 2.5] * 20)[0] == "numeric"


def test_few_integers_are_categorical_unless_they_look_like_counts(guess):
    kind, comment = guess([1, 3, 7] * 20)
    assert (kind, "codes" in comment) == ("categorical", True)
    counts = [number for number in range(7) for _ in range(2 ** (8 - number))]
    assert guess(counts)[0] == "numeric"


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (["00123", "00456", "10000", "20000"] * 20, "x"),
        ([f"{number:08}" for number in RANDOM.integers(0, 10**8, 50)] * 2, "x"),
        ([10**18 + int(number) for number in RANDOM.integers(0, 10**18, 50)] * 2, "x"),
        (RANDOM.integers(20, 90, 200), "shop_id"),
        (RANDOM.integers(20, 90, 200), "shopId"),
        (100_000 + RANDOM.integers(0, 200, 500), "x"),
        (RANDOM.choice(RANDOM.integers(0, 300_000, 300), 5000), "x"),
        ([*RANDOM.integers(10**8, 10**9, 500), 123_456_789, 123_456_789], "x"),
        (["7e5c2ff4", "05db9164", "12345678"] * 20, "x"),
    ],
)
def test_codes_are_categorical_though_they_look_like_numbers(guess, values, name):
    kind, comment = guess(list(values), name)
    assert kind == "categorical"
    assert "in the sample" in comment


@pytest.mark.parametrize(
    "values",
    [
        RANDOM.integers(17, 90, 300),
        np.exp(RANDOM.normal(7, 2, 5000)).astype(int) + 1,
        np.exp(RANDOM.normal(8, 0.5, 5000)).astype(int) // 100 * 100,
        np.where(RANDOM.random(5000) < 0.9, 0, RANDOM.choice([594, 3103, 5178, 7688, 15024], 5000)),
        np.where(RANDOM.random(5000) < 0.95, 999, RANDOM.integers(0, 27, 5000)),
        RANDOM.normal(180_000, 90_000, 5000).astype(int),
    ],
    ids=["ages", "skewed", "rounded", "mostly zero", "mostly a marker", "weights"],
)
def test_quantities_are_numeric_whatever_their_shape(guess, values):
    if len(np.unique(values)) <= 10:
        values = np.where(values == 0, 0, values + np.arange(len(values)) % 7)
    assert guess(values.tolist())[0] == "numeric"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["same"] * 30, "always same"),
        ([""] * 30, "always missing"),
        (range(100, 130), "row number"),
        ([f"user-{number}" for number in range(30)], "never repeats"),
        ([10**19 + 7 * number for number in range(30)], "never repeats"),
    ],
)
def test_columns_that_say_nothing_are_dropped_with_the_reason(guess, values, reason):
    kind, comment = guess(list(values))
    assert kind == "drop"
    assert reason in comment


@pytest.mark.parametrize("values", [["-5"], ["-5", "-5.0"], ["0"], ["3", "3.0", "4"]])
def test_one_number_spelled_in_several_ways_is_no_trouble(guess, values):
    assert guess([*values, "", ""])[0] in ("numeric", "categorical")


def test_a_value_that_is_at_times_missing_is_not_constant(guess):
    assert guess(["same", ""] * 15)[0] == "categorical"


def test_few_rows_do_not_make_an_id(guess):
    assert guess(["a", "b", "c", "d", "e"])[0] == "categorical"


def test_an_unnamed_first_column_is_dropped_under_its_empty_name(write):
    path = write(",click,a\n" + "".join(f"{i},{i % 2},{'xy'[i // 2 % 2]}\n" for i in range(30)))
    schema = Schema.parse(infer_schema([path]))
    assert schema.drop == ("",)
    assert open_log([path], schema)


def test_a_column_of_numbers_with_a_few_slips_is_numeric_and_says_so(guess):
    kind, comment = guess([*(number / 7 for number in range(500)), "oops"])
    assert kind == "numeric"
    assert "oops is no number" in comment


# Missing markers.


def test_markers_that_occur_are_listed_after_the_empty_one(table):
    text = infer_schema(
        [table(a=["x", "NA", "y", "?"] * 10, b=[1.5, "null", 2.5, "\\N"] * 10, c=["-", "z"] * 20)]
    )
    schema = Schema.parse(text)
    assert schema.columns[0].missing == ("", "NA", "null", "?", "\\N", "-")
    assert kinds(schema) == (["b"], ["a", "c"], [])
    assert note(text, "b").endswith("50 % missing")


def test_a_dash_among_numbers_makes_no_number_column_but_a_hint(guess):
    kind, comment = guess([1.5, 2.5, 3.5, "-"] * 20)
    assert kind == "categorical"
    assert "move it to numeric" in comment


def test_only_the_empty_text_is_missing_if_no_marker_occurs(table):
    schema = Schema.parse(infer_schema([table(a=["x", "y"] * 10)]))
    assert schema.columns[0].missing == ("",)


# Label.


@pytest.mark.parametrize("name", ["Click", "label", "TARGET", "is_click", "income"])
def test_the_label_is_known_by_its_name(write, name):
    path = write(f"a,{name},b\n" + "0,1,x\n1,0,y\n1,1,y\n" * 10)
    assert Schema.parse(infer_schema([path])).label.column == name


def test_click_goes_before_conversion_which_is_then_warned_of(write):
    text = infer_schema([write("conversion,click,b\n" + "0,1,x\n1,0,y\n" * 10)])
    assert Schema.parse(text).label.column == "click"
    assert "drop it if it is known only after the click" in note(text, "conversion")


def test_a_good_name_with_three_values_is_no_label(write):
    path = write("y,bought,b\n" + "0,1,x\n1,0,y\n2,0,z\n" * 10)
    assert Schema.parse(infer_schema([path])).label.column == "bought"


@pytest.mark.parametrize(
    ("header", "label"), [("a,b,c", "a"), ("c,b,a", "a")], ids=["first", "last"]
)
def test_the_first_or_the_last_column_of_two_values_is_the_label(write, header, label):
    values = {"a": "01", "b": "mf", "c": "xyz"}
    names = header.split(",")
    lines = [",".join(values[n][i % len(values[n])] for n in names) for i in range(30)]
    path = write("\n".join([header, *lines]) + "\n")
    assert Schema.parse(infer_schema([path])).label.column == label


def test_if_no_label_can_be_told_the_candidates_are_named(write):
    path = write("a,b,c\n" + "0,m,1\n1,f,0\n" * 10)
    with pytest.raises(UserError, match=r"--label.*`a`, `b`, `c`"):
        infer_schema([path])
    with pytest.raises(UserError, match="No column has exactly two values"):
        infer_schema([write("a,b\n" + "0,m\n1,f\n2,g\n" * 10)])


@pytest.mark.parametrize(
    ("positive", "negative"),
    [("1", "0"), ("yes", "no"), ("True", "False"), ("Y", "N"), ("click", "noclick"), ("1", "-1")],
)
def test_known_pairs_tell_which_value_is_a_click_even_if_it_is_common(write, positive, negative):
    path = write("label,b\n" + f"{positive},x\n{positive},y\n{negative},z\n" * 10)
    label = Schema.parse(infer_schema([path])).label
    assert (label.positive, label.negative) == ((positive,), (negative,))


def test_of_an_unknown_pair_the_rarer_value_is_a_click_and_a_comment_says_so(write):
    text = infer_schema([write("label,b\n" + "<=50K,x\n<=50K,y\n>50K,z\n" * 10)])
    label = Schema.parse(text).label
    assert (label.positive, label.negative) == ((">50K",), ("<=50K",))
    assert "The rarer value is taken as positive." in text


def test_a_given_label_is_taken(write):
    path = write("click,b,c\n" + "0,m,1\n1,f,0\n" * 10)
    assert Schema.parse(infer_schema([path], label="c")).label.column == "c"


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("clik", "did you mean `click`"),
        ("zzz", r"has no column `zzz`\. Its columns: click, many, one\."),
        ("many", r"12 in the first 24 rows: ('v\d+', ){10}\.\.\. *"),
        ("one", r"has 1 in the first 24 rows: 'k'.*--sample_rows"),
    ],
)
def test_a_label_that_cannot_be_one_is_refused(table, label, message):
    path = table(many=[f"v{i % 12}" for i in range(24)], one=["k"] * 24)
    with pytest.raises(UserError, match=message):
        infer_schema([path], label=label)


# Overrides, split, and the rest of the text.


def test_ids_without_bound_are_hashed_if_the_sample_is_large(table):
    ips = [f"ip{number}" for number in range(9_000)] + ["ip0"] * 1_000
    schema = Schema.parse(infer_schema([table(ip=ips, few=["a", "b"] * 5_000)]))
    assert {c.name: c.hash_buckets for c in schema.columns} == {"ip": 2**17, "few": None}
    schema = Schema.parse(infer_schema([table(ip=ips[1:], few=["a"] * 9_999)]))
    assert schema.columns[0].hash_buckets is None


@pytest.mark.parametrize(
    ("name", "values", "bounds"),
    [
        ("hour", [14102100 + i for i in range(100)], ("'14102179'", "'14102189'")),
        ("event_time", [f"2024-01-{i % 28 + 1:02}T00:00" for i in range(84)], ("2024-01-23", "26")),
        ("createdDate", ["2024-01-01", "2024-01-02"] * 20, ("'2024-01-02'", "'2024-01-02'")),
    ],
)
def test_a_time_is_not_a_field_but_a_split_by_it_is_shown(table, name, values, bounds):
    text = infer_schema([table(**{name: values, "a": ["x", "y"] * (len(values) // 2)})])
    assert kinds(Schema.parse(text)) == ([], ["a"], [name])
    shown = next(line for line in text.splitlines() if "by: time, column" in line)
    assert f"column: {name}" in shown
    assert all(bound in shown for bound in bounds)
    split = Schema.parse(text[: text.index("\nsplit:")] + "\n" + shown.lstrip("# ")).split
    assert (split.by, split.column) == ("time", name)


def test_a_time_that_does_not_change_in_the_sample_is_still_shown(table):
    text = infer_schema([table(hour=[14102100] * 40, a=["x", "y"] * 20)])
    assert "may change further on" in note(text, "hour")
    assert "by: time, column: hour" in text


def test_the_hour_of_a_day_is_a_number_like_others(table):
    text = infer_schema([table(hour=[i % 24 for i in range(200)], a=["x", "y"] * 100)])
    assert kinds(Schema.parse(text)) == (["hour"], ["a"], [])


def test_the_defaults_of_the_rest_are_written_out(table):
    text = infer_schema([table(a=["x", "y"] * 10)])
    schema = Schema.parse(text)
    assert (schema.split.by, schema.split.valid, schema.split.test) == ("random", 0.1, 0.1)
    for line in ("min_count: 5", "max_vocab: 1000000", "  kind: quantile", "  buckets: [10, 100]"):
        assert line in text.splitlines()
    assert all(f"by: {kind}" in text for kind in ("hash", "position", "time", "files"))
    assert "read it through and correct it" in text
    assert "fives preprocess" in text


def test_of_several_files_the_first_is_read_and_their_number_told(write):
    first = write("click,a\n" + "1,x\n0,y\n" * 10, "a.csv")
    second = write("this is another thing", "b.csv")
    text = infer_schema([first, second])
    assert text.splitlines()[0].endswith(f"{first}, the first of 2 files.")


@pytest.mark.parametrize(
    "name",
    ["<script>: #", "a: b", "- x", "yes", "1e3x", "{a}", "a'b", "#", "naïve ☃", "@x", "  s "],
)
def test_special_signs_in_names_survive(write, name):
    path = write(f"{name},click\n" + "x,1\ny,0\n" * 10)
    schema = Schema.parse(infer_schema([path]))
    assert name in [column.name for column in schema.columns]
    assert open_log([path], schema)


def test_special_signs_in_label_values_survive(write):
    path = write("label,b\n" + "'no: #',x\n'no: #',y\n\"{yes\",z\n" * 10, "log.csv")
    label = Schema.parse(infer_schema([path])).label
    assert (label.positive, label.negative) == (("{yes",), ("'no: #'",))


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.lists(st.text(max_size=8), min_size=2, max_size=6, unique=True),
    values=st.lists(st.text(max_size=6), min_size=2, max_size=5, unique=True),
)
def test_any_name_and_value_gives_a_schema_that_covers_the_file(tmp_path, names, values):
    rows = 30
    columns = {
        name: [values[(i + j) % len(values)] for i in range(rows)] for j, name in enumerate(names)
    }
    columns["the label"] = [i % 2 for i in range(rows)]
    columns["size"] = [i / 3 for i in range(rows)]
    path = str(tmp_path / "log.parquet")
    pq.write_table(pa.table(columns), path)
    schema = Schema.parse(infer_schema([path], label="the label"))
    assert schema.used_columns() | set(schema.drop) == set(columns)


# Parquet.


def test_parquet_types_are_understood(tmp_path):
    n = 100
    path = str(tmp_path / "log.parquet")
    columns = {
        "clicked": pa.array([i % 3 == 0 for i in range(n)]),
        "age": pa.array([20 + i % 50 if i % 10 else None for i in range(n)], pa.int32()),
        "price": pa.array([i / 7 for i in range(n)]),
        "city": pa.array([["a", "b", None][i % 3] for i in range(n)]).dictionary_encode(),
        "tags": pa.array([["x"]] * n),
        "at": pa.array([i * 10**15 for i in range(n)], pa.timestamp("ns")),
        "row": pa.array(range(n)),
    }
    pq.write_table(pa.table(columns), path, row_group_size=30)
    text = infer_schema([path])
    schema = Schema.parse(text)
    assert schema.format.kind == "parquet"
    assert schema.label == type(schema.label)("clicked", ("true",), ("false",))
    assert kinds(schema) == (["age", "price"], ["city"], ["tags", "at", "row"])
    assert note(text, "age") == "21 .. 69, median 45, 10 % missing"
    assert open_log([path], schema)


def test_parquet_is_known_by_its_content(tmp_path):
    path = tmp_path / "part-0"
    pq.write_table(pa.table({"click": [0, 1] * 10, "a": ["x", "y"] * 10}), path)
    assert Schema.parse(infer_schema([str(path)])).format.kind == "parquet"


# How much is read.


def test_no_more_rows_are_read_than_asked_for(table, tmp_path):
    path = table(a=["x", "y"] * 500)
    assert "from 100 rows" in infer_schema([path], sample_rows=100)
    pq.write_table(pa.table({"click": [0, 1] * 500, "a": ["x", "y"] * 500}), tmp_path / "l.parquet")
    assert "from 100 rows" in infer_schema([str(tmp_path / "l.parquet")], sample_rows=100)


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_no_more_bytes_are_read_than_set(table, monkeypatch, name):
    path = table(name=name, a=["some text", "of some length"] * 5000)
    monkeypatch.setattr(sample, "HEAD_BYTES", 5000)
    monkeypatch.setattr(sample, "SNIFF_BYTES", 1000)
    text = infer_schema([path])
    rows = int(text.split(" rows")[0].split()[-1].replace(",", ""))
    assert 200 < rows < 500
    assert "another number of columns" not in text


def test_a_sample_that_ends_within_quotes_is_cut_cleanly(write, monkeypatch):
    path = write("text,click\n" + '"a\nb\nc",1\n"d\ne\nf",0\n' * 200)
    monkeypatch.setattr(sample, "SNIFF_BYTES", 50)
    for size in range(200, 230):
        monkeypatch.setattr(sample, "HEAD_BYTES", size)
        schema = Schema.parse(infer_schema([path]))
        assert schema.label.positive == ("1",)


# Errors.


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "log.csv", "is empty"),
        (b"\n\n", "log.csv", "is empty"),
        (b"", "log.csv.gz", "is empty"),
        (b"click,a\n", "log.csv", "no rows"),
        (b"click,a\n1,x\0\n", "log.csv", "neither text nor Parquet"),
        (gzip.compress(b"click,a\n1,x\n", mtime=0), "log.csv", r"must end in \.gz"),
        (b"nonsense", "log.parquet", "is not a Parquet file"),
        (b"PAR1nonsense", "log.csv", "is not a Parquet file"),
        (b"PAR1nonsense", "log.parquet.gz", "decompress it first"),
        (b"one\ntwo\nthree\n", "log.csv", "comma nor tab"),
        (b"a,a,click\n1,2,0\n1,3,1\n", "log.csv", "`a` occurs twice"),
        (b"click,caf\xe9\n1,x\n0,y\n", "log.csv", "not UTF-8"),
        (b"click,a\n1,x\n0,x\n", "log.csv", "no column but the label"),
    ],
)
def test_a_file_that_is_no_log_is_refused_with_the_reason(write, content, name, message):
    path = write(content, name)
    with pytest.raises(UserError, match=message) as error:
        infer_schema([path])
    assert str(error.value).startswith(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        infer_schema([str(tmp_path / "none.csv")])


def test_a_file_that_is_not_what_its_ending_says_is_refused(tmp_path):
    path = tmp_path / "log.csv.gz"
    path.write_bytes(b"click,a\n1,x\n")
    with pytest.raises(UserError, match="cannot be decompressed"):
        infer_schema([str(path)])


def test_a_sample_of_no_rows_is_refused(table):
    with pytest.raises(UserError, match="--sample_rows"):
        infer_schema([table(a=["x", "y"])], sample_rows=0)


# The command.


def run(*argv):
    parser = argparse.ArgumentParser()
    command.add_flags(parser)
    command.run(parser.parse_args([str(item) for item in argv]))


def test_infer_prints_a_schema_and_nothing_else_on_standard_output(table, capsys):
    run("infer", table(a=["x", "y"] * 10))
    assert Schema.parse(capsys.readouterr().out).label.column == "click"


def test_infer_writes_a_file_once_and_says_what_is_next(table, tmp_path, capsys):
    log, out = table(a=["x", "y"] * 10), tmp_path / "schema.yaml"
    run("infer", log, "--out", out, "--sample_rows", 10)
    assert f"fives preprocess {log} --schema {out}" in capsys.readouterr().out
    assert "from 10 rows" in out.read_text()
    with pytest.raises(UserError, match="--overwrite"):
        run("infer", log, "--out", out)
    run("infer", log, "--out", out, "--overwrite")
    assert "from 20 rows" in out.read_text()


def test_check_shows_the_fields_and_compares_with_the_log(table, write, tmp_path, capsys):
    log, out = table(a=["x", "y"] * 10, b=[i / 3 for i in range(20)]), tmp_path / "schema.yaml"
    run("infer", log, "--out", out)
    capsys.readouterr()
    run("check", out)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert ["click", "label", "1 against 0"] in lines
    assert ["b", "numeric", "b@10, b@100"] in lines
    assert ["a", "categorical", "a"] in lines
    assert ["2 columns make 3 fields"] in lines
    run("check", out, log)
    assert "fit the schema" in capsys.readouterr().out
    with pytest.raises(UserError, match="has no column `b`"):
        run("check", out, write("click,a\n1,x\n", "other.csv"))


def test_check_names_a_column_of_the_split_once(table, tmp_path, capsys):
    out = tmp_path / "schema.yaml"
    out.write_text(
        "label: {column: click}\ncategorical: [a]\ndrop: [hour]\n"
        "split: {by: time, column: hour, valid_from: 3}\n"
    )
    run("check", out, table(a=["x", "y"] * 10, hour=[3] * 20))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("hour")] == ["hour\tsplit\t"]


def test_check_refuses_a_bad_schema(tmp_path):
    (tmp_path / "schema.yaml").write_text("label: {column: click}\ncategoricl: [a]\n")
    with pytest.raises(UserError, match="categorical"):
        run("check", tmp_path / "schema.yaml")


def test_the_command_is_imported_without_the_heavy_libraries():
    code = (
        "import sys, fives_tf.commands.schema; "
        "sys.exit(any(m in sys.modules for m in ('pyarrow', 'numpy', 'tensorflow', 'apache_beam')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# Real logs.

BANK_NUMERIC = """age duration campaign pdays previous emp.var.rate cons.price.idx cons.conf.idx
euribor3m nr.employed"""
BANK_CATEGORICAL = """job marital education default housing loan contact month day_of_week
poutcome"""


def infer_real(name, **options):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no {name} below FIVES_DATA")
    text = infer_schema([str(path)], **options)
    schema = Schema.parse(text)
    assert open_log([str(path)], schema)  # the schema accounts for every column
    return schema


def test_employee_has_only_ids():
    schema = infer_real("employee/train.csv.gz")
    assert schema.label == type(schema.label)("ACTION", ("1",), ("0",))
    numeric, categorical, drop = kinds(schema)
    assert (numeric, len(categorical), drop) == ([], 9, [])


def test_bank_has_ten_numbers_and_ten_categories():
    schema = infer_real("bank/bank-additional-full.csv.gz")
    assert (schema.format.delimiter, schema.format.quote) == (";", '"')
    assert schema.label == type(schema.label)("y", ("yes",), ("no",))
    assert kinds(schema) == (BANK_NUMERIC.split(), BANK_CATEGORICAL.split(), [])
    assert schema.columns[0].missing == ("", "unknown")


@pytest.mark.parametrize("rows", [2_000, 100_000])
def test_credit_has_ten_numbers_and_a_row_number(rows):
    schema = infer_real("credit/cs-training.csv.gz", sample_rows=rows)
    assert schema.label.column == "SeriousDlqin2yrs"
    assert schema.columns[0].missing == ("", "NA")
    numeric, categorical, drop = kinds(schema)
    assert drop == [""]
    if rows == 100_000:
        assert (len(numeric), categorical) == (10, [])


def test_avazu_has_only_codes():
    schema = infer_real("avazu/avazu_kaggle_small.csv.gz")
    assert schema.label.column == "click"
    numeric, categorical, drop = kinds(schema)
    assert (numeric, len(categorical), drop) == ([], 21, ["id", "hour"])


@pytest.mark.parametrize("name", ["criteo_kaggle_0p3pct", "criteo_kaggle_extra"])
def test_criteo_has_no_header_and_thirteen_numbers(name):
    schema = infer_real(f"criteo/{name}.tsv.gz", sample_rows=20_000)
    form = schema.format
    assert (form.kind, form.delimiter, form.header, form.quote) == ("tsv", "\t", False, None)
    assert len(form.columns) == 40
    assert schema.label == type(schema.label)("column_1", ("1",), ("0",))
    assert kinds(schema)[0] == [f"column_{number}" for number in range(2, 15)]
    assert kinds(schema)[2] == []


@pytest.mark.parametrize(
    ("name", "comment", "dot"), [("adult.data.gz", None, ""), ("adult.test.gz", "|", ".")]
)
def test_adult_has_no_header_blanks_and_question_marks(name, comment, dot):
    schema = infer_real(f"adult/{name}")
    form = schema.format
    assert (form.header, form.trim, form.comment, len(form.columns)) == (False, True, comment, 15)
    assert schema.label == type(schema.label)("column_15", (f">50K{dot}",), (f"<=50K{dot}",))
    assert schema.columns[0].missing == ("", "?")
    assert kinds(schema)[0] == [f"column_{number}" for number in (1, 3, 5, 11, 12, 13)]


def test_check_reads_the_first_rows_of_the_log(table, write, tmp_path, capsys):
    log, out = table(a=["x", "y"] * 10, b=[i / 3 for i in range(20)]), tmp_path / "schema.yaml"
    run("infer", log, "--out", out)
    with pytest.raises(UserError, match=r"(?s)20 of the first 20 rows are bad.*:2: label column"):
        run("check", out, write("click,a,b\n" + "yes,x,1\n" * 20, "other.csv"))
    capsys.readouterr()
    run("check", out, write("click,a,b\n" + "1,x,1\n" * 9 + "1,x,no\n", "one.csv"))
    shown = capsys.readouterr().out
    assert "the first 10 rows of 1 file fit the schema, but for 1:" in shown
    assert "one.csv:11: column `b` is 'no', expected a number" in shown


def test_a_few_odd_labels_are_said_to_be_bad_rows(write):
    log = write("click,a\n" + "1,x\n0,y\n" * 500 + "maybe,x\n", "log.csv")
    text = infer_schema([log])
    assert "Rows with any other value, such as maybe, will be bad rows." in text
    label = Schema.parse(text).label
    assert (label.positive, label.negative) == (("1",), ("0",))
