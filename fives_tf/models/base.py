"""What the training loop asks of a model, and the table of parameters that models share."""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf


class ClickModel(keras.Model):
    """A model of clicks over rows of global ids.

    `train_step` learns from a batch and returns the figures worth a place in the log, `call` gives
    the logits of all outputs of the model, and `probability` makes one prediction of them.

    Attributes:
        figures: The names of the figures that `train_step` returns.
    """

    figures: tuple[str, ...] = ("loss",)

    def __init__(self):
        super().__init__()
        self.logits = tf.function(self.call)

    @abc.abstractmethod
    def train_step(self, data: tuple) -> dict[str, tf.Tensor]:
        """Updates the parameters once; returns the mean figures of the global batch."""

    @abc.abstractmethod
    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """The logits, [batch, outputs], of rows of global ids, [batch, fields]."""

    @abc.abstractmethod
    def probability(self, logits: tf.Tensor) -> tf.Tensor:
        """The click probability, [batch], that the logits of the outputs amount to."""

    @abc.abstractmethod
    def learners(self) -> dict[str, keras.optimizers.Optimizer]:
        """The optimizers, built, by the name of what they move; they go into checkpoints."""


class Table(keras.layers.Layer):
    """Parameters by id, with an L2 penalty that is exact in expectation under sparse updates.

    A batch moves only the rows that occur in it. A row of one batch in a hundred would be punished
    a hundred times less than a row of every batch; so the penalty of an occurrence is divided by
    the number of occurrences that a batch is expected to hold. On the average over batches that is
    L2 on the whole table.
    """

    def __init__(
        self,
        frequency: np.ndarray,
        width: int,
        batch: int,
        l2: float | Sequence[float] = 0.0,
        stddev: float = 0.0,
        seed: int = 0,
        name: str = "table",
        crosses: "CrossPenalty | None" = None,
    ):
        """Makes the variables.

        Args:
            frequency: The part of all rows that each id occurs in.
            width: The number of parameters of an id.
            batch: The size of the global batch.
            l2: The strength of the penalty l2 / 2 * sum of squares; one for all or for each column.
            stddev: The standard deviation of the first values.
            seed: Decides the first values.
            name: The name of the variable.
            crosses: What differs for ids of crosses.
        """
        super().__init__(name=name)
        self._l2, self._crosses = np.asarray(l2, np.float32), crosses
        self.values = self.add_weight(
            shape=(len(frequency), width),
            initializer=keras.initializers.RandomNormal(0.0, stddev, seed) if stddev else "zeros",
            name="values",
        )
        self._rarity = None
        if self._l2.any() or (crosses and crosses.l2.any()):
            occurrences = batch * np.asarray(frequency, np.float32)
            rarity = np.divide(1, occurrences, np.zeros_like(occurrences), where=occurrences > 0)
            self._rarity = lookup_function(rarity, "rarity")

    def lookup(self, ids: tf.Tensor) -> tf.Tensor:
        """The parameters of ids of any shape; their width is the last axis."""
        return tf.gather(self.values.value, ids)

    def gradient(self, ids: tf.Tensor, found: tf.Tensor, gradient: tf.Tensor) -> tf.IndexedSlices:
        """The gradient of the table, that of the penalty included.

        Args:
            ids: The ids that were looked up.
            found: What the lookup gave.
            gradient: The gradient by what the lookup gave.
        """
        if self._rarity is not None:
            gradient += self._rarity(ids)[..., None] * l2_of(ids, self._l2, self._crosses) * found
        rows, width = self.values.shape
        return tf.IndexedSlices(
            tf.reshape(gradient, [-1, width]), tf.reshape(ids, [-1]), tf.constant([rows, width])
        )


@dataclass(frozen=True, eq=False)
class CrossPenalty:
    """An L2 penalty of their own for the ids of crosses, which follow those of the fields.

    Attributes:
        first: The first of these ids.
        l2: The strength, one for all columns of a table or for each.
    """

    first: int
    l2: np.ndarray


def l2_of(ids: tf.Tensor, l2: np.ndarray, crosses: CrossPenalty | None) -> tf.Tensor | np.ndarray:
    """The strength of the penalty on the parameters of ids, with an axis for their columns.

    Args:
        ids: The ids.
        l2: The strength for those of fields.
        crosses: That for those of crosses, if it is another one.
    """
    if crosses is None:
        return l2
    return tf.where(ids[..., None] >= crosses.first, crosses.l2.astype(np.float32), l2)


def lookup_function(values: np.ndarray, name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function that looks up fixed values by id.

    They lie on the device, as variables do, but are known from the dataset: as the function hides
    the variable from Keras, no checkpoint holds them.
    """
    variable = tf.Variable(values, trainable=False, name=name)
    return lambda ids: tf.gather(variable, ids)


def every_id(
    crosses: Callable[[tf.Tensor], tf.Tensor] | None,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function that puts the ids of crosses, if there are any, behind rows of ids.

    It hides what it holds from checkpoints: the ids of crosses are no parameters.
    """
    if crosses is None:
        return lambda ids: ids
    return lambda ids: tf.concat([ids, tf.cast(crosses(ids), ids.dtype)], axis=1)


def cross_entropy(label: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The cross-entropy of each logit, [batch, outputs], with the labels, [batch]."""
    label = tf.broadcast_to(label[:, None], tf.shape(logits))
    return tf.nn.sigmoid_cross_entropy_with_logits(label, logits)


def replica() -> tf.Tensor | int:
    """The number of the replica that asks, from 0 on."""
    context = tf.distribute.get_replica_context()
    return context.replica_id_in_sync_group if context else 0


def replicas() -> int:
    """Among how many replicas the global batch is divided."""
    return tf.distribute.get_strategy().num_replicas_in_sync
