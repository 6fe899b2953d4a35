"""What all experiments do: tune each method, run it with several seeds, and gather the figures."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from fives_tf.bench.cells import Cell, Result, Store
from fives_tf.bench.data import Data
from fives_tf.bench.methods import METHODS, Settings, Trial, learning_cell, trials
from fives_tf.bench.statistics import Spread
from fives_tf.bench.summary import Runs, Summary


@dataclass(frozen=True, eq=False)
class Session:
    """One benchmark.

    Attributes:
        store: The cells.
        data: The data of each seed, by the names of the data sets.
        tunes: Whether methods are tuned, or run with what they start from.
        given: Settings that differ from those of all methods that have them.
        methods: The rows of a table that are asked for; all if there are none.
        tuned: What tuning chose, by data set and method.
        tried: All that tuning tried.
    """

    store: Store
    data: dict[str, list[Data]]
    tunes: bool
    given: Settings = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    tuned: dict[tuple[str, str], Settings] = field(default_factory=dict)
    tried: list[dict[str, Any]] = field(default_factory=list)

    def asked_for(self, rows: Iterable[str]) -> list[str]:
        """Those of the rows that are asked for, in their order."""
        return [row for row in rows if not self.methods or row in self.methods]

    def tune(self, methods: Iterable[str]) -> None:
        """Chooses the settings of methods; if nothing is tuned, those that they start from."""
        for name in self.data:
            self.tuned.update({(name, method): {} for method in methods})
        if self.tunes:
            self.choose(
                {
                    method: lambda data, method=method: trials(method, data, self.given)
                    for method in methods
                }
            )

    def choose(self, rows: dict[str, Callable[[Data], list[Trial]]]) -> None:
        """Chooses the settings of rows by the AUC on valid of the first seed.

        They are the first ones if nothing is tuned, or if no trial succeeds.

        Args:
            rows: What makes the trials of each row.
        """
        groups = {
            (name, row): make(first)
            for name, (first, *_) in self.data.items()
            for row, make in rows.items()
        }
        self.tuned.update({key: group[0][0] for key, group in groups.items()})
        if not self.tunes:
            return
        several = {
            key: [(settings, cell) for settings, cell in group if cell]
            for key, group in groups.items()
            if len(group) > 1
        }
        found = self.store.fill("trial", [cell for group in several.values() for _, cell in group])
        for (name, row), group in several.items():
            judged = [
                {
                    "dataset": name,
                    "method": row,
                    "settings": one,
                    "valid": found[cell.name]["valid"],
                }
                for one, cell in group
                if cell.name in found
            ]
            self.tried.extend(judged)
            if judged:
                best = max(judged, key=lambda trial: trial["valid"]["auc"])
                self.tuned[name, row] = best["settings"]

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
            runs[row][name] = {
                cell.data.seed: found[cell.name] for cell in group if cell and cell.name in found
            }
        return runs

    def figures(self, summary: Summary) -> dict[tuple[str, str], str]:
        """The AUC of each row as tables have it, by data set and row; it tells of missing runs."""
        return {
            (one["dataset"], one["method"]): f"{Spread(**one['auc'])}{one.get('stars', '')}"
            f"{self.missing(one['dataset'], one['auc']['runs'])}"
            for one in summary
        }

    def missing(self, name: str, runs: int) -> str:
        """What is put behind a figure of so many runs on a data set, if there were to be more."""
        wanted = len(self.data[name])
        return f" ({runs} of {wanted} runs)" if runs < wanted else ""

    def facts(self) -> list[str]:
        """How the figures of tuned methods and several runs came about, in words."""
        seeds = [data.seed for data in next(iter(self.data.values()))]
        given = ", ".join(f"`{name}` {value}" for name, value in self.given.items())
        return [
            f"Runs of each method: {len(seeds)}, with the seeds {seeds}. The seed draws the test "
            "rows of employee, bank and credit and the validation rows of adult, too; else it is "
            "that of learning alone. Where the test rows are always the same, deviations are those "
            "of learning.",
            "Each method was tuned by the AUC on the validation rows of seed 0, over the grid that "
            "the JSON file lists with all trials."
            if self.tried
            else "Nothing was tuned: each method has the settings that it starts from"
            f"{', but for those that were given' if given else ''}.",
            *([f"Given to all methods that have them: {given}."] if given else []),
            "The test rows are read once for each run, when it is complete.",
        ]


def labels(methods: Iterable[str]) -> dict[str, str]:
    """The names of methods in tables."""
    return {method: METHODS[method].label for method in methods}
