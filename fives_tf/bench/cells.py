"""Cells: what was computed once stays in the work directory, and is shared by all experiments.

A cell is one piece of work on one data set with one seed, such as a fit of one model. Its file is
named by all that decides what it holds, so that two experiments that ask for the same share it.
What a stopped cell began lies in its run directory, from which it goes on.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fives_tf import storage
from fives_tf.bench.data import Data
from fives_tf.bench.facts import LEARNING
from fives_tf.bench.processes import RESULT, Call, in_processes
from fives_tf.errors import UserError
from fives_tf.versions import versions

Result = dict[str, Any]
_HEAVY = {"adjacency", "crosses", "points"}  # what other cells need of a cell, and no reader


@dataclass(frozen=True, eq=False)
class Cell:
    """A piece of work.

    Attributes:
        data: What it is about.
        what: A word for it, for people.
        perform: What does it: a function of the dataset directory, the run directory, `arguments`
            and, if there is one, `given`; it returns what JSON can hold.
        arguments: All that decides the result beside the data, as JSON has it.
        given: What follows from `arguments` and the data, but is known already.
    """

    data: Data
    what: str
    perform: Callable[..., Result]
    arguments: dict[str, Any] = field(default_factory=dict)
    given: Any = None

    @cached_property
    def name(self) -> str:
        """The name of its file."""
        known = [self.data.identity, self.data.seed, self.perform.__name__, self.arguments]
        digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()
        return f"{self.data.name}-{self.data.seed}-{self.what}-{digest[:12]}"


class Store:
    """The cells of a work directory.

    Attributes:
        failures: What went wrong, by the names of the cells.
        used: What results state of the cells that were asked for, by their names.
    """

    def __init__(self, work: Path, jobs: int = 1, keep_runs: bool = False):
        """Takes a work directory.

        Args:
            work: The directory.
            jobs: How many cells are computed at a time.
            keep_runs: Whether run directories stay when their cells are written.
        """
        self._work, self._jobs, self._keep_runs = work, jobs, keep_runs
        self.failures: dict[str, str] = {}
        self.used: dict[str, Result] = {}

    def __contains__(self, cell: Cell) -> bool:
        """Whether a cell is computed already."""
        return self._path(cell.name).exists()

    def fill(self, stage: str, cells: Iterable[Cell], alone: bool = False) -> dict[str, Result]:
        """Computes the cells that are missing; the results of all that did not fail, by name.

        Args:
            stage: What they are for, for people.
            cells: The cells.
            alone: Whether to compute one at a time, with all cores, in any case.
        """
        wanted = {cell.name: cell for cell in cells}
        found = {name: self._read(name) for name, cell in wanted.items() if cell in self}
        missing = [
            cell for name, cell in wanted.items() if name not in found and name not in self.failures
        ]
        began = time.monotonic()
        calls = (Call(_perform, self._task(cell), self._log(cell)) for cell in missing)
        ended = in_processes(calls, 1 if alone else self._jobs)
        for done, (number, outcome) in enumerate(ended, start=1):
            cell = missing[number]
            if outcome.kind == RESULT:
                found[cell.name] = self._write(cell, outcome.value)
                told = _headline(found[cell.name])
            else:
                self.failures[cell.name] = f"{outcome.value} (its log: {self._log(cell)})"
                told = f"FAILED: {outcome.value}"
            left = len(missing) - done
            rest = (time.monotonic() - began) / done * left
            print(
                f"{stage} {done} of {len(missing)}: {cell.data.name} {cell.data.seed} {cell.what}: "
                f"{told}; {left} left, about {_duration(rest)}",
                file=sys.stderr,
                flush=True,
            )
        for name, result in found.items():
            data = wanted[name].data
            light = {key: value for key, value in result.items() if key not in _HEAVY}
            self.used[name] = {
                "cell": name,
                "dataset": data.name,
                "seed": data.seed,
                "what": wanted[name].what,
                **light,
            }
        return found

    def _task(self, cell: Cell) -> tuple[Any, ...]:
        run = str(self._run(cell))
        return cell.perform, cell.data.directory, run, cell.data.seed, cell.arguments, cell.given

    def _write(self, cell: Cell, content: str) -> Result:
        storage.write(str(self._path(cell.name)), content.encode())
        if not self._keep_runs:
            storage.remove(str(self._run(cell)))
            storage.remove(self._log(cell))
        return json.loads(content)

    def _read(self, name: str) -> Result:
        path = str(self._path(name))
        try:
            return json.loads(storage.read(path))
        except ValueError as error:
            raise UserError(
                f"{path}: is damaged ({error}); remove it, and it is computed anew."
            ) from None

    def _path(self, name: str) -> Path:
        return self._work / "cells" / f"{name}.json"

    def _run(self, cell: Cell) -> Path:
        return self._work / "runs" / cell.name

    def _log(self, cell: Cell) -> str:
        return str(self._work / "logs" / f"{cell.name}.log")


def _perform(
    perform: Callable[..., Result],
    directory: str,
    run: str,
    seed: int,
    arguments: dict[str, Any],
    given: Any,
) -> str:
    """Does the work of a cell, in a process of its own; its result as JSON.

    It adds how long that took, and the versions that it was done with.
    """
    began, worked = time.monotonic(), time.process_time()
    more = {} if given is None else {"given": given}
    result = perform(directory, run, seed, **arguments, **more)
    about = {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - worked, 1),  # which other load does not raise
        "versions": versions(LEARNING),
    }
    return json.dumps(result | about, allow_nan=False)


def _headline(result: Result) -> str:
    """What a line on a finished cell tells."""
    figures = {"test": result.get("test"), "valid": result.get("valid")}
    told = [f"{split} AUC {figure['auc']:.4f}" for split, figure in figures.items() if figure]
    return ", ".join([*told[:1], f"{result['seconds']:.0f} s"])


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
