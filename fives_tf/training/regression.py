"""The logistic regression that a search starts from and that tells how good an encoding is."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from fives_tf.config import SearchConfig
from fives_tf.models.build import Facts, Penalty, build_lr
from fives_tf.models.lr import LogisticRegression
from fives_tf.training.batches import Batches, Source
from fives_tf.training.evaluation import Evaluation, Evaluator, judge
from fives_tf.training.loop import Loop, Outcome, Schedule
from fives_tf.training.metrics import log_loss

STAGE = "lr"
REFIT_STAGE = "refit-lr"


def fit_regression(
    config: SearchConfig,
    facts: Facts,
    source: Source,
    directory: str,
    stage: str = STAGE,
    penalties: Sequence[Penalty] | None = None,
) -> tuple[LogisticRegression, Outcome]:
    """Fits logistic regressions of several penalties on train, and chooses the best one on valid.

    The best one has the lowest log loss, which varies less by chance than the AUC. The learning
    rate falls to 0 and the penalty is what holds the weights back, so none of them ends early.

    Args:
        config: The configuration, resolved.
        facts: What is known of the dataset.
        source: Its rows.
        directory: The run directory, for checkpoints and figures.
        stage: The name of the training there.
        penalties: The penalties to try; from weak to strong unless given.

    Returns:
        The model, which predicts with the penalty that was best, and how the training ended.
    """
    train = Batches(source, ["train"], config.batch, config.seed)
    model = build_lr(config, facts, config.lr_epochs * train.steps, penalties)
    evaluator = Evaluator(source, ["valid"])

    def evaluate() -> Evaluation:
        label, (logits,) = evaluator.logits(model)
        losses = [log_loss(label, predicted) for predicted in tf.sigmoid(logits.T).numpy()]
        model.choose(int(np.argmin(losses)))
        return judge(label, model.probability(logits).numpy(), logits)

    loop = Loop(model, stage, directory, source, Schedule.of(config, config.lr_epochs))
    return model, loop.train(train, evaluate=evaluate, keep_best=False)


def refit_regression(
    config: SearchConfig,
    facts: Facts,
    source: Source,
    directory: str,
    penalty: Penalty,
    stage: str = REFIT_STAGE,
) -> LogisticRegression:
    """Fits a logistic regression of a given penalty on train and valid together."""
    both = Batches(source, ["train", "valid"], config.batch, config.seed)
    model = build_lr(config, facts, config.lr_epochs * both.steps, [penalty])
    schedule = Schedule.of(config, config.lr_epochs)
    Loop(model, stage, directory, source, schedule).train(both)
    return model
