"""Generators on datasets: what they find in planted logs, and the command `fives generate`."""

import json
from pathlib import Path

import pytest

from fives_tf import storage
from fives_tf.crosses import from_json
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.fit import fit
from fives_tf.generators import METHODS, autocross, generate
from fives_tf.synth import SynthConfig
from fives_tf.training import regression
from pipelines import runner

from .samples import write_synth

PLANTED = SynthConfig(rows=16_000, fields=20, numeric=4, plant=("2", "2", "2"), seed=3)


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Dataset:
    """20 columns, three planted pairs among those of 20 values, vocabularies of up to 1,000."""
    return write_synth(PLANTED, tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def small(small_dataset) -> Dataset:
    return Dataset.open(str(small_dataset))


def test_mutual_information_finds_the_planted_pairs(planted):
    crosses = generate(planted, "cmi", count=10)
    assert len(crosses) == 10
    assert {cross.fields for cross in crosses[:3]} == set(PLANTED.crosses())
    assert crosses[2].score > 3 * crosses[3].score


def test_autocross_finds_the_planted_pairs(planted):
    crosses = generate(planted, "autocross", count=4)
    assert {cross.fields for cross in crosses[:3]} == set(PLANTED.crosses())
    assert all(cross.score > 0.01 for cross in crosses[:3])
    assert all(cross.score < 0.005 for cross in crosses[3:])


def test_the_penalty_of_what_autocross_starts_from_is_by_the_rows_that_it_learns_from(
    small, monkeypatch
):
    seen, fit_regression = [], regression.fit_regression

    def seeing(config, facts, source, directory):
        seen.append((facts.rows, source.rows(["train"])))
        return fit_regression(config, facts, source, directory)

    monkeypatch.setattr(autocross, "MOST_ROWS", 100)
    monkeypatch.setattr(regression, "fit_regression", seeing)
    generate(small, "autocross", count=1)
    assert seen == [(80, 80)]


@pytest.mark.parametrize("method", METHODS)
def test_a_list_has_no_siblings_no_doubles_and_is_the_same_again(small, method):
    crosses = generate(small, method, count=8, order=3, seed=1)
    assert crosses == generate(small, method, count=8, order=3, seed=1)
    assert len({cross.fields for cross in crosses}) == len(crosses)
    names = [field.name for field in small.encoding.fields]
    columns = {field.name: field.column for field in small.encoding.fields}
    for cross in crosses:
        assert 2 <= cross.order <= 3
        assert len({columns[field] for field in cross.fields}) == cross.order
        assert sorted(cross.fields, key=names.index) == list(cross.fields)
    if method != "autocross":
        assert [cross.order for cross in crosses] == [2] * 8 + [3] * 8


def test_the_counts_of_beam_give_the_same_crosses(small, tmp_path):
    in_memory = generate(small, "cmi", count=5, order=3)
    by_beam = generate(
        small,
        "cmi",
        count=5,
        order=3,
        beam=runner.pipeline_options([], workers=2),
        beside=str(tmp_path / "out"),
    )
    assert by_beam == in_memory
    assert in_memory[0].fields == ("C1", "C2")
    # Rows that do not fit in memory are counted by Beam too, beside the dataset.
    assert generate(small, "cmi", count=5, order=3, memory=0) == in_memory
    assert not list(tmp_path.iterdir())
    assert not [
        name for name in storage.names(str(Path(small.directory).parent)) if ".aside" in name
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "magic"}, "`method`: expected random, cmi, autocross. Received: magic"),
        ({"count": 0}, "`count`: expected at least 1"),
        ({"order": 1}, "`order`: expected"),
        ({"order": 6}, "`order`: the dataset has fields of 5 columns"),
        ({"beam": runner.pipeline_options([])}, "a runner of Beam is for cmi"),
    ],
)
def test_mistakes_are_named(small, wrong, message):
    with pytest.raises(UserError, match=message):
        generate(small, **{"method": "random"} | wrong)


class TestCommand:
    @pytest.mark.parametrize("method", METHODS)
    def test_it_writes_what_a_fit_takes(self, cli, small_dataset, tmp_path, method):
        out = tmp_path / "crosses.json"
        run = cli("generate", small_dataset, "--method", method, "--out", out, "--count", 4)
        assert run.returncode == 0, run.stderr
        crosses = from_json(out.read_bytes(), str(out))
        assert crosses == generate(small_dataset, method, count=4)
        lines = run.stdout.splitlines()
        assert lines[0].split("\t") == ["cross", "order", "score"]
        assert [line.split("\t")[0] for line in lines[1 : 1 + len(crosses)]] == [
            cross.name for cross in crosses
        ]
        assert f"fives fit {small_dataset} --run RUN --crosses {out}" in run.stdout
        result = fit(
            small_dataset, tmp_path / "run", crosses=out, top=1, batch=64, lr_epochs=1, refit=False
        )
        assert result.crosses[0].fields in {cross.fields for cross in crosses}

    def test_it_writes_what_materialize_takes(self, cli, small_dataset, small_log, tmp_path):
        out = tmp_path / "crosses.json"
        cli("generate", small_dataset, "--method=random", "--out", out, "--count=2", "--seed=7")
        run = cli(
            *("materialize", out, "--dataset", small_dataset, "--input", small_log / "log.csv"),
            *("--out", tmp_path / "log.csv"),
        )
        assert run.returncode == 0, run.stderr
        header = (tmp_path / "log.csv").read_text().partition("\n")[0]
        for cross in json.loads(out.read_text())["crosses"]:
            assert cross["name"] in header

    def test_a_file_that_is_there_is_kept_unless_told_otherwise(self, cli, small_dataset, tmp_path):
        out = tmp_path / "crosses.json"
        out.write_text("mine")
        command = ("generate", small_dataset, "--method", "random", "--out")
        run = cli(*command, out)
        assert run.returncode == 2
        assert run.stderr == (
            f"fives generate: {out}: exists; choose another name, or give --overwrite.\n"
        )
        assert out.read_text() == "mine"
        assert cli(*command, out, "--overwrite").returncode == 0
        assert "mine" not in out.read_text()
        assert "is a directory" in cli(*command, tmp_path, "--overwrite").stderr

    def test_beam_flags_are_for_mutual_information(self, cli, small_dataset, tmp_path):
        out = tmp_path / "crosses.json"
        command = ("generate", small_dataset, "--out", out, "--count=3", "--method")
        run = cli(*command, "cmi", "--runner=FnApiRunner")
        assert run.returncode == 0, run.stderr
        assert "count crosses, 1 of 1: 100%" in run.stderr
        assert from_json(out.read_bytes(), str(out)) == generate(small_dataset, "cmi", count=3)
        out.unlink()
        run = cli(*command, "random", "--runner=FnApiRunner")
        assert (run.returncode, "is for cmi" in run.stderr) == (2, True)
        run = cli(*command, "cmi", "--colour=red")
        assert (run.returncode, "unknown flag --colour=red" in run.stderr) == (2, True)
        assert not out.exists()

    def test_clicks_are_needed(self, cli, tmp_path):
        config = SynthConfig(rows=60, fields=3, numeric=0, plant=(), click_rate=0.001)
        dataset = write_synth(config, tmp_path)
        run = cli("generate", dataset.directory, "--method=cmi", "--out", tmp_path / "x.json")
        assert run.returncode == 2
        assert "the train split has 0 clicks" in run.stderr
