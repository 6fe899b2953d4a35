"""The fit, end to end: a dataset, a light model and maybe crosses in, a fitted model out.

A logistic regression is learned with several penalties at once, other models with early stopping.
Crosses are fields of any of them: those of a list that add most to a regression, and as many as are
best for it. At last, what was chosen is learned from train and valid together.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fives_tf import crosses as crosses_format
from fives_tf import storage
from fives_tf.callable_module import CallableModule
from fives_tf.config import FitConfig
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.cross_files import check_crosses, read_crosses
from fives_tf.cross_fitting import fit_crosses
from fives_tf.crosses import Cross, check_fields
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.fitted import save_network, save_regression
from fives_tf.models.base import ClickModel
from fives_tf.models.build import BUILDERS, Facts, build_network, first_order
from fives_tf.run import FIT, Run, check_place, open_run
from fives_tf.search import check_clicks, open_dataset, open_source, working
from fives_tf.training.batches import Batches
from fives_tf.training.crossing import SAMPLE, Crossed, Crossing
from fives_tf.training.evaluation import Evaluation, Evaluator
from fives_tf.training.loop import CHECKPOINTS, Loop, Outcome, Schedule
from fives_tf.training.regression import fit_regression, refit_regression
from fives_tf.training.strategy import Place, on_chief, tell

CANDIDATES = "candidates.json"  # the crosses that a fit was given, beside its checkpoints
SEARCH_STAGE, STAGE, REFIT_STAGE = "search", "fit", "refit"  # of models other than a regression


@dataclass(frozen=True, eq=False)
class FitResult:
    """What a fit ended with; the run directory holds the same.

    Attributes:
        run: The run directory, opened.
        config: The configuration, resolved.
        crosses: The crosses that are fields of the model.
        evaluation: The figures on the validation split, before the last refit.
        is_chief: Whether this process is the one that shows them, of all workers of the job.
    """

    run: Run
    config: FitConfig
    crosses: list[Cross]
    evaluation: dict[str, Any]
    is_chief: bool


def fit(
    dataset: str | os.PathLike | Dataset,
    run: str | os.PathLike,
    config: FitConfig | None = None,
    *,
    crosses: str | os.PathLike | Sequence[Cross] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **settings: Any,
) -> FitResult:
    """Fits a light model to a dataset.

    Args:
        dataset: A dataset directory.
        run: The run directory to write.
        config: The configuration; the defaults unless given.
        crosses: Crosses that may be fields of the model: those of a run directory, of a
            `crosses.json`, or a list of them.
        resume: Go on with a fit that was stopped.
        overwrite: Replace what is in the run directory.
        **settings: What differs from the configuration, such as `model="dnn"`; see
            `fives_tf.config.FitConfig`.
    """
    dataset, directory = open_dataset(dataset), os.fspath(run)
    config = replace(config or FitConfig(), **settings)
    for split in ("train", "valid"):
        check_clicks(dataset, split)
    candidates = _read_crosses(crosses, dataset)
    if dataset.crosses is not None and candidates:
        raise UserError(
            f"{dataset.directory}: has crosses among its fields already; leave --crosses out, or "
            "fit the dataset that it was made from."
        )
    if config.top and not candidates:
        raise UserError("`top`: is for crosses, and none are given; --crosses names them.")
    check_place(directory)
    with working(directory, config):
        config = config.resolve(dataset.split("train").rows, Place.here().replicas)

        def begin() -> Run:
            opened = open_run(directory, dataset, config, FIT, resume, overwrite)
            _keep_candidates(directory, candidates)
            return opened

        opened = on_chief(begin) or Run.find(directory)
        if not opened.is_complete:
            _Fit(dataset, opened, config, candidates).run()
        return _load(directory)


def _load(directory: str) -> FitResult:
    """The result of a fit that is complete."""
    run = Run.open(directory)
    evaluation, is_chief = run.manifest["evaluation"], Place.here().is_chief
    return FitResult(run, run.config, run.crosses, evaluation, is_chief)


def _read_crosses(
    crosses: str | os.PathLike | Sequence[Cross] | None, dataset: Dataset
) -> list[Cross]:
    """The crosses that were given, all of fields of the dataset."""
    if not isinstance(crosses, str | os.PathLike):
        found = list(crosses or [])
        check_fields(found, [field.name for field in dataset.encoding.fields])
        return found
    path = os.fspath(crosses)
    found = Run.open(path).crosses if storage.is_directory(path) else read_crosses(path)
    check_crosses(found, path, dataset)
    return found


def _keep_candidates(directory: str, candidates: list[Cross]) -> None:
    """Keeps the crosses that a fit begins with; refuses others when it goes on."""
    path = storage.join(directory, CHECKPOINTS, CANDIDATES)
    if not storage.exists(path):
        storage.write(path, crosses_format.to_json(candidates))
    kept = crosses_format.from_json(storage.read(path), path)
    # Their figures may have become known since.
    if [cross.fields for cross in kept] != [cross.fields for cross in candidates]:
        raise UserError(
            f"{directory}: was begun with other crosses; resume with the same --crosses, or start "
            "again with --overwrite."
        )


class _Fit:
    """One run through all stages."""

    def __init__(self, dataset: Dataset, run: Run, config: FitConfig, candidates: list[Cross]):
        self._dataset, self._run, self._config = dataset, run, config
        self._candidates = candidates
        self._facts = Facts.of(dataset, config)
        self._source = open_source(dataset, config.memory, config.skip_corrupt)
        for name in ("train", "valid"):
            check_clicks(dataset, name, {shard.file for shard in self._source.skipped})
        self._crossing = Crossing(
            config, self._facts, dataset.encoding, self._source, run.directory
        )

    def run(self) -> None:
        """Goes through the stages and writes the model."""
        began = time.monotonic()
        save, crosses, evaluation = (
            self._regression() if self._config.model == "lr" else self._network()
        )

        def finish() -> None:
            save()
            self._run.finish(
                None,
                [field.cross for field in crosses.fields],
                model=self._config.model,
                evaluation=evaluation.to_json(),
                seconds=round(time.monotonic() - began, 1),
            )

        on_chief(finish)

    def _regression(self) -> tuple[Callable[[], None], CrossEncoding, Evaluation]:
        config, directory = self._config, self._run.directory
        crossed = self._choose()
        if config.refit and crossed.crosses.fields:
            crossed = self._crossing.refit(crossed)
        elif config.refit:
            penalty = crossed.weights.penalty
            model = refit_regression(config, self._facts, self._source, directory, penalty)
            crossed = replace(crossed, weights=first_order(model))
        if self._dataset.crosses is not None:
            crossed = replace(crossed, crosses=self._dataset.crosses)
        return lambda: save_regression(self._run, crossed), crossed.crosses, crossed.evaluation

    def _network(self) -> tuple[Callable[[], None], CrossEncoding, Evaluation]:
        config = self._config
        crosses = self._top()
        if self._candidates and config.top is None:
            crosses = self._crossing.choose(self._candidates).crosses
        gates = self._searched_gates(crosses) if config.model == "autofis" else None
        model, outcome = self._learn(crosses, gates)
        evaluation = outcome.evaluation
        if config.refit:
            epochs = outcome.kept_step / self._batches("train").steps
            if crosses.fields:
                crosses = self._encode([field.cross for field in crosses.fields], "train", "valid")
            model, _ = self._learn(crosses, gates, epochs)
        crosses = self._dataset.crosses or crosses
        return lambda: save_network(self._run, model, crosses), crosses, evaluation

    def _choose(self) -> Crossed:
        """The regression, learned from train, with the crosses that are best for it."""
        config = self._config
        if self._candidates and config.top is None:
            return self._crossing.choose(self._candidates)
        crosses = self._top()
        if crosses.fields:
            model, outcome = self._crossing.learn(crosses)
        else:
            model, outcome = fit_regression(config, self._facts, self._source, self._run.directory)
        return Crossed(crosses, first_order(model), outcome.evaluation, [])

    def _top(self) -> CrossEncoding:
        """As many of the crosses as are asked for; none unless a number is given."""
        top = self._config.top
        if top is None:
            return CrossEncoding([], self._dataset.encoding)
        return self._encode(self._crossing.rank(self._candidates, top)[:top], "train")

    def _searched_gates(self, crosses: CrossEncoding) -> np.ndarray:
        """The gates of all pairs of fields after a search on train; 0 for those to leave out."""
        config, batches = self._config, self._batches("train")
        model = build_network(
            config, self._facts.with_crosses(crosses), config.epochs * batches.steps, searching=True
        )
        # The best gates are the last ones: on the way there many are not yet 0.
        outcome = self._loop(model, SEARCH_STAGE, config.epochs).train(
            batches, evaluate=self._judge(model), keep_best=False
        )
        gates = model.network["gates"].numpy()
        tell(
            f"pairs of fields: {np.count_nonzero(gates):,} of {len(gates):,} are kept; "
            f"auc {outcome.evaluation.auc:.4f} on valid with them"
        )
        return gates

    def _learn(
        self, crosses: CrossEncoding, gates: np.ndarray | None = None, epochs: float | None = None
    ) -> tuple[ClickModel, Outcome]:
        """Learns a network on train, or on train and valid if the number of epochs is given.

        Args:
            crosses: The crosses that it has beside the fields.
            gates: What a search left of its gates.
            epochs: The number of epochs.
        """
        config, facts = self._config, self._facts.with_crosses(crosses)
        batches = self._batches(*(("train",) if epochs is None else ("train", "valid")))
        length = config.epochs if epochs is None else epochs
        model = BUILDERS[config.model](config, facts, round(length * batches.steps))
        if gates is not None:
            model.keep(gates)
        if epochs is not None:
            return model, self._loop(model, REFIT_STAGE, length).train(batches)
        loop = self._loop(model, STAGE, length)
        return model, loop.train(batches, evaluate=self._judge(model))

    def _loop(self, model: ClickModel, stage: str, epochs: float) -> Loop:
        schedule = Schedule.of(self._config, epochs)
        return Loop(model, stage, self._run.directory, self._source, schedule)

    def _judge(self, model: ClickModel) -> Callable[[], Evaluation]:
        """What evaluates a model on valid."""
        evaluator = Evaluator(self._source, ["valid"])
        return lambda: evaluator.evaluate(model)

    def _batches(self, *splits: str) -> Batches:
        return Batches(self._source, splits, self._config.batch, self._config.seed)

    def _encode(self, crosses: list[Cross], *splits: str) -> CrossEncoding:
        rows = [self._source.arrays(split, SAMPLE)[0] for split in splits]
        return fit_crosses(crosses, self._dataset.encoding, rows)


sys.modules[__name__].__class__ = CallableModule
