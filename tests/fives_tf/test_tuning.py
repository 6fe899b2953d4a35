import pytest

import fives_tf
from fives_tf.errors import UserError
from fives_tf.run import Run
from fives_tf.tuning import GRID, PAPER_GRID, combinations, trial_name, tune

FAST = {"search_epochs": 1, "epochs": 1, "patience": 1, "first_order": False, "xla": False}


def test_the_grid_is_the_papers_as_far_as_there_are_columns():
    assert len(combinations(PAPER_GRID, 9, {})) == 3 * 2 * 2
    assert combinations(PAPER_GRID, 3, {})[-1] == {"order": 3, "edge_rate": 5e-4, "dim": 16}
    assert {one["edge_rate"] for one in combinations(GRID, 9, {})} == {3e-2, 1e-2}


def test_what_is_given_is_not_tried(small_dataset, tmp_path):
    assert combinations(GRID, 9, {"order": 3, "edge_rate": 0.1}) == [{"dim": 16}, {"dim": 32}]
    assert "order" not in combinations(GRID, 9, {"thresholds": (0.5, 0.6)})[0]
    every = {"order": 3, "edge_rate": 0.1, "dim": 4}
    assert combinations(GRID, 9, every) == [{}]
    with pytest.raises(UserError, match="--tune: all of order, edge_rate, dim are given"):
        tune(small_dataset, tmp_path / "run", **every)


def test_a_grid_that_was_stopped_goes_on_and_ends_in_a_search_with_the_best(
    small_dataset, tmp_path, monkeypatch
):
    from fives_tf import tuning

    grid = {"order": (2, 9), "dim": (2, 3)}
    asked = []
    perform = tuning.perform

    def stopping(dataset, run, config, *options):
        asked.append(config.dim)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return perform(dataset, run, config, *options)

    monkeypatch.setattr(tuning, "perform", stopping)
    directory = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        tune(small_dataset, directory, grid=grid, **FAST)
    finished = directory / "tune/order2-dim2/run.json"
    kept = finished.stat()
    with pytest.raises(UserError, match="--resume goes on with it"):
        tune(small_dataset, directory, grid=grid, **FAST)
    with pytest.raises(UserError, match="holds a search with --tune"):
        fives_tf.search(small_dataset, directory, resume=True, **FAST)

    tuning_result = tune(small_dataset, directory, grid=grid, resume=True, **FAST)
    assert asked == [2, 3, 2, 3, tuning_result.best.settings["dim"]]
    assert finished.stat().st_mtime_ns == kept.st_mtime_ns
    assert [trial.settings for trial in tuning_result.trials] == [
        {"order": 2, "dim": 2},
        {"order": 2, "dim": 3},
    ]
    for trial in tuning_result.trials:
        run = Run.open(str(directory / "tune" / trial_name(trial.settings)))
        assert run.manifest["evaluation"] == trial.evaluation
        assert not run.config.refit
    best = max(tuning_result.trials, key=lambda trial: trial.evaluation["auc"])
    assert tuning_result.best == best
    result = tuning_result.result
    assert result.run.directory == str(directory)
    assert result.config.dim == best.settings["dim"]
    assert result.config.refit
    # The trial differs from the search in nothing that comes before the refit.
    assert result.evaluation == best.evaluation
