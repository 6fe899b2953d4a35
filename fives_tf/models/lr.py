"""Logistic regression: y = sigmoid(b + sum over fields of w[id]); several penalties at once."""

from collections.abc import Callable, Sequence

import keras
import numpy as np
import tensorflow as tf

from fives_tf.models.base import (
    ClickModel,
    CrossPenalty,
    Table,
    cross_entropy,
    every_id,
    replicas,
)


class LogisticRegression(ClickModel):
    """Logistic regressions that differ in nothing but the strength of their L2 penalty.

    The lookup of the weights is the costly part, and one lookup serves all; so trying several
    strengths costs little more than one. Output i is the regression with `l2[i]`, and `chosen` is
    the one that predicts.
    """

    def __init__(
        self,
        frequency: np.ndarray,
        l2: Sequence[float],
        batch: int,
        click_rate: float,
        optimizer: keras.optimizers.Optimizer,
        crosses: Callable[[tf.Tensor], tf.Tensor] | None = None,
        bias_optimizer: keras.optimizers.Optimizer | None = None,
        cross_penalty: CrossPenalty | None = None,
    ):
        """Makes the regressions.

        Args:
            frequency: The part of all rows that each id occurs in.
            l2: The strengths of the penalties.
            batch: The size of the global batch.
            click_rate: The part of the rows with a click, where the bias starts.
            optimizer: The optimizer of weights and biases.
            crosses: Gives the ids of crosses, which have weights too, for rows of ids.
            bias_optimizer: If given, it moves the biases, which have no penalty, and `optimizer`
                applies the penalties itself, as FTRL does.
            cross_penalty: The penalties on the ids of crosses, if they are other ones.
        """
        super().__init__()
        self._every_id = every_id(crosses)
        self.l2 = tuple(l2)
        self.cross_l2 = self.l2 if cross_penalty is None else tuple(cross_penalty.l2.tolist())
        by_gradient = (l2, cross_penalty) if bias_optimizer is None else (0.0, None)
        self.table = Table(
            frequency, len(l2), batch, by_gradient[0], name="weights", crosses=by_gradient[1]
        )
        self.bias = self.add_weight(
            shape=(len(l2),),
            initializer=keras.initializers.Constant(np.log(click_rate / (1 - click_rate))),
            name="bias",
        )
        self.chosen = self.add_weight(
            shape=(), initializer="zeros", dtype="int32", trainable=False, name="chosen"
        )
        self._optimizers = {"weights": optimizer}
        if bias_optimizer is None:
            optimizer.build([self.table.values, self.bias])
        else:
            self._optimizers["bias"] = bias_optimizer
            optimizer.build([self.table.values])
            bias_optimizer.build([self.bias])
        self.built = True

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.call`."""
        return tf.reduce_sum(self.table.lookup(self._every_id(ids)), axis=1) + self.bias.value

    def probability(self, logits: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.probability`."""
        return tf.sigmoid(tf.gather(logits, self.chosen.value, axis=1))

    def choose(self, output: int) -> None:
        """Makes one of the regressions the one that predicts."""
        self.chosen.assign(output)

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """See `ClickModel.train_step`."""
        ids, label = data
        ids = self._every_id(ids)
        found = self.table.lookup(ids)
        logits = tf.reduce_sum(found, axis=1) + self.bias.value
        rows = tf.cast(tf.shape(label)[0] * replicas(), logits.dtype)
        error = (tf.sigmoid(logits) - label[:, None]) / rows
        gradient = self.table.gradient(
            ids, found, tf.broadcast_to(error[:, None, :], tf.shape(found))
        )
        self._apply(gradient, tf.reduce_sum(error, axis=0))
        return {"loss": tf.reduce_sum(tf.reduce_mean(cross_entropy(label, logits), axis=1)) / rows}

    def learners(self) -> dict[str, keras.optimizers.Optimizer]:
        """See `ClickModel.learners`."""
        return self._optimizers

    def _apply(self, by_weights: tf.IndexedSlices, by_bias: tf.Tensor) -> None:
        weights, bias = self._optimizers["weights"], self._optimizers.get("bias")
        if bias is None:
            weights.apply([by_weights, by_bias], [self.table.values, self.bias])
        else:
            weights.apply([by_weights], [self.table.values])
            bias.apply([by_bias], [self.bias])
