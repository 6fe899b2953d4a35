"""The search, end to end: a dataset and a configuration in, crosses and a model out.

A run goes through stages, each of them a training with checkpoints of its own: a logistic
regression to start from; the search for the edges; the network once more with the edges fixed; and
at last the models that are kept. A stage that is done is not done again when a run is resumed.
"""

import dataclasses
import sys
import time
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from fives_tf import storage
from fives_tf.adjacency import binary_adjacency, edge_mask
from fives_tf.config import SearchConfig
from fives_tf.crosses import Cross, derive, with_auc
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.models.build import Facts, FirstOrder, build_fives, build_lr, first_order
from fives_tf.models.fives import FivesModel
from fives_tf.run import LOCK, Adjacency, Run, member_path
from fives_tf.training.batches import Batches, Source
from fives_tf.training.evaluation import Evaluation, Evaluator, judge
from fives_tf.training.journal import Journal
from fives_tf.training.loop import Loop, Outcome, Schedule

CROSSES_AN_ORDER = 1000
SAMPLE = 1_000_000  # rows of a split that single-feature AUCs are computed on
LR_EPOCHS = 30
_MAY_DIFFER = {"memory", "checkpoint_seconds"}  # between begin and resume


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found; the run directory holds the same.

    Attributes:
        run: The run directory, opened.
        config: The configuration, resolved.
        adjacency: The learned adjacency tensor.
        crosses: The crosses, by order and falling score.
        evaluation: The figures on the validation split, before the last refit.
    """

    run: Run
    config: SearchConfig
    adjacency: Adjacency
    crosses: list[Cross]
    evaluation: dict[str, Any]


def search(
    dataset: str | Dataset,
    run: str,
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
        config: The configuration; or give its settings as keywords.
        resume: Go on with a run that was stopped.
        overwrite: Replace what is in the run directory.
        **settings: See `fives_tf.config.SearchConfig`; `paper=True` for the paper's form.
    """
    if isinstance(dataset, str):
        dataset = Dataset.open(dataset)
    config = config or SearchConfig.make(**settings)
    check_dataset(dataset, config)
    config = config.resolve(dataset.split("train").rows)
    with storage.lock(storage.join(run, LOCK)):
        opened = _open_run(run, dataset, config, resume, overwrite)
        if not opened.is_complete:
            _Search(dataset, opened, config).run()
    return load(run)


def load(directory: str) -> SearchResult:
    """The result of a search that is complete."""
    run = Run.open(directory)
    return SearchResult(run, run.config, run.adjacency, run.crosses, run.manifest["evaluation"])


def load_models(run: Run, dataset: Dataset) -> list[FivesModel]:
    """The models that a run ended with; their mean is the prediction."""
    config, edges = run.config, run.adjacency.binary
    facts = Facts.of(dataset, config)
    given = None if config.after == "nothing" else edges
    models = []
    for path in run.member_paths():
        model = build_fives(config, facts, edges=given)
        tf.train.Checkpoint(model=model).read(path).assert_existing_objects_matched()
        models.append(model)
    return models


def check_dataset(dataset: Dataset, config: SearchConfig) -> None:
    """Refuses a dataset that nothing can be searched in."""
    for name in ("train", "valid"):
        split = dataset.split(name)
        if not 0 < split.clicks < split.rows:
            raise UserError(
                f"{dataset.directory}: the {name} split has {split.clicks:,} clicks in "
                f"{split.rows:,} rows; both rows with and without a click are needed. Change "
                "`label` or `split` in the schema and preprocess the log again."
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


def _open_run(
    directory: str, dataset: Dataset, config: SearchConfig, resume: bool, overwrite: bool
) -> Run:
    """Finds the run to go on with, or begins one."""
    if overwrite:
        for name in storage.names(directory):
            if name != LOCK:
                storage.remove(storage.join(directory, name))
    run = Run.find(directory)
    if run is None:
        if storage.names(directory) != [LOCK]:
            raise UserError(f"{directory}: is neither empty nor a run directory; choose another.")
        return Run.begin(directory, dataset, config)
    if not resume:
        raise UserError(
            f"{directory}: holds a search; --resume goes on with it, --overwrite replaces it."
        )
    run.dataset(dataset.directory)
    old, new = dataclasses.asdict(run.config), dataclasses.asdict(config)
    other = [name for name in old if old[name] != new[name] and name not in _MAY_DIFFER]
    if other:
        raise UserError(
            f"{directory}: was begun with `{other[0]}` = {old[other[0]]}, not {new[other[0]]}; "
            "resume with the same settings, or start again with --overwrite."
        )
    return run


class _Search:
    """One run through all stages."""

    def __init__(self, dataset: Dataset, run: Run, config: SearchConfig):
        self._dataset, self._run, self._config = dataset, run, config
        self._facts = Facts.of(dataset, config)
        self._source = Source(dataset, config.memory, config.skip_corrupt)
        for shard in self._source.skipped:
            print(
                f"left out {shard.file}: record {shard.record:,} of {shard.rows:,} is corrupt",
                file=sys.stderr,
            )
        self._train = self._batches("train")
        self._evaluator = Evaluator(self._source, ["valid"])

    def run(self) -> None:
        """Goes through the stages and writes what they found."""
        began = time.monotonic()
        config = self._config
        start = self._logistic_regression() if config.first_order else None
        searched, evaluation = self._search_edges(start)
        adjacency = self._adjacency(searched)
        crosses = self._crosses(adjacency)
        if config.after == "nothing":
            models = [searched]
        else:
            edges = adjacency.binary
            if config.random_adjacency:
                edges = random_edges(edges, edge_mask(self._facts.columns), config.seed)
            models, evaluation = self._learn(start, searched, edges)
        for index, model in enumerate(models):
            tf.train.Checkpoint(model=model).write(member_path(self._run.directory, index))
        self._run.finish(
            adjacency,
            crosses,
            members=len(models),
            evaluation=evaluation.to_json(),
            seconds=round(time.monotonic() - began, 1),
        )

    def _logistic_regression(self) -> FirstOrder:
        model = build_lr(self._config, self._facts)

        def evaluate() -> Evaluation:
            label, (logits,) = self._evaluator.logits(model)
            found = judge(label, model.probability(logits).numpy(), logits)
            model.choose(int(np.argmax(found.output_auc)))
            return judge(label, model.probability(logits).numpy(), logits)

        self._loop(model, "lr", LR_EPOCHS).train(self._train, evaluate=evaluate)
        return first_order(model, self._facts)

    def _search_edges(self, start: FirstOrder | None) -> tuple[FivesModel, Evaluation]:
        config = self._config
        steps = config.search_epochs * self._train.steps
        model = build_fives(config, self._facts, start, seed=config.seed, steps=steps)

        def observe(journal: Journal, step: int) -> None:
            journal.adjacency(
                "search", step, model.adjacency().numpy(), float(model.temperature.numpy())
            )

        # The last edges are those of the lowest temperature, so the last parameters are kept.
        outcome = self._loop(model, "search", config.search_epochs, observe).train(
            self._train,
            self._batches("valid"),
            evaluate=lambda: self._evaluator.evaluate(model),
            keep_best=False,
        )
        return model, outcome.evaluation

    def _adjacency(self, model: FivesModel) -> Adjacency:
        soft = model.adjacency().numpy()
        thresholds = self._config.thresholds or (0.5,) * len(soft)
        return Adjacency(
            h=model.h.numpy(),
            strength=model.strength().numpy(),
            soft=soft,
            binary=binary_adjacency(soft, thresholds),
            thresholds=np.array(thresholds),
            temperature=model.temperature.numpy(),
            fields=np.array(self._facts.fields),
        )

    def _crosses(self, adjacency: Adjacency) -> list[Cross]:
        facts = self._facts
        crosses = derive(adjacency.strength, facts.fields, facts.columns, top=CROSSES_AN_ORDER)
        rows = (self._source.arrays(split, SAMPLE) for split in ("train", "valid"))
        return with_auc(crosses, facts.fields, *rows)

    def _learn(
        self, start: FirstOrder | None, searched: FivesModel, edges: np.ndarray
    ) -> tuple[list[FivesModel], Evaluation]:
        """The models with their edges fixed, and the figures of one that did not see valid."""
        config = self._config
        model, outcome = self._learn_one(config.after, 0, start, searched, edges)
        if config.refit:
            epochs = outcome.kept_step / self._train.steps
            models = [
                self._learn_one(f"refit-{index}", index, start, searched, edges, epochs)[0]
                for index in range(config.members)
            ]
            return models, outcome.evaluation
        more = [
            self._learn_one(f"member-{index}", index, start, searched, edges)[0]
            for index in range(1, config.members)
        ]
        models = [model, *more]
        return models, self._evaluator.evaluate(*models)

    def _learn_one(
        self,
        stage: str,
        index: int,
        start: FirstOrder | None,
        searched: FivesModel,
        edges: np.ndarray,
        epochs: float | None = None,
    ) -> tuple[FivesModel, Outcome]:
        """Learns a network on train, or on train and valid if the number of epochs is given."""
        config = self._config
        seed = config.seed + 1 + index
        model = build_fives(config, self._facts, start, edges, seed)
        if config.after == "finetune":
            for variable, value in zip(model.theta(), searched.theta(), strict=True):
                variable.assign(value)
        if epochs is not None:
            loop = self._loop(model, stage, epochs)
            return model, loop.train(self._batches("train", "valid", seed=seed))
        loop = self._loop(model, stage, config.epochs)
        batches = self._batches("train", seed=seed)
        return model, loop.train(batches, evaluate=lambda: self._evaluator.evaluate(model))

    def _batches(self, *splits: str, seed: int | None = None) -> Batches:
        seed = self._config.seed if seed is None else seed
        return Batches(self._source, splits, self._config.batch, seed)

    def _loop(self, model: Any, stage: str, epochs: float, observe: Any = None) -> Loop:
        config = self._config
        schedule = Schedule(
            epochs, config.patience, config.evaluate_rows, config.checkpoint_seconds
        )
        return Loop(model, stage, self._run.directory, self._source, schedule, observe)


def random_edges(edges: np.ndarray, mask: np.ndarray, seed: int) -> np.ndarray:
    """As many edges a layer as are given, at random places where an edge may be."""
    random = np.random.default_rng(seed)
    drawn = np.zeros_like(edges)
    places = np.flatnonzero(mask)
    for layer, count in zip(drawn, edges.sum(axis=(1, 2)).astype(int), strict=True):
        layer.flat[random.choice(places, count, replace=False)] = 1
    return drawn


class _CallableModule(types.ModuleType):
    """Lets `fives_tf.search(...)` be the function, whoever imported the module before."""

    def __call__(self, *args: Any, **settings: Any) -> SearchResult:
        return search(*args, **settings)


sys.modules[__name__].__class__ = _CallableModule
