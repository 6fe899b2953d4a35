"""What the networks over embeddings share: lookups, dropout, gradients and optimizers."""

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from fives_tf.models.base import ClickModel, Table, cross_entropy, every_id, replica, replicas
from fives_tf.models.dropout import kept

Drop = Callable[[tf.Tensor, int], tf.Tensor]
"""What becomes of the input of a layer, by the layer's number; layer 0 has the embeddings."""

Network = dict[str, tf.Tensor]
"""The parameters that every row shares, by name."""


_MOST_LAYERS = 256  # so that each layer of each step has a dropout of its own


class Parameter(NamedTuple):
    """A parameter that every row shares.

    Attributes:
        name: Its name.
        shape: Its shape.
        initializer: Its first values; a function makes them of a seed.
    """

    name: str
    shape: tuple[int, ...]
    initializer: str | Callable[[int], keras.initializers.Initializer] = "zeros"


class EmbeddedModel(ClickModel):
    """A network over the embeddings of fields and crosses.

    A model of this kind states its parameters, and the logit that they make of the embeddings.

    Attributes:
        settings: The names of what its constructor takes beside what all of these models take.
        has_first_order: Whether every id has a weight too, and their sum is part of the logit.
        first_order_optimizer: The kind of optimizer that those weights are meant for.
    """

    settings: ClassVar[tuple[str, ...]] = ()
    has_first_order: ClassVar[bool] = False
    first_order_optimizer: ClassVar[str] = "lazy_adam"

    def __init__(
        self,
        parameters: Sequence[Parameter],
        fields: int,
        frequency: np.ndarray,
        batch: int,
        optimizers: dict[str, keras.optimizers.Optimizer],
        *,
        dim: int = 16,
        l2: float = 0.0,
        first_order_l2: float = 0.0,
        dropout: float = 0.0,
        stddev: float = 0.01,
        click_rate: float = 0.5,
        seed: int = 0,
        jit: bool = True,
        crosses: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ):
        """Makes the variables.

        Args:
            parameters: The parameters of the network; a bias joins them.
            fields: The number of fields, and of crosses if there are any.
            frequency: The part of all rows that each id occurs in.
            batch: The size of the global batch.
            optimizers: For "embedding" and "network", and "first_order" if there are such weights.
            dim: The dimension of the embedding.
            l2: The strength of the penalty on the embedding.
            first_order_l2: That on the first-order weights.
            dropout: The part of what every layer is given, the embeddings included, that is
                dropped in training.
            stddev: The standard deviation of the first embeddings.
            click_rate: The part of the rows with a click, where the bias starts.
            seed: Decides the first values and the dropout.
            jit: Whether to compile the network with XLA.
            crosses: Gives the ids of crosses, which have embeddings too, for rows of ids.
        """
        super().__init__()
        self._every_id = every_id(crosses)
        self._fields, self._dim = fields, dim
        first, *seeds = np.random.SeedSequence(seed).generate_state(len(parameters) + 1).tolist()
        self.embedding = Table(frequency, dim, batch, l2, stddev, first >> 1, name="embedding")
        self.first_order = None
        if self.has_first_order:
            self.first_order = Table(frequency, 1, batch, first_order_l2, name="first_order")
        odds = keras.initializers.Constant(np.log(click_rate / (1 - click_rate)))
        self.network = {
            one.name: self._add(one, own >> 1)
            for one, own in zip(
                (*parameters, Parameter("bias", (1,), lambda seed: odds)), (*seeds, 0), strict=True
            )
        }
        self.step = self.add_weight(
            shape=(), initializer="zeros", dtype="int64", trainable=False, name="step"
        )
        self._dropout, self._seed = dropout, seed
        self._optimizers = optimizers
        if jit:
            self._forward = tf.function(self._forward, jit_compile=True)
            self._gradients = tf.function(self._gradients, jit_compile=True)
        for name, variables in self._groups().items():
            optimizers[name].build(variables)
        self.built = True

    @abc.abstractmethod
    def logit(self, nodes: tf.Tensor, network: Network, drop: Drop, training: bool) -> tf.Tensor:
        """The logit without bias and first-order weights, [batch, 1].

        Args:
            nodes: The embeddings, [batch, fields, dim]; in training some are dropped already.
            network: The parameters.
            drop: To be called on the input of each further layer.
            training: Whether this is for a step of training.
        """

    def call(self, ids: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.call`."""
        ids = self._every_id(ids)
        _, base = self._lookup_first_order(ids)
        return self._forward(self.embedding.lookup(ids), base, self._parameters())

    def probability(self, logits: tf.Tensor) -> tf.Tensor:
        """See `ClickModel.probability`."""
        return tf.sigmoid(logits[:, 0])

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """See `ClickModel.train_step`."""
        ids, label = data
        ids = self._every_id(ids)
        nodes = self.embedding.lookup(ids)
        weights, base = self._lookup_first_order(ids)
        seed = tf.stack([tf.constant(self._seed, tf.int64), self.step.value])
        first_row = replica() * tf.shape(label)[0]
        loss, by_nodes, by_base, by_network = self._gradients(
            nodes, base, self._parameters(), label, seed, first_row
        )
        self._apply("embedding", [self.embedding.gradient(ids, nodes, by_nodes)])
        if self.first_order is not None:
            by_weights = tf.broadcast_to(by_base[:, :, None], tf.shape(weights))
            self._apply("first_order", [self.first_order.gradient(ids, weights, by_weights)])
        for group, names in self._shares().items():
            self._apply(group, [by_network[name] for name in names])
        self.step.assign_add(1)
        return {"loss": loss}

    def learners(self) -> dict[str, keras.optimizers.Optimizer]:
        """See `ClickModel.learners`."""
        return {name: self._optimizers[name] for name in self._groups()}

    def _shares(self) -> dict[str, list[str]]:
        """The names of the network's parameters by the optimizer that moves them."""
        return {"network": list(self.network)}

    def _groups(self) -> dict[str, list[keras.Variable]]:
        """The variables by the optimizer that moves them."""
        groups = {"embedding": [self.embedding.values]}
        if self.first_order is not None:
            groups["first_order"] = [self.first_order.values]
        shares = self._shares().items()
        return groups | {name: [self.network[one] for one in own] for name, own in shares}

    def _apply(self, group: str, gradients: list[tf.Tensor]) -> None:
        self._optimizers[group].apply(gradients, self._groups()[group])

    def _add(self, parameter: Parameter, seed: int) -> keras.Variable:
        """A variable that is an attribute too: checkpoints do not look into dictionaries."""
        name, shape, initializer = parameter
        if not isinstance(initializer, str):
            initializer = initializer(seed)
        variable = self.add_weight(shape=shape, initializer=initializer, name=name)
        setattr(self, name, variable)
        return variable

    def _parameters(self) -> Network:
        return {name: tf.convert_to_tensor(one.value) for name, one in self.network.items()}

    def _lookup_first_order(self, ids: tf.Tensor) -> tuple[tf.Tensor | None, tf.Tensor]:
        """The weights, [batch, ids of a row, 1], and their sums, [batch, 1]."""
        if self.first_order is None:
            return None, tf.zeros_like(ids[:, :1], tf.float32)
        weights = self.first_order.lookup(ids)
        return weights, tf.reduce_sum(weights, axis=1)

    # What follows is compiled, and works on tensors only.

    def _forward(self, nodes: tf.Tensor, base: tf.Tensor, network: Network) -> tf.Tensor:
        return self._every_part(nodes, base, network, lambda values, layer: values, False)

    def _gradients(
        self,
        nodes: tf.Tensor,
        base: tf.Tensor,
        network: Network,
        label: tf.Tensor,
        seed: tf.Tensor,
        first_row: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, Network]:
        """The loss with dropout, and its gradients by nodes, base and network.

        Divided by the size of the global batch, so that the replicas' losses add up to it.
        """

        def drop(values: tf.Tensor, layer: int) -> tf.Tensor:
            if not self._dropout:
                return values
            batch, width = values.shape[0], np.prod(values.shape[1:])
            own = tf.stack([seed[0], _MOST_LAYERS * seed[1] + layer])
            keep = kept([1, batch, width], own, first_row, self._dropout)[0]
            return (
                values * tf.reshape(tf.cast(keep, values.dtype), values.shape) / (1 - self._dropout)
            )

        with tf.GradientTape() as tape:
            tape.watch([nodes, base, network])
            logit = self._every_part(nodes, base, network, drop, True)
            loss = tf.reduce_mean(cross_entropy(label, logit)) / replicas()
        gradients = tape.gradient(loss, [nodes, base, network], unconnected_gradients="zero")
        return loss, *gradients

    def _every_part(
        self, nodes: tf.Tensor, base: tf.Tensor, network: Network, drop: Drop, training: bool
    ) -> tf.Tensor:
        """The logit, [batch, 1]."""
        logit = self.logit(drop(nodes, 0), network, drop, training)
        # With `bias_add`, TensorFlow makes product and bias one operation.
        logit = tf.nn.bias_add(logit, network["bias"])
        return logit if self.first_order is None else logit + base
