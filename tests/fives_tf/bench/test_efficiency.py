"""What is told of the runs of the networks, and what those that are timed have in common."""

import dataclasses

import pytest

from fives_tf.bench import efficiency
from fives_tf.bench.cells import Store
from fives_tf.bench.methods import learning_cell
from fives_tf.bench.session import Session
from fives_tf.training.batches import Source


def run(*curve):
    return {"config": {"batch": 128}, "curve": [list(point) for point in curve]}


def test_the_auc_at_the_end_of_an_epoch_is_the_last_one_up_to_it():
    often = run((3, 0.5), (7, 0.6), (10, 0.7), (13, 0.65), (20, 0.8))  # ten steps an epoch
    rows = 10 * 128 + 127
    assert [efficiency.after_epoch(often, rows, epoch) for epoch in (1, 2, 3)] == [0.7, 0.8, None]
    few = run((1, 0.5), (2, 0.6))  # of fewer rows than a batch, a step is an epoch
    assert [efficiency.after_epoch(few, 50, epoch) for epoch in (1, 2, 3)] == [0.5, 0.6, None]
    assert efficiency.after_epoch(run(), rows, 1) is None


def test_a_mean_curve_goes_as_far_as_all_do():
    curves = [[[10, 0.5], [20, 0.7], [30, 0.8]], [[12, 0.7], [24, 0.8]]]
    assert efficiency.mean_curve(curves) == [
        [11, pytest.approx(0.6)],
        [22, pytest.approx(0.75)],
    ]
    assert efficiency.mean_curve([]) == []


def test_what_is_the_fastest_has_the_stars():
    seconds = {
        "log": {"fives_paper": [1.0, 1.1], "dnn": [2.0, 2.1], "autoint": [9.0, 9.1], "fignn": []}
    }
    fives, dnn, _ = efficiency._summary(seconds, least=True)
    assert (fives["against"], fives["stars"]) == ("dnn", "**")
    assert "against" not in dnn
    seconds["log"]["dnn"] = [0.1, 0.2]
    slower, *_ = efficiency._summary(seconds, least=True)
    assert (slower["against"], slower["stars"]) == ("dnn", "")
    assert slower["p"] < 0.05
    higher, *_ = efficiency._summary(seconds)
    assert (higher["against"], higher["stars"]) == ("autoint", "")


def test_the_tables_tell_what_failed_and_what_ended_before(small_data, tmp_path):
    """FIVES learns three epochs, DNN one with one of its two seeds, and AutoInt failed once."""
    steps = small_data.rows // 128
    curves = {
        "fives_paper": [3, 3],
        "dnn": [3, 1],
        "autoint": [3],
        "fignn": [2, 2],
        "wide_deep": [],
    }

    class Done(Store):
        def fill(self, stage, cells, alone=False):
            found = {}
            for cell in cells:
                if stage == "clock":
                    seconds = {method: [0.1, 0.2, 0.3] for method in efficiency.ROWS}
                    epochs = dict.fromkeys(efficiency.ROWS, steps)
                    found[cell.name] = {"step_seconds": seconds, "epoch_steps": epochs}
                elif cell.data.seed < len(curves[cell.what]):
                    epochs = curves[cell.what][cell.data.seed]
                    points = [[steps * one, 0.5 + one / 10] for one in range(1, epochs + 1)]
                    valid = {"auc": points[-1][1]}
                    found[cell.name] = run(*points) | {"valid": valid}
            return found

    data = [small_data, dataclasses.replace(small_data, seed=1)]
    report = efficiency.run(Session(Done(tmp_path), {"dataset": data}, False, {}))
    times, aucs = report.tables
    epoch = 0.2 * steps
    assert {row[1] for row in times.rows} == {f"{epoch:.2f} ± {epoch / 2:.2f} (1.00)"}
    told = {row[1]: row[2:] for row in aucs.rows}
    both = "0.{}000 ± 0.0000".format
    assert told["FIVES, paper's form"] == (both(6), both(7), both(8), both(8))
    assert told["DNN"] == (both(6), "-", "-", "0.7000 ± 0.1414")
    assert told["AutoInt"][0] == "0.6000 (1 of 2 runs)"
    assert told["Fi-GNN"] == (both(6), both(7), "-", both(7))
    assert told["Wide&Deep"] == ("-", "-", "-", "failed")
    (fives,) = [
        one for one in report.figures["summary"] if "against" in one and "auc" in one["figure"]
    ]
    assert fives["against"] == "autoint"
    assert [len(curve) for curve in report.figures["curves"]["dataset"].values()] == [3, 1, 3, 2, 0]


def test_an_epoch_of_fives_is_judged_by_those_of_autoint_and_fignn():
    seconds = {"fives_paper": [1.4, 1.6], "autoint": [1.0], "fignn": [1.5]}
    limit, below = efficiency._judge("log", seconds)
    assert (limit["value"], limit["reached"]) == (pytest.approx(1.5), True)
    assert (below["value"], below["reached"]) == (pytest.approx(1.0), False)


@pytest.mark.parametrize(("runs", "turns"), [(1, 3), (5, 5)])
def test_networks_are_timed_with_the_settings_of_their_runs(runs, turns, small_data, tmp_path):
    asked = []

    class Asked(Store):
        def fill(self, stage, cells, alone=False):
            asked.append((list(cells), alone))
            return {}

    data = [dataclasses.replace(small_data, seed=seed) for seed in range(runs)]
    session = Session(Asked(tmp_path), {"dataset": data}, False, {"dim": 2})
    session.tune(efficiency.ROWS)
    session.tuned["dataset", "autoint"] = {"layers": 2, "heads": 4}
    assert efficiency._clocks(session) == {}
    [([cell], alone)] = asked
    config = cell.arguments["configs"]["autoint"]
    assert (config["layers"], config["heads"], config["dim"]) == (2, 4, 2)
    assert (cell.arguments["repeats"], alone) == (turns, True)


def test_all_networks_read_the_same_rows_in_memory(small_data, monkeypatch):
    made, begin = [], Source.__init__

    def count(self, *args, **more):
        made.append(self)
        begin(self, *args, **more)

    monkeypatch.setattr(Source, "__init__", count)
    settings = {"dim": 2, "hidden": (4,), "batch": 512, "xla": False}
    configs = {
        method: learning_cell(method, small_data, settings).arguments["config"]
        for method in ("dnn", "fm")
    }
    found = efficiency.clock(small_data.directory, "", 0, configs=configs, repeats=2, steps=1)
    assert {method: len(steps) for method, steps in found["step_seconds"].items()} == {
        "dnn": 2,
        "fm": 2,
    }
    assert found["epoch_steps"] == dict.fromkeys(("dnn", "fm"), small_data.rows // 512)
    assert len(made) == 1
