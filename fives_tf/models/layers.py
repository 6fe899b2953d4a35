"""Layers that several networks are made of: their parameters, and what they compute."""

import itertools
from collections.abc import Sequence

import keras
import tensorflow as tf

from fives_tf.models.embedded import Drop, Network, Parameter

HIDDEN = (512, 256)
_PROJECTIONS = ("query", "key", "value", "residual")
_EPSILON = 1e-8


def hidden_parameters(inputs: int, hidden: Sequence[int]) -> list[Parameter]:
    """The parameters of `hidden_layers`.

    Args:
        inputs: The number of inputs.
        hidden: The units of the layers.
    """
    widths, first = (inputs, *hidden), keras.initializers.HeNormal
    parameters = []
    for number, (before, after) in enumerate(itertools.pairwise(widths)):
        parameters.append(Parameter(f"kernel_{number}", (before, after), first))
        parameters.append(Parameter(f"bias_{number}", (after,)))
    return [*parameters, Parameter(f"kernel_{len(hidden)}", (widths[-1], 1), first)]


def hidden_layers(nodes: tf.Tensor, network: Network, drop: Drop) -> tf.Tensor:
    """Rectified layers over the embeddings side by side, and a projection: [batch, 1].

    Args:
        nodes: The embeddings, [batch, fields, dim].
        network: The parameters.
        drop: What becomes of the inputs of each layer but the first, by its number.
    """
    values = tf.reshape(nodes, [-1, network["kernel_0"].shape[0]])
    layer = 0
    while f"bias_{layer}" in network:
        # With `bias_add`, TensorFlow makes product, bias and rectifier one operation.
        product = tf.matmul(values, network[f"kernel_{layer}"])
        values = tf.nn.relu(tf.nn.bias_add(product, network[f"bias_{layer}"]))
        layer += 1
        values = drop(values, layer)
    return tf.matmul(values, network[f"kernel_{layer}"])


def attention_parameters(layer: int, inputs: int, width: int) -> list[Parameter]:
    """The parameters of `attention`.

    Args:
        layer: The number of the block.
        inputs: The width of the nodes that it is given.
        width: The width of those that it gives, of all heads together.
    """
    parameters = []
    for name in _PROJECTIONS:
        shape = (inputs, width)
        parameters.append(Parameter(f"{name}_{layer}", shape, keras.initializers.GlorotUniform))
        parameters.append(Parameter(f"{name}_bias_{layer}", (width,)))
    scale, shift = (
        Parameter(f"scale_{layer}", (width,), "ones"),
        Parameter(f"shift_{layer}", (width,)),
    )
    return [*parameters, scale, shift]


def attention(nodes: tf.Tensor, layer: int, network: Network, heads: int) -> tf.Tensor:
    """A block of self-attention as the code of AutoInt's authors has it: [batch, nodes, width].

    Queries, keys, values and the residual are projections with bias and rectifier. The rectified
    sum of what `attend` gives and the residual is normalized, with scale and shift.

    Args:
        nodes: The nodes, [batch, nodes, inputs].
        layer: The number of the block.
        network: The parameters.
        heads: The number of heads.
    """
    *attended, residual = (
        tf.nn.relu(project(nodes, network[f"{name}_{layer}"]) + network[f"{name}_bias_{layer}"])
        for name in _PROJECTIONS
    )
    joined = tf.nn.relu(attend(*attended, heads) + residual)
    return _normalized(joined) * network[f"scale_{layer}"] + network[f"shift_{layer}"]


def attend(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, heads: int) -> tf.Tensor:
    """What self-attention makes of every node, the heads side by side: [batch, nodes, width].

    Each head makes a mean of all values, by the weights softmax(Q K^T / sqrt(d)), d the width of a
    head.

    Args:
        query: The queries, [batch, nodes, width].
        key: The keys.
        value: The values.
        heads: The number of heads.
    """
    count, width = query.shape[1:]

    def split(values: tf.Tensor) -> tf.Tensor:
        return tf.transpose(tf.reshape(values, [-1, count, heads, width // heads]), [0, 2, 1, 3])

    scores = tf.matmul(split(query), split(key), transpose_b=True) * (width / heads) ** -0.5
    found = tf.transpose(tf.matmul(tf.nn.softmax(scores), split(value)), [0, 2, 1, 3])
    return tf.reshape(found, [-1, count, width])


def project(nodes: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """The same projection of every node: [batch, nodes, width]."""
    count, inputs = nodes.shape[1:]
    product = tf.matmul(tf.reshape(nodes, [-1, inputs]), kernel)
    return tf.reshape(product, [-1, count, kernel.shape[1]])


def _normalized(nodes: tf.Tensor) -> tf.Tensor:
    """The nodes with mean 0 and variance 1 over their width."""
    mean = tf.reduce_mean(nodes, axis=-1, keepdims=True)
    variance = tf.reduce_mean((nodes - mean) ** 2, axis=-1, keepdims=True)
    return (nodes - mean) * tf.math.rsqrt(variance + _EPSILON)
