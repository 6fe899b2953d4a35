"""The search, end to end: a dataset and a configuration in, crosses and a model out.

A run goes through stages, each of them a training with checkpoints of its own: a logistic
regression to start from; the search for the edges; the regression with the best crosses; the
network once more with the edges fixed; and at last the models that are kept. A stage that is done
is not done again when a run is resumed.
"""

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from fives_tf import storage
from fives_tf.callable_module import CallableModule
from fives_tf.config import Config, SearchConfig
from fives_tf.crosses import (
    CROSSES_AN_ORDER,
    Cross,
    derive,
    edge_probabilities,
    with_auc,
    with_figures,
)
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.learning import (
    CROSSES,
    GRAPH,
    SEARCHED,
    Learned,
    Learning,
    binary_edges,
    edge_thresholds,
)
from fives_tf.light import Light
from fives_tf.models.build import Facts, FirstOrder, build_fives, first_order
from fives_tf.models.fives import FivesModel
from fives_tf.quiet import start_xla
from fives_tf.run import LIGHT, LOCK, SEARCH, Adjacency, Run, check_place, member_path, open_run
from fives_tf.training.batches import Batches, Source
from fives_tf.training.crossing import SAMPLE, Crossing
from fives_tf.training.evaluation import Evaluation, Evaluator
from fives_tf.training.journal import Journal
from fives_tf.training.loop import Loop, Schedule
from fives_tf.training.regression import fit_regression
from fives_tf.training.strategy import Place, choose, losing_workers, on_chief, tell

_APART = 1000  # the seeds of several searches
_SEARCH, _SEARCH_ALONE = "search", "search-graph"  # the stages; the last is of the graph alone


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found; the run directory holds the same.

    Attributes:
        run: The run directory, opened.
        config: The configuration, resolved.
        adjacency: The learned adjacency tensor.
        crosses: The crosses, by order and falling score.
        evaluation: The figures on the validation split, before the last refit.
        is_chief: Whether this process is the one that shows them, of all workers of the job.
    """

    run: Run
    config: SearchConfig
    adjacency: Adjacency
    crosses: list[Cross]
    evaluation: dict[str, Any]
    is_chief: bool


def search(
    dataset: str | os.PathLike | Dataset,
    run: str | os.PathLike,
    config: SearchConfig | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    **settings: Any,
) -> SearchResult:
    """Searches the useful crosses of a dataset and learns a model with them.

    Args:
        dataset: A dataset directory.
        run: The run directory to write.
        config: The configuration; the defaults unless given.
        resume: Go on with a run that was stopped.
        overwrite: Replace what is in the run directory.
        **settings: What differs from the configuration; see `fives_tf.config.SearchConfig`. Without
            a configuration, `paper=True` starts from the paper's form.
    """
    dataset, directory = open_dataset(dataset), os.fspath(run)
    config = dataclasses.replace(config, **settings) if config else SearchConfig.make(**settings)
    check_dataset(dataset, config)
    check_place(directory)
    with working(directory, config):
        return perform(dataset, directory, config, resume, overwrite)


@contextlib.contextmanager
def working(directory: str, config: Config) -> Iterator[None]:
    """Holds the lock of a directory, and works on the devices that a configuration asks for."""
    with contextlib.ExitStack() as stack, losing_workers():
        strategy, reason = choose(config.strategy, config.devices)
        if config.xla:
            start_xla()
        stack.enter_context(strategy.scope())
        tell(reason)
        on_chief(lambda: stack.enter_context(storage.lock(storage.join(directory, LOCK))))
        yield


def perform(
    dataset: Dataset, directory: str, config: SearchConfig, resume: bool, overwrite: bool
) -> SearchResult:
    """As `search`, of what is checked already and in a directory whose lock is held."""
    config = _resolve(config, dataset)
    run = on_chief(lambda: open_run(directory, dataset, config, SEARCH, resume, overwrite))
    run = run or Run.find(directory)
    if not run.is_complete:
        _Search(dataset, run, config).run()
    return load(directory)


def begin(directory: str, dataset: Dataset, config: SearchConfig) -> Run:
    """Begins a run that `perform` goes on with."""
    return Run.begin(directory, dataset, _resolve(config, dataset))


def open_dataset(dataset: str | os.PathLike | Dataset) -> Dataset:
    """Opens a dataset, unless it is open."""
    return dataset if isinstance(dataset, Dataset) else Dataset.open(os.fspath(dataset))


def open_source(dataset: Dataset, memory: int, skip_corrupt: bool) -> Source:
    """The rows of a dataset; tells which shards are left out."""
    source = Source(dataset, memory, skip_corrupt)
    for shard in source.skipped:
        tell(f"left out {shard.file}: record {shard.record:,} of {shard.rows:,} is corrupt")
    return source


def load(directory: str) -> SearchResult:
    """The result of a search that is complete."""
    run = Run.open(directory)
    return SearchResult(
        run,
        run.config,
        run.adjacency,
        run.crosses,
        run.manifest["evaluation"],
        Place.here().is_chief,
    )


def check_dataset(dataset: Dataset, config: SearchConfig) -> None:
    """Refuses a dataset that nothing can be searched in."""
    for name in ("train", "valid"):
        check_clicks(dataset, name)
    if dataset.crosses is not None:
        raise UserError(
            f"{dataset.directory}: has crosses among its fields; search the crosses of the dataset "
            "that it was made from, and use this one with `fives fit`."
        )
    columns = {field.column for field in dataset.encoding.fields}
    if len(columns) < 2:
        raise UserError(
            f"{dataset.directory}: has fields of one column only, {', '.join(columns)}; a cross "
            "needs two. Add columns to the schema and preprocess the log again."
        )
    if config.order > len(columns):
        raise UserError(
            f"`order`: the dataset has fields of {len(columns)} columns, so no cross has a higher "
            f"order than that; lower it. Received: {config.order}."
        )


def check_clicks(dataset: Dataset, name: str, skipped: Container[str] = ()) -> None:
    """Refuses a split whose rows all have a click, or none of them has.

    Args:
        dataset: The dataset.
        name: The name of the split.
        skipped: The files of shards that do not count.
    """
    label = dataset.schema.label  # read in any case: it refuses a schema of another version
    shards = [shard for shard in dataset.split(name).shards if shard.file not in skipped]
    rows, clicks = sum(shard.rows for shard in shards), sum(shard.clicks for shard in shards)
    if not 0 < clicks < rows:
        raise UserError(
            f"{dataset.directory}: the {name} split has {clicks:,} clicks in {rows:,} rows; both "
            "rows with and without a click are needed. Look at `label` in the schema, by which "
            f"{' or '.join(label.positive)} in the column {label.column} is a click, and at "
            "`split`, and preprocess the log again."
        )


def _resolve(config: SearchConfig, dataset: Dataset) -> SearchConfig:
    return config.resolve(dataset.split("train").rows, Place.here().replicas)


class _Search:
    """One run through all stages."""

    def __init__(self, dataset: Dataset, run: Run, config: SearchConfig):
        self._dataset, self._run, self._config = dataset, run, config
        self._facts = Facts.of(dataset, config)
        self._source = open_source(dataset, config.memory, config.skip_corrupt)
        for name in ("train", "valid"):
            check_clicks(dataset, name, {shard.file for shard in self._source.skipped})
        self._evaluator = Evaluator(self._source, ["valid"])
        self._crossing = Crossing(
            config, self._facts, dataset.encoding, self._source, run.directory
        )
        self._learning = Learning(
            config, self._facts, self._source, self._evaluator, self._crossing, run.directory
        )

    def run(self) -> None:
        """Goes through the stages and writes what they found."""
        began = time.monotonic()
        config = self._config
        start = self._logistic_regression() if config.first_order else None
        searched, evaluation = self._search_edges(_SEARCH, config, start, 0)
        adjacency = self._adjacency(searched)
        crosses = self._crosses(adjacency)
        learned = Learned([searched], [SEARCHED], evaluation, None)
        if config.after != "nothing":
            crossed = None
            if CROSSES in config.forms:
                crossed = self._crossing.choose(crosses)
                crosses = with_figures(crosses, crossed.ranked)
            found = {(_SEARCH, 0): searched}

            def search_once(form: str, number: int) -> FivesModel:
                alone = form == GRAPH
                stage = _SEARCH_ALONE if alone else _SEARCH
                if (stage, number) not in found:
                    own, first = (config.of_form(form), None) if alone else (config, start)
                    found[stage, number], _ = self._search_edges(stage, own, first, number)
                return found[stage, number]

            learned = self._learning.learn(start, crossed, search_once)
        results = {
            "members": len(learned.models),
            "forms": learned.forms,
            "evaluation": learned.evaluation.to_json(),
            "seconds": round(time.monotonic() - began, 1),
        }
        on_chief(lambda: self._finish(learned, adjacency, crosses, results))

    def _finish(
        self,
        learned: Learned,
        adjacency: Adjacency,
        crosses: list[Cross],
        results: dict[str, Any],
    ) -> None:
        for index, model in enumerate(learned.models):
            tf.train.Checkpoint(model=model).write(member_path(self._run.directory, index))
        if learned.crossed is not None:
            Light.of(learned.crossed).save(storage.join(self._run.directory, LIGHT))
        self._run.finish(adjacency, crosses, **results)

    def _logistic_regression(self) -> FirstOrder:
        model, _ = fit_regression(self._config, self._facts, self._source, self._run.directory)
        return first_order(model)

    def _search_edges(
        self, stage: str, config: SearchConfig, start: FirstOrder | None, number: int
    ) -> tuple[FivesModel, Evaluation]:
        """Searches the edges of a network; those of the very first one are what the run reports."""
        stage = f"{stage}-{number}" if number else stage
        seed = config.seed + _APART * number
        train = self._batches("train", seed=seed)
        steps = config.search_epochs * train.steps
        facts = self._facts if config is self._config else Facts.of(self._dataset, config)
        model = build_fives(config, facts, start, seed=seed, steps=steps)

        def observe(journal: Journal, step: int) -> None:
            journal.adjacency(
                stage, step, model.adjacency().numpy(), float(model.temperature.numpy())
            )

        # The last edges are those of the lowest temperature, so the last parameters are kept.
        outcome = self._loop(model, stage, config.search_epochs, observe).train(
            train,
            self._batches("valid", seed=seed),
            evaluate=lambda: self._evaluator.evaluate(model),
            keep_best=False,
        )
        return model, outcome.evaluation

    def _adjacency(self, model: FivesModel) -> Adjacency:
        return Adjacency(
            h=model.h.numpy(),
            strength=model.strength().numpy(),
            soft=model.adjacency().numpy(),
            binary=binary_edges(self._config, model),
            thresholds=np.array(edge_thresholds(self._config)),
            temperature=model.temperature.numpy(),
            fields=np.array(self._facts.fields),
            columns=np.array(self._facts.columns),
        )

    def _crosses(self, adjacency: Adjacency) -> list[Cross]:
        facts = self._facts
        probability = edge_probabilities(adjacency.strength)
        crosses = derive(probability, facts.fields, facts.columns, top=CROSSES_AN_ORDER)
        rows = (self._source.arrays(split, SAMPLE) for split in ("train", "valid"))
        return with_auc(crosses, facts.fields, *rows)

    def _batches(self, *splits: str, seed: int | None = None) -> Batches:
        seed = self._config.seed if seed is None else seed
        return Batches(self._source, splits, self._config.batch, seed)

    def _loop(self, model: Any, stage: str, epochs: float, observe: Any = None) -> Loop:
        schedule = Schedule.of(self._config, epochs)
        return Loop(model, stage, self._run.directory, self._source, schedule, observe)


sys.modules[__name__].__class__ = CallableModule
