"""What is tuned, by what, and with which settings."""

import dataclasses

import pytest

from fives_tf.bench import paper
from fives_tf.bench.cells import Store
from fives_tf.bench.data import Data
from fives_tf.bench.methods import METHODS, learning_cell, trial_cell, trials
from fives_tf.bench.session import Session, summarize
from fives_tf.config import PAPER
from fives_tf.training.batches import Source

ADULT = Data("adult", 0, "dataset", 29_000, 14, "identity")


@pytest.mark.parametrize(
    ("method", "count"),
    {
        "fives": 12,
        "fives_paper": 12,
        "lr": 1,
        "dnn": 6,
        "fm": 8,
        "wide_deep": 6,
        "autoint": 12,
        "fignn": 6,
        "autofis": 2,
    }.items(),
)
def test_the_grids_are_as_large_as_those_of_the_paper(method, count):
    assert len(trials(method, ADULT, {})) == count
    assert len(METHODS) == 9


def test_what_is_given_is_not_tuned():
    assert trials("autofis", ADULT, {"dim": 4}) == [{}]
    assert [one["layers"] for one in trials("fignn", ADULT, {"dim": 4})] == [2, 3, 4]
    few = dataclasses.replace(ADULT, columns=2)
    assert {one["order"] for one in trials("fives", few, {})} == {2}


def test_settings_are_those_of_the_paper_and_of_the_data():
    config = learning_cell("dnn", ADULT, {}).arguments["config"]
    assert (config["batch"], config["rate"], config["l2"], config["dropout"]) == (
        128,
        5e-3,
        1e-4,
        0.3,
    )
    criteo = dataclasses.replace(ADULT, name="criteo")
    assert learning_cell("dnn", criteo, {}).arguments["config"]["batch"] == 1024
    own = dataclasses.replace(ADULT, name="own", rows=300_000)
    assert learning_cell("dnn", own, {}).arguments["config"]["batch"] == 512
    fives = learning_cell("fives_paper", ADULT, {"hidden": (1,), "dim": 8}).arguments["config"]
    assert {**fives, "dim": 16}.items() >= {**PAPER, "dim": 16, "batch": 128}.items()


def test_equal_settings_are_one_cell():
    assert (
        learning_cell("dnn", ADULT, {"dim": 16, "hidden": (512, 256)}).name
        == learning_cell("dnn", ADULT, {}).name
    )
    assert learning_cell("dnn", ADULT, {"dim": 8}).name != learning_cell("dnn", ADULT, {}).name


def test_a_trial_learns_from_no_row_that_judges_it():
    arguments = trial_cell("dnn", ADULT, {}).arguments
    assert not arguments["test"]
    assert not arguments["config"]["refit"]


@pytest.mark.usefixtures("one_process")
def test_tuning_chooses_by_valid_and_never_reads_test(small_data, tmp_path, monkeypatch):
    once, read = Source.once, []
    monkeypatch.setattr(
        Source, "once", lambda self, splits, batch: read.append(splits) or once(self, splits, batch)
    )
    given = {"batch": 512, "epochs": 1, "hidden": (4,), "xla": False}
    session = Session(Store(tmp_path), {"dataset": [small_data]}, True, given)
    session.tune(("autofis", "lr"))
    assert read
    assert ["test"] not in read
    aucs = {trial["settings"]["dim"]: trial["valid"]["auc"] for trial in session.tried}
    assert set(aucs) == {8, 16}
    assert session.tuned["dataset", "autofis"] == {"dim": max(aucs, key=aucs.get)}
    assert session.tuned["dataset", "lr"] == {}


def test_fives_is_tested_against_the_strongest_other_method():
    def runs(*figures):
        return {"log": [{"test": {"auc": auc, "log_loss": 1 - auc}} for auc in figures]}

    found = summarize(
        {
            "fives": runs(0.90, 0.91, 0.92),
            "weak": runs(0.5, 0.6, 0.55),
            "strong": runs(0.80, 0.81, 0.82),
            "trees": runs(0.95, 0.96, 0.97),
            "failed": {"log": []},
        },
        ours=("fives",),
        outside=("trees",),
    )
    fives, weak, strong, trees = found
    assert (fives["against"], fives["stars"]) == ("strong", "**")
    assert fives["auc"]["mean"] == pytest.approx(0.91)
    assert fives["log_loss"]["mean"] == pytest.approx(0.09)
    assert all("stars" not in one for one in (weak, strong, trees))
    worse = summarize({"fives": runs(0.1, 0.2, 0.11), "other": runs(0.8, 0.9, 0.85)}, ("fives",))
    assert (worse[0]["stars"], worse[0]["p"] < 0.05) == ("", True)


def test_the_figures_of_the_paper_are_of_methods_that_there_are():
    assert set(paper.AUC) <= set(METHODS)
    assert all(tuple(row) == paper.DATASETS for row in paper.AUC.values())
