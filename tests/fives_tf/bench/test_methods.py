"""What is tuned, by what, and with which settings."""

import dataclasses
import itertools
import shutil

import pytest

from fives_tf.bench import paper
from fives_tf.bench.cells import Cell, Store
from fives_tf.bench.data import Data
from fives_tf.bench.learn import generate
from fives_tf.bench.methods import METHODS, learning_cell, trials
from fives_tf.bench.session import Session
from fives_tf.config import PAPER
from fives_tf.errors import UserError
from fives_tf.training.batches import Source

ADULT = Data("adult", 0, "dataset", 29_000, 14, "identity", True)


HIDDEN, DIM = ((512, 256), (256, 128), (128, 64)), (8, 16)
PAPERS = {  # appendix C
    "fives_paper": {"order": (2, 3, 4), "edge_rate": (0.005, 0.0005), "dim": DIM},
    "lr": {},
    "dnn": {"hidden": HIDDEN, "dim": DIM},
    "wide_deep": {"hidden": HIDDEN, "dim": DIM},
    "autoint": {"layers": (2, 3, 4), "heads": (2, 4), "dim": DIM},
    "fignn": {"layers": (2, 3, 4), "dim": DIM},
    "autofis": {"dim": DIM},
}


@pytest.mark.parametrize("method", PAPERS)
def test_what_is_tried_is_the_grid_of_the_paper(method):
    grid = PAPERS[method]
    tried = [tuple(settings[name] for name in grid) for settings, _ in trials(method, ADULT, {})]
    assert sorted(tried) == sorted(itertools.product(*grid.values()))


def test_what_is_tried_of_fm_holds_the_grid_of_the_paper():
    tried = {(one["rate"], one["l2"]) for one, _ in trials("fm", ADULT, {})}
    assert tried > set(itertools.product((0.005, 0.01), (0.001, 0.01)))
    assert set(METHODS) == {*PAPERS, "fm", "fives"}


def test_what_is_given_is_not_tuned():
    [(settings, cell)] = trials("autofis", ADULT, {"dim": 4})
    assert (settings, cell.arguments["config"]["dim"]) == ({}, 4)
    layers = [one["layers"] for one, _ in trials("fignn", ADULT, {"dim": 4})]
    assert layers == [2, 3, 4]
    few = dataclasses.replace(ADULT, columns=2)
    assert {one["order"] for one, _ in trials("fives", few, {})} == {2}


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
    own = dataclasses.replace(ADULT, rows=300_000, public=False)  # though it is called adult
    assert learning_cell("dnn", own, {}).arguments["config"]["batch"] == 512
    fives = learning_cell("fives_paper", ADULT, {"hidden": (1,), "dim": 8}).arguments["config"]
    assert {**fives, "dim": 16}.items() >= {**PAPER, "dim": 16, "batch": 128}.items()


@pytest.mark.parametrize("method", ["fives", "fives_paper"])
def test_no_order_is_higher_than_there_are_columns_unless_it_is_given(method):
    few = dataclasses.replace(ADULT, columns=2)
    assert learning_cell(method, few, {}).arguments["config"]["order"] == 2
    assert learning_cell(method, ADULT, {}).arguments["config"]["order"] == 3
    assert learning_cell(method, few, {"order": 9}).arguments["config"]["order"] == 9


def test_the_name_of_a_fit_tells_where_its_crosses_come_from():
    def fit(source, rank):
        crosses = Cell(ADULT, source, generate, {"method": source})
        return learning_cell("lr", ADULT, {"rank": rank}, crosses=crosses, given=[])

    cells = [fit("cmi", "given"), fit("random", "given"), fit("fives", "gain")]
    assert [cell.what for cell in cells] == ["lr-cmi-given", "lr-random-given", "lr-fives-gain"]
    assert fit("cmi", "given").name == cells[0].name  # one cell for all who ask
    assert learning_cell("lr", ADULT, {}).what == "lr"


def test_equal_settings_are_one_cell():
    assert (
        learning_cell("dnn", ADULT, {"dim": 16, "hidden": (512, 256)}).name
        == learning_cell("dnn", ADULT, {}).name
    )
    assert learning_cell("dnn", ADULT, {"dim": 8}).name != learning_cell("dnn", ADULT, {}).name


def test_a_trial_learns_from_no_row_that_judges_it():
    for settings, cell in trials("dnn", ADULT, {}):
        assert not cell.arguments["test"]
        assert not cell.arguments["config"]["refit"]
        assert cell.arguments["config"]["dim"] == settings["dim"]


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


TINY = {"batch": 512, "search_epochs": 1, "epochs": 1, "lr_epochs": 1, "dim": 2, "order": 2}
TINY |= {"hidden": (4,), "xla": False}


@pytest.mark.parametrize("method", ["lr", "autofis", "fives"])
def test_a_trial_needs_no_test_rows_and_a_run_reads_them_once(
    method, small_dataset, small_data, tmp_path, monkeypatch
):
    def perform(directory, run, test):
        cell = learning_cell(method, small_data, TINY, test=test)
        return cell.perform(str(directory), str(tmp_path / run), 0, **cell.arguments)

    damaged = shutil.copytree(small_dataset, tmp_path / "damaged")
    for shard in (damaged / "test").iterdir():
        shard.write_bytes(bytes(shard.stat().st_size))
    assert perform(damaged, "trial", test=False)["valid"]["auc"] > 0
    with pytest.raises(UserError, match="is corrupt"):
        perform(damaged, "none", test=True)
    read = []

    def follow(name):
        function = getattr(Source, name)

        def followed(self, splits, *rest):
            read.append(splits)
            return function(self, splits, *rest)

        monkeypatch.setattr(Source, name, followed)

    follow("once")
    follow("arrays")
    assert perform(small_dataset, "run", test=True)["test"]["auc"] > 0
    assert sum("test" in splits for splits in read) == 1


def test_the_figures_of_the_paper_are_of_methods_that_there_are():
    assert set(paper.AUC) <= set(METHODS)
    assert all(tuple(row) == paper.DATASETS for row in paper.AUC.values())
    assert paper.figure(paper.AUC, "lr", ADULT) == 0.8836
    assert paper.figure(paper.AUC, "lr", dataclasses.replace(ADULT, public=False)) is None
    assert paper.figure(paper.AUC, "fives", ADULT) is None
