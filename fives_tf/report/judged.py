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
    """How well models predict the rows of a split.

    Attributes:
        split: The name of the split.
        models: The figures of each model, the run's own first.
        calibration: By the key of a model: tenths of the rows by rising prediction.
        layers: The AUC of each layer of FIVES alone.
        crosses: The names of the crosses that the light model has weights for.
        base: The logistic regression that has learned from train alone.
    """

    split: str
    models: list[dict[str, Any]]
    calibration: dict[str, list[dict[str, Any]]]
    layers: list[float]
    crosses: set[str]
    base: LogisticRegression


def judge(run: Run, dataset: Dataset, source: Source) -> Judged:
    """Judges the model of a run, and logistic regressions, on the same rows.

    These are the test rows. If there are none, they are those of valid, from which models learn in
    the end; then the figures are those before that.

    The regressions without crosses are learned here, with checkpoints of their own, so that a
    second report does not learn them again. What the run has is not touched.

    Args:
        run: A search that is complete.
        dataset: Its dataset.
        source: The rows of the dataset.
    """
    config, facts = run.config, Facts.of(dataset, run.config)
    work = storage.join(run.directory, WORK)
    base, outcome = fit_regression(config, facts, source, work)
    penalty = first_order(base).penalty
    light = Light.load(storage.join(run.directory, LIGHT), dataset.encoding)
    if light is not None and not light.crosses.fields:
        light = None
    if "test" in dataset.splits and source.rows(["test"]):
        # As the light model does, and FIVES unless it ends with the search.
        plain = refit_regression(config, facts, source, work, penalty) if config.refit else base
        split, found = "test", _on_test(run, dataset, source, facts, light, plain)
    else:
        split, found = "valid", _on_valid(run, light, outcome.evaluation.to_json())
    models, calibration, layers = found
    lr = models[-1]["auc"]
    for one in models[:-1]:
        one["above_lr"] = rounded(one["auc"] - lr) if None not in (one["auc"], lr) else None
    return Judged(
        split,
        models,
        calibration,
        layers,
        crosses={field.cross.name for field in light.crosses.fields} if light else set(),
        base=base,
    )


_Found = tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]], list[float]]


def _on_test(
    run: Run,
    dataset: Dataset,
    source: Source,
    facts: Facts,
    light: Light | None,
    plain: LogisticRegression,
) -> _Found:
    models: dict[str, list[ClickModel]] = {FIVES: load_models(run, dataset)}
    if light is not None:
        crossed = facts.with_crosses(light.crosses)
        models[LR_CROSSES] = [light_regression(light, run.config, crossed)]
    models[LR] = [plain]
    every = [model for group in models.values() for model in group]
    label, logits = Evaluator(source, ["test"]).logits(*every)
    pairs = iter(zip(every, logits, strict=True))
    own = {key: [next(pairs) for _ in group] for key, group in models.items()}
    predicted = {
        key: np.mean([model.probability(z).numpy() for model, z in group], axis=0)
        for key, group in own.items()
    }
    intervals = AucIntervals.of(label, list(predicted.values()))
    figures = []
    for index, (key, probability) in enumerate(predicted.items()):
        one = _model(key, light, auc(label, probability), log_loss(label, probability))
        if intervals is not None:
            one["auc_interval"] = intervals.interval(index)
            if key != LR:
                one["above_lr_interval"] = intervals.difference(index, len(predicted) - 1)
        figures.append(rounded(one))
    outputs = np.mean([z for _, z in own[FIVES]], axis=0)
    return (
        figures,
        {key: _calibration(label, predicted[key]) for key in (FIVES, LR)},
        [auc(label, column) for column in outputs.T],
    )


def _on_valid(run: Run, light: Light | None, plain: dict[str, Any]) -> _Found:
    """What is known of models that have not learned from valid; their predictions are gone."""
    own = run.manifest["evaluation"]
    known = {FIVES: own, LR_CROSSES: light and light.evaluation, LR: plain}
    figures = [
        rounded(_model(key, light, one["auc"], one["log_loss"]))
        for key, one in known.items()
        if one is not None
    ]
    return figures, {}, own["output_auc"]


def _model(key: str, light: Light | None, auc: float, log_loss: float) -> dict[str, Any]:
    label = {FIVES: "FIVES", LR: "Logistic regression"}.get(key)
    if label is None:
        label = f"Logistic regression with {len(light.crosses.fields)} crosses"
    return {
        "key": key,
        "label": label,
        "auc": auc,
        "auc_interval": None,
        "log_loss": log_loss,
    }


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
