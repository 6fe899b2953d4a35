"""What all experiments do: tune each method, run it with several seeds, and gather the figures."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from fives_tf.bench.cells import Cell, Result, Store
from fives_tf.bench.data import Data
from fives_tf.bench.methods import METHODS, Settings, learning_cell, trial_cell, trials
from fives_tf.bench.statistics import Spread, stars, welch

Runs = dict[str, dict[str, list[Result]]]
"""The results of the runs, by row and data set."""


@dataclass(frozen=True, eq=False)
class Session:
    """One benchmark.

    Attributes:
        store: The cells.
        data: The data of each seed, by the names of the data sets.
        tunes: Whether methods are tuned, or run with what they start from.
        given: Settings that differ from those of all methods that have them.
        tuned: What tuning chose, by data set and method.
        tried: All that tuning tried.
    """

    store: Store
    data: dict[str, list[Data]]
    tunes: bool
    given: Settings = field(default_factory=dict)
    tuned: dict[tuple[str, str], Settings] = field(default_factory=dict)
    tried: list[dict[str, Any]] = field(default_factory=list)

    def tune(self, methods: Iterable[str]) -> None:
        """Chooses the settings of methods by the AUC on valid of the first seed."""
        cells: dict[tuple[str, str], list[tuple[Settings, Cell]]] = {}
        for name, (first, *_) in self.data.items():
            for method in methods:
                chosen = trials(method, first, self.given) if self.tunes else [{}]
                self.tuned[name, method] = chosen[0]
                if len(chosen) > 1:
                    cells[name, method] = [
                        (one, trial_cell(method, first, one | self.given)) for one in chosen
                    ]
        every = [cell for group in cells.values() for _, cell in group]
        found = self.store.fill("trial", every)
        for (name, method), group in cells.items():
            judged = [
                {
                    "dataset": name,
                    "method": method,
                    "settings": one,
                    "valid": found[cell.name]["valid"],
                }
                for one, cell in group
                if cell.name in found
            ]
            self.tried.extend(judged)
            if judged:
                best = max(judged, key=lambda trial: trial["valid"]["auc"])
                self.tuned[name, method] = best["settings"]

    def cell(
        self,
        method: str,
        data: Data,
        chosen: Settings | None = None,
        crosses: Cell | None = None,
        given: list[Result] | None = None,
    ) -> Cell:
        """A run of a method with its tuned settings.

        Args:
            method: The method.
            data: The data.
            chosen: Settings that differ from the tuned ones.
            crosses: Where the crosses come from, if it has any.
            given: The crosses.
        """
        values = self.tuned[data.name, method] | (chosen or {}) | self.given
        return learning_cell(method, data, values, crosses=crosses, given=given)

    def run(self, rows: dict[str, Callable[[Data], Cell | None]]) -> Runs:
        """Runs the rows of a table on all data with all seeds.

        Args:
            rows: What makes the cell of each row; None where there is none to make.
        """
        cells = {
            (row, name): [make(data) for data in every]
            for row, make in rows.items()
            for name, every in self.data.items()
        }
        every = [cell for group in cells.values() for cell in group if cell]
        found = self.store.fill("run", every)
        runs: Runs = {row: {} for row in rows}
        for (row, name), group in cells.items():
            names = [cell.name for cell in group if cell]
            runs[row][name] = [found[one] for one in names if one in found]
        return runs


def on_test(runs: list[Result], metric: str = "auc") -> list[float]:
    """A figure on test of several runs."""
    return [run["test"][metric] for run in runs]


def summarize(runs: Runs, ours: Iterable[str], outside: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The spread of each row on each data set, and whether ours are better than all others.

    Ours are tested against the other row of the highest mean, and have stars if they are better.

    Args:
        runs: The runs.
        ours: Which rows are tested.
        outside: Which rows are not among the others that they are tested against.
    """
    ours, outside = set(ours), set(outside)
    summary = []
    for name in next(iter(runs.values()), {}):
        figures = {row: on_test(found[name]) for row, found in runs.items()}
        others = {
            row: Spread.of(values).mean
            for row, values in figures.items()
            if values and row not in ours | outside
        }
        strongest = max(others, key=others.get) if others else None
        for row, values in figures.items():
            if not values:
                continue
            one = {"dataset": name, "method": row}
            one["auc"] = dataclasses.asdict(Spread.of(values))
            losses = on_test(runs[row][name], "log_loss")
            one["log_loss"] = dataclasses.asdict(Spread.of(losses))
            if row in ours and strongest:
                p = welch(values, figures[strongest])
                better = one["auc"]["mean"] > others[strongest]
                one |= {"against": strongest, "p": p, "stars": stars(p) if better else ""}
            summary.append(one)
    return summary


def labels(methods: Iterable[str]) -> dict[str, str]:
    """The names of methods in tables."""
    return {method: METHODS[method].label for method in methods}
