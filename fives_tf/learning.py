"""After the search: the network once more with its edges fixed, and the models that are kept.

It has one of several forms. Crosses may have weights of their own in its first-order table, which
helps a lot where a few crosses say much; the table may be without them; or there is no table, and
the graph learns all by itself. All forms are tried, and validation decides which one is kept, or of
which ones the mean is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fives_tf.adjacency import binary_adjacency, edge_mask
from fives_tf.config import FORMS, SearchConfig
from fives_tf.models.build import Facts, FirstOrder, build_fives, first_order
from fives_tf.models.fives import FivesModel
from fives_tf.training.batches import Batches, Source
from fives_tf.training.crossing import Crossed, Crossing
from fives_tf.training.evaluation import Evaluation, Evaluator
from fives_tf.training.loop import Loop, Outcome, Schedule
from fives_tf.training.regression import refit_regression
from fives_tf.training.strategy import tell

SEARCHED = "searched"  # the form of the search, where there is no choice
CROSSES, TABLE, GRAPH = FORMS
_WORDS = {
    CROSSES: "with weights for crosses",
    TABLE: "without weights for crosses",
    GRAPH: "the graph alone",
}


@dataclass(frozen=True, eq=False)
class Learned:
    """The models that are kept.

    Attributes:
        models: The models, whose mean is the prediction.
        forms: The form of each of them.
        evaluation: The figures on validation of models that did not see it.
        crossed: The regression on crosses that they started from; None if there is none.
    """

    models: list[FivesModel]
    forms: list[str]
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
        searched: Callable[[str, int], FivesModel],
    ) -> Learned:
        """Learns all models.

        Args:
            start: What first-order tables without crosses start from.
            crossed: What those with crosses start from, if crosses may have weights.
            searched: Gives a network of a form at the end of a search, by the search's number.
        """
        config = self._config
        forms = self._forms(start, crossed)
        trials = {
            name: self._learn_one(self._stage(name), 0, form, searched(name, 0))
            for name, form in forms.items()
        }
        chosen, evaluation = self._choose(trials)
        count = max(config.members, len(chosen))
        names = [chosen[number % len(chosen)] for number in range(count)]
        # The forms of a single member come from the same search.
        searches = [number % config.members for number in range(count)]
        members = list(zip(names, searches, strict=True))
        if not config.refit:
            models = [
                self._learn_one(f"member-{number}", own, forms[name], searched(name, own))[0]
                if own
                else trials[name][0]
                for number, (name, own) in enumerate(members)
            ]
            return Learned(models, names, self._evaluator.evaluate(*models), crossed)
        forms, crossed = self._refit(forms, names, crossed)
        steps = self._batches("train").steps
        models = [
            self._learn_one(
                f"refit-{number}",
                own,
                forms[name],
                searched(name, own),
                trials[name][1].kept_step / steps,
            )[0]
            for number, (name, own) in enumerate(members)
        ]
        return Learned(models, names, evaluation, crossed)

    def _forms(self, start: FirstOrder | None, crossed: Crossed | None) -> dict[str, "_Form"]:
        """The forms to try."""
        config, facts = self._config, self._facts
        if not config.forms:
            return {SEARCHED: _Form(config, facts, start)}
        forms = {}
        if crossed is not None and crossed.crosses.fields:
            forms[CROSSES] = _Form(config, facts.with_crosses(crossed.crosses), crossed.weights)
        if TABLE in config.forms:
            forms[TABLE] = _Form(config, facts, start)
        if GRAPH in config.forms:
            alone = config.of_form(GRAPH)
            forms[GRAPH] = _Form(alone, Facts.of(self._source.dataset, alone), None)
        return forms or {TABLE: _Form(config, facts, start)}  # there are no crosses at all

    def _choose(
        self, trials: dict[str, tuple[FivesModel, Outcome]]
    ) -> tuple[tuple[str, ...], Evaluation]:
        """The form with the lowest log loss on validation; or several whose mean has a lower one.

        Of several, the best one is that of the first model, and the models take turns.
        """
        judged = {(name,): outcome.evaluation for name, (_, outcome) in trials.items()}
        if len(trials) == 1:
            return next(iter(judged.items()))
        ranked = sorted(trials, key=lambda name: judged[name,].log_loss)
        for count in range(2, len(ranked) + 1):
            best = tuple(ranked[:count])
            judged[best] = self._evaluator.evaluate(*(trials[name][0] for name in best))
        for names, evaluation in judged.items():
            what = _WORDS[names[0]] if len(names) == 1 else f"the mean of the best {len(names)}"
            tell(f"{what}: log loss {evaluation.log_loss:.5f} on valid")
        return min(judged.items(), key=lambda item: item[1].log_loss)

    def _refit(
        self, forms: dict[str, "_Form"], names: list[str], crossed: Crossed | None
    ) -> tuple[dict[str, "_Form"], Crossed | None]:
        """The forms as they start when they learn from train and valid together."""
        config, facts = self._config, self._facts
        again = dict(forms)
        if crossed is not None:
            crossed = self._crossing.refit(crossed)
            again[CROSSES] = _Form(config, facts.with_crosses(crossed.crosses), crossed.weights)
        if TABLE in names and config.warm_start:
            penalty = forms[TABLE].start.penalty
            model = refit_regression(config, facts, self._source, self._directory, penalty)
            again[TABLE] = _Form(config, facts, first_order(model))
        return again, crossed

    def _learn_one(
        self,
        stage: str,
        search: int,
        form: "_Form",
        searched: FivesModel,
        epochs: float | None = None,
    ) -> tuple[FivesModel, Outcome]:
        """Learns a network on train, or on train and valid if the number of epochs is given."""
        config = form.config
        edges = binary_edges(config, searched)
        if config.random_adjacency:
            edges = random_edges(edges, edge_mask(self._facts.columns), config.seed + search)
        seed = config.seed + 1 + search
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

    def _stage(self, form: str) -> str:
        after = self._config.after
        return after if form == SEARCHED else f"{after}-{form}"

    def _batches(self, *splits: str, seed: int = 0) -> Batches:
        return Batches(self._source, splits, self._config.batch, seed)

    def _loop(self, model: FivesModel, stage: str, epochs: float) -> Loop:
        schedule = Schedule.of(self._config, epochs)
        return Loop(model, stage, self._directory, self._source, schedule)


@dataclass(frozen=True, eq=False)
class _Form:
    """A form of the network.

    Attributes:
        config: The settings of what is learned in it.
        facts: What is known of the dataset, with the crosses that have weights.
        start: What the first-order table starts from; None if there is none.
    """

    config: SearchConfig
    facts: Facts
    start: FirstOrder | None


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
