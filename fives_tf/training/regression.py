"""The logistic regression that a search starts from and that tells how good an encoding is."""

import numpy as np

from fives_tf.config import SearchConfig
from fives_tf.models.build import Facts, build_lr
from fives_tf.models.lr import LogisticRegression
from fives_tf.training.batches import Batches, Source
from fives_tf.training.evaluation import Evaluation, Evaluator, judge
from fives_tf.training.loop import Loop, Outcome, Schedule

LR_EPOCHS = 30  # at most; as a rule it ends early


def fit_regression(
    config: SearchConfig,
    facts: Facts,
    source: Source,
    directory: str,
    epochs: int = LR_EPOCHS,
    stage: str = "lr",
) -> tuple[LogisticRegression, Outcome]:
    """Fits logistic regressions of several penalties on train, and keeps the best one on valid.

    Args:
        config: The configuration, resolved.
        facts: What is known of the dataset.
        source: Its rows.
        directory: The run directory, for checkpoints and figures.
        epochs: The most epochs.
        stage: The name that checkpoints, figures and progress go by.

    Returns:
        The model, which predicts with the penalty that was best, and how the training ended.
    """
    model = build_lr(config, facts)
    evaluator = Evaluator(source, ["valid"])

    def evaluate() -> Evaluation:
        label, (logits,) = evaluator.logits(model)
        found = judge(label, model.probability(logits).numpy(), logits)
        model.choose(int(np.argmax(found.output_auc)))
        return judge(label, model.probability(logits).numpy(), logits)

    schedule = Schedule(epochs, config.patience, config.evaluate_rows, config.checkpoint_seconds)
    train = Batches(source, ["train"], config.batch, config.seed)
    loop = Loop(model, stage, directory, source, schedule)
    return model, loop.train(train, evaluate=evaluate)
