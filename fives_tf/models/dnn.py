"""DNN: embeddings side by side, hidden layers, a logit; what click models are compared with."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fives_tf.models.base import ClickModel, Table, cross_entropy, every_id, replica, replicas
from fives_tf.models.dropout import kept

HIDDEN = (512, 256)


class DNN(ClickModel):
    """A plain deep network.

    Example:
        optimizers = {
            "embedding": make_optimizer("lazy_adam", 1e-3),
            "network": make_optimizer("adam", 1e-3),
        }
        model = DNN(fields=39, frequency=frequency, batch=128, optimizers=optimizers)
        model.train_step((ids, label))
    """

    def __init__(
        self,
        fields: int,
        frequency: np.ndarray,
        batch: int,
        optimizers: dict[str, keras.optimizers.Optimizer],
        *,
        dim: int = 16,
        hidden: Sequence[int] = HIDDEN,
        l2: float = 0.0,
        dropout: float = 0.0,
        stddev: float = 0.01,
        click_rate: float = 0.5,
        seed: int = 0,
        jit: bool = True,
        crosses: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ):
        """Makes the variables.

        Args:
            fields: The number of fields, and of crosses if there are any.
            frequency: The part of all rows that each id occurs in.
            batch: The size of the global batch.
            optimizers: For "embedding" and "network".
            dim: The dimension of the embedding.
            hidden: The units of the hidden layers.
            l2: The strength of the penalty on the embedding.
            dropout: The part of what every layer is given, the embeddings included, that is
                dropped in training.
            stddev: The standard deviation of the first embeddings.
            click_rate: The part of the rows with a click, where the last bias starts.
            seed: Decides the first values and the dropout.
            jit: Whether to compile the network with XLA.
            crosses: Gives the ids of crosses, which have embeddings too, for rows of ids.
        """
        super().__init__()
        self._every_id = every_id(crosses)
        widths = (fields * dim, *hidden, 1)
        first, *seeds = (np.random.SeedSequence(seed).generate_state(len(widths)) >> 1).tolist()
        self.embedding = Table(frequency, dim, batch, l2, stddev, first, name="embedding")
        self.network = [
            self._add(f"{name}_{number}", shape, initializer)
            for number, (pair, own) in enumerate(
                zip(itertools.pairwise(widths), seeds, strict=True)
            )
            for name, shape, initializer in (
                ("kernel", pair, keras.initializers.HeNormal(own)),
                ("bias", pair[1:], "zeros"),
            )
        ]
        self.network[-1].assign([np.log(click_rate / (1 - click_rate))])
        self.step = self.add_weight(
            shape=(), initializer="zeros", dtype="int64", trainable=False, name="step"
        )
        self._dropout, self._seed = dropout, seed
        self._optimizers = optimizers
        self._forward = tf.function(self._forward, jit_compile=jit)
        self._gradients = tf.function(self._gradients, jit_compile=jit)
        optimizers["embedding"].build([self.embedding.values])
        optimizers["network"].build(self.network)
        self.built = True

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.call`."""
        return self._forward(self.embedding.lookup(self._every_id(ids)), self._parameters())

    def probability(self, logits: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.probability`."""
        return tf.sigmoid(logits[:, 0])

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """See `ClickModel.train_step`."""
        ids, label = data
        ids = self._every_id(ids)
        found = self.embedding.lookup(ids)
        seed = tf.stack([tf.constant(self._seed, tf.int64), self.step.value])
        first_row = replica() * tf.shape(label)[0]
        loss, by_found, by_network = self._gradients(
            found, self._parameters(), label, seed, first_row
        )
        gradient = self.embedding.gradient(ids, found, by_found)
        self._optimizers["embedding"].apply([gradient], [self.embedding.values])
        self._optimizers["network"].apply(by_network, self.network)
        self.step.assign_add(1)
        return {"loss": loss}

    def learners(self) -> dict[str, keras.optimizers.Optimizer]:
        """See `ClickModel.learners`."""
        return self._optimizers

    def _add(self, name: str, shape: tuple[int, ...], initializer: Any) -> keras.Variable:
        """A variable that is an attribute too: checkpoints do not look into lists."""
        variable = self.add_weight(shape=shape, initializer=initializer, name=name)
        setattr(self, name, variable)
        return variable

    def _parameters(self) -> list[tf.Tensor]:
        return [tf.convert_to_tensor(variable.value) for variable in self.network]

    # What follows is compiled, and works on tensors only.

    def _forward(self, found: tf.Tensor, network: list[tf.Tensor]) -> tf.Tensor:
        return _logit(found, network, lambda values, layer: values)

    def _gradients(
        self,
        found: tf.Tensor,
        network: list[tf.Tensor],
        label: tf.Tensor,
        seed: tf.Tensor,
        first_row: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """The loss with dropout, and its gradient by the embeddings and by the network.

        Divided by the size of the global batch, so that the replicas' losses add up to it.
        """

        def drop(values: tf.Tensor, layer: int) -> tf.Tensor:
            if not self._dropout:
                return values
            batch, width = values.shape
            own = tf.stack([seed[0], len(network) * seed[1] + layer])
            keep = kept([1, batch, width], own, first_row, self._dropout)[0]
            return values * tf.cast(keep, values.dtype) / (1 - self._dropout)

        with tf.GradientTape() as tape:
            tape.watch([found, network])
            logit = _logit(found, network, drop)
            loss = tf.reduce_mean(cross_entropy(label, logit)) / replicas()
        return loss, *tape.gradient(loss, [found, network])


def _logit(
    found: tf.Tensor, network: list[tf.Tensor], drop: Callable[[tf.Tensor, int], tf.Tensor]
) -> tf.Tensor:
    """The logit, [batch, 1].

    Args:
        found: The embeddings, [batch, fields, dim].
        network: Kernel and bias of each layer.
        drop: What becomes of the input of a layer, by its number.
    """
    values = tf.reshape(found, [-1, network[0].shape[0]])
    for layer, (kernel, bias) in enumerate(zip(network[::2], network[1::2], strict=True)):
        if layer:
            values = tf.nn.relu(values)
        # With `bias_add`, TensorFlow makes product, bias and rectifier one operation.
        values = tf.nn.bias_add(tf.matmul(drop(values, layer), kernel), bias)
    return values
