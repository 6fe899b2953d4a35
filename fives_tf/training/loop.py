"""The training loop: one for every model and strategy.

Many steps run inside one `tf.function`; between such calls the loop saves, evaluates, tells how it
goes and looks whether it is to stop. All that decides how it goes on stands in variables that a
checkpoint holds, and the batches follow from the number of the step: training that is killed and
resumed ends as if it had not been.
"""

import math
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from fives_tf import progress, storage
from fives_tf.config import SearchConfig
from fives_tf.errors import Interrupted, UserError
from fives_tf.models.base import ClickModel
from fives_tf.training.batches import Batches, Source
from fives_tf.training.evaluation import Evaluation
from fives_tf.training.interrupts import Interrupts
from fives_tf.training.journal import Journal
from fives_tf.training.strategy import Place, agree

CHECKPOINTS = "checkpoints"
_CALL_STEPS = 200  # steps in one call, at most
_CALL_ROWS = 100_000  # and rows, so that a signal does not wait long


@dataclass(frozen=True)
class Schedule:
    """How long to train, and when to look how well it goes.

    Attributes:
        epochs: The most epochs; a part of one may be left over.
        patience: How many evaluations in a row without a better AUC end the training.
        evaluate_rows: After how many rows to evaluate within a long epoch; always at its end.
        checkpoint_seconds: How often to save on the way.
    """

    epochs: float
    patience: int = 3
    evaluate_rows: int = 20_000_000
    checkpoint_seconds: float = 120.0

    @classmethod
    def of(cls, config: SearchConfig, epochs: float) -> "Schedule":
        """The schedule of a stage of so many epochs."""
        return cls(epochs, config.patience, config.evaluate_rows, config.checkpoint_seconds)


@dataclass(frozen=True)
class Outcome:
    """How a training ended.

    Attributes:
        steps: The number of steps.
        kept_step: The step whose parameters the model has now.
        evaluation: The figures with these parameters; None if nothing was evaluated.
    """

    steps: int
    kept_step: int
    evaluation: Evaluation | None


class Loop:
    """Trains a model through one stage of a run.

    Example:
        loop = Loop(model, "search", "run", source, Schedule(epochs=4))
        outcome = loop.train(train, valid, evaluate=["valid"])
    """

    def __init__(
        self,
        model: ClickModel,
        stage: str,
        directory: str,
        source: Source,
        schedule: Schedule,
        observe: Callable[[Journal, int], None] | None = None,
    ):
        """Prepares a stage.

        Args:
            model: The model.
            stage: The name of the stage, which its checkpoints and figures go by.
            directory: The run directory.
            source: Where the rows come from.
            schedule: How long to train.
            observe: Called with the journal and the step when it is time to tell how it goes.
        """
        self._model, self._stage, self._source, self._schedule = model, stage, source, schedule
        self._observe = observe
        self._journal = Journal(directory)
        self._state = _State()
        folder = storage.for_tensorflow(storage.join(directory, CHECKPOINTS, stage))
        everything = tf.train.Checkpoint(model=model, state=self._state, **model.learners())
        self._last = tf.train.CheckpointManager(everything, storage.join(folder, "last"), 1)
        self._best = tf.train.CheckpointManager(
            tf.train.Checkpoint(model=model), storage.join(folder, "best"), 1
        )
        for manager in (self._last, self._best):
            manager.checkpoint.save_counter  # noqa: B018  a variable, which all workers must make
        self._strategy, self._place = tf.distribute.get_strategy(), Place.here()
        self._saved = self._told = time.monotonic()

    def train(
        self,
        train: Batches,
        valid: Batches | None = None,
        evaluate: Callable[[], Evaluation] | None = None,
        keep_best: bool = True,
    ) -> Outcome:
        """Trains to the end of the schedule, from the last checkpoint if there is one.

        Args:
            train: The batches to learn from.
            valid: Batches that come with them as pairs, for a model that learns from both.
            evaluate: Evaluates the model on rows that it does not learn from.
            keep_best: Whether the model gets back the parameters of its best evaluation, which
                also may end the training early.
        """
        state, total = self._state, max(1, round(self._schedule.epochs * train.steps))
        _restore(self._last)
        if self._place.is_chief:
            self._journal.rewind(self._stage, state.now)
        if state.now < total and not state.over:
            self._run(train, valid, total, evaluate, keep_best)
        kept = state.now
        if evaluate and keep_best:
            _restore(self._best)
            kept = int(state.best_step.numpy())
        return Outcome(state.now, kept, evaluate() if evaluate else None)

    def _run(
        self,
        train: Batches,
        valid: Batches | None,
        total: int,
        evaluate: Callable[[], Evaluation] | None,
        keep_best: bool,
    ) -> None:
        state, step = self._state, self._state.now
        self._told = time.monotonic()
        iterator = iter(
            self._strategy.distribute_datasets_from_function(
                lambda context: _stream(train, valid, step)
            )
        )
        calls = max(1, min(_CALL_STEPS, _CALL_ROWS // train.batch))
        between = max(1, self._schedule.evaluate_rows // train.batch)
        rows, start = total * train.batch, step * train.batch
        with (
            progress.view(self._stage, rows, start=start, hidden=not self._place.is_chief) as view,
            Interrupts() as interrupts,
            self._source.reading(),
        ):
            sums = _Means(self._model.figures)
            while step < total and not state.over:
                left = train.steps - step % train.steps
                count = min(calls, left, total - step, between - step % train.steps % between)
                self._call(iterator, count, step, sums)
                step += count
                state.step.assign(step)
                view.update(step * train.batch)
                if count == left or step == total or step % train.steps % between == 0:
                    figures = sums.take()
                    if evaluate:
                        figures |= self._judge(evaluate(), step, keep_best)
                        view.update(step * train.batch, suffix=f"auc {figures['auc']:.4f}")
                    epoch = step / train.steps
                    self._tell(step, epoch=epoch, **figures)
                self._save_if_due(over=step == total or state.over)
                requested = agree(interrupts.requested or 0)
                if requested:
                    self._save(self._last, step)
                    raise Interrupted(
                        signal.Signals(requested), f"stopped at step {step:,} of {self._stage}"
                    )

    def _tell(self, step: int, **figures: Any) -> None:
        """Writes figures into the journal, which is the chief's alone."""
        if not self._place.is_chief:
            return
        seconds, self._told = time.monotonic() - self._told, time.monotonic()
        self._journal.write(self._stage, step, seconds=round(seconds, 3), **figures)
        if self._observe is not None:
            self._observe(self._journal, step)

    def _call(self, iterator: Any, count: int, step: int, sums: "_Means") -> None:
        """Trains some steps, and refuses to go on from a loss that is not a number."""
        figures, bad = self._steps(iterator, tf.constant(count, tf.int64))
        if int(bad) >= 0:
            raise UserError(
                f"{self._stage}: the loss is not a finite number at step {step + int(bad) + 1:,}; "
                "lower the learning rates (--rate of a fit; --search_embedding_rate, --search_rate "
                "and --edge_rate of a search, or --embedding_rate and --rate after it) and start "
                "again with --overwrite."
            )
        sums.add(figures.numpy(), count)

    @tf.function
    def _steps(self, iterator: Any, count: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The sums of the figures over some steps, and the first one of no finite loss, or -1."""
        names = self._model.figures
        sums, bad = tf.zeros(len(names)), tf.constant(-1, tf.int64)
        for index in tf.range(count):
            of_replicas = self._strategy.run(self._model.train_step, args=(next(iterator),))
            figures = [self._strategy.reduce("SUM", of_replicas[n], axis=None) for n in names]
            sums += tf.stack(figures)
            finite = tf.reduce_all(tf.math.is_finite(figures))
            bad = tf.where((bad < 0) & ~finite, index, bad)
        return sums, bad

    def _judge(self, evaluation: Evaluation, step: int, keep_best: bool) -> dict[str, Any]:
        """Keeps the best parameters, and ends the training that does not get better."""
        state = self._state
        if evaluation.auc > state.best_auc.numpy():
            state.best_auc.assign(evaluation.auc)
            state.best_step.assign(step)
            state.since_best.assign(0)
            if keep_best:
                self._save(self._best, step)
        else:
            state.since_best.assign_add(1)
            if keep_best and state.since_best.numpy() >= self._schedule.patience:
                state.over = True
        return evaluation.to_json()

    def _save_if_due(self, over: bool) -> None:
        late = time.monotonic() - self._saved >= self._schedule.checkpoint_seconds
        if over or agree(int(late)):  # clocks differ, and all must save or none
            self._save(self._last, self._state.now)
            self._saved = time.monotonic()

    def _save(self, manager: tf.train.CheckpointManager, step: int) -> None:
        """Lets the chief save, and all others wait for it."""
        if self._place.is_chief:
            manager.save(step)
        agree(0)


def _restore(manager: tf.train.CheckpointManager) -> None:
    """Restores the last checkpoint, if there is any; the manager knows only of its own."""
    path = tf.train.latest_checkpoint(manager.directory)
    if path is not None:
        manager.checkpoint.restore(path).assert_consumed()


def _stream(train: Batches, valid: Batches | None, step: int) -> tf.data.Dataset:
    """The batches of a step on, as pairs if there are batches of both kinds."""
    if valid is None:
        return train.stream(step)
    return tf.data.Dataset.zip((train.stream(step), valid.stream(step)))


class _State(tf.Module):
    """Where training stands."""

    def __init__(self):
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.best_auc = tf.Variable(-math.inf, dtype=tf.float64, trainable=False)
        self.best_step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.since_best = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._over = tf.Variable(False, trainable=False)

    @property
    def now(self) -> int:
        """The number of steps done."""
        return int(self.step.numpy())

    @property
    def over(self) -> bool:
        """Whether training ended early."""
        return bool(self._over.numpy())

    @over.setter
    def over(self, value: bool) -> None:
        self._over.assign(value)


class _Means:
    """The means of figures over the steps since they were last taken."""

    def __init__(self, names: Sequence[str]):
        self._names = names
        self._sums, self._steps = np.zeros(len(names)), 0

    def add(self, sums: np.ndarray, steps: int) -> None:
        self._sums += sums
        self._steps += steps

    def take(self) -> dict[str, float]:
        means = self._sums / max(self._steps, 1)
        self._sums, self._steps = np.zeros(len(self._names)), 0
        return dict(zip(self._names, means.tolist(), strict=True))
