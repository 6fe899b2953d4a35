import csv
import dataclasses
import gzip
import io
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import fives_tf
from fives_tf import parsing, serving, storage
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.exported import Export
from fives_tf.predictor import Predictor
from fives_tf.restore import load_models
from fives_tf.run import Run
from fives_tf.schema import Schema
from fives_tf.scored_log import Scoring
from fives_tf.training import metrics
from pipelines import rowwise as engine
from pipelines import runner, scoring, sources
from pipelines.predict import Options, predict

SCHEMA = """
label: {column: click}
drop: [row]
numeric: [age]
categorical: [city, user]
split: {by: time, column: day, valid_from: 5, test_from: 7}
"""
HEADER = "row,click,age,city,user,day"


@pytest.fixture(scope="module")
def write_export(tmp_path_factory):
    """Writes a SavedModel that is small but has the signature of an export."""

    def serve(**columns: tf.Tensor) -> dict[str, tf.Tensor]:
        rows = tf.reduce_max([tf.size(values) for values in columns.values()])
        logit = tf.zeros([rows])
        for values in columns.values():
            if values.dtype == tf.string:
                part = tf.cast(tf.strings.length(values), tf.float32) / 10
            else:
                part = tf.where(tf.math.is_nan(values), -1.0, values / 100)
            filled = tf.cond(tf.size(part) > 0, lambda part=part: part, lambda: tf.zeros([rows]))
            logit += filled
        return {"probability": tf.sigmoid(logit)}

    def write(directory: Path, text: str = SCHEMA) -> Export:
        schema = Schema.parse(text)
        inputs = {
            column.name: tf.TensorSpec([None], tf.float32 if column.numeric else tf.string)
            for column in schema.columns
        }
        function = tf.function(serve).get_concrete_function(**inputs)
        module = tf.Module()
        tf.saved_model.save(module, str(directory), signatures={"serving_default": function})
        (directory / "assets.extra").mkdir()
        (directory / "assets.extra/schema.yaml").write_text(schema.to_yaml())
        return Export.open(str(directory))

    return write


@pytest.fixture(scope="module")
def export(write_export, tmp_path_factory) -> Export:
    return write_export(tmp_path_factory.mktemp("exports") / "1")


def probability(age, *texts) -> float:
    """What the small model says of a row; `age` is None if it is missing."""
    logit = -1.0 if age is None else age / 100
    return 1 / (1 + np.exp(-logit - sum(len(text.encode()) for text in texts) / 10))


def make_rows(start: int, end: int) -> list[tuple]:
    """Some rows of HEADER; every fifth has no age."""
    return [
        (n, n % 2, "" if n % 5 == 0 else n % 50, "c" * (n % 7), f"u{n}", n % 9)
        for n in range(start, end)
    ]


def expected(rows: list[tuple]) -> list[float]:
    return [probability(None if age == "" else age, c, u) for _, _, age, c, u, _ in rows]


def text_log(rows: list[tuple], header: str = HEADER, delimiter: str = ",") -> bytes:
    lines = [header.replace(",", delimiter)] if header else []
    lines += [delimiter.join(map(str, row)) for row in rows]
    return "".join(line + "\n" for line in lines).encode()


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def options(keep=(), allow_missing=False, **changes) -> Options:
    return Options(scoring=Scoring(tuple(keep), allow_missing), **changes)


def check(output: Path | str, rows: list[tuple]) -> None:
    """The output holds the number and the probability of each row in order."""
    table = pq.read_table(output)
    assert table.column_names == ["row", "probability"]
    assert table["row"].to_pylist() == [str(row[0]) for row in rows]
    np.testing.assert_allclose(table["probability"].to_numpy(), expected(rows), rtol=1e-5)


def refusal(export, inputs, output, chosen=None) -> str:
    with pytest.raises(UserError) as caught:
        predict(export, inputs, str(output), chosen)
    return str(caught.value)


@pytest.mark.parametrize("piece_bytes", [None, 1, 100])
def test_rows_keep_their_order_over_pieces_and_compressed_files(export, tmp_path, piece_bytes):
    rows = make_rows(0, 200)
    logs = [
        write(tmp_path / "1.csv", text_log(rows[:90])),
        write(tmp_path / "2.csv.gz", gzip.compress(text_log(rows[90:150]))),
        write(tmp_path / "3.csv.zst", pa.compress(text_log(rows[150:]), "zstd", asbytes=True)),
    ]
    output = tmp_path / "scores.parquet"
    summary = predict(export, logs, str(output), options(["row"], piece_bytes=piece_bytes))
    check(output, rows)
    assert (summary.rows, summary.bad, summary.labelled) == (200, 0, 200)
    assert summary.mean_probability == pytest.approx(np.mean(expected(rows)))


@pytest.mark.parametrize("batch", [1, 7, 200])
def test_the_batch_does_not_matter(export, tmp_path, batch):
    rows = make_rows(0, 50)
    log = write(tmp_path / "log.csv", text_log(rows))
    predict(export, [log], str(tmp_path / "s.parquet"), options(["row"], rows_at_once=batch))
    check(tmp_path / "s.parquet", rows)


def test_figures_are_those_of_the_labels_that_are_known(export, tmp_path):
    rows = make_rows(0, 100)
    labels = ["?" if n % 3 == 0 else row[1] for n, row in enumerate(rows)]
    log = [(row[0], label, *row[2:]) for row, label in zip(rows, labels, strict=True)]
    path = write(tmp_path / "log.csv", text_log(log))
    summary = predict(export, [path], str(tmp_path / "s.parquet"), options(["row"]))
    check(tmp_path / "s.parquet", rows)
    known = [n for n in range(100) if n % 3]
    click = np.array([rows[n][1] for n in known])
    score = np.array(expected(rows), np.float32)[known]
    assert (summary.bad, summary.labelled) == (0, len(known))
    assert summary.auc == pytest.approx(metrics.auc(click, score))
    assert summary.log_loss == pytest.approx(metrics.log_loss(click, score))


@pytest.mark.parametrize("beam", [None, "FnApiRunner"])
def test_labels_that_are_too_many_are_not_held(export, tmp_path, monkeypatch, beam):
    monkeypatch.setattr(scoring, "JUDGED_ROWS", 99)
    log = write(tmp_path / "log.csv", text_log(make_rows(0, 100)))
    chosen = options(beam=beam and runner.pipeline_options([f"--runner={beam}"]))
    summary = predict(export, [log], str(tmp_path / "s.csv"), chosen)
    assert (summary.labelled, summary.auc, summary.log_loss) == (100, None, None)


@pytest.mark.parametrize("limit", [2, 4, 5, 9, 10, 100])
def test_tallies_that_are_merged_are_the_tally_of_all_rows(export, monkeypatch, limit):
    monkeypatch.setattr(scoring, "JUDGED_ROWS", limit)
    scored = export.schema.for_scoring(Scoring())
    whole, merged = scoring.ScoreTally(), scoring.ScoreTally()
    for part in (make_rows(0, 5), make_rows(5, 6), make_rows(6, 10)):
        rows = parsing.parse_text(text_log(part, ""), tuple(HEADER.split(",")), scored, 0, 1)
        scores, one = np.array(expected(part), np.float32), scoring.ScoreTally()
        saved = io.BytesIO()
        for tally in (whole, one):
            tally.add_scores(rows, "log.csv", scores)
        one.save(saved)
        saved.seek(0)
        merged.merge(saved)
    assert merged.summary() == whole.summary()
    assert merged.summary().labelled == 10
    assert (merged.summary().auc is None) == (limit < 10)


def test_label_and_columns_of_the_split_may_be_absent_and_others_may_be_there(export, tmp_path):
    rows = make_rows(0, 30)
    log = [(row[4], "x", row[0], row[3], row[2], "y") for row in rows]
    path = write(tmp_path / "log.csv", text_log(log, "user,new,row,city,age,new"))
    summary = predict(export, [path], str(tmp_path / "s.parquet"), options(["row"]))
    check(tmp_path / "s.parquet", rows)
    assert (summary.labelled, summary.auc) == (0, None)


def test_an_absent_feature_is_an_error_or_missing_in_all_rows(export, tmp_path):
    path = write(tmp_path / "log.csv", b"usr,age\nu1,20\nu2,\n")
    output = tmp_path / "s.parquet"
    told = refusal(export, [path], output)
    assert told.startswith(f"{path}: has no column `city`, which the model reads.")
    assert "--allow_missing_columns" in told
    predict(export, [path], str(output), options(allow_missing=True))
    assert pq.read_table(output)["probability"].to_pylist() == pytest.approx(
        [probability(20), probability(None)]
    )
    write(tmp_path / "log.csv", b"usr\nu1\n")
    told = refusal(export, [path], tmp_path / "t.parquet", options(allow_missing=True))
    assert told.startswith(f"{path}: has none of the columns that the model reads.")


def test_a_column_that_is_to_be_kept_must_be_there(export, tmp_path):
    path = write(tmp_path / "log.csv", text_log(make_rows(0, 3)))
    told = refusal(export, [path], tmp_path / "s.csv", options(["rows"]))
    assert told.startswith(f"{path}: has no column `rows` to keep; did you mean `row`?")
    told = refusal(export, [path], tmp_path / "s.csv", options(["probability"]))
    assert "`probability` cannot be kept" in told


def test_a_column_that_the_model_reads_must_not_occur_twice(export, tmp_path):
    path = write(tmp_path / "log.csv", b"age,city,user,age\n1,a,b,2\n")
    assert "`age` occurs twice" in refusal(export, [path], tmp_path / "s.csv")


BAD_LOG = b"""row,click,age,city,user,day
0,1,20,aa,bb,1
1,1,old,aa,bb,1
2,1,20,aa

3,0,30,a,b,
4,0,1,2,3,4,5
"""


@pytest.mark.parametrize("piece_bytes", [1, 20, 1000])
@pytest.mark.parametrize("beam", [None, "FnApiRunner"])
def test_rows_that_cannot_be_read_keep_their_place(export, tmp_path, piece_bytes, beam):
    path = write(tmp_path / "log.csv", BAD_LOG)
    chosen = options(
        ["row", "age"],
        piece_bytes=piece_bytes,
        max_bad_fraction=0.9,
        beam=beam and runner.pipeline_options([f"--runner={beam}"]),
    )
    summary = predict(export, [path], str(tmp_path / "s.parquet"), chosen)
    table = pq.read_table(tmp_path / "s.parquet")
    assert table["row"].to_pylist() == ["0", "1", None, "3", None]
    assert table["age"].to_pylist() == ["20", "old", None, "30", None]
    good, other = probability(20, "aa", "bb"), probability(30, "a", "b")
    scores = table["probability"].to_pylist()
    assert scores == pytest.approx([good, None, None, other, None])
    assert summary.rejects == (
        f"{path}:3: column `age` is 'old', expected a number",
        f"{path}:4: has 4 columns, expected 6",
        f"{path}:7: has 7 columns, expected 6",
    )
    assert (summary.rows, summary.bad, summary.labelled) == (5, 3, 2)
    assert summary.mean_probability == pytest.approx((good + other) / 2)


@pytest.mark.parametrize("beam", [None, "FnApiRunner"])
def test_too_many_bad_rows_stop_the_run_and_leave_nothing(export, tmp_path, beam):
    path = write(tmp_path / "log.csv", BAD_LOG)
    chosen = options(beam=beam and runner.pipeline_options([f"--runner={beam}"]))
    told = refusal(export, [path], tmp_path / "s.csv", chosen)
    assert "rows are bad, more than --max_bad_fraction=0.001 allows. The first:" in told
    assert f"  {path}:3: column `age` is 'old'" in told
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_a_csv_file_holds_text_as_it_stands_and_empty_scores(export, tmp_path, ending):
    content = b'user,city,age\n"a ""b"", c",\xff,1\nx\n,,2\n'
    path = write(tmp_path / "log.csv", content)
    output = tmp_path / f"s{ending}"
    predict(export, [path], str(output), options(["user", "city"], max_bad_fraction=0.5))
    opened = gzip.open(output, "rb") if ending.endswith("gz") else open(output, "rb")
    with opened as file:
        table = list(csv.reader(file.read().decode("latin-1").splitlines()))
    assert table[0] == ["user", "city", "probability"]
    assert [row[:2] for row in table[1:]] == [['a "b", c', "\xff"], ["", ""], ["", ""]]
    assert float(table[1][2]) == pytest.approx(probability(1, 'a "b", c', "x"))
    assert table[2][2] == ""
    assert float(table[3][2]) == pytest.approx(probability(2))


def test_text_that_is_not_utf8_is_mended_for_parquet(export, tmp_path):
    path = write(tmp_path / "log.csv", b"user,city,age\na\xff,c,1\nb,c,1\n")
    predict(export, [path], str(tmp_path / "s.parquet"), options(["user"]))
    assert pq.read_table(tmp_path / "s.parquet")["user"].to_pylist() == [
        "a\N{REPLACEMENT CHARACTER}",
        "b",
    ]


def test_parquet_logs_are_scored_and_null_stays_null(write_export, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "PARQUET_ROWS", 3)
    export = write_export(tmp_path / "1", f"format: parquet\n{SCHEMA}")
    columns = {
        "id": pa.array([7, None, 9, 10, 11]),
        "age": pa.array([20, None, 30, 40, 50]),
        "city": pa.array(["a", "b", None, "d", "e"]),
        "user": pa.array([True, False, True, False, True]),
        "other": pa.array([[1], [2], [3], [4], [5]]),
    }
    log = str(tmp_path / "log.parquet")
    pq.write_table(pa.table(columns), log, row_group_size=4)
    predict(export, [log], str(tmp_path / "s.parquet"), options(["id"]))
    table = pq.read_table(tmp_path / "s.parquet")
    assert table["id"].to_pylist() == ["7", None, "9", "10", "11"]
    assert table["probability"].to_pylist() == pytest.approx(
        [
            probability(20, "a", "true"),
            probability(None, "b", "false"),
            probability(30, "", "true"),
            probability(40, "d", "false"),
            probability(50, "e", "true"),
        ]
    )


def test_a_column_of_a_parquet_log_that_cannot_be_text_is_refused_with_the_file(
    write_export, tmp_path
):
    export = write_export(tmp_path / "1", f"format: parquet\n{SCHEMA}")
    log = str(tmp_path / "log.parquet")
    pq.write_table(pa.table({"age": [1], "city": ["a"], "user": ["b"], "other": [[1]]}), log)
    told = refusal(export, [log], tmp_path / "s.csv", options(["other"]))
    assert told.startswith(f"{log}: column `other` has the type list")
    assert told.endswith("which cannot be kept as text; leave it out or convert it.")


def test_blanks_around_a_value_do_not_matter_if_the_schema_trims(write_export, tmp_path):
    export = write_export(tmp_path / "1", f"trim: true\n{SCHEMA}")
    path = write(tmp_path / "log.csv", b"age,city,user\n30,Rome,u1\n 30\t,  Rome ,\tu1 \n")
    output = tmp_path / "s.parquet"
    predict(export, [path], str(output), options(["city"]))
    table = pq.read_table(output)
    assert table["probability"].to_pylist() == pytest.approx([probability(30, "Rome", "u1")] * 2)
    assert table["city"].to_pylist() == ["Rome", "Rome"]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("labelled", [True, False])
def test_a_file_without_a_header_may_lack_the_label(write_export, tmp_path, labelled, compressed):
    form = f"format: tsv\nheader: false\ncolumns: [{HEADER}]\ncomment: '#'\n"
    export = write_export(tmp_path / "1", form + SCHEMA)
    rows = make_rows(0, 20)
    log = rows if labelled else [(row[0], *row[2:]) for row in rows]
    content = b"\n# made by hand\n" + text_log(log, "", "\t")
    name = "log.tsv.gz" if compressed else "log.tsv"
    path = write(tmp_path / name, gzip.compress(content) if compressed else content)
    summary = predict(export, [path], str(tmp_path / "s.parquet"), options(["row"]))
    check(tmp_path / "s.parquet", rows)
    assert summary.labelled == (20 if labelled else 0)


def test_a_first_record_that_is_cut_short_is_one_bad_row(write_export, tmp_path):
    form = f"header: false\ncolumns: [{HEADER}]\n"
    export = write_export(tmp_path / "1", form + SCHEMA)
    rows = make_rows(0, 20)
    path = write(tmp_path / "log.csv", b"0,1,2,3,4\n" + text_log(rows, ""))
    summary = predict(export, [path], str(tmp_path / "s.csv"), options(max_bad_fraction=0.1))
    assert (summary.rows, summary.bad, summary.labelled) == (21, 1, 20)
    assert summary.rejects == (f"{path}:1: has 5 columns, expected 6",)


@pytest.mark.parametrize("beam", [None, "FnApiRunner"])
def test_a_log_without_rows_gives_a_file_without_rows(export, tmp_path, beam):
    path = write(tmp_path / "log.csv", text_log([]))
    chosen = options(["row"], beam=beam and runner.pipeline_options([f"--runner={beam}"]))
    summary = predict(export, [path], str(tmp_path / "s.parquet"), chosen)
    assert summary.rows == 0
    assert pq.read_table(tmp_path / "s.parquet").column_names == ["row", "probability"]


@pytest.mark.parametrize("ending", [".parquet", ".csv.gz"])
def test_beam_writes_the_same_rows_as_parts_of_a_directory(export, tmp_path, ending):
    rows = make_rows(0, 300)
    logs = [
        write(tmp_path / "1.csv", text_log(rows[:200])),
        write(tmp_path / "2.csv.gz", gzip.compress(text_log(rows[200:]))),
    ]
    beam = runner.pipeline_options(["--runner=FnApiRunner"])
    chosen = options(["row"], piece_bytes=1500, beam=beam)
    output = tmp_path / f"beam{ending}"
    found = predict(export, logs, str(output), chosen)
    alone = dataclasses.replace(chosen, beam=None)
    assert found == predict(export, logs, str(tmp_path / f"one{ending}"), alone)
    names = sorted(path.name for path in output.iterdir())
    count = len(names) - 1
    assert count > 3
    parts = [f"part-{n:05}-of-{count:05}{ending}" for n in range(count)]
    assert names == ["_SUCCESS", *parts]
    if ending == ".parquet":
        check(output, rows)
        assert pq.read_table(output).equals(pq.read_table(tmp_path / "one.parquet"))
    else:
        lines = [gzip.decompress((output / part).read_bytes()).splitlines() for part in parts]
        joined = [lines[0][0], *(line for part in lines for line in part[1:])]
        assert joined == gzip.decompress((tmp_path / "one.csv.gz").read_bytes()).splitlines()


def test_what_is_there_is_replaced_only_if_asked_for(export, tmp_path):
    rows = make_rows(0, 5)
    log, output = write(tmp_path / "log.csv", text_log(rows)), tmp_path / "s.parquet"
    output.write_text("mine")
    assert refusal(export, [log], output) == (
        f"{output}: exists; choose another name, or give --overwrite."
    )
    assert output.read_text() == "mine"
    asked = options(["row"], overwrite=True)
    predict(export, [log], str(output), asked)
    check(output, rows)
    assert "is a file of the log" in refusal(export, [log], log, asked)
    by_beam = dataclasses.replace(asked, beam=runner.pipeline_options(["--runner=FnApiRunner"]))
    for _ in range(2):  # in place of a file, and then of a directory
        predict(export, [log], str(output), by_beam)
        check(output, rows)
    assert "is a directory that is not replaced" in refusal(export, [log], output, asked)
    (output / "notes.txt").write_text("mine")
    assert "is a directory that is not replaced" in refusal(export, [log], output, by_beam)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "s.parquet"]


def test_the_old_output_of_beam_is_never_among_what_can_be_removed(export, tmp_path, monkeypatch):
    log, output = write(tmp_path / "log.csv", text_log(make_rows(0, 5))), tmp_path / "s.csv"
    output.write_text("mine")
    beam = runner.pipeline_options(["--runner=FnApiRunner"])
    move, seen = storage.move, []

    def failing_move(path, target):
        if path.endswith(".aside"):
            seen.extend(file.name for file in tmp_path.iterdir() if file.is_file())
            raise KeyboardInterrupt
        move(path, target)

    monkeypatch.setattr(storage, "move", failing_move)
    with pytest.raises(KeyboardInterrupt):
        predict(export, [log], str(output), options(overwrite=True, beam=beam))
    assert [name.rpartition(".")[2] for name in sorted(seen)] == ["csv", "before"]
    assert output.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "s.csv"]


def test_the_ending_of_the_output_must_be_known(export, tmp_path):
    log = write(tmp_path / "log.csv", text_log(make_rows(0, 5)))
    told = refusal(export, [log], tmp_path / "s.json")
    assert "expected a name that ends in .parquet, .csv, .csv.gz" in told


def test_few_blocks_are_held_at_a_time(export, tmp_path, monkeypatch):
    """Memory is bounded as no block is read long before those ahead of it are written."""
    read, scored, most = [], [], [0]
    read_blocks, score = engine.read_blocks, Predictor.probability

    def counted_blocks(*arguments):
        for block in read_blocks(*arguments):
            read.append(block.size)
            most[0] = max(most[0], len(read) - len(scored))
            yield block

    def counted_score(self, batch):
        scored.append(batch.num_rows)
        return score(self, batch)

    monkeypatch.setattr(engine, "read_blocks", counted_blocks)
    monkeypatch.setattr(Predictor, "probability", counted_score)
    rows = make_rows(0, 500)
    log = write(tmp_path / "log.csv.gz", gzip.compress(text_log(rows)))
    predict(export, [log], str(tmp_path / "s.parquet"), options(["row"], piece_bytes=200))
    check(tmp_path / "s.parquet", rows)
    assert len(scored) > 30
    assert most[0] <= engine.PARSED_AHEAD + 1


def test_the_latest_version_is_taken(write_export, tmp_path):
    for name in ("9", "10", "11.0abc.aside", "012", "v99"):
        write_export(tmp_path / name)
    (tmp_path / "13").mkdir()
    assert Export.open(str(tmp_path)).path == str(tmp_path / "10")
    assert Export.open(f"{tmp_path}/9/").path == str(tmp_path / "9")


def test_what_is_no_export_is_refused_with_the_remedy(write_export, tmp_path):
    def told(path):
        with pytest.raises(UserError) as caught:
            Export.open(str(path))
        return str(caught.value)

    assert "holds no SavedModel; give a version that `fives export` wrote" in told(tmp_path)
    assert told(tmp_path / "7").endswith("no such exported model; check the path.")
    write_export(tmp_path / "1")
    write_export(tmp_path / "3")
    assert told(tmp_path / "7").endswith("the versions beside it are 1, 3.")
    (tmp_path / "3/assets.extra/schema.yaml").unlink()
    assert "without assets.extra/schema.yaml" in told(tmp_path)
    (tmp_path / "1/saved_model.pb").write_bytes(b"no model")
    with pytest.raises(UserError, match="cannot be loaded .*; export it again"):
        Predictor(Export.open(str(tmp_path / "1")))


def test_a_model_that_does_not_fit_its_schema_is_refused(write_export, tmp_path):
    write_export(tmp_path / "1")
    text = SCHEMA.replace("[city, user]", "[city]")
    (tmp_path / "1/assets.extra/schema.yaml").write_text(text)
    with pytest.raises(UserError, match="are not the features of its schema"):
        Predictor(Export.open(str(tmp_path / "1")))


def test_a_predictor_takes_any_record_batch(export):
    batch = pa.record_batch({"user": ["ab", None], "age": [3, None], "other": [1, 2]})
    found = Predictor(export).probability(batch)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx([probability(3, "ab"), probability(None)])


def test_whoever_predicts_does_not_load_what_trains():
    program = "import sys, fives_tf.predictor, pipelines.rowwise_beam; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {name for name in done.stdout.split() if name.startswith("fives_tf.")}
    assert "fives_tf.predictor" in loaded
    assert loaded & {"fives_tf.search", "fives_tf.serving.versions", "fives_tf.models"} == set()


def test_the_scores_are_those_of_the_path_that_the_model_was_trained_on(
    small_dataset, small_log, tmp_path
):
    fast = {"dim": 4, "order": 2, "search_epochs": 1, "epochs": 1, "refit": False, "xla": False}
    fives_tf.search(small_dataset, tmp_path / "run", **fast)
    run, dataset = Run.open(str(tmp_path / "run")), Dataset.open(str(small_dataset))
    schema = Schema.load(small_log / "schema.yaml")
    log, output = str(small_log / "log.csv"), tmp_path / "s.parquet"
    rows = sources.read_first(*sources.open_log([log], schema), schema)
    [model] = load_models(run, dataset)
    trained = model.probability(model(tf.constant(dataset.encoding.encode(rows.batch)))).numpy()

    export = serving.export(run, tmp_path / "exports")
    summary = predict(export, [log], str(output), options(rows_at_once=1000, piece_bytes=10_000))
    scores = pq.read_table(output)["probability"].to_numpy()
    assert len(scores) == 2500
    np.testing.assert_allclose(scores, trained, rtol=1e-5)
    assert summary.auc == pytest.approx(metrics.auc(rows.label, trained), abs=1e-6)


@pytest.mark.parametrize("beam", [(), ("--runner=FnApiRunner",)])
def test_a_killed_run_leaves_nothing_that_looks_complete(export, tmp_path, beam):
    log = write(tmp_path / "log.csv", text_log(make_rows(0, 200_000)))
    output = tmp_path / "s.parquet"
    command = [sys.executable, "-m", "fives_tf.cli", "predict", export.path]
    command += ["--input", log, "--output", str(output), "--batch", "1", *beam]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("s.parquet.*")):
        assert process.poll() is None, "the run ended before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not output.exists()
    assert all(path.name.endswith(".aside") for path in tmp_path.glob("s.parquet*"))


def test_the_command_tells_what_it_wrote(export, cli, tmp_path):
    log = write(tmp_path / "log.csv", text_log(make_rows(0, 40)))
    output = tmp_path / "s.csv"
    flags = ("--input", log, "--output", output, "--keep", "row,day")
    done = cli("predict", export.path, *flags)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(f"wrote {output}: 40 rows, mean probability 0.")
    assert second.startswith("AUC 0.")
    assert "on the 40 rows with a label; rows that the model learned from" in second
    assert "predict: 100%, 40 rows" in done.stderr
    assert output.read_text().splitlines()[0] == '"row","day","probability"'
    again = cli("predict", export.path, *flags)
    assert again.returncode == 2
    assert (
        again.stderr
        == f"fives predict: {output}: exists; choose another name, or give --overwrite.\n"
    )
    assert cli("predict", export.path, *flags, "--overwrite").stdout == done.stdout


def test_the_command_shows_the_first_bad_rows(export, cli, tmp_path):
    path = write(tmp_path / "log.csv", BAD_LOG)
    flags = ("--input", path, "--output", tmp_path / "s.csv", "--max_bad_fraction", 1)
    done = cli("predict", export.path, *flags)
    assert done.returncode == 0, done.stderr
    assert "3 rows are bad and have no probability; the first:" in done.stdout
    assert f"  {path}:4: has 4 columns, expected 6" in done.stdout


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--batch", 0), "--batch: expected at least 1."),
        (("--piece_bytes", 0), "--piece_bytes: expected at least 1."),
        (("--max_bad_fraction", 2), "--max_bad_fraction: expected a part"),
        (("--job_name", "x"), "unknown flag --job_name; see `fives predict --help`"),
        (("--runner", "NoRunner"), "--runner=NoRunner: "),
    ],
)
def test_wrong_flags_are_refused(export, cli, tmp_path, flags, told):
    done = cli("predict", export.path, "--input", "x", "--output", tmp_path / "s.csv", *flags)
    assert done.returncode == 2
    assert told in done.stderr
