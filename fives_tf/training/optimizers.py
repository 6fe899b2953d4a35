"""Row-sparse optimizers: a step costs what the batch's rows cost, however large the table is.

Keras' own optimizers touch every row of an embedding table on every step. These take over when the
gradient is `tf.IndexedSlices`, and leave dense gradients to Keras. Keras' way of applying gradients
under a `tf.distribute` strategy stays: every replica gets the summed slices and makes the same
update.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fives_tf.models.base import CrossPenalty, l2_of


class LazyAdam(keras.optimizers.Adam):
    """Adam that moves only the rows of the batch, with their momenta.

    This is not Adam: a row that is absent keeps its momentum until it occurs again, whereas Adam
    would go on moving it.
    """

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor):
        """Updates a variable; see `keras.optimizers.Optimizer.update_step`."""
        if not isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        rows, values = sum_slices(gradient)
        step = tf.cast(self.iterations + 1, variable.dtype)
        index = self._get_variable_index(variable)
        momenta, velocities = self._momentums[index].value, self._velocities[index].value
        momentum = self.beta_1 * tf.gather(momenta, rows) + (1 - self.beta_1) * values
        velocity = self.beta_2 * tf.gather(velocities, rows) + (1 - self.beta_2) * values**2
        correction = tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        change = learning_rate * correction * momentum / (tf.sqrt(velocity) + self.epsilon)
        momenta.scatter_update(tf.IndexedSlices(momentum, rows))
        velocities.scatter_update(tf.IndexedSlices(velocity, rows))
        variable.scatter_sub(tf.IndexedSlices(change, rows))


class RowAdagrad(keras.optimizers.Adagrad):
    """Adagrad on the rows of the batch; the same numbers as Keras' Adagrad, at their cost only."""

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor):
        """Updates a variable; see `keras.optimizers.Optimizer.update_step`."""
        if not isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        rows, values = sum_slices(gradient)
        accumulators = self._accumulators[self._get_variable_index(variable)].value
        accumulator = tf.gather(accumulators, rows) + values**2
        change = learning_rate * values * tf.math.rsqrt(accumulator + self.epsilon)
        accumulators.scatter_update(tf.IndexedSlices(accumulator, rows))
        variable.scatter_sub(tf.IndexedSlices(change, rows))


class RowFtrl(keras.optimizers.Optimizer):
    """FTRL-Proximal (McMahan et al., KDD 2013, algorithm 1) on the rows of the batch.

    Every parameter has a rate of its own, which falls as its gradients add up, and is exactly 0 as
    long as they stay within L1. The variable is to start at 0. The penalties stand against the
    gradients of all steps together, so a row that is absent loses nothing, and is not behind when
    it occurs again. The learning rate must not change on the way.
    """

    def __init__(
        self,
        learning_rate: float,
        beta: float = 1.0,
        l1: float = 0.0,
        l2: float | Sequence[float] = 0.0,
        crosses: CrossPenalty | None = None,
        **options: Any,
    ):
        """Makes the optimizer.

        Args:
            learning_rate: The rate, alpha in the paper.
            beta: What keeps the first steps small.
            l1: The strength of the penalty l1 * sum of absolute values.
            l2: The strength of the penalty l2 / 2 * sum of squares; one for all or for each column.
            crosses: What differs for rows of crosses.
            **options: What Keras' optimizers take.
        """
        super().__init__(learning_rate=learning_rate, **options)
        self.beta, self.l1, self.l2 = beta, l1, np.asarray(l2, np.float32)
        self.crosses = crosses

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Makes the sums z and n of the paper for each variable."""
        if self.built:
            return
        super().build(variables)
        self._sums, self._squares = [], []
        for variable in variables:
            self._sums.append(self.add_variable_from_reference(variable, name="sum"))
            self._squares.append(self.add_variable_from_reference(variable, name="squares"))

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor):
        """Updates a variable; see `keras.optimizers.Optimizer.update_step`."""
        index = self._get_variable_index(variable)
        slots = (self._sums[index].value, self._squares[index].value, variable)
        if not isinstance(gradient, tf.IndexedSlices):
            l2 = l2_of(tf.range(tf.shape(variable)[0]), self.l2, self.crosses)
            values = map(tf.convert_to_tensor, slots)
            moved = self._move(gradient, *values, learning_rate, l2)
            for slot, value in zip(slots, moved, strict=True):
                slot.assign(value)
            return
        rows, gradient = sum_slices(gradient)
        l2 = l2_of(rows, self.l2, self.crosses)
        moved = self._move(gradient, *(tf.gather(slot, rows) for slot in slots), learning_rate, l2)
        for slot, value in zip(slots, moved, strict=True):
            slot.scatter_update(tf.IndexedSlices(value, rows))

    def _move(
        self,
        gradient: tf.Tensor,
        total: tf.Tensor,
        squares: tf.Tensor,
        weights: tf.Tensor,
        rate: tf.Tensor,
        l2: tf.Tensor | np.ndarray,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The next sums, squares and weights."""
        root, squares = tf.sqrt(squares), squares + gradient**2
        new_root = tf.sqrt(squares)
        total += gradient - (new_root - root) / rate * weights
        within = tf.clip_by_value(total, -self.l1, self.l1) if self.l1 else 0.0
        return total, squares, (within - total) / ((self.beta + new_root) / rate + l2)


class Grda(keras.optimizers.Optimizer):
    """Generalized regularized dual averaging (Chao et al., NeurIPS 2020), on dense gradients.

    Gradients add up, from the first value on, and a threshold that grows with the steps is taken
    off their sum: v = soft(v0 - rate * sum of g, c * rate^(1/2 + mu) * t^mu). What no gradient
    holds up is exactly 0 in the end. The learning rate must not change on the way.
    """

    def __init__(self, learning_rate: float, c: float, mu: float, **options: Any):
        """Makes the optimizer.

        Args:
            learning_rate: The rate.
            c: The strength of the threshold.
            mu: How fast it grows.
            **options: What Keras' optimizers take.
        """
        super().__init__(learning_rate=learning_rate, **options)
        self.c, self.mu = c, mu

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Makes the sums for each variable."""
        if self.built:
            return
        super().build(variables)
        self._sums = [self.add_variable_from_reference(one, name="sum") for one in variables]

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor):
        """Updates a variable; see `keras.optimizers.Optimizer.update_step`."""
        total = self._sums[self._get_variable_index(variable)].value
        step = tf.cast(self.iterations + 1, variable.dtype)
        before = tf.where(step > 1, total, variable)
        total.assign(before - learning_rate * gradient)
        threshold = self.c * learning_rate ** (0.5 + self.mu) * step**self.mu
        variable.assign(tf.sign(total) * tf.maximum(tf.abs(total) - threshold, 0.0))


def sum_slices(gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor]:
    """The distinct rows of a sparse gradient, and the sum of the slices of each."""
    rows, place = tf.unique(gradient.indices)
    return rows, tf.math.unsorted_segment_sum(gradient.values, place, tf.size(rows))


class DenseAdam(keras.optimizers.Adam):
    """Keras' Adam, which moves every row on every step."""

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor):
        """Updates a variable; see `keras.optimizers.Optimizer.update_step`."""
        # Keras would square the slices of a row that occurs twice one by one.
        super().update_step(tf.convert_to_tensor(gradient), variable, learning_rate)


OPTIMIZERS = {
    "lazy_adam": LazyAdam,
    "adagrad": RowAdagrad,
    "adam": DenseAdam,
    "ftrl": RowFtrl,
    "grda": Grda,
    "sgd": keras.optimizers.SGD,
}


def make_optimizer(
    name: str, rate: float, falls_over: int | None = None, **options: float
) -> keras.optimizers.Optimizer:
    """An optimizer by its name in the configuration.

    Args:
        name: The name.
        rate: The learning rate.
        falls_over: The number of steps over which the rate falls to 0, along a cosine; it stays as
            it is if None.
        **options: What else the optimizer takes.
    """
    schedule = keras.optimizers.schedules.CosineDecay(rate, falls_over) if falls_over else rate
    return OPTIMIZERS[name](learning_rate=schedule, **options)
