import contextlib
import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from fives_tf import schema_tuning
from fives_tf.errors import UserError
from fives_tf.schema import Discretize, Schema
from fives_tf.schema_tuning import Candidate, Space, Trial, best_of, choose, tune_schema
from pipelines import sample
from pipelines.preprocess import preprocess

ROWS = 3000
TEST_ROWS = 900
SCHEMA = """\
label: {column: click}
numeric: [x, kept]
categorical: [place, color]
discretize: {kind: width, buckets: [10]}
min_count: 2
overrides:
  kept: {discretize: {kind: width, buckets: [7]}}
  color: {min_count: 3}
split: {by: position, valid: 0.2, test: 0.3}
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Clicks follow from where a number stands in a dense heap, far away from a few others.

    In the test rows, the last ones, it is the other way round, and a place occurs that is nowhere
    else.
    """
    random = np.random.default_rng(0)
    heap = random.random(ROWS)
    click = random.random(ROWS) < np.where(heap < 0.5, 0.85, 0.15)
    x = np.where(random.random(ROWS) < 0.02, random.choice([-1e12, 1e12], ROWS), 1000 + heap)
    place = random.choice(["a", "b"], ROWS)
    click[-TEST_ROWS:], place[-TEST_ROWS:] = ~click[-TEST_ROWS:], "test"
    kept, color = random.random(ROWS), random.choice(["red", "blue"], ROWS)
    lines = [
        f"{int(c)},{a},{b},{p},{d}"
        for c, a, b, p, d in zip(click, x, kept, place, color, strict=True)
    ]
    path = tmp_path_factory.mktemp("tune") / "log.csv"
    path.write_text("click,x,kept,place,color\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def schema_file(log):
    path = log.parent / "schema.yaml"
    path.write_text(SCHEMA)
    return path


@contextlib.contextmanager
def few_candidates():
    """So that the tests do not take long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_tuning, "VALUES", Discretize("width", (10,), values=True))
        patch.setattr(schema_tuning, "BUCKETS", ((10,),))
        patch.setattr(schema_tuning, "MIN_COUNTS", (1, 2))
        yield


@pytest.fixture(scope="module")
def tuned(log, schema_file):
    work = log.parent / "work"
    with few_candidates():
        return tune_schema(schema_file, [str(log)], work=work), work


def space_of(tmp_path, text):
    path = tmp_path / "schema.yaml"
    path.write_text(text)
    return Space.load(path)


def test_first_the_discretization_is_chosen_then_min_count_with_it(tmp_path):
    space = space_of(tmp_path, SCHEMA)
    best = Candidate(Discretize("width", (30,)), 10)
    asked = []

    def attempt(candidate, number, total):
        asked.append((number, total))
        same = (candidate.discretize == best.discretize) + (candidate.min_count == best.min_count)
        return Trial(candidate, same / 2, 0.0)

    trials = choose(space, attempt)
    assert best_of(trials).candidate == best
    # What the schema says itself is among the usual ones.
    assert asked == [(number, 19) for number in range(1, 20)]
    assert len({trial.candidate.name for trial in trials}) == 19
    assert {trial.candidate.min_count for trial in trials[:16]} == {2}
    assert [trial.candidate.min_count for trial in trials[16:]] == [1, 5, 10]
    assert {trial.candidate.discretize for trial in trials[16:]} == {best.discretize}


def test_the_first_of_equal_candidates_is_chosen(tmp_path):
    trials = choose(space_of(tmp_path, SCHEMA), lambda one, *_: Trial(one, 0.5, 0.0))
    assert best_of(trials) is trials[0]


def test_what_the_schema_says_itself_is_tried_too(tmp_path):
    text = SCHEMA.replace("{kind: width, buckets: [10]}", "{kind: edges, edges: [0, 9.5]}")
    text = text.replace("min_count: 2", "min_count: 7")
    space = space_of(tmp_path, text)
    trials = choose(space, lambda one, *_: Trial(one, 0.5, 0.0))
    assert trials[0].candidate == space.own
    assert str(space.own) == "discretize: edges 0.0/9.5, min_count: 7"
    assert str(trials[1].candidate) == "discretize: quantile 10/30 and values, min_count: 7"
    assert trials[1].candidate.name == "quantile-10-30-values-min7"
    assert len(trials) == 17 + 4


def test_only_what_is_open_is_tried(tmp_path):
    no_numbers = re.sub("numeric.*\n|  kept.*\n", "", SCHEMA)
    candidates = space_of(tmp_path, no_numbers).min_counts(Candidate(None, 2))
    assert [candidate.settings() for candidate in candidates] == [
        {"min_count": "1"},
        {"min_count": "2"},
        {"min_count": "5"},
        {"min_count": "10"},
    ]
    settled = "x: {min_count: 2}\n  place: {hash_buckets: 9}\n  kept: {min_count: 1, "
    space = space_of(tmp_path, SCHEMA.replace("kept: {", settled))
    assert (space.cut, space.counted) == ({"x"}, frozenset())
    trials = choose(space, lambda one, *_: Trial(one, 0.5, 0.0))
    assert len(trials) == 16
    assert trials[1].candidate == Candidate(Discretize("quantile", (10,)), None)


def test_a_schema_with_nothing_open_is_refused(tmp_path):
    with pytest.raises(UserError, match="there is nothing to choose: `overrides` settle"):
        space_of(tmp_path, Schema.parse(SCHEMA).to_yaml())


def test_buckets_that_would_give_two_fields_one_name_are_refused_at_once(tmp_path):
    text = SCHEMA.replace("[place, color]", "[place, color, x@30]")
    with pytest.raises(UserError, match="the field `x@30` is named twice"):
        space_of(tmp_path, text)


def test_a_number_that_needs_quantiles_gets_them(tuned):
    tuning, _ = tuned
    assert tuning.best.candidate.discretize == Discretize("quantile", (10,))
    auc = {trial.candidate.discretize.kind: trial.auc for trial in tuning.trials[1:4]}
    assert set(auc) == {"quantile", "width", "log"}
    # Near what can be reached; had the test rows a part in it, it would be far below.
    assert auc["quantile"] > 0.8
    assert max(auc["width"], auc["log"]) < 0.6


def test_the_rows_are_those_of_train_and_valid(tuned, log):
    tuning, work = tuned
    assert tuning.sample.rows == {"train": 1500, "valid": 600}
    assert tuning.sample.read == ROWS
    lines = [line.split(",") for line in log.read_text().splitlines()[1:]]
    for split, part in {"train": lines[:1500], "valid": lines[1500:2100]}.items():
        table = pq.read_table(work / f"sample/{split}.parquet")
        assert table["click"].to_pylist() == [int(line[0]) for line in part]
        assert table["x"].to_pylist() == [float(line[1]) for line in part]
        assert table["place"].to_pylist() == [line[3].encode() for line in part]


def test_overrides_are_kept(tuned):
    columns = {column.name: column for column in tuned[0].schema.columns}
    assert columns["kept"].discretize == Discretize("width", (7,))
    assert columns["color"].min_count == 3
    best = tuned[0].best.candidate
    assert columns["x"].discretize == best.discretize
    assert {columns[name].min_count for name in ("x", "kept", "place")} == {best.min_count}


def test_the_tuned_schema_preprocesses_the_log(tuned, log, tmp_path):
    tuning, _ = tuned
    first, _, rest = tuning.to_yaml().partition("\n")
    assert first.startswith("# Chosen by `fives schema tune` among 5: discretize: quantile 10, ")
    assert f"AUC {tuning.best.auc:.5f} on valid" in first
    schema = Schema.parse(rest)
    assert schema == Schema.parse(tuning.to_yaml())
    assert schema.split == Schema.parse(SCHEMA).split
    dataset = preprocess([str(log)], schema, str(tmp_path / "dataset"))
    assert {name: split.rows for name, split in dataset.splits.items()} == {
        "train": 1500,
        "valid": 600,
        "test": 900,
    }


def test_what_is_finished_is_not_done_again(tuned, log, schema_file, monkeypatch, capsys):
    tuning, work = tuned
    done = sorted((work / "candidates").iterdir())
    assert len(done) == len(tuning.trials) == 5
    assert {path.name for path in work.iterdir()} == {
        "lock",
        "tuning.json",
        "sample",
        "candidates",
    }
    assert json.loads(done[0].read_text()).keys() == {
        "discretize",
        "min_count",
        "auc",
        "log_loss",
        "seconds",
    }
    again = []

    def preprocess_again(*arguments):
        again.append(arguments[2])
        return preprocess(*arguments)

    monkeypatch.setattr("pipelines.preprocess.preprocess", preprocess_again)
    monkeypatch.setattr(sample, "open_log", None)
    missing = work / "candidates/width-10-min2.json"
    missing.unlink()
    with few_candidates():
        assert tune_schema(schema_file, [str(log)], work=work) == tuning
    assert again == [str(work / "width-10-min2/dataset")]
    shown = capsys.readouterr().err
    assert shown.count("tried before") == 4
    assert "candidate 3 of 5: discretize: width 10, min_count: 2\n" in shown


def test_a_directory_of_something_else_is_refused(tuned, log, schema_file, tmp_path):
    _, work = tuned
    with pytest.raises(UserError, match="the number of rows changed since it was begun"):
        tune_schema(schema_file, [str(log)], rows=7, work=work)
    other = tmp_path / "schema.yaml"
    other.write_text(SCHEMA.replace("min_count: 3", "min_count: 4"))
    with pytest.raises(UserError, match="the schema changed since it was begun"):
        tune_schema(other, [str(log)], work=work)
    with pytest.raises(UserError, match="is not empty, and holds no tuning"):
        tune_schema(schema_file, [str(log)], work=tmp_path)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("{by: time, column: day, valid_from: 9}", "the valid split has none of the 40 rows"),
        ("{by: time, column: day, valid_from: 0}", "the train split has none of the 40 rows"),
        ("{by: time, column: day, valid_from: 3}", "the valid split has 0 clicks in the 10 rows"),
    ],
)
def test_rows_that_tell_nothing_are_refused(split, message, tmp_path):
    path = tmp_path / "log.csv"
    rows = [f"{int(day < 3 and n % 2)},{day},{n}" for day in range(4) for n in range(10)]
    path.write_text("\n".join(["click,day,a", *rows]))
    (tmp_path / "schema.yaml").write_text(
        f"label: {{column: click}}\ncategorical: [a]\nsplit: {split}"
    )
    with pytest.raises(UserError, match=message):
        tune_schema(tmp_path / "schema.yaml", [str(path)])


def test_the_command_shows_what_was_tried_and_writes_what_was_chosen(fives, log, tmp_path):
    schema, out = tmp_path / "schema.yaml", tmp_path / "tuned.yaml"
    text = SCHEMA.replace("numeric: [x, kept]", "drop: [x, kept]")
    schema.write_text(re.sub("  kept.*\n", "", text))
    run = fives("schema", "tune", schema, log, "--out", out, "--rows", 2000)
    assert run.returncode == 0, run.stderr
    header, *rows = [line.split("\t") for line in run.stdout.partition("\n\n")[0].splitlines()]
    assert header == ["min_count", "AUC", "log loss", "chosen"]
    assert [row[0] for row in rows] == ["2", "1", "5", "10"]
    [chosen] = [row for row in rows if row[3] == "yes"]
    assert chosen[1] == max(row[1] for row in rows)
    assert f"chose min_count: {chosen[0]}" in run.stdout
    assert run.stdout.endswith(f"wrote {out}\n")
    assert "candidate 4 of 4: min_count: 10" in run.stderr
    assert Schema.load(out).columns[0].min_count == int(chosen[0])
    assert sorted(tmp_path.iterdir()) == [schema, out]
    again = fives("schema", "tune", schema, log, "--out", out)
    assert again.returncode == 2
    assert "tuned.yaml: exists already" in again.stderr


@pytest.mark.parametrize(
    ("log_name", "rows", "message"),
    [
        ("log.csv", 0, "--rows: expected at least 1"),
        ("log.csv", 1, "the train split has 0 clicks in the 1 rows of it that were read"),
        ("no-such-log", 1, "no-such-log: no such file"),
    ],
)
def test_a_mistake_gets_one_message(log_name, rows, message, cli, log, schema_file, tmp_path):
    out = tmp_path / "tuned.yaml"
    run = cli("schema", "tune", schema_file, log.parent / log_name, "--out", out, "--rows", rows)
    assert run.returncode == 2
    assert message in run.stderr
    assert list(tmp_path.iterdir()) == []
