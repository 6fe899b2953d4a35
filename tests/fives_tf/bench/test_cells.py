"""Cells stay, are shared, and fail alone."""

import dataclasses
import json
from importlib.metadata import version
from pathlib import Path

import pytest

from fives_tf.bench import cells
from fives_tf.bench.cells import Cell, Store
from fives_tf.bench.data import Data
from fives_tf.bench.facts import all_versions
from fives_tf.errors import UserError

DATA = Data("log", 0, "dataset", 100, 5, "identity", False)


def count(directory: str, run: str, seed: int, *, number: int, given: int = 0) -> dict:
    """Leaves a trace in the run directory each time that it is called."""
    trace = Path(run, "calls")
    trace.parent.mkdir(parents=True, exist_ok=True)
    trace.write_text(trace.read_text() + "x" if trace.exists() else "x")
    if number < 0:
        raise UserError("the number is negative; raise it.")
    return {"number": number + given, "calls": len(trace.read_text())}


def other(directory: str, run: str, seed: int, *, number: int) -> dict:
    return {"number": -number}


@pytest.fixture
def store(tmp_path, one_process):
    return Store(tmp_path)


def test_a_cell_is_computed_once_whoever_asks(store, tmp_path, capsys):
    first = Cell(DATA, "count", count, {"number": 1})
    assert store.fill("run", [first, first])[first.name]["number"] == 1
    told = capsys.readouterr().err
    assert told.startswith("run 1 of 1: log 0 count: ")
    assert told.endswith("; 0 left, about 0 s\n")
    again = Cell(DATA, "count", count, {"number": 1}, given=7)  # which follows from the rest
    found = Store(tmp_path).fill("another", [again])
    assert found == {first.name: json.loads((tmp_path / f"cells/{first.name}.json").read_text())}
    assert capsys.readouterr().err == ""


def test_all_that_decides_a_result_makes_another_cell():
    elsewhere = dataclasses.replace(DATA, directory="moved")
    every = [
        Cell(DATA, "count", count, {"number": 1}),
        Cell(DATA, "count", count, {"number": 2}),
        Cell(DATA, "count", other, {"number": 1}),
        Cell(dataclasses.replace(DATA, seed=1), "count", count, {"number": 1}),
        Cell(dataclasses.replace(DATA, identity="x"), "count", count, {"number": 1}),
    ]
    assert len({cell.name for cell in every}) == len(every)
    assert Cell(elsewhere, "count", count, {"number": 1}).name == every[0].name


@pytest.mark.parametrize("keep", [False, True])
def test_the_run_of_a_finished_cell_goes_unless_it_is_kept(one_process, tmp_path, keep):
    cell = Cell(DATA, "count", count, {"number": 1})
    Store(tmp_path, keep_runs=keep).fill("run", [cell])
    assert (tmp_path / "runs" / cell.name).exists() == keep


def test_one_failure_loses_nothing_else_and_leaves_its_run(store, tmp_path):
    bad, good = (Cell(DATA, "count", count, {"number": number}) for number in (-1, 1))
    assert set(store.fill("run", [bad, good])) == {good.name}
    assert store.failures[bad.name].startswith("the number is negative; raise it. (its log: ")
    assert store.fill("later", [bad]) == {}  # not tried twice by one command
    assert (tmp_path / "runs" / bad.name / "calls").read_text() == "x"
    Store(tmp_path).fill("again", [bad])  # but by the next one, from where it stood
    assert (tmp_path / "runs" / bad.name / "calls").read_text() == "xx"


def test_what_only_other_cells_need_is_no_part_of_the_result(store):
    cell = Cell(DATA, "heavy", heavy, {})
    found = store.fill("run", [cell])
    assert found[cell.name]["crosses"] == [1]
    used = store.used[cell.name]
    assert set(used) == {
        *("cell", "dataset", "seed", "what", "test", "crosses_from"),
        *("seconds", "cpu_seconds", "versions"),
    }
    assert (used["cell"], used["crosses_from"]) == (cell.name, "another")


def heavy(directory: str, run: str, seed: int) -> dict:
    return {
        "crosses": [1],
        "crosses_from": "another",
        "adjacency": {},
        "test": {"auc": 0.5, "log_loss": 0.7},
    }


def test_a_cell_keeps_the_versions_that_made_it(store, tmp_path, monkeypatch):
    cell = Cell(DATA, "count", count, {"number": 1})
    assert store.fill("run", [cell])[cell.name]["versions"]["tensorflow"]
    assert cell in store
    monkeypatch.setattr(cells, "versions", lambda packages: {"tensorflow": "later"})
    later = Cell(DATA, "count", count, {"number": 2})
    store.fill("run", [later])
    again = Store(tmp_path).fill("run", [cell, later])
    found = all_versions(one["versions"] for one in again.values())
    assert found["tensorflow"] == sorted([version("tensorflow"), "later"])


def test_a_figure_that_is_no_number_is_a_failure(store):
    cell = Cell(DATA, "diverged", diverged, {})
    assert store.fill("run", [cell]) == {}
    assert "ValueError" in store.failures[cell.name]
    assert cell not in store


def diverged(directory: str, run: str, seed: int) -> dict:
    return {"test": {"auc": float("nan")}}
