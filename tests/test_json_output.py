"""`--json`: one JSON document on standard output, and nothing else there."""

import argparse
import json
from pathlib import Path

import pytest

import fives_tf
from fives_tf import schema_tuning
from fives_tf.cli import make_parser
from fives_tf.crosses import best_of_orders, from_json, to_items
from fives_tf.dataset import Dataset
from fives_tf.describe import describe
from fives_tf.run import Run
from fives_tf.schema import Discretize, Schema
from fives_tf.schema_tuning import Candidate, Trial, Tuning
from launch import flink_local
from pipelines.sample import Sample

# They print what other programs read in its own form: manifests, scripts, the output of workers.
WITHOUT = {"launch local", "launch k8s", "launch slurm", "completion"}
SHORT = {"first_order": False, "search_epochs": 1, "after": "nothing", "order": 2, "xla": False}


@pytest.fixture(scope="module")
def run_directory(small_dataset, tmp_path_factory) -> Path:
    """A search that has come to its end."""
    directory = tmp_path_factory.mktemp("searched") / "run"
    fives_tf.search(small_dataset, directory, **SHORT)
    return directory


@pytest.fixture
def document(cli):
    """Runs a command with `--json`, and reads what it prints."""

    def run(*arguments: object) -> dict:
        done = cli(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def commands(parser: argparse.ArgumentParser, name: str = "") -> dict[str, set[str]]:
    """The flags of all verbs, and of their actions where they have some."""
    for action in parser._actions:
        if isinstance(action.choices, dict):
            below = [commands(one, f"{name} {key}") for key, one in action.choices.items()]
            return {key: flags for found in below for key, flags in found.items()}
    return {name.strip(): set(parser._option_string_actions)}


def test_every_command_with_a_result_has_it():
    assert {name for name, flags in commands(make_parser()).items() if "--json" not in flags} == (
        WITHOUT
    )


@pytest.mark.slow
def test_nothing_else_is_on_standard_output(fives, tmp_path):
    """In processes of their own, where libraries may print past Python."""
    made = fives("synth", "--rows", 2000, "--out", tmp_path / "log", "--json")
    truth = json.loads((tmp_path / "log/truth.json").read_text())
    assert json.loads(made.stdout) == {"out": str(tmp_path / "log"), **truth}
    log = tmp_path / "log/log.csv"
    with log.open("a") as file:
        file.write("0\n")
    flags = ["--schema", tmp_path / "log/schema.yaml", "--out", tmp_path / "dataset"]
    done = fives("preprocess", log, *flags, "--json")
    assert done.returncode == 0, done.stderr
    description = describe(Dataset.open(str(tmp_path / "dataset")))
    assert json.loads(done.stdout) == {
        "out": str(tmp_path / "dataset"),
        "splits": description["splits"],
        "rejected": 1,
    }
    small = [f"--{name}=1" for name in ("lr_epochs", "epochs", "patience")]
    flags = ["--run", tmp_path / "run", *small, "--no_xla"]
    fit = fives("fit", tmp_path / "dataset", *flags, "--json")
    assert fit.returncode == 0, fit.stderr
    manifest = json.loads((tmp_path / "run/run.json").read_text())
    assert json.loads(fit.stdout) == {
        "run": str(tmp_path / "run"),
        "model": "lr",
        "evaluation": manifest["evaluation"],
        "crosses": [],
    }


def test_search(document, run_directory, small_dataset):
    settings = ["--no_first_order", "--search_epochs=1", "--after=nothing", "--order=2", "--no_xla"]
    shown = document("search", small_dataset, "--run", run_directory, *settings, "--resume")
    run = Run.open(str(run_directory))
    assert shown == {
        "run": str(run_directory),
        "evaluation": run.manifest["evaluation"],
        "crosses": to_items(best_of_orders(run.crosses, 5)),
    }


def test_search_with_trials(document, small_dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("fives_tf.tuning.GRID", {"dim": (2,)})
    flags = ["--no_first_order", "--search_epochs=1", "--after=nothing", "--order=2", "--no_xla"]
    shown = document("search", small_dataset, "--run", tmp_path / "run", *flags, "--tune")
    [trial] = shown["trials"]
    assert (trial["settings"], trial["best"]) == ({"dim": 2}, True)
    assert trial["evaluation"].keys() == shown["evaluation"].keys()


def test_crosses(cli, document, run_directory, small_log):
    same = cli("crosses", run_directory, "--format=json")
    assert cli("crosses", run_directory, "--json").stdout == same.stdout
    shown = document("crosses", run_directory, "--truth", small_log / "truth.json")
    [planted] = shown["planted"]
    assert planted["name"] == "C1 x C2"
    assert (planted["columns"], planted["order"]) == (["C1", "C2"], 2)
    assert 1 <= planted["rank"] <= planted["among"]
    refused = cli("crosses", run_directory, "--json", "--format=sql")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "not allowed with argument" in refused.stderr


def test_evaluate_and_describe(document, run_directory, small_dataset):
    assert document("evaluate", run_directory)["split"] == "test"
    assert document("describe", small_dataset) == describe(Dataset.open(str(small_dataset)))


def test_export_and_predict(document, run_directory, small_log, tmp_path):
    exports, scores = tmp_path / "exports", tmp_path / "scores.csv"
    shown = document("export", run_directory, "--to", exports, "--version", 7)
    assert shown == {"run": str(run_directory), "path": f"{exports}/7", "version": 7}
    log = tmp_path / "log.csv"
    log.write_text((small_log / "log.csv").read_text() + "0\n")
    flags = ["--output", scores, "--max_bad_fraction=0.1"]
    shown = document("predict", exports, "--input", log, *flags)
    assert (shown["output"], shown["export"]) == (str(scores), f"{exports}/7")
    assert (shown["rows"], shown["bad"], shown["labelled"]) == (2501, 1, 2500)
    assert shown["rejects"][0].startswith(f"{log}:2502: ")
    assert 0 < shown["mean_probability"] < 1
    assert 0 < shown["auc"] < 1
    assert shown["log_loss"] > 0


def test_a_figure_that_does_not_exist_is_null(document, run_directory, small_log, tmp_path):
    exports, scores = tmp_path / "exports", tmp_path / "scores.csv"
    document("export", run_directory, "--to", exports)
    log = tmp_path / "log.csv"
    log.write_text((small_log / "log.csv").read_text().splitlines()[0] + "\n0\n")
    flags = ["--output", scores, "--max_bad_fraction=1"]
    shown = document("predict", exports, "--input", log, *flags)
    assert (shown["rows"], shown["bad"]) == (1, 1)
    assert shown["mean_probability"] is shown["auc"] is shown["log_loss"] is None


def test_generate_and_materialize(document, small_dataset, small_log, tmp_path):
    file, log, dataset = tmp_path / "crosses.json", tmp_path / "log.csv", tmp_path / "dataset"
    shown = document("generate", small_dataset, "--method=random", "--count=2", "--out", file)
    crosses = from_json(file.read_bytes(), "here")
    assert shown == {"out": str(file), "method": "random", "crosses": to_items(crosses)}
    given = [file, "--dataset", small_dataset]
    shown = document("materialize", *given, "--input", small_log / "log.csv", "--out", log)
    counts = {"rows": 2500, "bad": 0, "rejects": []}
    assert shown == {"out": str(log), **counts, "crosses": to_items(crosses)}
    shown = document("materialize", *given, "--out", dataset)
    made = describe(Dataset.open(str(dataset)))
    assert shown == {
        "out": str(dataset),
        "splits": made["splits"],
        "crosses": to_items(crosses),
    }


class TestSchema:
    def test_infer(self, document, small_log, tmp_path):
        log = small_log / "log.csv"
        shown = document("schema", "infer", log)
        assert shown["out"] is None
        schema = Schema.parse(shown["schema"])
        assert [column["name"] for column in shown["columns"]] == [c.name for c in schema.columns]
        written = document("schema", "infer", log, "--out", tmp_path / "schema.yaml")
        assert written == shown | {"out": str(tmp_path / "schema.yaml")}
        assert (tmp_path / "schema.yaml").read_text() == shown["schema"]

    def test_check(self, document, small_log, tmp_path):
        path, log = small_log / "schema.yaml", tmp_path / "log.csv"
        shown = document("schema", "check", path)
        assert (shown["schema"], shown["log"]) == (str(path), None)
        fields = [name for column in shown["columns"] for name in column["fields"]]
        assert sorted(fields) == sorted(Schema.load(path).field_names())
        assert {column["kind"] for column in shown["columns"]} == {"numeric", "categorical"}
        log.write_text((small_log / "log.csv").read_text() + "0\n")
        checked = document("schema", "check", path, log)["log"]
        assert (checked["files"], checked["rows"], checked["bad"]) == (1, 2501, 1)
        assert checked["rejects"][0].startswith(f"{log}:2502: ")

    def test_tune(self, document, small_log, tmp_path, monkeypatch):
        before, best = (
            Trial(Candidate(Discretize("quantile", buckets), 2), auc, 0.5)
            for buckets, auc in (((10,), 0.6), ((10, 100), 0.7))
        )
        schema, out = Schema.load(small_log / "schema.yaml"), tmp_path / "tuned.yaml"
        sample = Sample("", 9, {"train": 6, "valid": 2}, {"train": 3, "valid": 1}, 1)
        found = Tuning([before, best], best, before, schema, sample)
        monkeypatch.setattr(schema_tuning, "tune_schema", lambda *_: found)
        shown = document("schema", "tune", "schema.yaml", "log.csv", "--out", out)
        assert shown["trials"] == [shown["before"], shown["best"]]
        settings = {"discretize": "quantile 10/100", "min_count": "2"}
        assert shown["best"] == {**settings, "auc": 0.7, "log_loss": 0.5}
        assert (shown["out"], shown["rows"], shown["rejected"]) == (str(out), sample.rows, 1)
        assert Schema.load(out) == schema


def test_a_flink_cluster(document, monkeypatch):
    def launch(config, started):
        logs = Path(config.logs)
        started(flink_local.Cluster(config.release, "127.0.0.1:8081", "localhost:9", logs, {}))
        return 0

    monkeypatch.setattr(flink_local, "launch", launch)
    shown = document("launch", "flink-local", "--logs", "logs")
    flags = shown.pop("flags")
    assert "--flink_master=127.0.0.1:8081" in flags
    assert shown == {
        "release": flink_local.RELEASE,
        "master": "127.0.0.1:8081",
        "pool": "localhost:9",
        "logs": "logs",
    }
