"""How well a model predicts a split: exact figures over every row, each counted once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from fives_tf.models.base import ClickModel
from fives_tf.training.batches import Source
from fives_tf.training.metrics import auc, log_loss

BATCH = 4096


@dataclass(frozen=True)
class Evaluation:
    """The figures of a model on a split.

    Attributes:
        rows: The number of rows.
        auc: The AUC of the prediction.
        log_loss: Its mean cross-entropy.
        output_auc: The AUC of each output of the model, such as the layers of FIVES.
    """

    rows: int
    auc: float
    log_loss: float
    output_auc: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """The figures by name."""
        return {
            "rows": self.rows,
            "auc": self.auc,
            "log_loss": self.log_loss,
            "output_auc": list(self.output_auc),
        }


class Evaluator:
    """Evaluates models on the rows of some splits.

    Example:
        Evaluator(source, ["valid"]).evaluate(model).auc
    """

    def __init__(self, source: Source, splits: Sequence[str]):
        """Takes the rows to evaluate on."""
        self._source = source
        self._splits = splits
        self._batches = None

    def evaluate(self, *models: ClickModel) -> Evaluation:
        """The figures of a model, or of the mean prediction of several."""
        label, logits = self.logits(*models)
        probability = np.mean(
            [model.probability(z).numpy() for model, z in zip(models, logits, strict=True)], axis=0
        )
        return judge(label, probability, np.mean(logits, axis=0))

    def logits(self, *models: ClickModel) -> tuple[np.ndarray, list[np.ndarray]]:
        """The labels, [rows], and for each model the logits, [rows, outputs].

        Each replica of each worker takes its part of the rows, and every worker gets them all.
        """
        strategy = tf.distribute.get_strategy()
        labels: list[np.ndarray] = []
        logits: list[list[np.ndarray]] = [[] for _ in models]
        if self._batches is None:  # to make them anew takes longer than to go through few rows
            self._batches = strategy.distribute_datasets_from_function(
                lambda context: self._source.once(self._splits, BATCH)
            )
        with self._source.reading():
            for ids, label, rows in self._batches:
                counts = strategy.gather(rows, axis=0).numpy()
                real = (np.arange(BATCH) < counts[:, None]).ravel()
                labels.append(strategy.gather(label, axis=0).numpy()[real])
                for model, parts in zip(models, logits, strict=True):
                    found = strategy.gather(strategy.run(model.logits, args=(ids,)), axis=0)
                    parts.append(found.numpy()[real])
        label = np.concatenate(labels)
        expected = self._source.rows(self._splits)
        if len(label) != expected:
            raise RuntimeError(f"{len(label):,} rows were evaluated in place of {expected:,}")
        return label, [np.concatenate(parts) for parts in logits]


def judge(label: np.ndarray, probability: np.ndarray, logits: np.ndarray) -> Evaluation:
    """The figures of predictions, [rows], and of the logits of all outputs, [rows, outputs]."""
    outputs = tuple(auc(label, column) for column in logits.T)
    return Evaluation(len(label), auc(label, probability), log_loss(label, probability), outputs)
