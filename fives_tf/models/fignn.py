"""Fi-GNN: fields as nodes of a graph whose edges have weights by attention."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from fives_tf.models.embedded import Drop, EmbeddedModel, Network, Parameter
from fives_tf.models.layers import attend, project

_SLOPE = 0.01  # of the leaky rectifier
_PROJECTIONS = ("query", "key", "value")
_GATES = ("update", "reset", "candidate")


class FiGNN(EmbeddedModel):
    """Fi-GNN (Li et al., CIKM 2019) as the paper has it; no public code has all of its parts.

    The nodes' first states h(1) are the rectified outputs of self-attention over the embeddings,
    whose projections have no bias. From h(1) come the weights of the edges, w_ij = softmax over
    j != i of LeakyReLU(u . [h_i : h_j]). In each step a gated recurrent unit takes
    a_i = W_in,i (sum_j w_ij W_out,j h_j) + b to node i, and h(1) is added. The logit is the sum of
    the nodes' scores, each times its weight, a sigmoid of a projection of all nodes side by side.
    Dropout is on the embeddings and on h(1).

    The authors' code has AutoInt's block of self-attention in place of the first step. Its
    normalization makes first embeddings, however small, as strong as learned ones: on the sample
    of Criteo that kept the network from learning at all.
    """

    settings = ("layers", "heads")

    def __init__(
        self,
        fields: int,
        *args: Any,
        dim: int = 16,
        layers: int = 3,
        heads: int = 2,
        **options: Any,
    ):
        """Makes the variables.

        Args:
            fields: The number of fields, and of crosses if there are any.
            *args: See `EmbeddedModel`.
            dim: The dimension of the embedding and of the nodes' states.
            layers: The number of steps.
            heads: The number of heads of the self-attention, a divisor of `dim`.
            **options: See `EmbeddedModel`.
        """
        glorot, each = keras.initializers.GlorotUniform, _glorot_of_each(dim)
        parameters = [
            *(Parameter(name, (dim, dim), glorot) for name in _PROJECTIONS),
            Parameter("edge_from", (dim, 1), glorot),
            Parameter("edge_to", (dim, 1), glorot),
            Parameter("outward", (fields, dim, dim), each),
            Parameter("inward", (fields, dim, dim), each),
            Parameter("inward_bias", (dim,)),
            Parameter("score", (dim, 1), glorot),
            Parameter("weight", (fields * dim, fields), glorot),
        ]
        for gate in _GATES:
            parameters.append(Parameter(f"{gate}_input", (dim, dim), glorot))
            parameters.append(Parameter(f"{gate}_state", (dim, dim), _orthogonal))
            parameters.append(Parameter(f"{gate}_bias", (dim,)))
        super().__init__(parameters, fields, *args, dim=dim, **options)
        self._steps, self._heads = layers, heads

    def logit(self, nodes: tf.Tensor, network: Network, drop: Drop, training: bool) -> tf.Tensor:
        """See `EmbeddedModel.logit`."""
        attended = (project(nodes, network[name]) for name in _PROJECTIONS)
        first = state = drop(tf.nn.relu(attend(*attended, self._heads)), 1)
        edges = _edges(first, network)
        for _ in range(self._steps):
            sent = _by_field(state, network["outward"])
            taken = _by_field(tf.matmul(edges, sent), network["inward"]) + network["inward_bias"]
            state = _gated(taken, state, network) + first
        scores = project(state, network["score"])[:, :, 0]
        side_by_side = tf.reshape(state, [-1, network["weight"].shape[0]])
        weights = tf.sigmoid(tf.matmul(side_by_side, network["weight"]))
        return tf.reduce_sum(weights * scores, axis=1, keepdims=True)


def _edges(nodes: tf.Tensor, network: Network) -> tf.Tensor:
    """The weights of the edges, [batch, to i, from j]; no node has an edge to itself."""
    to, origin = (project(nodes, network[name]) for name in ("edge_to", "edge_from"))
    scores = tf.nn.leaky_relu(to + tf.transpose(origin, [0, 2, 1]), _SLOPE)
    own = tf.eye(nodes.shape[1])
    # Of a single node nothing but the edge to itself is left to the softmax.
    return tf.nn.softmax(scores - 1e9 * own) * (1 - own)


def _by_field(nodes: tf.Tensor, kernels: tf.Tensor) -> tf.Tensor:
    """A projection of its own for each node: [batch, nodes, width]."""
    projected = tf.matmul(tf.transpose(nodes, [1, 0, 2]), kernels)
    return tf.transpose(projected, [1, 0, 2])


def _gated(taken: tf.Tensor, state: tf.Tensor, network: Network) -> tf.Tensor:
    """The next state of a gated recurrent unit, the same for all nodes."""

    def gate(name: str, own: tf.Tensor) -> tf.Tensor:
        from_input = project(taken, network[f"{name}_input"])
        return from_input + project(own, network[f"{name}_state"]) + network[f"{name}_bias"]

    update, reset = tf.sigmoid(gate("update", state)), tf.sigmoid(gate("reset", state))
    return (1 - update) * state + update * tf.tanh(gate("candidate", reset * state))


def _glorot_of_each(dim: int) -> Callable[[int], keras.initializers.Initializer]:
    """Glorot's for each of several square matrices; to Keras' own they are one convolution."""
    most = math.sqrt(3 / dim)
    return lambda seed: keras.initializers.RandomUniform(-most, most, seed)


def _orthogonal(seed: int) -> keras.initializers.Initializer:
    return keras.initializers.Orthogonal(seed=seed)
