from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fives_tf.errors import UserError, nearest
from fives_tf.mapping import Mapping
from fives_tf.schema import Column, Discretize, Format, Label, Schema, SplitRule
from fives_tf.scored_log import Scoring

EXAMPLES = sorted(Path(__file__).parents[2].glob("fives_tf/bench/schemas/*.yaml"))
ODD_NAMES = [
    *("", " ", "a b", " a", "a ", "'", '"', "a: b", "a:", ":a", "#", "a #b", "-", "- a", "?", "~"),
    *("yes", "no", "null", "true", "1", "01", "1.0", "1e3", ".5", "0x1f", "1_000", "2014-10-21"),
    *("[a]", "{a}", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a`", "<<", "=", "\\t", "\t", "a\nb"),
    *("\n", "a\r\nb", "\N{LINE SEPARATOR}", "\N{BYTE ORDER MARK}", "\x00", "\x7f", "größe"),
    *("年龄", "\N{GRINNING FACE}", "a" * 150, "a b " * 60, "'\"" * 60),
]


def document(**changes):
    """The text of a small schema with some keys changed, or left out where None."""
    values = {"label": {"column": "y"}, "numeric": ["age"], "categorical": ["job"]} | changes
    kept = {key: value for key, value in values.items() if value is not None}
    return yaml.safe_dump(kept, sort_keys=False)


def parse(**changes):
    return Schema.parse(document(**changes), "log.yaml")


def refusal(text):
    with pytest.raises(UserError) as caught:
        Schema.parse(text, "log.yaml")
    return str(caught.value)


def column(schema, name):
    return next(column for column in schema.columns if column.name == name)


def test_a_small_schema_gets_the_defaults():
    assert parse() == Schema(
        format=Format("csv", True, (), ",", '"', None, False),
        label=Label("y", ("1",), ("0",)),
        columns=(
            Column("age", True, ("",), 5, Discretize("quantile", (10, 100), ()), None, None),
            Column("job", False, ("",), 5, None, 1_000_000, None),
        ),
        drop=(),
        split=SplitRule("random", 0.1, 0.1, 0),
    )


def test_every_key_is_read():
    text = """
        version: 1
        format: csv
        header: false
        columns: [y, age, job, city, id, user]
        delimiter: ";"
        quote: "'"
        comment: "//"
        trim: true
        label: {column: y, positive: [click, buy], negative: none}
        numeric: age
        categorical: [job, city]
        missing: ["", NA]
        min_count: 3
        max_vocab: 1_000
        discretize: {kind: width, buckets: [4, 8]}
        drop: id
        overrides:
          age: {missing: "-1", min_count: 2, discretize: {kind: log, buckets: 6}}
          job: {missing: ["?", ""], min_count: 1, max_vocab: 7}
          city: {hash_buckets: 64}
        split: {by: hash, key: user, valid: 0.2, test: 0, seed: 9}
    """
    assert Schema.parse(text) == Schema(
        format=Format(
            "csv", False, ("y", "age", "job", "city", "id", "user"), ";", "'", "//", True
        ),
        label=Label("y", ("click", "buy"), ("none",)),
        columns=(
            Column("age", True, ("", "-1"), 2, Discretize("log", (6,)), None, None),
            Column("job", False, ("", "?"), 1, None, 7, None),
            Column("city", False, ("", "NA"), 3, None, None, 64),
        ),
        drop=("id",),
        split=SplitRule("hash", 0.2, 0.0, 9, key="user"),
    )


def test_what_a_column_does_not_override_it_takes_from_the_top():
    schema = parse(
        missing=["NA"],
        min_count=3,
        max_vocab=11,
        discretize={"kind": "width", "buckets": [4]},
        overrides={"age": {"min_count": 1}, "job": {"missing": "?"}},
    )
    assert column(schema, "age") == Column("age", True, ("", "NA"), 1, Discretize("width", (4,)))
    assert column(schema, "job") == Column("job", False, ("", "?"), 3, None, 11)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, Discretize("quantile", (10, 100))),
        ({"buckets": 5}, Discretize("quantile", (5,))),
        ({"kind": "quantile", "buckets": [7, 30]}, Discretize("quantile", (7, 30))),
        ({"kind": "width"}, Discretize("width", (10, 100))),
        ({"kind": "log", "buckets": [2]}, Discretize("log", (2,))),
        ({"buckets": 5, "values": True}, Discretize("quantile", (5,), values=True)),
        (
            {"kind": "edges", "edges": [1, 2], "values": True},
            Discretize("edges", (), (1.0, 2.0), True),
        ),
        ({"kind": "edges", "edges": [-1.5, 0, 1e38]}, Discretize("edges", (), (-1.5, 0.0, 1e38))),
        ({"kind": "edges", "edges": 3}, Discretize("edges", (), (3.0,))),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["top", "override"])
def test_each_kind_of_discretize_is_read_at_the_top_and_for_a_column(written, expected, place):
    changes = {"discretize": written} if place == "top" else {}
    changes |= {"overrides": {"age": {"discretize": written}}} if place == "override" else {}
    assert column(parse(**changes), "age").discretize == expected


def test_a_column_can_turn_from_edges_at_the_top_to_buckets_and_back():
    edges = {"kind": "edges", "edges": [1, 2]}
    turned = parse(discretize=edges, overrides={"age": {"discretize": {"kind": "width"}}})
    assert column(turned, "age").discretize == Discretize("width", (10, 100))
    back = parse(discretize={"buckets": 3}, overrides={"age": {"discretize": edges}})
    assert column(back, "age").discretize == Discretize("edges", (), (1.0, 2.0))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, SplitRule("random", 0.1, 0.1)),
        ({"by": "random", "valid": 0.25, "test": 0, "seed": 3}, SplitRule("random", 0.25, 0.0, 3)),
        ({"by": "hash", "key": "job"}, SplitRule("hash", 0.1, 0.1, key="job")),
        ({"by": "position"}, SplitRule("position", 0.1, 0.1, valid_rows="last")),
        (
            {"by": "position", "valid_rows": "random", "test": 0.2},
            SplitRule("position", 0.1, 0.2, valid_rows="random"),
        ),
        (
            {"by": "time", "column": "day", "valid_from": "20", "test_from": "30"},
            SplitRule("time", None, None, column="day", valid_from="20", test_from="30"),
        ),
        (
            {"by": "time", "column": "day", "valid_from": "20"},
            SplitRule("time", None, None, column="day", valid_from="20"),
        ),
        (
            {"by": "files", "files": {"test": ["c", "d"], "train": "a*", "valid": "b"}},
            SplitRule(
                "files", None, None, files={"train": ("a*",), "valid": ("b",), "test": ("c", "d")}
            ),
        ),
        (
            {"by": "files", "files": {"train": "a"}, "valid": 0.3},
            SplitRule("files", 0.3, None, files={"train": ("a",)}),
        ),
        (
            {"by": "files", "files": {"train": "a"}},
            SplitRule("files", 0.1, files={"train": ("a",)}, test=None),
        ),
    ],
    ids=str,
)
def test_each_kind_of_split_is_read(written, expected):
    assert parse(split=written).split == expected


def test_a_split_knows_its_parts_and_the_columns_it_reads():
    assert parse().split.splits() == ("train", "valid", "test")
    assert parse(split={"test": 0}).split.splits() == ("train", "valid")
    by_time = {"by": "time", "column": "day", "valid_from": "1"}
    assert parse(split=by_time).split.splits() == ("train", "valid")
    assert parse(split=by_time | {"test_from": "2"}).split.splits() == ("train", "valid", "test")
    assert parse(split=by_time).used_columns() == {"y", "age", "job", "day"}
    files = {"train": "a", "test": "b"}
    assert parse(split={"by": "files", "files": files}).split.splits() == ("train", "valid", "test")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, Format()),
        ({"format": "tsv"}, Format("tsv", delimiter="\t", quote=None)),
        ({"format": "tsv", "quote": '"'}, Format("tsv", delimiter="\t", quote='"')),
        ({"format": "parquet"}, Format("parquet", quote=None)),
        ({"quote": False}, Format(quote=None)),
        ({"delimiter": "tab"}, Format(delimiter="\t")),
        ({"delimiter": "\\t"}, Format(delimiter="\t")),
        ({"delimiter": "\t"}, Format(delimiter="\t")),
        ({"delimiter": " "}, Format(delimiter=" ")),
        ({"header": True, "trim": True}, Format(trim=True)),
    ],
    ids=str,
)
def test_each_format_is_read(written, expected):
    assert parse(**written).format == expected


def test_fields_are_named_by_column_and_granularity():
    schema = parse(
        numeric=["age", "pay"],
        overrides={"pay": {"discretize": {"kind": "edges", "edges": [1]}}},
    )
    assert schema.field_names() == ("age@10", "age@100", "pay", "job")


def test_scalars_stay_text_as_written():
    schema = Schema.parse(
        """
        label: {column: yes, positive: [yes, 01, 1.0], negative: [no, 0, null]}
        numeric: [1, 1.0]
        categorical: [01, null, ~]
        missing: [NaN, -0, 1e3]
        drop: [true, 0x1f]
        split: {by: time, column: on, valid_from: 2014-10-21, test_from: 2014-10-30 00:00:00}
        """
    )
    assert schema.label == Label("yes", ("yes", "01", "1.0"), ("no", "0", "null"))
    assert [column.name for column in schema.columns] == ["1", "1.0", "01", "null", "~"]
    assert schema.columns[0].missing == ("", "NaN", "-0", "1e3")
    assert schema.drop == ("true", "0x1f")
    assert (schema.split.column, schema.split.valid_from) == ("on", "2014-10-21")
    assert schema.split.test_from == "2014-10-30 00:00:00"


def texts(smallest=0):
    signs = st.characters(exclude_categories=["Cs"], exclude_characters="\N{NEXT LINE}")
    text = st.sampled_from(ODD_NAMES) | st.text(signs, max_size=9)
    return st.lists(text, min_size=smallest, max_size=4, unique=True).map(tuple)


def missing():
    return texts().map(lambda markers: ("", *(marker for marker in markers if marker)))


def discretizes():
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    edges = st.lists(numbers, min_size=1, max_size=4, unique=True).map(sorted).map(tuple)
    buckets = st.lists(st.integers(2, 10**6), min_size=1, max_size=3, unique=True).map(tuple)
    return st.builds(
        Discretize, st.sampled_from(["quantile", "width", "log"]), buckets, values=st.booleans()
    ) | st.builds(Discretize, st.just("edges"), st.just(()), edges)


def columns(name, numeric):
    counts = st.integers(1, 10**9)
    if numeric:
        return st.builds(Column, st.just(name), st.just(True), missing(), counts, discretizes())
    plain = st.builds(Column, st.just(name), st.just(False), missing(), counts, st.none(), counts)
    hashed = st.builds(
        Column,
        *(st.just(name), st.just(False), missing(), counts, st.none(), st.none()),
        st.integers(2, 10**9),
    )
    return plain | hashed


def splits(name):
    seed = st.integers(0, 2**63)
    patterns = texts(smallest=1)
    parts = st.tuples(st.floats(0.001, 1), st.floats(0, 1)).filter(lambda part: sum(part) < 1)
    by_part = parts.flatmap(
        lambda part: st.sampled_from(
            [
                SplitRule("random", *part),
                SplitRule("hash", *part, key=name),
                SplitRule("position", *part, valid_rows="last"),
                SplitRule("position", *part, 5, valid_rows="random"),
            ]
        )
    )
    by_time = st.builds(
        SplitRule,
        *(st.just("time"), st.none(), st.none(), seed, st.none(), st.just(name)),
        *(st.sampled_from(["5", "2014-10-21"]), st.sampled_from([None, "60", "2014-10-30"])),
    )
    valid_file = st.fixed_dictionaries(
        {"train": patterns, "valid": patterns}, optional={"test": patterns}
    ).map(lambda files: SplitRule("files", None, None, files=files))
    valid_part = st.fixed_dictionaries({"train": patterns}, optional={"test": patterns}).map(
        lambda files: SplitRule("files", 0.5, None, files=files)
    )
    rising = by_time.filter(lambda rule: (rule.valid_from, rule.test_from) != ("5", "2014-10-30"))
    return by_part | rising | valid_file | valid_part


@st.composite
def schemas(draw):
    names = draw(st.lists(st.sampled_from(ODD_NAMES), min_size=3, max_size=9, unique=True))
    label, split_column, *features = names
    features += draw(texts())
    assume(len({label, split_column, *features}) == len(features) + 2)
    cut = draw(st.integers(0, len(features)))
    dropped = draw(st.integers(0, len(features) - 1))
    drop, kept = features[:dropped], features[dropped:]
    read = [draw(columns(name, numeric=index < cut)) for index, name in enumerate(kept)]
    values = draw(texts(smallest=2))
    cut = draw(st.integers(1, len(values) - 1))
    split = draw(splits(split_column))
    present = [label, *split.columns(), *features]
    form = Format("parquet", quote=None)
    if draw(st.booleans()):
        ascii_sign = st.characters(max_codepoint=127, exclude_characters="\r\n")
        header = draw(st.booleans())
        delimiter, quote = draw(st.lists(ascii_sign, min_size=2, max_size=2, unique=True))
        form = Format(
            kind=draw(st.sampled_from(["csv", "tsv"])),
            header=header,
            columns=() if header else tuple(draw(st.permutations(present))),
            delimiter=delimiter,
            quote=draw(st.sampled_from([None, quote])),
            comment=draw(st.none() | st.sampled_from(ODD_NAMES[1:])),
            trim=draw(st.booleans()),
        )
    schema = Schema(form, Label(label, values[:cut], values[cut:]), tuple(read), tuple(drop), split)
    assume(len(set(schema.field_names())) == len(schema.field_names()))
    return schema


@given(schemas())
@settings(deadline=None, max_examples=150)
def test_a_schema_written_as_yaml_is_read_back_equal(schema):
    assert Schema.parse(schema.to_yaml()) == schema


@pytest.mark.parametrize("name", [*ODD_NAMES, "\N{NEXT LINE}", "a\N{NEXT LINE}b"])
def test_every_name_survives_the_round_trip(name):
    column = Column(name, numeric=True, discretize=Discretize())
    schema = Schema(Format(), Label(f"{name}y", (name,)), (column,), (), SplitRule())
    assert Schema.parse(schema.to_yaml()) == schema


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_schemas_are_read_and_survive_the_round_trip(path):
    schema = Schema.load(path)
    assert Schema.parse(schema.to_yaml()) == schema


def test_an_empty_comment_sign_is_no_comment_sign():
    schema = parse(comment="")
    assert Schema.parse(schema.to_yaml()) == schema


def test_there_are_example_schemas():
    assert EXAMPLES


REFUSED = {
    "unknown key": (
        {"min_cuont": 3},
        "log.yaml: unknown key `min_cuont`; did you mean `min_count`? Known keys: version, ",
    ),
    "unknown key below label": (
        {"label": {"column": "y", "positiv": 1}},
        "log.yaml: label: unknown key `positiv`; did you mean `positive`? "
        "Known keys: column, positive, negative.",
    ),
    "version": (
        {"version": 2},
        "log.yaml: schema version 2 is not known to this program, which reads version 1.",
    ),
    "format": (
        {"format": "parqet"},
        "log.yaml: `format`: expected one of csv, tsv, parquet; did you mean `parquet`? "
        "Received: 'parqet'.",
    ),
    "label missing": (
        {"label": None},
        "log.yaml: label: the key `column` is missing; add it.",
    ),
    "label as a word": (
        {"label": "y"},
        "log.yaml: `label`: expected keys and values below it. Received: 'y'.",
    ),
    "label is a feature": (
        {"numeric": ["age", "y"]},
        "log.yaml: the label column `y` is also a feature; remove it from numeric and categorical,",
    ),
    "label value twice": (
        {"label": {"column": "y", "positive": ["1", "x"], "negative": ["x", "0"]}},
        "log.yaml: label: 'x' is listed as positive and as negative; remove one.",
    ),
    "label without values": (
        {"label": {"column": "y", "positive": []}},
        "log.yaml: label: `positive`: expected at least one value. Received: [].",
    ),
    "column twice": (
        {"categorical": ["job", "job"]},
        "log.yaml: the column `job` is named twice; remove one.",
    ),
    "column of both kinds": (
        {"categorical": ["age"]},
        "log.yaml: the column `age` is named twice; remove one.",
    ),
    "column read and dropped": (
        {"drop": ["age"]},
        "log.yaml: the column `age` is named twice; remove one.",
    ),
    "field twice": (
        {"categorical": ["age@10"], "discretize": {"buckets": 10}},
        "log.yaml: the field `age@10` is named twice; remove one.",
    ),
    "buckets twice": (
        {"discretize": {"buckets": [10, 10]}},
        "log.yaml: the field `age@10` is named twice; remove one.",
    ),
    "no header and no columns": (
        {"header": False},
        "log.yaml: `header: false` needs `columns`, the names of all columns in order.",
    ),
    "header and columns": (
        {"columns": ["y", "age", "job"]},
        "log.yaml: `columns` is for files without a header; set `header: false` or remove",
    ),
    "columns without the label": (
        {"header": False, "columns": ["age", "job"]},
        "log.yaml: columns: has no column `y`, which the schema names. Its columns: age, job.",
    ),
    "columns with one more": (
        {"header": False, "columns": ["y", "age", "job", "id"]},
        "log.yaml: columns: the schema says nothing about the column `id`; ",
    ),
    "delimiter of two": (
        {"delimiter": "::"},
        "log.yaml: `delimiter`: expected one ASCII character. Received: '::'.",
    ),
    "delimiter false": (
        {"delimiter": False},
        "log.yaml: `delimiter`: expected one ASCII character. Received: 'false'.",
    ),
    "delimiter beyond ASCII": (
        {"delimiter": "§"},
        "log.yaml: `delimiter`: expected one ASCII character. Received: '§'.",
    ),
    "delimiter is a line break": (
        {"delimiter": "\n"},
        "log.yaml: `delimiter`: expected one ASCII character. Received: '\\n'.",
    ),
    "quote of two": (
        {"quote": "''"},
        "log.yaml: `quote`: expected one ASCII character. Received: \"''\".",
    ),
    "header is no flag": (
        {"header": "maybe"},
        "log.yaml: `header`: expected true or false. Received: 'maybe'.",
    ),
    "quote in Parquet": (
        {"format": "parquet", "quote": "'"},
        "log.yaml: unknown key `quote`. Known keys: ",
    ),
    "edges fall": (
        {"discretize": {"kind": "edges", "edges": [2, 1]}},
        "log.yaml: discretize: `edges`: expected finite numbers in rising order. "
        "Received: [2.0, 1.0].",
    ),
    "edges alike": (
        {"discretize": {"kind": "edges", "edges": [1, 1]}},
        "log.yaml: discretize: `edges`: expected finite numbers in rising order. "
        "Received: [1.0, 1.0].",
    ),
    "edges without end": (
        {"discretize": {"kind": "edges", "edges": [1, "inf"]}},
        "log.yaml: discretize: `edges`: expected finite numbers in rising order. "
        "Received: [1.0, inf].",
    ),
    "edges are words": (
        {"discretize": {"kind": "edges", "edges": ["low"]}},
        "log.yaml: discretize: `edges`: expected a number. Received: 'low'.",
    ),
    "edges left out": (
        {"discretize": {"kind": "edges"}},
        "log.yaml: discretize: the key `edges` is missing; add it.",
    ),
    "edges without their kind": (
        {"discretize": {"edges": [1]}},
        "log.yaml: discretize: unknown key `edges`",
    ),
    "unknown kind": (
        {"discretize": {"kind": "widht"}},
        "log.yaml: discretize: `kind`: expected one of width, quantile, log, edges; "
        "did you mean `width`?",
    ),
    "one bucket": (
        {"discretize": {"buckets": 1}},
        "log.yaml: discretize: `buckets`: expected at least 2. Received: '1'.",
    ),
    "half a bucket": (
        {"discretize": {"buckets": 2.5}},
        "log.yaml: discretize: `buckets`: expected a whole number. Received: '2.5'.",
    ),
    "no bucket": (
        {"discretize": {"buckets": []}},
        "log.yaml: discretize: `buckets`: ",
    ),
    "no bucket for a column": (
        {"overrides": {"age": {"discretize": {"buckets": []}}}},
        "log.yaml: overrides: age: discretize: `buckets`: ",
    ),
    "min_count": (
        {"min_count": 0},
        "log.yaml: `min_count`: expected at least 1. Received: '0'.",
    ),
    "max_vocab": (
        {"max_vocab": "many"},
        "log.yaml: `max_vocab`: expected a whole number. Received: 'many'.",
    ),
    "one hash bucket": (
        {"overrides": {"job": {"hash_buckets": 1}}},
        "log.yaml: overrides: job: `hash_buckets`: expected at least 2. Received: '1'.",
    ),
    "hash buckets of a number": (
        {"overrides": {"age": {"hash_buckets": 8}}},
        "log.yaml: overrides: age: unknown key `hash_buckets`",
    ),
    "buckets of a category": (
        {"overrides": {"job": {"discretize": {"buckets": 8}}}},
        "log.yaml: overrides: job: unknown key `discretize`",
    ),
    "override of no feature": (
        {"overrides": {"jobs": {"min_count": 8}}},
        "log.yaml: overrides: unknown key `jobs`; did you mean `job`? Known keys: age, job.",
    ),
    "no feature": (
        {"numeric": None, "categorical": None},
        "log.yaml: no feature; list columns under numeric or categorical.",
    ),
    "valid is 0": (
        {"split": {"valid": 0}},
        "log.yaml: split: `valid` must be above 0 and `valid` + `test` below 1: ",
    ),
    "nothing left for train": (
        {"split": {"by": "position", "valid": 0.5, "test": 0.5}},
        "log.yaml: split: `valid` must be above 0 and `valid` + `test` below 1: ",
    ),
    "valid is negative": (
        {"split": {"valid": -0.1}},
        "log.yaml: split: `valid`: expected a number from 0 to 1. Received: '-0.1'.",
    ),
    "test is no number": (
        {"split": {"test": "nan"}},
        "log.yaml: split: `test`: expected a number from 0 to 1. Received: 'nan'.",
    ),
    "seed": (
        {"split": {"seed": -1}},
        "log.yaml: split: `seed`: expected at least 0. Received: '-1'.",
    ),
    "unknown split": (
        {"split": {"by": "file"}},
        "log.yaml: split: `by`: expected one of random, hash, position, time, files; "
        "did you mean `files`?",
    ),
    "hash without key": (
        {"split": {"by": "hash"}},
        "log.yaml: split: the key `key` is missing; add it.",
    ),
    "key without hash": (
        {"split": {"key": "job"}},
        "log.yaml: split: unknown key `key`",
    ),
    "valid_rows": (
        {"split": {"by": "position", "valid_rows": "first"}},
        "log.yaml: split: `valid_rows`: expected one of last, random",
    ),
    "time without column": (
        {"split": {"by": "time", "valid_from": "3"}},
        "log.yaml: split: the key `column` is missing; add it.",
    ),
    "time without valid_from": (
        {"split": {"by": "time", "column": "day"}},
        "log.yaml: split: the key `valid_from` is missing; add it.",
    ),
    "files without train": (
        {"split": {"by": "files", "files": {"valid": "b", "test": "c"}}},
        "log.yaml: split: files: the key `train` is missing; add its file patterns.",
    ),
    "files of an unknown split": (
        {"split": {"by": "files", "files": {"train": "a", "tset": "c"}}},
        "log.yaml: split: files: unknown key `tset`; did you mean `test`?",
    ),
    "all of train is valid": (
        {"split": {"by": "files", "files": {"train": "a"}, "valid": 1}},
        "log.yaml: split: `valid`: expected a part of train. Received: 1.0.",
    ),
    "a list of lists": (
        {"numeric": [["age"]]},
        "log.yaml: `numeric`: expected one value or a list of values. Received: [['age']].",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_a_mistake_meets_one_error_that_names_it(changes, message):
    assert refusal(document(**changes)).startswith(message)


def test_text_that_is_no_yaml_is_refused_with_its_line():
    message = refusal("label: {column: y\nnumeric: [age]")
    assert message.startswith("log.yaml: is not valid YAML: ")
    assert "line 2" in message


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "words"])
def test_a_schema_that_is_no_mapping_is_refused(text):
    assert refusal(text) == "log.yaml: expected a mapping of keys to values at the top level."


def test_a_schema_is_loaded_from_a_file_and_errors_name_it(tmp_path):
    path = tmp_path / "log.yaml"
    path.write_text(document(categorical=["größe"]), encoding="utf-8")
    assert Schema.load(path) == parse(categorical=["größe"])
    path.write_text(document(version=7))
    with pytest.raises(UserError) as caught:
        Schema.load(str(path))
    assert str(caught.value).startswith(f"{path}: schema version 7 ")


def test_a_file_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "log.yaml"
    path.write_bytes("label: {column: größe}".encode("latin-1"))
    with pytest.raises(UserError) as caught:
        Schema.load(path)
    assert str(caught.value) == f"{path}: is not UTF-8 text; save it as UTF-8."


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = tmp_path / "log.yaml"
    path.write_text(document(), encoding="utf-8-sig")
    assert Schema.load(path) == parse()


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    for path, reason in (
        (tmp_path / "no.yaml", "No such file or directory"),
        (tmp_path, "Is a dir"),
    ):
        with pytest.raises(UserError) as caught:
            Schema.load(path)
        assert str(caught.value).startswith(f"{path}: cannot be read ({reason}")


def check_refusal(*present):
    with pytest.raises(UserError) as caught:
        parse(drop=["id"]).check_columns(present, "a.csv")
    return str(caught.value)


def test_a_file_with_the_columns_of_the_schema_in_any_order_is_accepted():
    parse(drop=["id"]).check_columns(("id", "job", "y", "age"), "a.csv")


def test_a_file_without_a_column_is_refused_with_the_nearest_one():
    message = check_refusal("id", "y", "jobs", "age")
    assert message == (
        "a.csv: has no column `job`, which the schema names; did you mean `jobs`? "
        "Its columns: id, y, jobs, age."
    )


def test_a_dropped_column_must_be_there_too():
    assert check_refusal("y", "job", "age").startswith("a.csv: has no column `id`")


def test_a_column_that_the_schema_does_not_describe_is_refused():
    message = check_refusal("id", "y", "job", "age", "town")
    assert message == (
        "a.csv: the schema says nothing about the column `town`; "
        "list it under numeric, categorical or drop."
    )


def test_a_file_with_a_column_twice_is_refused():
    message = check_refusal("id", "y", "job", "age", "job")
    assert message == "a.csv: the column `job` occurs twice; rename one of them."


def test_the_column_of_the_split_must_be_there():
    schema = parse(split={"by": "hash", "key": "user"})
    schema.check_columns(("y", "age", "job", "user"), "a.csv")
    with pytest.raises(UserError, match="has no column `user`"):
        schema.check_columns(("y", "age", "job"), "a.csv")


def test_a_file_that_is_scored_needs_its_features_and_what_is_kept():
    schema = parse(drop=["id"], split={"by": "hash", "key": "user"})
    scored = schema.for_scoring(Scoring(("town",)))
    scored.check_columns(("job", "town", "age", "new", "new"), "a.csv")
    assert scored.used_columns() == {"y", "age", "job", "town"}
    with pytest.raises(UserError, match="has no column `age`, which the model reads"):
        scored.check_columns(("job", "town"), "a.csv")
    with pytest.raises(UserError, match="has no column `town` to keep"):
        scored.check_columns(("job", "age"), "a.csv")
    with pytest.raises(UserError, match="the column `job` occurs twice"):
        scored.check_columns(("job", "age", "town", "job"), "a.csv")


def test_a_file_that_is_scored_may_lack_features_if_that_is_allowed():
    scored = parse().for_scoring(Scoring(allow_missing=True))
    scored.check_columns(("job",), "a.csv")
    with pytest.raises(UserError, match="has none of the columns that the model reads"):
        scored.check_columns(("y",), "a.csv")


def test_a_mapping_converts_what_is_asked_for():
    mapping = Mapping.parse("{a: 1_000, b: [1, 2], c: TRUE, d: 1e-3, e: [a, b], f: x}", "place")
    assert mapping.integer("a") == 1000
    assert mapping.integers("b") == (1, 2)
    assert mapping.numbers("b") == (1.0, 2.0)
    assert mapping.flag("c") is True
    assert mapping.number("d") == 0.001
    assert mapping.texts("e") == ("a", "b")
    assert mapping.texts("f") == ("x",)
    assert mapping.keys() == list("abcdef")
    assert "a" in mapping
    assert "g" not in mapping
    assert mapping.mapping("g").keys() == []
    mapping.finish()


@pytest.mark.parametrize(
    "kind", ["text", "flag", "integer", "integers", "number", "numbers", "texts"]
)
def test_a_mapping_gives_the_default_or_asks_for_the_key(kind):
    default = object()
    assert getattr(Mapping({}, "place"), kind)("a", default) is default
    with pytest.raises(UserError) as caught:
        getattr(Mapping({}, "place"), kind)("a")
    assert str(caught.value) == "place: the key `a` is missing; add it."


def test_a_mapping_refuses_a_list_where_one_value_belongs():
    with pytest.raises(UserError) as caught:
        Mapping.parse("a: [1, 2]", "place").integer("a")
    assert str(caught.value) == "place: `a`: expected a single value. Received: ['1', '2']."


def test_a_mapping_reads_an_empty_part_as_no_keys():
    assert Mapping.parse("a:\nb: 1", "place").mapping("a").keys() == []


def test_a_hint_is_given_only_for_a_near_word():
    assert nearest("min_cont", ["min_count", "missing"]) == "; did you mean `min_count`?"
    assert nearest("zzz", ["min_count", "missing"]) == "."
