"""Builds models for a dataset by a configuration."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from fives_tf.config import FTRL_RATE, Config, FitConfig, SearchConfig
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.dataset import Dataset
from fives_tf.frequency import coarse_rows, frequencies
from fives_tf.gain import STRENGTHS
from fives_tf.models.autofis import MOST_FIRST_GATE, AutoFIS
from fives_tf.models.autoint import AutoInt
from fives_tf.models.base import ClickModel, CrossPenalty, replicas
from fives_tf.models.dnn import DNN
from fives_tf.models.embedded import EmbeddedModel
from fives_tf.models.fignn import FiGNN
from fives_tf.models.fives import FivesForm, FivesModel
from fives_tf.models.fm import FactorizationMachine
from fives_tf.models.lr import LogisticRegression
from fives_tf.models.wide_deep import WideDeep
from fives_tf.training.optimizers import make_optimizer

# Strengths of L2 for a logistic regression, as parts of a row's loss: scikit-learn's 1 / C.
PENALTIES = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
# What to try on fields beside crosses: multiples of the penalty that was best without any.
NEAR_PENALTIES = (1.0, 3.0)
FTRL_BETA = 0.1  # what keeps the first steps of FTRL small, as a part of a row's gradient
BIAS_RATE = 1e-2  # of the bias beside it, which falls to 0
# Of networks, unless the configuration says otherwise.
NETWORK_RATE, NETWORK_L2 = 1e-3, 1e-5
FIRST_ORDER_PENALTY = 5.0  # one of `PENALTIES`
GRDA_RATE, GRDA_MU = 1.0, 0.8  # as the authors of AutoFIS set them


@dataclass(frozen=True, eq=False)
class Facts:
    """What models need to know of a dataset.

    Attributes:
        fields: The names of the fields.
        columns: The column that each field is made from.
        frequency: The part of the rows that each id occurs in.
        coarse: The row of the embedding for each id; None if each has its own.
        rows: The number of train rows.
        click_rate: The part of them with a click.
        crosses: The crosses that have first-order weights beside the fields; None if none have.
        crosses_in_rows: How many ids the crosses have that stand in the rows as further fields.
    """

    fields: tuple[str, ...]
    columns: tuple[str, ...]
    frequency: np.ndarray
    coarse: np.ndarray | None
    rows: int
    click_rate: float
    crosses: CrossEncoding | None = None
    crosses_in_rows: int = 0

    @classmethod
    def of(cls, dataset: Dataset, config: Config) -> "Facts":
        """Gathers the facts; crosses of the dataset are fields like all others."""
        facts, crosses = cls.of_fields(dataset, config), dataset.crosses
        return facts if crosses is None else facts._with_fields(crosses)

    @classmethod
    def of_fields(cls, dataset: Dataset, config: Config) -> "Facts":
        """Gathers the facts of the fields alone."""
        encoding, train = dataset.encoding, dataset.split("train")
        coarse = None
        if config.coarse_count or config.coarse_buckets:
            coarse = coarse_rows(encoding, config.coarse_count, config.coarse_buckets)
        return cls(
            fields=tuple(field.name for field in encoding.fields),
            columns=tuple(field.column for field in encoding.fields),
            frequency=frequencies(encoding),
            coarse=coarse,
            rows=train.rows,
            click_rate=train.clicks / train.rows,
        )

    def _with_fields(self, crosses: CrossEncoding) -> "Facts":
        """The same with crosses that stand in the rows as further fields."""
        names = tuple(field.cross.name for field in crosses.fields)
        return dataclasses.replace(
            self,
            fields=self.fields + names,
            columns=self.columns + names,
            frequency=np.concatenate([self.frequency, crosses.frequencies()]),
            crosses_in_rows=crosses.size,
        )

    def with_crosses(self, crosses: CrossEncoding) -> "Facts":
        """The same with crosses, whose ids follow those of the fields."""
        return dataclasses.replace(self, crosses=crosses if crosses.fields else None)

    @property
    def cross_frequency(self) -> np.ndarray:
        """The part of the rows that each id of the crosses occurs in."""
        return self.crosses.frequencies() if self.crosses else np.empty(0)

    @property
    def every_frequency(self) -> np.ndarray:
        """The part of the rows that each id occurs in, those of the crosses after the fields'."""
        return np.concatenate([self.frequency, self.cross_frequency])

    def cross_penalty(self, l2: float | Sequence[float]) -> CrossPenalty | None:
        """A penalty on the weights of crosses; None if there are no crosses.

        Args:
            l2: Its strength, one for all columns of a table or for each.
        """
        if self.crosses is None and not self.crosses_in_rows:
            return None
        return CrossPenalty(len(self.frequency) - self.crosses_in_rows, np.asarray(l2))

    @property
    def cross_module(self) -> Callable[[tf.Tensor], tf.Tensor] | None:
        """What gives the ids of the crosses for rows of ids; None if there are no crosses."""
        return self.crosses.module if self.crosses else None


class Penalty(NamedTuple):
    """The strength of the penalty strength / 2 * sum of squares, beside the mean loss.

    Attributes:
        fields: That on the weights of fields.
        crosses: That on those of crosses.
    """

    fields: float
    crosses: float

    @classmethod
    def near(cls, fields: float, rows: int) -> "list[Penalty]":
        """The penalties to try with crosses, where one is best without any.

        Args:
            fields: The one that is best.
            rows: The number of train rows.
        """
        return [cls(fields * n, one / rows) for n in NEAR_PENALTIES for one in STRENGTHS]


@dataclass(frozen=True, eq=False)
class FirstOrder:
    """The weights of a logistic regression, for other models to start from.

    Attributes:
        weights: The weight of each id.
        bias: The bias.
        penalty: The penalty they were learned with.
    """

    weights: np.ndarray
    bias: float
    penalty: Penalty


def build_lr(
    config: Config, facts: Facts, steps: int = 1, penalties: Sequence[Penalty] | None = None
) -> LogisticRegression:
    """Logistic regressions with penalties from weak to strong, or with those that are given.

    Args:
        config: The configuration, resolved.
        facts: What is known of the dataset.
        steps: The length of the training.
        penalties: The penalties; the configuration counts more.
    """
    how = config.regression
    if how.l2 is not None:
        penalties = [Penalty(how.l2, how.l2)]
    elif penalties is None:
        penalties = [Penalty(one / facts.rows, one / facts.rows) for one in PENALTIES]
    every, of_crosses = zip(*penalties, strict=True)
    rate, bias_optimizer = how.rate * _scale(config), None
    if how.optimizer == "ftrl":
        optimizer = _ftrl(config, facts, steps, rate, how.l1, every, of_crosses)
        bias_optimizer = make_optimizer("adam", BIAS_RATE * _scale(config), falls_over=steps)
    else:
        optimizer = make_optimizer(how.optimizer, rate, falls_over=steps)
    return LogisticRegression(
        facts.every_frequency,
        every,
        config.batch,
        facts.click_rate,
        optimizer,
        facts.cross_module,
        bias_optimizer,
        facts.cross_penalty(of_crosses),
    )


def first_order(model: LogisticRegression) -> FirstOrder:
    """The weights of the regression that was chosen."""
    chosen = int(model.chosen.numpy())
    return FirstOrder(
        weights=model.table.values.numpy()[:, chosen],
        bias=float(model.bias.numpy()[chosen]),
        penalty=Penalty(model.l2[chosen], model.cross_l2[chosen]),
    )


def build_network(
    config: FitConfig, facts: Facts, steps: int = 1, searching: bool = False
) -> EmbeddedModel:
    """A network over the embeddings of fields and crosses.

    Args:
        config: The configuration, resolved.
        facts: What is known of the dataset.
        steps: The length of the training, over which the learning rates fall.
        searching: Whether it is to search for the pairs that are useful, as AutoFIS does.
    """
    kind = NETWORKS[config.model]
    rate = (NETWORK_RATE if config.rate is None else config.rate) * _scale(config)
    first_order_l2 = config.first_order_l2
    if first_order_l2 is None:
        first_order_l2 = FIRST_ORDER_PENALTY / facts.rows
    optimizers = {
        "embedding": make_optimizer("lazy_adam", rate, steps),
        "network": make_optimizer("adam", rate, steps),
        "first_order": make_optimizer("lazy_adam", rate, steps),
        "gates": make_optimizer("adam", rate, steps),
    }
    if kind.first_order_optimizer == "ftrl":
        optimizers["first_order"] = _ftrl(
            config, facts, steps, FTRL_RATE * _scale(config), 0.0, first_order_l2, first_order_l2
        )
        first_order_l2 = 0.0  # FTRL has it
    if searching:
        # So that a pair whose gradients cancel each other out is gone in the end. The authors' 5e-4
        # does so after 7,000 steps.
        rate = GRDA_RATE * _scale(config)
        c = MOST_FIRST_GATE / (rate ** (0.5 + GRDA_MU) * steps**GRDA_MU)
        optimizers["gates"] = make_optimizer("grda", rate, c=c, mu=GRDA_MU)
    return kind(
        len(facts.fields) + (len(facts.crosses.fields) if facts.crosses else 0),
        facts.every_frequency,
        config.batch,
        optimizers,
        dim=config.dim,
        l2=NETWORK_L2 if config.l2 is None else config.l2,
        first_order_l2=first_order_l2,
        dropout=config.dropout,
        click_rate=facts.click_rate,
        seed=config.seed,
        jit=config.xla,
        crosses=facts.cross_module,
        **{name: getattr(config, name) for name in kind.settings},
    )


NETWORKS: dict[str, type[EmbeddedModel]] = {
    "dnn": DNN,
    "fm": FactorizationMachine,
    "wide_deep": WideDeep,
    "autoint": AutoInt,
    "fignn": FiGNN,
    "autofis": AutoFIS,
}
# The models of `fives fit` by name; `config.MODELS` has the names.
BUILDERS: dict[str, Callable[[FitConfig, Facts, int], ClickModel]] = {
    "lr": build_lr,
    **dict.fromkeys(NETWORKS, build_network),
}


def build_fives(
    config: SearchConfig,
    facts: Facts,
    start: FirstOrder | None = None,
    edges: np.ndarray | None = None,
    seed: int = 0,
    steps: int = 1,
) -> FivesModel:
    """FIVES, to search its edges or with edges that are given.

    Args:
        config: The configuration, resolved.
        facts: What is known of the dataset.
        start: What the first-order table starts from.
        edges: The adjacency tensor, if it is given.
        seed: Decides the first values.
        steps: The length of the training. Over it the temperature falls in the search, the
            learning rates fall if the edges are given.
    """
    searching = edges is None
    form = FivesForm(
        order=config.order,
        dim=config.dim,
        first_order=config.first_order,
        aggregate=config.aggregate,
        joint=config.joint,
        dropout=config.search_dropout if searching else config.dropout,
        stddev=config.stddev,
        readout_stddev=config.readout_stddev,
        dependencies=config.dependencies,
        rescaling=config.rescaling,
        straight_through=config.straight_through,
        end_temperature=config.end_temperature,
        thresholds=config.thresholds or None,
    )
    embedding_rate = config.search_embedding_rate if searching else config.embedding_rate
    rate = config.search_rate if searching else config.rate
    falls_over, scale = None if searching else steps, _scale(config)
    optimizers = {
        "embedding": make_optimizer(config.embedding_optimizer, embedding_rate * scale, falls_over),
        "network": make_optimizer("adam", rate * scale, falls_over),
        "edges": make_optimizer("adam", config.edge_rate * scale, epsilon=config.edge_epsilon),
        "first_order": make_optimizer("lazy_adam", config.first_order_rate * scale, falls_over),
    }
    penalty = Penalty(0.0, 0.0) if start is None else start.penalty
    if config.first_order_l2 is not None:
        penalty = Penalty(config.first_order_l2, config.first_order_l2)
    model = FivesModel(
        form,
        facts.columns,
        facts.frequency,
        config.batch,
        optimizers,
        coarse=facts.coarse,
        crosses=facts.cross_module,
        cross_frequency=facts.cross_frequency,
        l2=config.search_l2 if searching else config.l2,
        first_order_l2=penalty.fields,
        cross_penalty=facts.cross_penalty(penalty.crosses),
        click_rate=facts.click_rate,
        steps=steps,
        edges=edges,
        seed=seed,
        precision=config.precision,
        jit=config.xla,
    )
    if start is not None and config.warm_start:
        model.start_from(start.weights, start.bias)
    return model


def _ftrl(
    config: Config,
    facts: Facts,
    steps: int,
    rate: float,
    l1: float,
    l2: float | Sequence[float],
    cross_l2: float | Sequence[float],
) -> keras.optimizers.Optimizer:
    """FTRL, which adds up gradients that each are the mean of a batch; so must the penalties be."""
    return make_optimizer(
        "ftrl",
        rate,
        beta=FTRL_BETA / config.batch,
        l1=l1 * steps,
        l2=np.asarray(l2) * steps,
        crosses=facts.cross_penalty(np.asarray(cross_l2) * steps),
    )


def _scale(config: Config) -> int:
    """What the learning rates are multiplied by."""
    return replicas() if config.scale_rates else 1
