"""Chooses how numbers are cut and from which count on values count, by a quick regression on valid.

How the columns are encoded matters as much as the network. Each candidate is preprocessed from a
sample of the log and judged by the validation AUC of a logistic regression. First the
discretization is chosen, then, with the best one, `min_count`.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fives_tf import __version__, storage
from fives_tf.errors import UserError
from fives_tf.mapping import Mapping
from fives_tf.quiet import start_xla
from fives_tf.schema import Column, Discretize, Schema

if TYPE_CHECKING:
    from pipelines.sample import Sample

ROWS = 200_000
KINDS = ("quantile", "width", "log")
BUCKETS = ((10,), (30,), (10, 100), (8, 30, 150), (10, 100, 1000))
VALUES = Discretize("quantile", (10, 30), values=True)
MIN_COUNTS = (1, 2, 5, 10)

# In the working directory.
_LOCK = "lock"
_BEGUN = "tuning.json"
_SAMPLE = "sample"
_CANDIDATES = "candidates"


@dataclass(frozen=True)
class Candidate:
    """One choice for all columns that leave it open; None where no column does.

    Attributes:
        discretize: How numbers are cut.
        min_count: Values with fewer rows share an id.
    """

    discretize: Discretize | None
    min_count: int | None

    def settings(self) -> dict[str, str]:
        """What is chosen, as text by name."""
        found = {}
        if self.discretize is not None:
            numbers = self.discretize.buckets or self.discretize.edges
            values = " and values" if self.discretize.values else ""
            found["discretize"] = f"{self.discretize.kind} {'/'.join(map(str, numbers))}{values}"
        if self.min_count is not None:
            found["min_count"] = str(self.min_count)
        return found

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.settings().items())

    @property
    def name(self) -> str:
        """A name for files, such as `quantile-10-100-min5`."""
        parts = []
        if self.discretize is not None:
            parts += [self.discretize.kind, *map(str, self.discretize.buckets)]
            parts += ["values"] if self.discretize.values else []
        if self.min_count is not None:
            parts.append(f"min{self.min_count}")
        return "-".join(parts)


@dataclass(frozen=True)
class Trial:
    """A candidate that was tried.

    Attributes:
        candidate: The candidate.
        auc: The AUC of the regression on the validation rows.
        log_loss: Its mean cross-entropy there.
    """

    candidate: Candidate
    auc: float
    log_loss: float


@dataclass(frozen=True)
class Tuning:
    """What was tried and chosen.

    Attributes:
        trials: All that was tried, in order.
        best: The trial with the highest AUC; the first one if several have it.
        before: The trial of the schema as it was.
        schema: The schema with what was chosen.
        sample: The rows it was tried on.
    """

    trials: list[Trial]
    best: Trial
    before: Trial
    schema: Schema
    sample: "Sample"

    def to_yaml(self) -> str:
        """The schema, below a comment that says what was chosen and why."""
        return (
            f"# Chosen by `fives schema tune` among {len(self.trials)}: {self.best.candidate}. AUC "
            f"{self.best.auc:.5f} on valid, before {self.before.auc:.5f}.\n{self.schema.to_yaml()}"
        )


@dataclass(frozen=True)
class Space:
    """What may be chosen for a schema: all that its overrides do not settle.

    Attributes:
        schema: The schema as it was.
        cut: The columns whose discretization is open.
        counted: The columns whose `min_count` is open.
    """

    schema: Schema
    cut: frozenset[str]
    counted: frozenset[str]

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Space":
        """Reads a schema file; refuses one that leaves nothing open."""
        schema = Schema.load(Path(path))
        overrides = Mapping.load(path).mapping("overrides")
        settled = dict(zip(overrides.keys(), map(overrides.mapping, overrides.keys()), strict=True))

        def is_open(column: Column, key: str) -> bool:
            return column.name not in settled or key not in settled[column.name]

        space = cls(
            schema,
            frozenset(c.name for c in schema.columns if c.numeric and is_open(c, "discretize")),
            frozenset(
                c.name for c in schema.columns if c.hash_buckets is None and is_open(c, "min_count")
            ),
        )
        if not space.cut and not space.counted:
            raise UserError(
                f"{path}: there is nothing to choose: `overrides` settle `discretize` and "
                "`min_count` of every column. Take them out, or tune the schema that this one was "
                "made from."
            )
        for candidate in (*space.discretizations(), *space.min_counts(space.own)):
            # The names of fields follow from the buckets, and two columns must not share one.
            Schema.parse(space.apply(candidate).to_yaml(), f"{path} with {candidate}")
        return space

    @property
    def own(self) -> Candidate:
        """What the schema says itself."""
        cut = next((c.discretize for c in self.schema.columns if c.name in self.cut), None)
        counted = next((c.min_count for c in self.schema.columns if c.name in self.counted), None)
        return Candidate(cut, counted)

    def discretizations(self) -> list[Candidate]:
        """What to try first: all discretizations, the schema's own among them."""
        own = self.own
        if own.discretize is None:
            return [own]
        usual = [VALUES, *(Discretize(kind, buckets) for kind in KINDS for buckets in BUCKETS)]
        return [Candidate(one, own.min_count) for one in _with(own.discretize, usual)]

    def min_counts(self, best: Candidate) -> list[Candidate]:
        """What to try then: the best so far with each `min_count`."""
        if best.min_count is None:
            return [best]
        counts = _with(best.min_count, list(MIN_COUNTS))
        return [Candidate(best.discretize, count) for count in counts]

    def apply(self, candidate: Candidate) -> Schema:
        """The schema with what a candidate says, where its overrides do not say otherwise."""

        def change(column: Column) -> Column:
            if column.name in self.cut:
                column = dataclasses.replace(column, discretize=candidate.discretize)
            if column.name in self.counted:
                column = dataclasses.replace(column, min_count=candidate.min_count)
            return column

        return dataclasses.replace(
            self.schema, columns=tuple(change(column) for column in self.schema.columns)
        )


def choose(space: Space, attempt: Callable[[Candidate, int, int], Trial]) -> list[Trial]:
    """Tries candidates, first the discretizations, then `min_count` with the best of them.

    Args:
        space: What may be chosen.
        attempt: Tries a candidate, given its number from 1 and the number of all.

    Returns:
        All trials in order, each candidate once.
    """
    trials: list[Trial] = []
    total = len(space.discretizations()) + len(space.min_counts(space.own)) - 1

    def attempt_all(candidates: Iterable[Candidate]) -> None:
        tried = {trial.candidate for trial in trials}
        for candidate in candidates:
            if candidate not in tried:
                trials.append(attempt(candidate, len(trials) + 1, total))

    attempt_all(space.discretizations())
    attempt_all(space.min_counts(best_of(trials).candidate))
    return trials


def best_of(trials: list[Trial]) -> Trial:
    """The trial with the highest AUC; the first one if several have it."""
    return max(trials, key=lambda trial: trial.auc)


def tune_schema(
    path: str | os.PathLike,
    inputs: Iterable[str],
    rows: int = ROWS,
    work: str | os.PathLike | None = None,
) -> Tuning:
    """Chooses discretization and `min_count` of a schema for a log.

    Args:
        path: The schema file.
        inputs: The files of the log, or patterns.
        rows: How many rows of the log to look at, at most.
        work: A directory that keeps what is finished, for the same call to go on with; a temporary
            one, which is removed, unless given.
    """
    if rows < 1:
        raise UserError(f"--rows: expected at least 1. Received: {rows}.")
    space, inputs = Space.load(path), list(inputs)
    with contextlib.ExitStack() as stack:
        if work is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="fives-tune-"))
        else:
            directory = os.fspath(work)
            begun = _begun(space, inputs, rows)
            _check_place(directory, begun)
            stack.enter_context(storage.lock(storage.join(directory, _LOCK)))
            storage.write(storage.join(directory, _BEGUN), json.dumps(begun).encode())
        attempts = _Attempts(space, inputs, rows, directory)
        trials = choose(space, attempts.attempt)
    best = best_of(trials)
    before = next(trial for trial in trials if trial.candidate == space.own)
    return Tuning(trials, best, before, space.apply(best.candidate), attempts.sample)


class _Attempts:
    """Tries candidates in a directory that keeps what is finished."""

    def __init__(self, space: Space, inputs: list[str], rows: int, directory: str):
        from pipelines.sample import Sample, write_sample

        self._space, self._directory = space, directory
        place = storage.join(directory, _SAMPLE)
        storage.remove_asides(place)
        self.sample = Sample.find(place) or write_sample(inputs, space.schema, rows, place)
        start_xla()  # only now: a mistake in the schema must not wait for it

    def attempt(self, candidate: Candidate, number: int, total: int) -> Trial:
        """Tries a candidate, unless it was tried before."""
        label = f"candidate {number} of {total}: {candidate}"
        path = storage.join(self._directory, _CANDIDATES, f"{candidate.name}.json")
        before = ", tried before"
        if not storage.exists(path):
            print(label, file=sys.stderr)
            label, before = f"candidate {number}", ""
            began = time.monotonic()
            figures = self._fit(candidate)
            figures |= {"seconds": round(time.monotonic() - began, 1)}
            storage.write(path, json.dumps(candidate.settings() | figures).encode())
        figures = json.loads(storage.read(path))
        trial = Trial(candidate, figures["auc"], figures["log_loss"])
        print(f"{label}: auc {trial.auc:.5f}{before}", file=sys.stderr)
        return trial

    def _fit(self, candidate: Candidate) -> dict[str, float]:
        from fives_tf.config import SearchConfig
        from fives_tf.models.build import Facts
        from fives_tf.training.batches import Source
        from fives_tf.training.regression import fit_regression
        from pipelines.preprocess import Options, preprocess
        from pipelines.sample import sample_schema

        place = storage.join(self._directory, candidate.name)
        dataset = preprocess(
            self.sample.files,
            sample_schema(self._space.apply(candidate)),
            storage.join(place, "dataset"),
            Options(resume=True),
        )
        config = SearchConfig(coarse_count=0, coarse_buckets=0)
        config = config.resolve(dataset.split("train").rows)
        source = Source(dataset, config.memory)
        _, outcome = fit_regression(
            config, Facts.of(dataset, config), source, storage.join(place, "run")
        )
        storage.remove(place)
        return {"auc": outcome.evaluation.auc, "log_loss": outcome.evaluation.log_loss}


def _with(own: Any, usual: list[Any]) -> list[Any]:
    """The usual choices and the schema's own."""
    return usual if own in usual else [own, *usual]


def _begun(space: Space, inputs: list[str], rows: int) -> dict[str, Any]:
    """What must be unchanged for what is finished to be of use, by the words of the error."""
    files = [[file.path, file.size, file.modified] for file in storage.find(inputs)]
    schema = [space.schema.to_yaml(), sorted(space.cut), sorted(space.counted)]
    return {
        "version of the program": __version__,
        "log": hashlib.sha256(json.dumps(files).encode()).hexdigest(),
        "schema": hashlib.sha256(json.dumps(schema).encode()).hexdigest(),
        "number of rows": rows,
    }


def _check_place(directory: str, begun: dict[str, Any]) -> None:
    """Refuses a directory that holds other things, or what was begun with other things."""
    if storage.exists(directory) and not storage.is_directory(directory):
        raise UserError(f"{directory}: is a file; choose another directory for --work.")
    path = storage.join(directory, _BEGUN)
    if not storage.exists(path):
        if set(storage.names(directory)) - {_LOCK}:
            raise UserError(
                f"{directory}: is not empty, and holds no tuning of a schema; choose another "
                "directory for --work."
            )
        return
    before = json.loads(storage.read(path))
    changed = [key for key in begun if begun[key] != before.get(key)]
    if changed:
        raise UserError(
            f"{directory}: cannot go on here: the {' and the '.join(changed)} changed since it was "
            "begun. Choose another directory for --work, or remove this one."
        )
