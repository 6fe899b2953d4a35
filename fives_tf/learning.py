"""After the search: the network once more with its edges fixed, and the models that are kept.

Crosses may have weights of their own in the first-order table of a network. Where a few crosses say
much that helps a lot, else the graph does better without; so both forms are tried, and validation
decides. Several members may be of both forms.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fives_tf.adjacency import binary_adjacency, edge_mask
from fives_tf.config import SearchConfig
from fives_tf.models.build import Facts, FirstOrder, build_fives, first_order
from fives_tf.models.fives import FivesModel
from fives_tf.training.batches import Batches, Source
from fives_tf.training.crossing import Crossed, Crossing
from fives_tf.training.evaluation import Evaluation, Evaluator
from fives_tf.training.loop import Loop, Outcome, Schedule
from fives_tf.training.regression import refit_regression
from fives_tf.training.strategy import tell

PLAIN, WEIGHED = "plain", "weighed"


@dataclass(frozen=True, eq=False)
class Learned:
    """The models that are kept.

    Attributes:
        models: The models, whose mean is the prediction.
        weighs: Whether each of them has weights for crosses.
        evaluation: The figures on validation of models that did not see it.
        crossed: The regression on crosses that they started from; None if there is none.
    """

    models: list[FivesModel]
    weighs: list[bool]
    evaluation: Evaluation
    crossed: Crossed | None


class Learning:
    """Learns networks whose edges are given."""

    def __init__(
        self,
        config: SearchConfig,
        facts: Facts,
        source: Source,
        evaluator: Evaluator,
        crossing: Crossing,
        directory: str,
    ):
        """Takes what is known.

        Args:
            config: The configuration, resolved.
            facts: What is known of the dataset.
            source: Its rows.
            evaluator: What judges models on validation.
            crossing: What chooses crosses.
            directory: The run directory, for checkpoints and figures.
        """
        self._config, self._facts, self._source = config, facts, source
        self._evaluator, self._crossing, self._directory = evaluator, crossing, directory

    def learn(
        self,
        start: FirstOrder | None,
        crossed: Crossed | None,
        searched: Callable[[int], FivesModel],
    ) -> Learned:
        """Learns all members.

        Args:
            start: What first-order tables without crosses start from.
            crossed: What those with crosses start from, if crosses may have weights.
            searched: Gives a member at the end of its search.
        """
        config = self._config
        forms = self._forms(start, crossed)
        trials = {
            name: self._learn_one(_stage(config.after, name), 0, form, searched(0))
            for name, form in forms.items()
        }
        chosen, evaluation = self._choose(trials)
        names = [chosen[member % len(chosen)] for member in range(config.members)]
        weighs = [name == WEIGHED for name in names]
        if not config.refit:
            models = [trials[names[0]][0]]
            for member, name in list(enumerate(names))[1:]:
                form, own = forms[name], searched(member)
                models.append(self._learn_one(f"member-{member}", member, form, own)[0])
            return Learned(models, weighs, self._evaluator.evaluate(*models), crossed)
        forms, crossed = self._refit(forms, names, crossed)
        steps = self._batches("train").steps
        models = [
            self._learn_one(
                f"refit-{member}",
                member,
                forms[name],
                searched(member),
                trials[name][1].kept_step / steps,
            )[0]
            for member, name in enumerate(names)
        ]
        return Learned(models, weighs, evaluation, crossed)

    def _forms(self, start: FirstOrder | None, crossed: Crossed | None) -> dict[str, "_Form"]:
        """The forms to try."""
        forms = {}
        if crossed is not None and crossed.crosses.fields:
            forms[WEIGHED] = _Form(self._facts.with_crosses(crossed.crosses), crossed.weights)
        if not forms or self._config.cross_weights != "always":
            forms[PLAIN] = _Form(self._facts, start)
        return forms

    def _choose(
        self, trials: dict[str, tuple[FivesModel, Outcome]]
    ) -> tuple[tuple[str, ...], Evaluation]:
        """The form with the lowest log loss on validation; or both, if their mean has a lower one.

        Of both, the better one is that of the first member, and the members take turns.
        """
        judged = {(name,): outcome.evaluation for name, (_, outcome) in trials.items()}
        if len(trials) == 1:
            return next(iter(judged.items()))
        if self._config.members > 1:
            both = tuple(sorted(trials, key=lambda name: judged[name,].log_loss))
            judged[both] = self._evaluator.evaluate(*(trials[name][0] for name in both))
        words = {(WEIGHED,): "with weights for crosses", (PLAIN,): "without"}
        for names, evaluation in judged.items():
            what = words.get(names, "the mean of both")
            tell(f"{what}: log loss {evaluation.log_loss:.5f} on valid")
        return min(judged.items(), key=lambda item: item[1].log_loss)

    def _refit(
        self, forms: dict[str, "_Form"], names: list[str], crossed: Crossed | None
    ) -> tuple[dict[str, "_Form"], Crossed | None]:
        """The forms as they start when they learn from train and valid together."""
        config = self._config
        again = dict(forms)
        if crossed is not None:
            crossed = self._crossing.refit(crossed)
            again[WEIGHED] = _Form(self._facts.with_crosses(crossed.crosses), crossed.weights)
        start = forms[PLAIN].start if PLAIN in names else None
        if start is not None and config.warm_start and config.after == "from_scratch":
            model = refit_regression(
                config, self._facts, self._source, self._directory, start.penalty
            )
            again[PLAIN] = _Form(self._facts, first_order(model))
        return again, crossed

    def _learn_one(
        self,
        stage: str,
        member: int,
        form: "_Form",
        searched: FivesModel,
        epochs: float | None = None,
    ) -> tuple[FivesModel, Outcome]:
        """Learns a network on train, or on train and valid if the number of epochs is given."""
        config = self._config
        edges = binary_edges(config, searched)
        if config.random_adjacency:
            edges = random_edges(edges, edge_mask(self._facts.columns), config.seed + member)
        seed = config.seed + 1 + member
        splits = ("train",) if epochs is None else ("train", "valid")
        batches = self._batches(*splits, seed=seed)
        steps = round((epochs or config.epochs) * batches.steps)
        model = build_fives(config, form.facts, form.start, edges, seed, steps)
        if config.after == "finetune":
            for variable, value in zip(model.theta(), searched.theta(), strict=True):
                variable.assign(value)
        if epochs is not None:
            return model, self._loop(model, stage, epochs).train(batches)
        loop = self._loop(model, stage, config.epochs)
        return model, loop.train(batches, evaluate=lambda: self._evaluator.evaluate(model))

    def _batches(self, *splits: str, seed: int = 0) -> Batches:
        return Batches(self._source, splits, self._config.batch, seed)

    def _loop(self, model: FivesModel, stage: str, epochs: float) -> Loop:
        schedule = Schedule.of(self._config, epochs)
        return Loop(model, stage, self._directory, self._source, schedule)


@dataclass(frozen=True, eq=False)
class _Form:
    """A form of the network.

    Attributes:
        facts: What is known of the dataset, with the crosses that have weights.
        start: What the first-order table starts from.
    """

    facts: Facts
    start: FirstOrder | None


def _stage(after: str, form: str) -> str:
    return after if form == PLAIN else f"{after}-crosses"


def binary_edges(config: SearchConfig, searched: FivesModel) -> np.ndarray:
    """The edges that count, 1 or 0, at the end of a search."""
    soft = searched.adjacency().numpy()
    return binary_adjacency(soft, edge_thresholds(config))


def edge_thresholds(config: SearchConfig) -> tuple[float, ...]:
    """From which strength on an edge counts, for each layer."""
    return config.thresholds or (0.5,) * (config.order - 1)


def random_edges(edges: np.ndarray, mask: np.ndarray, seed: int) -> np.ndarray:
    """As many edges a layer as are given, at random places where an edge may be."""
    random = np.random.default_rng(seed)
    drawn = np.zeros_like(edges)
    places = np.flatnonzero(mask)
    for layer, count in zip(drawn, edges.sum(axis=(1, 2)).astype(int), strict=True):
        layer.flat[random.choice(places, count, replace=False)] = 1
    return drawn
