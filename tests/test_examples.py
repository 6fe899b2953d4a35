"""The examples, the notebook and the lines of the docs for tables run as printed."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient

from fives_tf.sklearn import FivesClassifier, FivesCrosses
from fives_tf.synth import SynthConfig, generate

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A small log, in the directory that the code runs in."""
    generate(SynthConfig(rows=1200, fields=4, numeric=1, plant=("C1 x C2",)), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "log.csv"


def run(page: Path) -> dict:
    """Runs all blocks of Python on a page, one after the other."""
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    return names


def test_the_lines_of_the_readme_run(log, capsys):
    names = run(ROOT / "README.md")
    assert isinstance(names["crosses"], FivesCrosses)
    assert "C1" in capsys.readouterr().out


@pytest.mark.slow
def test_the_lines_of_the_page_run(log):
    names = run(ROOT / "docs/sklearn.md")
    assert isinstance(names["model"], FivesClassifier)
    assert names["crosses"].crosses_


@pytest.mark.slow
def test_the_lines_for_lightgbm_run_and_find_the_planted_cross(log, capsys):
    run(ROOT / "docs/lightgbm.md")
    told = capsys.readouterr().out
    assert "C1 x C2" in told
    assert re.search(r"columns alone: 0\.\d{4}\nwith crosses: 0\.\d{4}", told)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightgbm", "catboost"])
def test_an_example_finds_the_planted_cross_and_prints_both_aucs(library, log, monkeypatch, capsys):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [library, "--csv", str(log), "--crosses", "2"])
    runpy.run_path(str(EXAMPLES / f"{library}_crosses.py"), run_name="__main__")
    told = capsys.readouterr().out
    figures = [float(text) for text in re.findall(r"test AUC ([0-9.]+)", told)]
    assert len(figures) == 2
    assert "C1 x C2" in told


@pytest.mark.slow
def test_the_notebook_runs_and_shows_a_lift(tmp_path):
    notebook = nbformat.read(EXAMPLES / "crosses.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    notebook.cells.append(nbformat.v4.new_code_cell("lift.to_csv('lift.csv')"))
    NotebookClient(notebook, timeout=550, resources={"metadata": {"path": str(tmp_path)}}).execute()
    lift = pd.read_csv(tmp_path / "lift.csv", index_col=0)
    assert (lift["with crosses"] > lift["columns alone"] + 0.02).all()
