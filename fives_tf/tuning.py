"""`--tune`: tries a grid of settings, and searches with those that are best on valid.

Each combination is a run of its own below `tune/` in the run directory, with checkpoints of its
own, so that a grid that was stopped goes on where it stood.
"""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fives_tf import storage
from fives_tf.config import SearchConfig
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.run import TUNE, Run, check_place, clear
from fives_tf.search import SearchResult, begin, check_dataset, open_dataset, perform, working
from fives_tf.training.strategy import on_chief, tell

Grid = Mapping[str, Sequence[Any]]

# The paper's grid (appendix C); its rates and dimensions suit its form of the network, not ours.
PAPER_GRID: Grid = {"order": (2, 3, 4), "edge_rate": (5e-3, 5e-4), "dim": (8, 16)}
GRID: Grid = {"order": (2, 3, 4), "edge_rate": (3e-2, 1e-2), "dim": (16, 32)}
# A trial is judged before a refit and by one model: more would take time and tell nothing.
_TRIAL = {"refit": False, "members": 1}


@dataclass(frozen=True)
class Trial:
    """A combination of settings that was tried.

    Attributes:
        settings: The settings of the grid.
        evaluation: The figures on the validation split.
    """

    settings: dict[str, Any]
    evaluation: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Tuning:
    """What a grid search found.

    Attributes:
        trials: All that was tried, in the order of the grid.
        best: The trial with the highest AUC; the first one if several have it.
        result: The search with the settings of the best trial.
    """

    trials: list[Trial]
    best: Trial
    result: SearchResult


def tune(
    dataset: str | os.PathLike | Dataset,
    run: str | os.PathLike,
    *,
    grid: Grid | None = None,
    paper: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    **settings: Any,
) -> Tuning:
    """Searches with each combination of a grid, then once more with the best one.

    Args:
        dataset: A dataset directory.
        run: The run directory to write.
        grid: The values to try for each setting; that of the form unless given.
        paper: Start from the paper's form, and try the paper's rates.
        resume: Go on with a grid that was stopped; trials that are done are kept.
        overwrite: Replace what is in the run directory.
        **settings: Settings that are the same in all trials; they are not tuned.
    """
    dataset, directory = open_dataset(dataset), os.fspath(run)
    grid = grid or (PAPER_GRID if paper else GRID)
    columns = len({field.column for field in dataset.encoding.fields})
    chosen = combinations(grid, columns, settings)
    if chosen == [{}]:
        raise UserError(f"--tune: all of {', '.join(grid)} are given; leave one to be tuned.")
    configs = [SearchConfig.make(paper, **settings | one) for one in chosen]
    for config in configs:
        check_dataset(dataset, config)
    check_place(directory)
    with working(directory, configs[0]):
        on_chief(lambda: _prepare(directory, resume, overwrite))
        trials = []
        for number, one in enumerate(chosen, start=1):
            tell(f"trial {number} of {len(chosen)}: {describe(one)}")
            config = SearchConfig.make(paper, **settings | one | _TRIAL)
            place = storage.join(directory, TUNE, trial_name(one))
            trials.append(Trial(one, perform(dataset, place, config, True, False).evaluation))
        best = max(trials, key=lambda trial: trial.evaluation["auc"])
        tell(f"the best: {describe(best.settings)}")
        config = configs[trials.index(best)]
        on_chief(lambda: Run.find(directory) or begin(directory, dataset, config))
        return Tuning(trials, best, perform(dataset, directory, config, True, False))


def combinations(grid: Grid, columns: int, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All combinations of the values of a grid; an empty one if nothing is left to be tuned.

    Args:
        grid: The values of each setting.
        columns: The number of columns, above which there is no order.
        given: The settings that stay as they are.
    """
    values = {name: options for name, options in grid.items() if name not in given}
    if given.get("thresholds"):
        values.pop("order", None)  # there are as many thresholds as one order has layers
    if "order" in values:
        orders = values["order"]
        # The lowest stays in any case; `check_dataset` says why there is none for one column.
        values["order"] = [order for order in orders if order <= columns] or [min(orders)]
    return [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]


def describe(settings: Mapping[str, Any]) -> str:
    """Settings in a line, such as `order=3, dim=16`."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def trial_name(settings: Mapping[str, Any]) -> str:
    """The folder of a trial, such as `order3-dim16`."""
    return "-".join(f"{name}{value}" for name, value in settings.items())


def _prepare(directory: str, resume: bool, overwrite: bool) -> None:
    if overwrite:
        clear(directory)
    tuned = storage.exists(storage.join(directory, TUNE))
    if Run.find(directory) and not tuned:
        raise UserError(
            f"{directory}: holds a search without --tune; choose another directory, or give "
            "--overwrite to replace it."
        )
    if tuned and not resume:
        raise UserError(
            f"{directory}: holds a search; --resume goes on with it, --overwrite replaces it."
        )
