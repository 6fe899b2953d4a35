"""The figures of a finished run on the test split: its models and its logistic regression."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fives_tf import storage
from fives_tf.dataset import Dataset
from fives_tf.models.build import Facts, build_lr
from fives_tf.models.lr import LogisticRegression
from fives_tf.run import Run
from fives_tf.search import load_models
from fives_tf.training.batches import Source
from fives_tf.training.evaluation import Evaluation, Evaluator, judge
from fives_tf.training.loop import CHECKPOINTS
from fives_tf.training.regression import REFIT_STAGE, STAGE


@dataclass(frozen=True)
class Scores:
    """The figures of a run on the test split.

    Attributes:
        one: Those of its first model alone.
        members: Those of the mean prediction of all its models.
        lr: Those of the logistic regression that they start from; None if there was none.
    """

    one: Evaluation
    members: Evaluation
    lr: Evaluation | None


def score(run: Run, dataset: Dataset) -> Scores:
    """Reads the test split once, for all models of a run."""
    fives, regression = load_models(run, dataset), load_lr(run, dataset)
    models = [*fives, regression] if regression else fives
    source = Source(dataset, run.config.memory, run.config.skip_corrupt)
    label, logits = Evaluator(source, ["test"]).logits(*models)
    predictions = [model.probability(z).numpy() for model, z in zip(models, logits, strict=True)]
    count = len(fives)
    return Scores(
        one=judge(label, predictions[0], logits[0]),
        members=judge(label, np.mean(predictions[:count], axis=0), np.mean(logits[:count], axis=0)),
        lr=judge(label, predictions[-1], logits[-1]) if regression else None,
    )


def load_lr(run: Run, dataset: Dataset) -> LogisticRegression | None:
    """The logistic regression that the models of a run start from."""
    for stage, l2 in ((REFIT_STAGE, 0.0), (STAGE, None)):  # to predict, no penalty is needed
        path = tf.train.latest_checkpoint(storage.join(run.directory, CHECKPOINTS, stage, "last"))
        if path is not None:
            model = build_lr(run.config, Facts.of(dataset, run.config), l2=l2)
            restored = tf.train.Checkpoint(model=model).restore(path)
            restored.assert_existing_objects_matched().expect_partial()  # leaves the optimizer
            return model
    return None
