"""How well the model of a run predicts, beside logistic regressions on the same rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fives_tf import storage
from fives_tf.dataset import Dataset
from fives_tf.fitted import light_regression
from fives_tf.light import Light
from fives_tf.models.base import ClickModel
from fives_tf.models.build import Facts, first_order
from fives_tf.models.lr import LogisticRegression
from fives_tf.report.numbers import rounded
from fives_tf.restore import load_models
from fives_tf.run import LIGHT, Run
from fives_tf.training.batches import Source
from fives_tf.training.evaluation import Evaluator
from fives_tf.training.intervals import AucIntervals, rate_interval
from fives_tf.training.metrics import auc, log_loss
from fives_tf.training.regression import fit_regression, refit_regression

WORK = "report"  # in the run directory: the checkpoints of what a report learns
FIVES, LR, LR_CROSSES = "fives", "lr", "lr_crosses"
_BINS = 10


@dataclass(frozen=True, eq=False)
class Judged:
    """Predictions of several models for the rows of a split.

    Attributes:
        split: The name of the split.
        label: The labels, [rows].
        predicted: The probabilities of each model, by its key, [rows].
        labels: The names of the models, by their keys.
        layers: The AUC of each layer of FIVES alone.
        crosses: The names of the crosses that the light model has weights for.
        base: The logistic regression that has learned from train alone.
        strength: The strength of its penalty, as a part of a row's loss.
    """

    split: str
    label: np.ndarray
    predicted: dict[str, np.ndarray]
    labels: dict[str, str]
    layers: list[float]
    crosses: set[str]
    base: LogisticRegression
    strength: float

    def models(self) -> list[dict[str, Any]]:
        """The figures of each model, the run's own first."""
        keys = list(self.predicted)
        intervals = AucIntervals.of(self.label, list(self.predicted.values()))
        found = []
        for index, key in enumerate(keys):
            figures: dict[str, Any] = {
                "key": key,
                "label": self.labels[key],
                "auc": auc(self.label, self.predicted[key]),
                "auc_interval": intervals and intervals.interval(index),
                "log_loss": log_loss(self.label, self.predicted[key]),
            }
            if key != LR:
                figures["above_lr"] = figures["auc"] - auc(self.label, self.predicted[LR])
                figures["above_lr_interval"] = intervals and intervals.difference(
                    index, keys.index(LR)
                )
            found.append(rounded(figures))
        return found

    def calibration(self) -> dict[str, list[dict[str, Any]]]:
        """By the key of a model: ten parts of the rows by rising prediction, and their clicks."""
        return {key: _calibration(self.label, self.predicted[key]) for key in (FIVES, LR)}


def judge(run: Run, dataset: Dataset, source: Source) -> Judged:
    """Predicts the test rows, or the validation rows if there are none, with all models.

    What a logistic regression on the same rows is worth is learned here if the search did not
    learn it, with checkpoints of its own, so that a second report does not learn it again.

    Args:
        run: A search that is complete.
        dataset: Its dataset.
        source: The rows of the dataset.
    """
    config, facts = run.config, Facts.of(dataset, run.config)
    split = "test" if "test" in dataset.splits and dataset.split("test").rows else "valid"
    work = storage.join(run.directory, WORK)
    base, _ = fit_regression(config, facts, source, run.directory if config.first_order else work)
    penalty = first_order(base).penalty
    plain = base
    if config.refit and config.after != "nothing":  # as FIVES then has learned from valid too
        plain = refit_regression(config, facts, source, work, penalty)
    models: dict[str, list[ClickModel]] = {FIVES: load_models(run, dataset)}
    labels = {FIVES: "FIVES", LR: "Logistic regression"}
    light = Light.load(storage.join(run.directory, LIGHT), dataset.encoding)
    crosses = [field.cross.name for field in light.crosses.fields] if light else []
    if crosses:
        models[LR_CROSSES] = [light_regression(light, config, facts.with_crosses(light.crosses))]
        labels[LR_CROSSES] = f"Logistic regression with {len(crosses)} crosses"
    models[LR] = [plain]
    every = [model for group in models.values() for model in group]
    label, logits = Evaluator(source, [split]).logits(*every)
    found = iter(zip(every, logits, strict=True))
    predicted, layers = {}, []
    for key, group in models.items():
        own = [next(found) for _ in group]
        predicted[key] = np.mean([model.probability(z).numpy() for model, z in own], axis=0)
        if key == FIVES:
            mean = np.mean([z for _, z in own], axis=0)
            layers = [auc(label, column) for column in mean.T]
    strength = penalty.fields * facts.rows
    return Judged(split, label, predicted, labels, layers, set(crosses), base, strength)


def _calibration(label: np.ndarray, predicted: np.ndarray) -> list[dict[str, Any]]:
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(_BINS, len(label)))
    rows = np.array([len(part) for part in parts])
    clicks = np.array([label[part].sum() for part in parts])
    low, high = rate_interval(clicks, rows)
    return [
        rounded(
            {
                "rows": int(rows[place]),
                "predicted": float(predicted[part].mean(dtype=np.float64)),
                "clicked": float(clicks[place] / rows[place]),
                "interval": [float(low[place]), float(high[place])],
            }
        )
        for place, part in enumerate(parts)
    ]
