"""`report.json` holds what the run says."""

import json
import shlex
import shutil

import numpy as np
import pytest
import yaml

from fives_tf.cli import parse_flags
from fives_tf.crosses import derive, edge_probabilities
from fives_tf.dataset import Dataset
from fives_tf.evaluate import evaluate
from fives_tf.report import edges
from fives_tf.report.data import build
from fives_tf.report.numbers import rounded
from fives_tf.report.page import render
from fives_tf.run import Adjacency, Run
from fives_tf.schema import Schema
from pipelines.preprocess import Options, preprocess

QUICK = {"dim": 4, "batch": 256, "lr_epochs": 2, "search_epochs": 2, "epochs": 2, "xla": False}


@pytest.fixture(scope="module")
def run(small_dataset, tmp_path_factory):
    import fives_tf

    directory = tmp_path_factory.mktemp("reported") / "run"
    return fives_tf.search(small_dataset, directory, **QUICK).run


@pytest.fixture(scope="module")
def report(run):
    return json.loads(json.dumps(build(run, run.dataset()), allow_nan=False))


def test_the_headline_has_the_figures_of_an_evaluation(run, report):
    ours, *_, lr = report["headline"]["models"]
    figures = evaluate(run, "test").evaluation
    assert (ours["key"], lr["key"]) == ("fives", "lr")
    assert ours["auc"] == pytest.approx(figures.auc, abs=1e-6)
    assert ours["log_loss"] == pytest.approx(figures.log_loss, abs=1e-6)
    assert report["layers"] == {"split": "test", "auc": rounded(list(figures.output_auc))}
    low, high = ours["auc_interval"]
    assert low < ours["auc"] < high
    assert ours["above_lr"] == pytest.approx(ours["auc"] - lr["auc"], abs=2e-6)
    assert ours["above_lr_interval"][0] < ours["above_lr"] < ours["above_lr_interval"][1]


def test_the_regression_is_one_of_the_same_rows(run, report, tmp_path):
    import fives_tf

    config = {"batch": 256, "lr_epochs": 2, "xla": False}
    fitted = fives_tf.fit(run.dataset(), tmp_path / "fit", **config).run
    expected = evaluate(fitted, "test").evaluation
    [lr] = [model for model in report["headline"]["models"] if model["key"] == "lr"]
    assert lr["auc"] == pytest.approx(expected.auc, abs=1e-6)
    assert lr["log_loss"] == pytest.approx(expected.log_loss, abs=1e-6)


def test_calibration_takes_every_row_once(report):
    rows = report["headline"]["splits"][2]["rows"]
    for key in ("fives", "lr"):
        bins = report["headline"]["calibration"][key]
        assert len(bins) == 10
        assert sum(one["rows"] for one in bins) == rows
        clicks = sum(one["rows"] * one["clicked"] for one in bins)
        assert clicks == pytest.approx(report["headline"]["splits"][2]["clicks"], rel=1e-4)
        assert [one["predicted"] for one in bins] == sorted(one["predicted"] for one in bins)


def test_the_tensor_suggests_the_crosses_that_the_run_has(run, report):
    part = report["adjacency"]
    strength = np.array([layer["strength"] for layer in part["layers"]])
    suggested = derive(edge_probabilities(strength), part["fields"], part["columns"])
    best = [cross.name for cross in run.crosses if cross.order == 2][:5]
    assert [cross.name for cross in suggested if cross.order == 2][:5] == best
    assert part["left_out"] == 0


def test_the_way_of_the_search_is_told(run, report):
    history = report["history"]
    assert history["epochs"] == [1.0, 2.0]
    assert history["temperature"][-1] == pytest.approx(0.02, abs=1e-6)
    last = history["layers"][0]
    soft = run.adjacency.soft[0]
    columns = run.adjacency.columns
    may_be = columns[:, None] != columns[None, :]
    assert last["edges"][-1] == int((soft[may_be].round(2) >= 0.5).sum())
    assert last["quantiles"][-1][2] == pytest.approx(np.median(soft[may_be]), abs=0.005)
    for one in history["courses"]:
        start, end = (run.adjacency.fields.tolist().index(one[side]) for side in ("start", "end"))
        final = run.adjacency.soft[one["layer"] - 1, start, end]
        assert one["soft"][-1] == pytest.approx(final, abs=0.005)
    stages = [curve["stage"] for curve in report["curves"]]
    assert stages[:2] == ["lr", "search"]
    told = report["reproduce"]["durations"]
    assert [one["stage"] for one in told] == stages
    assert report["reproduce"]["seconds"] == pytest.approx(sum(one["seconds"] for one in told), 0.1)
    assert 0 < report["reproduce"]["seconds"] <= run.manifest["seconds"]


def test_how_to_repeat_it_is_told(run, report):
    told = report["reproduce"]
    assert told["config"]["dim"] == 4
    assert told["changed"] == QUICK
    assert set(told["versions"]) >= {"python", "fives-tf", "tensorflow", "keras", "numpy"}
    assert told["commands"][1].startswith("fives search ")
    for command in told["commands"]:
        parse_flags(shlex.split(command))


def test_a_second_report_learns_nothing_and_says_the_same(run, report, capfd):
    again = json.loads(json.dumps(build(run, run.dataset())))
    assert "refit-lr" not in capfd.readouterr().err
    assert again | {"created": ""} == report | {"created": ""}


def test_nothing_of_the_run_is_touched(run, report, tmp_path):
    # Its checkpoints, which take room, may be gone.
    copy = Run.open(str(shutil.copytree(run.directory, tmp_path / "run")))
    shutil.rmtree(tmp_path / "run/checkpoints")
    shutil.rmtree(tmp_path / "run/report")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")}
    again = build(copy, run.dataset())
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").glob("*.*")} == before
    assert json.loads(json.dumps(again["headline"]["models"])) == report["headline"]["models"]


def test_a_run_that_kept_less_has_a_report_with_less(run, tmp_path):
    directory = shutil.copytree(run.directory, tmp_path / "run")
    (directory / "snapshots.jsonl").unlink()
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seconds"]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = json.loads((directory / "run.json").read_text())
    del manifest["versions"]
    (directory / "run.json").write_text(json.dumps(manifest))
    report = build(Run.open(str(directory)), run.dataset())
    assert report["history"] is None
    assert (report["reproduce"]["durations"], report["reproduce"]["versions"]) == ([], {})
    assert report["reproduce"]["seconds"] == manifest["seconds"]
    assert render(report)


def test_without_test_rows_the_figures_are_those_before_the_models_learned_from_valid(
    small_log, tmp_path
):
    import fives_tf

    schema = yaml.safe_load((small_log / "schema.yaml").read_text())
    schema["split"] = {"by": "random", "valid": 0.2, "test": 0.0, "seed": 0}
    dataset = preprocess(
        [str(small_log / "log.csv")],
        Schema.parse(yaml.safe_dump(schema)),
        str(tmp_path / "dataset"),
        Options(),
    )
    found = fives_tf.search(dataset, tmp_path / "run", **QUICK | {"order": 2, "members": 2})
    report = build(found.run, dataset)
    headline = report["headline"]
    assert headline["judged_on"] == report["layers"]["split"] == "valid"
    ours, *_, lr = headline["models"]
    assert ours["auc"] == rounded(found.evaluation["auc"])
    assert (ours["auc_interval"], headline["calibration"]) == (None, {})
    [record] = [line for line in report["curves"] if line["stage"] == "lr"]
    assert lr["auc"] == record["points"][-1]["auc"]
    assert [one["kind"] for one in report["warnings"]][:1] == ["no_test"]
    assert {field["drift"] for field in report["data"]["fields"]} == {None}
    assert len(report["adjacency"]["layers"]) == 1
    assert render(report)


def test_the_papers_form_has_a_report_too(small_dataset, tmp_path):
    import fives_tf

    quick = {name: value for name, value in QUICK.items() if name not in ("epochs",)}
    found = fives_tf.search(small_dataset, tmp_path / "run", paper=True, **quick)
    report = build(found.run, Dataset.open(str(small_dataset)))
    keys = [model["key"] for model in report["headline"]["models"]]
    assert keys == ["fives", "lr"]
    assert any(cross["gain"] is not None for cross in report["crosses"])
    assert Run.open(str(tmp_path / "run")).crosses[0].auc is not None


def test_of_too_many_fields_those_with_the_strongest_edges_are_shown(monkeypatch):
    monkeypatch.setattr(edges, "MOST_FIELDS", 3)
    strength = np.zeros((2, 5, 5))
    strength[0, 1, 4] = strength[1, 3, 1] = 0.9
    names = np.array(list("abcde"))
    tensor = Adjacency(
        strength, strength, strength, strength > 0.5, np.full(2, 0.5), np.array(0.02), names, names
    )
    part = edges.adjacency_part(tensor)
    assert (part["fields"], part["left_out"]) == (["b", "d", "e"], 2)
    assert part["layers"][0]["strength"][0] == [0, 0, 0.9]
    assert part["layers"][1]["edges"][1] == [1, 0, 0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.123456789, 0.123457),
        (0.000012345678, 0.0000123457),
        (1234.123456789, 1234.123457),
        (float("nan"), None),
        (np.float32(0.5), 0.5),
        ({"a": [np.inf, 3, "x", None]}, {"a": [None, 3, "x", None]}),
    ],
)
def test_numbers_are_rounded(value, expected):
    assert rounded(value) == expected
