"""Every experiment from end to end on a small log; no figure of theirs is judged."""

import importlib
import json
import re
import subprocess
import sys

import pytest

from fives_tf import storage
from fives_tf.bench import efficiency, facts, trees
from fives_tf.bench.methods import METHODS

from .conftest import result


def names(work, kind="cells"):
    return {path.name for path in (work / kind).iterdir()}


def check_page(work, experiment, plots=()):
    results = work / "results"
    page = (results / f"{experiment}.md").read_text()
    for plot in plots:
        assert f"({plot}.svg)" in page
        assert (results / f"{plot}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (results / f"{plot}.svg").read_bytes()
    return page


@pytest.mark.slow
def test_table2_compares_all_methods_and_shares_its_cells(bench, tmp_path):
    done = bench("table2", tmp_path, "--runs=1")
    assert done.returncode == 0, done.stderr
    found = result(tmp_path, "table2")
    methods = [one["method"] for one in found["summary"]]
    assert methods[:9] == list(METHODS)
    assert all(0 < one["auc"]["mean"] < 1 for one in found["summary"])
    assert all(one["log_loss"]["mean"] > 0 for one in found["summary"])
    assert found["summary"][0]["against"] not in ("fives_paper", "lightgbm")
    assert found["machine"]["cores"] > 0
    assert found["versions"]["tensorflow"]
    assert all("seed" not in config for config in found["configs"])
    page = check_page(tmp_path, "table2", ["table2"])
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0] for line in lines[2:5]] == [
        "| FIVES",
        "| FIVES, paper's form",
        "| LR",
    ]
    assert names(tmp_path, "runs") == set()
    before = names(tmp_path)
    assert "run 1 of" not in bench("table2", tmp_path, "--runs=1").stderr
    assert names(tmp_path) == before
    # Of the next experiment the whole form and nothing else is known.
    told = bench("ablation", tmp_path, "--runs=1").stderr
    assert "run 1 of 2: dataset 0 fives_paper" in told
    check_page(tmp_path, "ablation", ["ablation-dependencies", "ablation-rescaling"])
    summary = {one["method"]: one for one in result(tmp_path, "ablation")["summary"]}
    assert list(summary) == [
        *("fives", "no_dependencies", "no_rescaling"),
        *("fives_lr", "no_rescaling_lr"),
    ]
    assert set(summary["fives"]["p_values"]) == {"no_dependencies", "no_rescaling"}
    assert set(summary["fives_lr"]["p_values"]) == {"no_rescaling_lr"}


@pytest.mark.slow
def test_table3_compares_generators_by_a_regression(bench, tmp_path):
    done = bench("table3", tmp_path, "--runs=1")
    assert done.returncode == 0, done.stderr
    found = result(tmp_path, "table3")
    summary = {one["method"]: one for one in found["summary"]}
    rows = ["lr", "random", "cmi", "autocross", "fives_score", "fives_gain"]
    installed = [library for library in trees.LIBRARIES if trees.missing(library) is None]
    assert list(summary) == [*rows, *installed, "lightgbm_fives"]
    assert set(summary["fives_gain"]["p_values"]) == {"lr", "random", "cmi", "autocross"}
    base = summary["lr"]["auc"]["mean"]
    cmi = summary["cmi"]
    assert cmi["improvement"] == pytest.approx(100 * (cmi["auc"]["mean"] / base - 1))
    cells = {cell["cell"]: cell for cell in found["cells"]}
    origins = {
        cell["what"]: cells[cell["crosses_from"]]["what"]
        for cell in cells.values()
        if cell.get("crosses_from")
    }
    assert origins == {
        "lr-random-given": "random",
        "lr-cmi-given": "cmi",
        "lr-autocross-given": "autocross",
        "lr-fives-given": "fives",
        "lr-fives-gain": "fives",
        "lightgbm-lr-fives-gain": "lr-fives-gain",
    }
    page = check_page(tmp_path, "table3", ["table3"])
    assert "Improvement over LR in %" in page
    assert page.count("| LightGBM with FIVES crosses | 0.") == 1


@pytest.mark.slow
def test_usefulness_relates_edges_to_crosses(bench, tmp_path):
    done = bench("usefulness", tmp_path, order=3)
    assert done.returncode == 0, done.stderr
    found = result(tmp_path, "usefulness")
    assert [one["method"] for one in found["summary"]] == ["random", "scratch", "fives", "finetune"]
    assert all(one["auc"]["runs"] == 2 for one in found["summary"])
    related = {(one["layer"], one["of"]): one for one in found["correlations"]}
    assert set(related) == {(layer, of) for layer in (1, 2) for of in ("soft", "strength")}
    assert all(abs(one["pearson"]) <= 1 for one in related.values())
    page = check_page(tmp_path, "usefulness", ["usefulness-networks", "usefulness-edges"])
    fives = found["summary"][2]
    assert set(fives["p_values"]) == {"random", "scratch", "finetune"}
    assert set(found["summary"][1]["p_values"]) == {"random"}
    assert "- dataset: FIVES less the strongest other, " in page


@pytest.mark.slow
def test_efficiency_follows_and_times_the_networks(bench, tmp_path):
    done = bench("efficiency", tmp_path)
    assert done.returncode == 0, done.stderr
    found = result(tmp_path, "efficiency")
    assert set(found["curves"]["dataset"]) == set(efficiency.ROWS)
    for curve in found["curves"]["dataset"].values():
        steps = [step for step, _ in curve]
        assert steps == sorted(set(steps)) != []
    times = found["times"]["dataset"]
    turns = [len(times["step_seconds"][method]) for method in efficiency.ROWS]
    assert turns == [efficiency.TURNS] * len(efficiency.ROWS)
    figures = [(one["figure"], one["method"]) for one in found["summary"]]
    assert figures[:5] == [("seconds", method) for method in efficiency.ROWS]
    for one, most in zip(found["criteria"], (efficiency.MOST_AUTOINT, 1), strict=True):
        assert one["reached"] == (0 < one["value"] <= most)
    assert done.stdout.count("reached") == 2
    assert "Seconds of an epoch: dataset: FIVES, paper's form less the strongest" in done.stdout
    page = check_page(tmp_path, "efficiency", ["efficiency-convergence", "efficiency-epochs"])
    assert (found["seeds"], found["tuned"]) == ([0, 1], False)
    assert "The runs are those of table2." in page


def test_a_method_that_fails_is_told_at_the_end(bench, tmp_path):
    done = bench("usefulness", tmp_path, "--runs=1", order=9)
    assert done.returncode == 1
    assert "FAILED: `order`: the dataset has fields of 5 columns" in done.stdout
    page = (tmp_path / "results" / "usefulness.md").read_text()
    assert "| Random | failed |" in page
    assert page.count("`order`: the dataset has") == 4


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["tabel2"], "no experiment `tabel2`; did you mean `table2`?"),
        (["table2", "--datasets=adlt"], "no data set `adlt`; did you mean `adult`?"),
        (["table2", "--datasets=/absent"], "/absent: no such directory"),
        (["table2", "--datasets=adult", "--data=/absent"], "set FIVES_DATA"),
        (["table2", "--runs=0"], "--runs: expected at least 1"),
        (["table2", "--set=dmi=1"], "did you mean `dim`?"),
        (["table2", "--set=seed=1"], "`seed` is decided by this program"),
        (["table2", "--set=dim=-1"], "`dim`: expected"),
        (["table2", "--set=dim=2\nseed: 1"], "--set: expected one line"),
        (["table3", "--set=rank=given"], "`rank` is decided by this program"),
        (["ablation", "--set=dependencies=true"], "`dependencies` is decided by this program"),
        (["table2", "--methods=fivse"], "no method `fivse`; did you mean `fives`?"),
        (["table2", "--methods="], "no method ``"),
        (["table2", "--datasets=s3://bucket/dataset"], "expected a directory of the disk"),
        (["table2", "--out=s3://bucket/results"], "--out: expected a directory of the disk"),
        (["table2", "--out=/dev/null/results"], "--out: /dev/null/results: cannot be written"),
        (["table3", "--methods=lr"], "--methods: only table2 has methods to choose from"),
    ],
)
def test_mistakes_are_told(cli, tmp_path, flags, message):
    done = cli("bench", *flags, f"--work={tmp_path}")
    assert done.returncode == 2
    assert message in done.stderr


def test_table2_compares_the_methods_that_are_asked_for(bench, tmp_path):
    done = bench("table2", tmp_path, "--methods=lightgbm,fm,lr", "--runs=2")
    assert done.returncode == 0, done.stderr
    found = result(tmp_path, "table2")
    assert [one["method"] for one in found["summary"]] == ["lr", "fm", "lightgbm"]
    assert "compared with: FIVES, FIVES, paper's form, DNN, " in check_page(tmp_path, "table2")


@pytest.fixture
def absent(monkeypatch):
    """Lets packages be as if they were not installed."""
    packages: set[str] = set()

    def find(name: str):
        if name in packages:
            raise ModuleNotFoundError(name=name)
        return importlib.__dict__["import_module"](name)

    class Importing:
        import_module = staticmethod(find)

    monkeypatch.setattr(facts, "importlib", Importing)
    return packages


def test_a_library_that_is_not_installed_leaves_a_row_that_says_so(bench, tmp_path, absent):
    absent |= {"lightgbm", "catboost", "xgboost"}
    flags = ("--runs=1", "--methods=lr,lightgbm,catboost,xgboost")
    done = bench("table2", tmp_path, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("not installed: pip install 'fives-tf[bench]'") == 3
    assert done.stderr.startswith("LightGBM: not installed")  # before all other work
    found = result(tmp_path, "table2")
    assert {one["method"] for one in found["summary"]} == {"lr"}
    (cell,) = found["cells"]
    assert found["seconds"] == cell["seconds"] > 0
    assert found["versions"]["tensorflow"] == [cell["versions"]["tensorflow"]]
    assert not found["tuned"]
    page = (tmp_path / "results" / "table2.md").read_text()
    assert "has the settings that it starts from, but for those that were given." in page
    assert "Given to all methods that have them: `lr_epochs` 1, " in page
    again = bench("table2", tmp_path, *flags, "--json")
    assert json.loads(again.stdout) == result(tmp_path, "table2")


def test_what_a_library_needs_beside_itself_leaves_such_a_row_too(bench, tmp_path, absent):
    absent.add("sklearn")
    done = bench("table2", tmp_path, "--runs=1", "--methods=lr,lightgbm")
    assert done.returncode == 0, done.stderr
    why = "sklearn is needed and not installed: pip install 'fives-tf[bench]'"
    assert f"LightGBM\t{why}" in done.stdout
    assert done.stderr.startswith(f"LightGBM: {why}")


def test_a_dataset_is_no_work_directory(bench, small_dataset):
    done = bench("table2", small_dataset)
    assert done.returncode == 2
    assert f"--work: {small_dataset}: holds a dataset" in done.stderr
    assert not (small_dataset / "cells").exists()


def test_two_at_once_do_not_share_a_work_directory(bench, tmp_path):
    with storage.lock(str(tmp_path / "lock")):
        done = bench("table2", tmp_path, "--methods=lr")
    assert done.returncode == 2
    assert "lock: another process is at work here" in done.stderr
    assert not (tmp_path / "results" / "table2.json").exists()


def test_a_damaged_cell_is_told(bench, tmp_path):
    flags = ("--methods=lr", "--runs=1")
    assert bench("table2", tmp_path, *flags).returncode == 0
    (cell,) = (tmp_path / "cells").iterdir()
    cell.write_bytes(cell.read_bytes()[:-10])
    done = bench("table2", tmp_path, *flags)
    assert done.returncode == 2
    assert f"{cell.name}: is damaged" in done.stderr


@pytest.mark.slow
def test_after_a_kill_the_same_command_goes_on(small_dataset, tmp_path):
    command = [sys.executable, "-m", "fives_tf.cli", "bench", "table2", "--quick", "--jobs=1"]
    command += [f"--datasets={small_dataset}", "--methods=lr,fm", "--runs=1", f"--work={tmp_path}"]
    command += ["--set=lr_epochs=1", "--set=epochs=2", "--set=xla=false"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as first:
        line = first.stderr.readline()  # the cell of LR is written, that of FM begins
        assert "dataset 0 lr: test AUC" in line
        first.kill()
        # Its end comes when no process that has it open is left: the one that learns ends too.
        assert "FAILED" not in first.stderr.read()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "run 1 of 1: dataset 0 fm: test AUC" in done.stderr


def test_what_every_experiment_needs_is_asked_for_first(bench, tmp_path, absent):
    absent.add("scipy")
    done = bench("table2", tmp_path)
    assert done.returncode == 2
    assert "scipy is needed and not installed: pip install 'fives-tf[bench]'." in done.stderr


def test_a_dataset_whose_log_is_gone_has_no_trees(bench, tmp_path, monkeypatch):
    flags = ("--methods=lr,lightgbm", "--runs=1")
    has_log = trees.has_log
    monkeypatch.setattr(trees, "has_log", lambda data: False)
    done = bench("table2", tmp_path, *flags)
    assert done.returncode == 0
    assert "LightGBM\tno log" in done.stdout
    monkeypatch.setattr(trees, "has_log", has_log)
    assert "LightGBM\t0." in bench("table2", tmp_path, *flags).stdout
    # What was computed while it was there is used, and the missing run of another seed is told.
    monkeypatch.setattr(trees, "has_log", lambda data: False)
    done = bench("table2", tmp_path, "--methods=lr,lightgbm", "--runs=2")
    assert re.search(r"LightGBM\t0\.\d+ \(1 of 2 runs\)", done.stdout)
