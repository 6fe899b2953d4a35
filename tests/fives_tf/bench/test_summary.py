"""What tables tell of several runs."""

from pathlib import Path

import pytest

from fives_tf.bench.cells import Store
from fives_tf.bench.data import Data
from fives_tf.bench.session import Session
from fives_tf.bench.statistics import welch
from fives_tf.bench.summary import bar_plot, seed_tables, summarize, welch_lines
from fives_tf.bench.table3 import improvement


def runs(*figures):
    """Those of the seeds from 0 on; None for one that failed."""
    found = {seed: auc for seed, auc in enumerate(figures) if auc is not None}
    return {
        "log": {seed: {"test": {"auc": auc, "log_loss": 1 - auc}} for seed, auc in found.items()}
    }


def test_a_row_is_tested_against_the_strongest_of_its_others():
    every = {
        "fives": runs(0.90, 0.91, 0.92),
        "weak": runs(0.5, 0.6, 0.55),
        "strong": runs(0.80, 0.81, 0.82),
        "trees": runs(0.95, 0.96, 0.97),
        "failed": runs(None, None, None),
    }
    found = summarize(every, {"fives": ("weak", "strong", "failed")})
    fives, *others = found
    assert [one["method"] for one in others] == ["weak", "strong", "trees"]
    assert (fives["against"], fives["stars"]) == ("strong", "**")
    assert fives["p"] == fives["p_values"]["strong"] == welch([0.90, 0.91, 0.92], [0.8, 0.81, 0.82])
    assert fives["p_values"]["weak"] == welch([0.90, 0.91, 0.92], [0.5, 0.6, 0.55])
    assert fives["auc"]["mean"] == pytest.approx(0.91)
    assert fives["log_loss"]["mean"] == pytest.approx(0.09)
    assert all("stars" not in one for one in others)
    (line,) = welch_lines(found, {name: name.upper() for name in every})
    assert line == (
        f"log: FIVES less the strongest other, STRONG +0.1000 (p = {fives['p']:.2g}); "
        f"WEAK +0.3600 (p = {fives['p_values']['weak']:.2g})"
    )
    worse = summarize(
        {"fives": runs(0.1, 0.2, 0.11), "other": runs(0.8, 0.9, 0.85)}, {"fives": ("other",)}
    )
    assert (worse[0]["stars"], worse[0]["p"] < 0.05) == ("", True)
    assert worse[0]["differences"]["other"] < 0


def test_a_bar_is_the_mean_of_a_row_and_one_that_failed_has_none():
    every = {"fives": runs(0.8, 0.9), "failed": runs(None, None)}
    plot = bar_plot("Title", {"fives": "FIVES", "failed": "Failed"}, every)
    (panel,) = plot.panels
    [(height, deviation)] = panel.series["FIVES"]
    assert (height, deviation) == pytest.approx((0.85, 0.1 / 2**0.5))
    assert panel.series["Failed"] == []


def test_rows_are_compared_seed_by_seed_over_the_seeds_of_both():
    every = {
        "fives": runs(0.80, 0.92, 0.70),
        "lr": runs(0.79, 0.90, 0.69),
        "dnn": runs(0.81, None, 0.68),
        "trees": runs(None, 0.95, None),
        "failed": runs(None, None, None),
    }
    found = summarize(every, {"fives": ("lr", "dnn")})
    fives, *others = found
    assert not any("by_seed" in one for one in others)
    by_seed = fives["by_seed"]
    assert list(by_seed) == ["lr", "dnn", "trees"]
    assert by_seed["lr"]["difference"]["mean"] == pytest.approx(0.04 / 3)
    assert [by_seed[row]["ahead"] for row in by_seed] == [3, 1, 0]
    assert by_seed["lr"]["difference"]["deviation"] == pytest.approx(0.01 / 3**0.5)
    assert by_seed["dnn"]["difference"]["runs"] == 2
    names = {"fives": "FIVES", "lr": "LR", "dnn": "DNN", "trees": "Trees", "failed": "Failed"}
    (table,) = seed_tables(found, names, ["log"])
    assert (table.title, table.header) == (
        "FIVES less each other, seed by seed",
        ("less", "log"),
    )
    assert table.rows == [
        ("LR", "+0.0133 ± 0.0058 (3 of 3)"),
        ("DNN", "+0.0050 ± 0.0212 (1 of 2)"),
        ("Trees", "-0.0300 (0 of 1)"),
        ("Failed", "-"),
    ]
    alone = summarize({"fives": runs(0.8), "trees": runs(0.7)}, {"fives": ()})
    assert "against" not in alone[0]
    assert alone[0]["by_seed"]["trees"]["ahead"] == 1


def test_a_mean_over_some_of_the_runs_is_marked():
    data = [Data("log", seed, "dataset", 100, 5, "identity", False) for seed in range(3)]
    session = Session(Store(Path()), {"log": data}, False)
    summary = summarize({"all": runs(0.5, 0.6, 0.7), "some": runs(0.5, None, 0.7)}, {})
    assert session.figures(summary) == {
        ("log", "all"): "0.6000 ± 0.1000",
        ("log", "some"): "0.6000 ± 0.1414 (2 of 3 runs)",
    }


def test_an_improvement_is_over_the_seeds_of_both():
    every = {"lr": runs(0.8, 0.5, None), "cmi": runs(0.9, None, 0.1), "random": runs(None, None, 1)}
    found = improvement(every, "log", "cmi")
    assert found["improvement"] == pytest.approx(100 * (0.9 - 0.8) / 0.8)
    assert found["improvement_runs"] == 1
    assert improvement(every, "log", "random") == {}
