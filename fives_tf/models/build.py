"""Builds models for a dataset by a configuration."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from fives_tf.config import SearchConfig
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.dataset import Dataset
from fives_tf.frequency import coarse_rows, frequencies
from fives_tf.models.base import replicas
from fives_tf.models.fives import FivesForm, FivesModel
from fives_tf.models.lr import LogisticRegression
from fives_tf.training.optimizers import make_optimizer

# Strengths of L2 for a logistic regression, as parts of a row's loss: scikit-learn's 1 / C.
PENALTIES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
LR_RATE = 1e-2  # its learning rate, which falls to 0


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
    """

    fields: tuple[str, ...]
    columns: tuple[str, ...]
    frequency: np.ndarray
    coarse: np.ndarray | None
    rows: int
    click_rate: float
    crosses: CrossEncoding | None = None

    @classmethod
    def of(cls, dataset: Dataset, config: SearchConfig) -> "Facts":
        """Gathers the facts."""
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

    def with_crosses(self, crosses: CrossEncoding) -> "Facts":
        """The same with crosses, whose ids follow those of the fields."""
        return dataclasses.replace(self, crosses=crosses if crosses.fields else None)

    @property
    def cross_frequency(self) -> np.ndarray:
        """The part of the rows that each id of the crosses occurs in."""
        return self.crosses.frequencies() if self.crosses else np.empty(0)


@dataclass(frozen=True, eq=False)
class FirstOrder:
    """The weights of a logistic regression, for other models to start from.

    Attributes:
        weights: The weight of each id.
        bias: The bias.
        l2: The penalty they were learned with.
    """

    weights: np.ndarray
    bias: float
    l2: float


def build_lr(
    config: SearchConfig, facts: Facts, steps: int = 1, l2: float | None = None
) -> LogisticRegression:
    """Logistic regressions with penalties from weak to strong, or one with a penalty that is given.

    Args:
        config: The configuration, resolved.
        facts: What is known of the dataset.
        steps: The length of the training.
        l2: The penalty.
    """
    every = [strength / facts.rows for strength in PENALTIES] if l2 is None else [l2]
    optimizer = make_optimizer("lazy_adam", LR_RATE * _scale(config), falls_over=steps)
    frequency = np.concatenate([facts.frequency, facts.cross_frequency])
    crosses = facts.crosses.module if facts.crosses else None
    return LogisticRegression(frequency, every, config.batch, facts.click_rate, optimizer, crosses)


def first_order(model: LogisticRegression) -> FirstOrder:
    """The weights of the regression that was chosen."""
    chosen = int(model.chosen.numpy())
    return FirstOrder(
        weights=model.table.values.numpy()[:, chosen],
        bias=float(model.bias.numpy()[chosen]),
        l2=model.l2[chosen],
    )


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
    l2 = config.first_order_l2
    model = FivesModel(
        form,
        facts.columns,
        facts.frequency,
        config.batch,
        optimizers,
        coarse=facts.coarse,
        crosses=facts.crosses.module if facts.crosses else None,
        cross_frequency=facts.cross_frequency,
        l2=config.search_l2 if searching else config.l2,
        first_order_l2=l2 if l2 is not None else (start.l2 if start else 0.0),
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


def _scale(config: SearchConfig) -> int:
    """What the learning rates are multiplied by."""
    return replicas() if config.scale_rates else 1
