import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fives_tf import storage
from fives_tf.dataset import Dataset
from fives_tf.encoding import Encoding, HashField
from fives_tf.errors import UserError
from fives_tf.schema import Schema
from fives_tf.splitting import Splitter
from fives_tf.synth import SynthConfig, generate
from pipelines import fit_encoding, runner
from pipelines.pieces import plan_pieces, scan_range, text_ranges
from pipelines.preprocess import Options, preprocess
from pipelines.sources import open_log, read_blocks

ONE_WORKER = runner.pipeline_options([], workers=1)

TINY_SCHEMA = """
label: {column: click}
numeric: [age]
categorical: [city]
discretize: {kind: width, buckets: [4]}
min_count: 1
split: {by: position, valid: 0.25, test: 0.25}
"""


def options(**changes) -> Options:
    return Options(**{"piece_bytes": 100_000, "beam": ONE_WORKER, **changes})


def tiny_log(path: Path, rows: list[str]) -> str:
    path.write_text("click,age,city\n" + "".join(row + "\n" for row in rows))
    return str(path)


def records(dataset: Dataset, split: str) -> list[tuple]:
    """The rows of a split in the order of its files."""
    return [
        (*ids.tolist(), float(label))
        for batch in dataset.read(split, batch=1000).as_numpy_iterator()
        for ids, label in zip(*batch, strict=True)
    ]


def test_the_dataset_holds_every_row_of_the_log_once(log_directory, log_schema, tmp_path):
    log = str(log_directory / "log.csv")
    dataset = preprocess([log], log_schema, str(tmp_path / "d"), options())
    encoding = dataset.encoding

    expected: dict[int, list] = {0: [], 1: [], 2: []}
    files = open_log([log], log_schema)
    [whole] = text_ranges(files, log_schema.format, 1 << 30)
    scans = {whole: scan_range(whole, files, log_schema.format, 1 << 30)}
    [piece], total = plan_pieces(files, log_schema.format, scans)
    [block] = read_blocks(piece, log_schema, 1 << 30)
    codes = Splitter(log_schema.split, total).assign(block.rows.number, block.rows.batch, "train")
    for code, ids, label in zip(
        codes, encoding.encode(block.rows.batch), block.rows.label, strict=True
    ):
        expected[code].append((*ids.tolist(), float(label)))

    assert total == 20_000
    for code, split in enumerate(("train", "valid", "test")):
        assert sorted(records(dataset, split)) == sorted(expected[code])
        assert dataset.split(split).rows == len(expected[code])
        assert dataset.split(split).clicks == sum(row[-1] for row in expected[code])


def test_ids_are_those_of_the_raw_text(log_directory, log_schema, tmp_path):
    """Follows categories by hand, from the csv module to the records."""
    dataset = preprocess(
        [str(log_directory / "log.csv")], log_schema, str(tmp_path / "d"), options()
    )
    encoding = dataset.encoding
    position = [field.name for field in encoding.fields].index("C2")
    field, offset = encoding.fields[position], encoding.offsets[position]
    known = {value.as_py().decode(): 2 + i for i, value in enumerate(field.values)}
    with open(log_directory / "log.csv", newline="") as file:
        raw = [row["C2"] for row in csv.DictReader(file)]
    expected = [offset + (0 if text == "" else known.get(text, 1)) for text in raw]
    found = [row[position] for split in dataset.splits for row in records(dataset, split)]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("workers", "worker_kind"), [(2, "threads"), (2, "processes")], ids=["threads", "processes"]
)
def test_the_dataset_does_not_depend_on_the_workers(
    workers, worker_kind, log_directory, log_schema, files_of, tmp_path
):
    log = str(log_directory / "log.csv")
    preprocess([log], log_schema, str(tmp_path / "one"), options())
    many = runner.pipeline_options([], workers=workers, worker_kind=worker_kind)
    preprocess([log], log_schema, str(tmp_path / "many"), options(beam=many))
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")


def test_sketched_columns_do_not_depend_on_the_workers(
    log_directory, log_schema, files_of, tmp_path, monkeypatch
):
    monkeypatch.setattr("fives_tf.fitting.EXACT_VALUES", 20)
    monkeypatch.setattr("pipelines.fit_encoding.MERGED_AT_ONCE", 3)
    for name, workers in (("one", 1), ("four", 4)):
        beam = runner.pipeline_options([], workers=workers)
        preprocess(
            [str(log_directory / "log.csv")], log_schema, str(tmp_path / name), options(beam=beam)
        )
    assert files_of(tmp_path / "one") == files_of(tmp_path / "four")


@pytest.mark.parametrize("ending", ["csv.gz", "csv.zst", "tsv", "parquet"])
def test_every_format_gives_the_same_records(ending, tmp_path):
    config = SynthConfig(rows=3000, fields=14, numeric=4, seed=3)
    kind, _, compression = ending.partition(".")
    generate(config, tmp_path / "csv")
    generate(config, tmp_path / "other", kind, compression or None)
    datasets = [
        preprocess(
            [str(next((tmp_path / name).glob("log.*")))],
            Schema.load(tmp_path / name / "schema.yaml"),
            str(tmp_path / f"{name}-dataset"),
            options(piece_bytes=50_000),
        )
        for name in ("csv", "other")
    ]
    for split in ("train", "valid", "test"):
        assert [d.split(split).rows for d in datasets] == [datasets[0].split(split).rows] * 2
        if kind == "tsv":  # its values have no quotes, so other ids may be equally frequent
            continue
        assert records(datasets[0], split) == records(datasets[1], split)


def test_several_files_are_one_log(tmp_path):
    rows = [f"{i % 2},{i},c{i % 3}" for i in range(40)]
    whole = tiny_log(tmp_path / "whole.csv", rows)
    tiny_log(tmp_path / "part-1.csv", rows[:17])
    tiny_log(tmp_path / "part-2.csv", rows[17:])
    schema = Schema.parse(TINY_SCHEMA)
    one = preprocess([whole], schema, str(tmp_path / "one"), options())
    two = preprocess([str(tmp_path / "part-*.csv")], schema, str(tmp_path / "two"), options())
    assert [records(one, s) for s in one.splits] == [records(two, s) for s in two.splits]


def test_shards_can_be_chosen_and_compressed(log_directory, log_schema, tmp_path):
    shards = {"train": 5, "valid": 2}
    log = [str(log_directory / "log.csv")]
    plain = preprocess(log, log_schema, str(tmp_path / "p"), options(shards=shards))
    packed = preprocess(log, log_schema, str(tmp_path / "z"), options(shards=shards, gzip=True))
    assert [len(split.shards) for split in plain.splits.values()] == [5, 2, 1]
    assert packed.split("train").shards[0].file == "train/part-00000-of-00005.tfrecord.gz"
    assert records(packed, "train") == records(plain, "train")
    sizes = [sum(shard.bytes for shard in d.split("train").shards) for d in (packed, plain)]
    assert sizes[0] < sizes[1]
    rows = [shard.rows for shard in plain.split("train").shards]
    assert max(rows) < 1.2 * min(rows)


def test_rows_are_shuffled_across_shards(tmp_path):
    log = tiny_log(tmp_path / "log.csv", [f"{int(i >= 2000)},{i},x" for i in range(4000)])
    schema = Schema.parse(TINY_SCHEMA.replace("by: position", "by: random"))
    dataset = preprocess([log], schema, str(tmp_path / "d"), options(shards={"train": 2}))
    labels = [row[-1] for row in records(dataset, "train")]
    # Sorted by time the first half of the log has no click; shuffled, every stretch has some.
    for start in range(0, len(labels) - 100, 100):
        assert 20 < sum(labels[start : start + 100]) < 80


def test_nothing_is_fitted_on_the_test_rows(tmp_path):
    schema = Schema.parse(TINY_SCHEMA)
    rows = [f"{i % 2},{i % 10},c{i % 3}" for i in range(30)]
    encodings = []
    for name, last in (("same", "0,5,c1"), ("other", "0,1000000,only-in-test")):
        log = tiny_log(tmp_path / f"{name}.csv", [*rows, *[last] * 10])
        encodings.append(preprocess([log], schema, str(tmp_path / name), options()).encoding)
    assert encodings[0].to_files() == encodings[1].to_files()
    assert encodings[0].rows == 30


def test_counts_add_up(log_directory, log_schema, tmp_path):
    dataset = preprocess(
        [str(log_directory / "log.csv")], log_schema, str(tmp_path / "d"), options()
    )
    encoding = dataset.encoding
    assert encoding.rows == dataset.split("train").rows + dataset.split("valid").rows
    rows = np.array(records(dataset, "train") + records(dataset, "valid"))
    for index, (field, offset) in enumerate(zip(encoding.fields, encoding.offsets, strict=True)):
        counts = np.bincount(rows[:, index].astype(int) - offset, minlength=field.size)
        fitted = [field.missing_count, field.rare_count, *field.counts.tolist()]
        if field.column == "I3":  # continuous, so the counts of its buckets are estimates
            np.testing.assert_allclose(counts, fitted, atol=0.002 * len(rows))
        else:
            assert counts.tolist() == fitted


def test_bad_rows_are_set_aside_with_their_place(tmp_path):
    rows = [f"{i % 2},{i},c" for i in range(60)]
    rows[10] = "1,abc,c"
    rows[20] = "1,2"
    rows[30] = "7,3,c"
    log = tiny_log(tmp_path / "log.csv", rows)
    dataset = preprocess(
        [log],
        Schema.parse(TINY_SCHEMA),
        str(tmp_path / "d"),
        options(max_bad_fraction=0.1, piece_bytes=64),
    )
    assert sum(split.rows for split in dataset.splits.values()) == 57
    assert dataset.manifest["rejected"] == 3
    lines = [
        json.loads(line)
        for path in sorted((tmp_path / "d/rejected").iterdir())
        for line in path.read_text().splitlines()
    ]
    assert [(line["file"], line["line"], line["text"]) for line in lines] == [
        (log, 12, "1,abc,c"),
        (log, 22, "1,2"),
        (log, 32, "7,3,c"),
    ]
    assert "column `age` is 'abc', expected a number" in lines[0]["reason"]
    assert "has 2 columns, expected 3" in lines[1]["reason"]
    assert "label column `click` is '7', expected one of 1, 0" in lines[2]["reason"]


def test_too_many_bad_rows_stop_the_run_and_can_be_allowed_later(tmp_path):
    log = tiny_log(tmp_path / "log.csv", [f"{i % 3},{i},c" for i in range(30)])
    schema = Schema.parse(TINY_SCHEMA)
    with pytest.raises(UserError) as error:
        preprocess([log], schema, str(tmp_path / "d"), options())
    assert "10 of 30 rows are bad, more than --max_bad_fraction=0.001" in str(error.value)
    assert f"{log}:4: label column `click` is '2', expected one of 1, 0" in str(error.value)
    allowed = options(max_bad_fraction=0.5, resume=True)
    dataset = preprocess([log], schema, str(tmp_path / "d"), allowed)
    assert dataset.manifest["rejected"] == 10


def test_a_log_without_a_good_row_is_one_clear_error(tmp_path):
    log = tiny_log(tmp_path / "log.csv", ["yes,1,c"] * 30)
    schema = Schema.parse(TINY_SCHEMA)
    with pytest.raises(UserError, match="30 of 30 rows are bad, so that none is left"):
        preprocess([log], schema, str(tmp_path / "d"), options(max_bad_fraction=1.0))
    log = tiny_log(tmp_path / "blank.csv", [""] * 30)
    with pytest.raises(UserError, match="the log has no row, only empty lines"):
        preprocess([log], schema, str(tmp_path / "blank"), options())


def test_hashed_columns_need_no_vocabulary(tmp_path):
    log = tiny_log(
        tmp_path / "log.csv", [f"{i % 2},{i},{'' if i % 4 == 0 else i}" for i in range(80)]
    )
    schema = Schema.parse(TINY_SCHEMA + "overrides: {city: {hash_buckets: 10}}\n")
    dataset = preprocess([log], schema, str(tmp_path / "d"), options())
    field = dataset.encoding.fields[1]
    assert isinstance(field, HashField)
    assert field.size == 12
    assert field.missing_count == 15  # of the 60 rows outside the test split
    assert not (tmp_path / "d/vocab").exists()


def test_max_vocab_keeps_the_most_frequent(tmp_path):
    cities = ["a"] * 5 + ["b"] * 9 + ["c"] * 3 + ["d"] * 3
    log = tiny_log(tmp_path / "log.csv", [f"{i % 2},1,{c}" for i, c in enumerate(cities * 2)])
    schema = Schema.parse(TINY_SCHEMA.replace("by: position", "by: random") + "max_vocab: 3\n")
    dataset = preprocess([log], schema, str(tmp_path / "d"), options())
    field = dataset.encoding.fields[1]
    assert field.values.to_pylist()[:2] == [b"b", b"a"]
    assert len(field.values) == 3
    assert field.rare_count > 0


def test_more_distinct_values_than_can_be_counted_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(fit_encoding, "PARTS", 1)
    monkeypatch.setattr(fit_encoding, "LEAST_COUNTED", 1)
    log = tiny_log(tmp_path / "log.csv", [f"{i % 2},1,{i}" for i in range(1000)])
    with pytest.raises(
        UserError, match="column `city` has more than 160 distinct values.*`hash_buckets`"
    ):
        preprocess(
            [log], Schema.parse(TINY_SCHEMA + "max_vocab: 10\n"), str(tmp_path / "d"), options()
        )


def test_a_column_that_is_always_missing_is_no_problem(tmp_path):
    table = pa.table(
        {
            "click": pa.array([i % 2 for i in range(40)]),
            "age": pa.array([None] * 40, pa.float64()),
            "city": pa.array([None] * 40, pa.string()),
        }
    )
    pa.parquet.write_table(table, tmp_path / "log.parquet")
    schema = Schema.parse("format: parquet\n" + TINY_SCHEMA)
    dataset = preprocess([str(tmp_path / "log.parquet")], schema, str(tmp_path / "d"), options())
    assert {row[:2] for row in records(dataset, "train")} == {(0, dataset.encoding.offsets[1])}
    assert [field.missing_count for field in dataset.encoding.fields] == [30, 30]


def test_a_finished_dataset_is_kept_unless_told_otherwise(log_directory, log_schema, tmp_path):
    arguments = [str(log_directory / "log.csv")], log_schema, str(tmp_path / "d")
    preprocess(*arguments, options())
    with pytest.raises(UserError, match="holds a complete dataset.*--overwrite"):
        preprocess(*arguments, options())
    before = (tmp_path / "d/dataset.json").stat().st_mtime_ns
    preprocess(*arguments, options(resume=True))
    assert (tmp_path / "d/dataset.json").stat().st_mtime_ns == before
    preprocess(*arguments, options(overwrite=True, shards={"train": 1}))
    assert len(list((tmp_path / "d/train").iterdir())) == 1


def test_a_run_is_not_resumed_with_other_inputs_or_another_schema(tmp_path):
    log = tiny_log(tmp_path / "log.csv", [f"{i % 3},{i},c" for i in range(30)])
    schema = Schema.parse(TINY_SCHEMA)
    with pytest.raises(UserError, match="rows are bad"):
        preprocess([log], schema, str(tmp_path / "d"), options())
    with pytest.raises(UserError, match="holds an unfinished run.*--resume"):
        preprocess([log], schema, str(tmp_path / "d"), options())
    other = Schema.parse(TINY_SCHEMA.replace("min_count: 1", "min_count: 2"))
    with pytest.raises(UserError, match="the schema changed since"):
        preprocess([log], other, str(tmp_path / "d"), options(resume=True))
    tiny_log(tmp_path / "log.csv", [f"{i % 2},{i},c" for i in range(30)])
    with pytest.raises(UserError, match="the inputs changed since"):
        preprocess([log], schema, str(tmp_path / "d"), options(resume=True))
    assert preprocess([log], schema, str(tmp_path / "d"), options(overwrite=True)).splits


def test_an_unfinished_directory_is_refused_by_readers(tmp_path):
    log = tiny_log(tmp_path / "log.csv", ["5,1,c"] * 10)
    with pytest.raises(UserError, match="rows are bad"):
        preprocess([log], Schema.parse(TINY_SCHEMA), str(tmp_path / "d"), options())
    with pytest.raises(UserError, match="unfinished.*--resume.*--overwrite"):
        Dataset.open(str(tmp_path / "d"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty, expected a header"),
        ("click,age,city\n", "no row to read"),
        ("click,age,town\n1,2,c\n", "has no column `city`"),
        ("click,age,city,zip\n1,2,c,9\n", "says nothing about the column `zip`"),
        ("click,age,city,city\n1,2,c,9\n", "the column `city` occurs twice"),
    ],
)
def test_a_log_that_does_not_fit_the_schema_is_one_clear_error(content, message, tmp_path):
    (tmp_path / "log.csv").write_text(content)
    with pytest.raises(UserError, match=message):
        preprocess(
            [str(tmp_path / "log.csv")], Schema.parse(TINY_SCHEMA), str(tmp_path / "d"), options()
        )


def test_a_cut_off_compressed_file_is_one_clear_error(tmp_path):
    generate(SynthConfig(rows=2000, fields=6, numeric=2, plant=()), tmp_path, "csv", "gz")
    log = tmp_path / "log.csv.gz"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    with pytest.raises(UserError, match="cannot be decompressed"):
        preprocess(
            [str(log)], Schema.load(tmp_path / "schema.yaml"), str(tmp_path / "d"), options()
        )


def test_the_encoding_that_pass_1_writes_is_the_one_that_is_read(
    log_directory, log_schema, files_of, tmp_path
):
    preprocess([str(log_directory / "log.csv")], log_schema, str(tmp_path / "d"), options())
    written = files_of(tmp_path / "d")
    for name, content in Encoding.load(str(tmp_path / "d")).to_files().items():
        assert written[name] == content


def test_a_directory_with_anything_else_in_it_is_left_alone(tmp_path):
    log = tiny_log(tmp_path / "log.csv", [f"{i % 2},{i},c" for i in range(30)])
    schema = Schema.parse(TINY_SCHEMA)
    (tmp_path / "d/work").mkdir(parents=True)
    (tmp_path / "d/work/thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="is not empty, and holds no dataset"):
            preprocess([log], schema, str(tmp_path / "d"), options(overwrite=overwrite))
        with pytest.raises(UserError, match="holds the log"):
            preprocess([log], schema, str(tmp_path), options(overwrite=overwrite))
        with pytest.raises(UserError, match="is a file"):
            preprocess([log], schema, str(tmp_path / "log.csv"), options(overwrite=overwrite))
    assert (tmp_path / "d/work/thesis.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "log.csv"]


def test_a_run_that_was_killed_while_it_cleared_the_directory_leaves_nothing_to_trust(tmp_path):
    """What --overwrite had not removed yet must not get into the next dataset."""
    old = tiny_log(tmp_path / "old.csv", [f"{i % 3},{i},old{i % 3}" for i in range(60)])
    new = tiny_log(tmp_path / "new.csv", [f"{i % 2},{i},new{i % 3}" for i in range(60)])
    schema, out = Schema.parse(TINY_SCHEMA), tmp_path / "d"
    with pytest.raises(UserError, match="rows are bad"):
        preprocess([old], schema, str(out), options())
    (out / "work/plan.json").unlink()
    (out / "train").mkdir()
    (out / "train/part-00000-of-00009.tfrecord").write_bytes(b"old")
    dataset = preprocess([new], schema, str(out), options())
    assert {value.as_py()[:3] for value in dataset.encoding.fields[1].values} == {b"new"}
    assert len(list((out / "train").iterdir())) == len(dataset.split("train").shards)
    assert not (out / "work").exists()


def test_workers_that_outlive_a_killed_run_cannot_meddle_with_the_next(tmp_path):
    log = tiny_log(tmp_path / "log.csv", [f"{i % 3},{i},c" for i in range(60)])
    schema, out = Schema.parse(TINY_SCHEMA), tmp_path / "d"
    with pytest.raises(UserError, match="rows are bad"):
        preprocess([log], schema, str(out), options())
    [before] = [path.name for path in (out / "work").iterdir() if path.is_dir()]
    with pytest.raises(UserError, match="rows are bad"):
        preprocess([log], schema, str(out), options(overwrite=True))
    [after] = [path.name for path in (out / "work").iterdir() if path.is_dir()]
    assert before != after


def test_two_runs_do_not_share_a_directory(tmp_path):
    log = tiny_log(tmp_path / "log.csv", [f"{i % 2},{i},c" for i in range(30)])
    out = tmp_path / "d"
    with storage.lock(str(out / "work/fives.lock")):
        with pytest.raises(UserError, match="another process is at work here"):
            preprocess([log], Schema.parse(TINY_SCHEMA), str(out), options())
    assert preprocess([log], Schema.parse(TINY_SCHEMA), str(out), options()).splits


@pytest.mark.parametrize(
    ("split", "rows", "message"),
    [
        ("{by: random}", 1, r"the (train|valid) split has no row"),
        ("{by: time, column: age, valid_from: 500}", 40, "valid split has no row .40 train, 0"),
        ("{by: time, column: age, valid_from: -1}", 40, "train split has no row .0 train, 40"),
        ("{by: files, files: {train: 'log*', valid: 'other*'}}", 40, "valid split has no row"),
    ],
)
def test_a_split_that_nothing_can_be_learned_on_is_refused(split, rows, message, tmp_path):
    log = tiny_log(tmp_path / "log.csv", [f"{i % 2},{i},c" for i in range(rows)])
    text = TINY_SCHEMA.replace("{by: position, valid: 0.25, test: 0.25}", split)
    with pytest.raises(UserError, match=message):
        preprocess([log], Schema.parse(text), str(tmp_path / "d"), options())


def test_the_column_of_the_split_may_be_a_numeric_field(tmp_path):
    log = tiny_log(tmp_path / "log.csv", [f"{i % 2},{i},c" for i in range(100)])
    rule = "{by: time, column: age, valid_from: 70, test_from: 90}"
    text = TINY_SCHEMA.replace("{by: position, valid: 0.25, test: 0.25}", rule)
    dataset = preprocess([log], Schema.parse(text), str(tmp_path / "d"), options())
    assert [split.rows for split in dataset.splits.values()] == [70, 20, 10]


def test_more_ids_than_there_can_be_is_one_clear_error(tmp_path):
    log = tiny_log(tmp_path / "log.csv", [f"{i % 2},{i},c" for i in range(40)])
    schema = Schema.parse(TINY_SCHEMA + "overrides: {city: {hash_buckets: 3000000000}}\n")
    with pytest.raises(UserError, match="more than the 2,147,483,647 that there can be"):
        preprocess([log], schema, str(tmp_path / "d"), options())


@pytest.mark.parametrize("piece_bytes", [60, 1000, 1 << 20])
@pytest.mark.parametrize(
    "line", ['1,3,5" disk', "", '# 5" disk', '1,3,"two\nlines"'], ids=["quote", "blank", "#", "nl"]
)
def test_awkward_lines_move_no_row(line, piece_bytes, tmp_path):
    """The split by position counts records, however the log is cut."""
    rows = [f"{i % 2},{i},c" for i in range(400)]
    log = tiny_log(tmp_path / "log.csv", [*rows[:100], line, *rows[100:]])
    schema = Schema.parse(TINY_SCHEMA + "comment: '#'\n")
    out = str(tmp_path / "d")
    dataset = preprocess([log], schema, out, options(piece_bytes=piece_bytes))
    assert [split.rows for split in dataset.splits.values()][1:] == [100, 100]
    assert dataset.split("train").rows in (200, 201)


def test_an_unclosed_quote_is_one_clear_error(tmp_path):
    log = tiny_log(tmp_path / "log.csv", ['1,2,"never', *(f"{i % 2},{i},c" for i in range(50))])
    with pytest.raises(UserError, match="a quoted value is never closed"):
        preprocess([log], Schema.parse(TINY_SCHEMA), str(tmp_path / "d"), options())


def test_a_lost_count_stops_the_run(tmp_path, monkeypatch):
    """As when a runner loses what a worker found: loud, not a smaller vocabulary."""
    whole = fit_encoding._counts_by_part
    monkeypatch.setattr(fit_encoding, "_counts_by_part", lambda *given: list(whole(*given))[1:])
    log = tiny_log(tmp_path / "log.csv", [f"{i % 2},{i},c{i % 9}" for i in range(40)])
    with pytest.raises(RuntimeError, match="of 30 rows were counted in column `city`"):
        preprocess([log], Schema.parse(TINY_SCHEMA), str(tmp_path / "d"), options())
