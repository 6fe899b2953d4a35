"""The figures of a finished run on the test split: its models and its logistic regressions."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fives_tf import storage
from fives_tf.dataset import Dataset
from fives_tf.light import Light
from fives_tf.models.build import Facts, Penalty, build_lr, first_order
from fives_tf.models.lr import LogisticRegression
from fives_tf.restore import load_models
from fives_tf.run import LIGHT, Run
from fives_tf.training.batches import Source
from fives_tf.training.evaluation import Evaluation, Evaluator, judge
from fives_tf.training.loop import CHECKPOINTS
from fives_tf.training.regression import STAGE, refit_regression


@dataclass(frozen=True)
class Scores:
    """The figures of a run on the test split.

    Attributes:
        lr: Those of a logistic regression on the fields, as models start from; None if there is
            none.
        light: Those of the regression that has the chosen crosses too; None if the run left none.
        one: Those of its first model alone.
        members: Those of the mean prediction of all its models.
    """

    lr: Evaluation | None
    light: Evaluation | None
    one: Evaluation
    members: Evaluation


def score(run: Run, dataset: Dataset) -> Scores:
    """Reads the test split once, for all models of a run."""
    source = Source(dataset, run.config.memory, run.config.skip_corrupt)
    fives = load_models(run, dataset)
    others = {"lr": load_lr(run, dataset, source), "light": load_light(run, dataset)}
    others = {name: model for name, model in others.items() if model}
    models = [*fives, *others.values()]
    label, logits = Evaluator(source, ["test"]).logits(*models)
    predictions = [model.probability(z).numpy() for model, z in zip(models, logits, strict=True)]
    count = len(fives)
    found = {
        name: judge(label, predictions[place], logits[place])
        for place, name in enumerate(others, start=count)
    }
    return Scores(
        lr=found.get("lr"),
        light=found.get("light"),
        one=judge(label, predictions[0], logits[0]),
        members=judge(label, np.mean(predictions[:count], axis=0), np.mean(logits[:count], axis=0)),
    )


def load_lr(run: Run, dataset: Dataset, source: Source) -> LogisticRegression | None:
    """The logistic regression on the fields; refitted, as the models of the run are."""
    config, facts = run.config, Facts.of(dataset, run.config)
    path = tf.train.latest_checkpoint(storage.join(run.directory, CHECKPOINTS, STAGE, "last"))
    if path is None:
        return None
    model = build_lr(config, facts)
    restored = tf.train.Checkpoint(model=model).restore(path)
    restored.assert_existing_objects_matched().expect_partial()  # leaves the optimizer
    if not config.refit:
        return model
    # Nothing but a lookup if the run has done so already.
    return refit_regression(config, facts, source, run.directory, first_order(model).penalty)


def load_light(run: Run, dataset: Dataset) -> LogisticRegression | None:
    """The logistic regression on fields and crosses that the run has left."""
    light = Light.load(storage.join(run.directory, LIGHT), dataset.encoding)
    if light is None:
        return None
    facts = Facts.of(dataset, run.config).with_crosses(light.crosses)
    # To predict, no penalty is needed.
    model = build_lr(run.config, facts, penalties=[Penalty(0.0, 0.0)])
    model.table.values.assign(light.weights[:, None])
    model.bias.assign([light.bias])
    return model
