"""How well the model of a run predicts a split that it may not have seen."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fives_tf.dataset import Dataset
from fives_tf.restore import load_models
from fives_tf.run import Run
from fives_tf.search import check_clicks, open_source
from fives_tf.training.evaluation import Evaluation, Evaluator, judge


@dataclass(frozen=True)
class SplitReport:
    """What is known of a run's predictions on a split.

    Attributes:
        split: The name of the split.
        members: The number of models whose mean predicts.
        clicks: The number of rows with a click.
        mean_prediction: The mean of the predicted probabilities; near the click rate if the model
            is calibrated.
        evaluation: The figures.
    """

    split: str
    members: int
    clicks: int
    mean_prediction: float
    evaluation: Evaluation

    @property
    def click_rate(self) -> float:
        """The part of the rows with a click."""
        return self.clicks / self.evaluation.rows

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return {
            "split": self.split,
            "members": self.members,
            "clicks": self.clicks,
            "click_rate": self.click_rate,
            "mean_prediction": self.mean_prediction,
            **self.evaluation.to_json(),
        }


def evaluate(
    run: Run, split: str, dataset: Dataset | None = None, skip_corrupt: bool = False
) -> SplitReport:
    """Predicts every row of a split and judges the predictions.

    Args:
        run: A run that is complete.
        split: The name of the split.
        dataset: The dataset of the run, if it is not where it was.
        skip_corrupt: Whether to leave out shards that hold a corrupt record; else only if the
            search did.
    """
    dataset = dataset or run.dataset()
    check_clicks(dataset, split)
    config = run.config
    source = open_source(dataset, config.memory, skip_corrupt or config.skip_corrupt)
    check_clicks(dataset, split, {shard.file for shard in source.skipped})
    models = load_models(run, dataset)
    label, logits = Evaluator(source, [split]).logits(*models)
    pairs = zip(models, logits, strict=True)
    probability = np.mean([model.probability(z).numpy() for model, z in pairs], axis=0)
    return SplitReport(
        split=split,
        members=len(models),
        clicks=int(label.sum()),
        mean_prediction=float(probability.mean(dtype=np.float64)),
        evaluation=judge(label, probability, np.mean(logits, axis=0)),
    )
