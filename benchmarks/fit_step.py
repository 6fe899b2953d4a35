"""One measurement of `fit_speed.py`: trains some steps through the loop and takes the time."""

from typing import TYPE_CHECKING

import keras
import tensorflow as tf
from fit_speed import CALLS, L2, WARM_UP, call_steps, mark

from fives_tf import storage
from fives_tf.config import FitConfig
from fives_tf.dataset import Dataset
from fives_tf.models.base import ClickModel
from fives_tf.models.build import Facts, Penalty, build_lr
from fives_tf.models.lr import LogisticRegression
from fives_tf.training.batches import Batches, Source
from fives_tf.training.journal import Journal
from fives_tf.training.loop import Loop, Schedule
from fives_tf.training.optimizers import make_optimizer

if TYPE_CHECKING:
    from search_speed import Task


def time_training(task: "Task") -> list[tuple[int, float, float]]:
    """The times after each call of the loop."""
    shape, call = task.shape, call_steps(task)
    total = call * (WARM_UP + CALLS)
    dataset = Dataset.open(task.directory)
    source = Source(dataset, memory=0)
    train = Batches(source, ["train"], shape.batch, shape.seed)
    model = _build(task.name, dataset, shape.batch, total)
    marks: list[tuple[int, float, float]] = []

    def observe(journal: Journal, step: int) -> None:
        marks.append(mark(step))

    # Without an evaluation, all that is done at its time is a line in the log and this call.
    schedule = Schedule(
        total / train.steps, evaluate_rows=call * train.batch, checkpoint_seconds=1e9
    )
    place = storage.join(task.directory, "run")
    Loop(model, "fit", place, source, schedule, observe).train(train, keep_best=False)
    return marks


def _build(name: str, dataset: Dataset, batch: int, steps: int) -> ClickModel:
    if name == "input":
        return Nothing()
    optimizer, _, penalties = name.partition("-")
    config = FitConfig(batch=batch, optimizer="ftrl" if optimizer == "keras" else optimizer)
    facts = Facts.of(dataset, config)
    if optimizer != "keras":
        return build_lr(config, facts, steps, None if penalties else [Penalty(L2, L2)])
    dense = make_optimizer("adam", 1e-2) if penalties == "adam" else DenseFtrl(0.1)
    return LogisticRegression(facts.frequency, [L2], batch, facts.click_rate, dense)


class DenseFtrl(keras.optimizers.Ftrl):
    """Keras' FTRL, with the gradient as Keras needs it."""

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor):
        """Updates a variable; see `keras.optimizers.Optimizer.update_step`."""
        super().update_step(tf.convert_to_tensor(gradient), variable, learning_rate)


class Nothing(ClickModel):
    """Takes the rows, and learns nothing of them."""

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """See `ClickModel.train_step`."""
        return {"loss": tf.reduce_mean(data[1]) + tf.cast(data[0][0, 0], tf.float32)}

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.call`."""
        return tf.zeros([tf.shape(ids)[0], 1])

    def probability(self, logits: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.probability`."""
        return tf.sigmoid(logits[:, 0])

    def learners(self) -> dict[str, keras.optimizers.Optimizer]:
        """See `ClickModel.learners`."""
        return {}
