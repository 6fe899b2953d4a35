"""H -> A: from the parameters of the edge search to the adjacency tensor, as pure functions.

Equation numbers are those of the paper. Its layer 0 is the identity, A(0) = I, and needs no
parameters, so slice k - 1 of every tensor here is the paper's layer k, and a model whose highest
order is K has tensors [K - 1, fields, fields].
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

_LEAST_PROBABILITY = 1e-6  # keeps the logit of eq. 8 finite


def edge_mask(columns: Sequence[str]) -> np.ndarray:
    """Which fields may be crossed: float32 [fields, fields], 1 where they may and else 0.

    A field is crossed neither with itself nor with a sibling, made from the same column.

    Args:
        columns: The column that each field is made from.
    """
    names = np.array(columns, object)
    return (names[:, None] != names[None, :]).astype(np.float32)


def soft_adjacency(
    h: tf.Tensor,
    temperature: tf.Tensor | float,
    mask: tf.Tensor,
    thresholds: Sequence[float] | None = None,
    dependencies: bool = True,
    straight_through: bool = False,
) -> tf.Tensor:
    """The soft adjacency tensor A (eq. 7 and 8).

    Args:
        h: The parameters H, [K - 1, fields, fields].
        temperature: The temperature of eq. 8; at 1 nothing is re-scaled.
        mask: 1 where an edge may be; see `edge_mask`.
        thresholds: Where each layer is binarised; 0.5 unless set.
        dependencies: Whether a layer depends on the one before; without, it is sigmoid(H).
        straight_through: Whether the forward pass sees binary edges, and the backward pass soft
            ones.

    Returns:
        The edges' strengths, [K - 1, fields, fields]. A node without any edge in the layer before
        has none in this one: its row is zero.
    """
    _, soft, binary = _layers(h, temperature, mask, thresholds, dependencies)
    return soft + tf.stop_gradient(binary - soft) if straight_through else soft


def edge_strength(
    h: tf.Tensor,
    temperature: tf.Tensor | float,
    mask: tf.Tensor,
    thresholds: Sequence[float] | None = None,
    dependencies: bool = True,
) -> tf.Tensor:
    """The strengths of the edges before re-scaling (eq. 7), which do not saturate.

    The arguments are those of `soft_adjacency`: the temperature still decides which edges of the
    layer before count.
    """
    return _layers(h, temperature, mask, thresholds, dependencies)[0]


def _layers(
    h: tf.Tensor,
    temperature: tf.Tensor | float,
    mask: tf.Tensor,
    thresholds: Sequence[float] | None,
    dependencies: bool,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The strengths before re-scaling and after, and binarised, layer by layer."""
    layers: list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]] = []
    mask = tf.cast(mask, h.dtype)
    previous = tf.eye(tf.shape(h)[-1], dtype=h.dtype)  # phi(A(0))
    for index, transition in enumerate(tf.unstack(tf.sigmoid(h))):
        strength = transition
        allowed = mask
        if dependencies:
            degree = tf.reduce_sum(previous, axis=1, keepdims=True)
            strength = tf.math.divide_no_nan(previous @ transition, degree)  # eq. 7
            allowed = mask * tf.cast(degree > 0, h.dtype)
        soft = rescale(strength, temperature) * allowed
        # Binary decisions of a layer steer the next one, but no gradient flows through them.
        previous = tf.stop_gradient(binarize(soft, _threshold(thresholds, index)))
        layers.append((strength * allowed, soft, previous))
    strengths, softs, binaries = zip(*layers, strict=True)
    return tf.stack(strengths), tf.stack(softs), tf.stack(binaries)


def rescale(strength: tf.Tensor, temperature: tf.Tensor | float) -> tf.Tensor:
    """Pushes strengths towards 0 and 1 as the temperature falls from 1 (eq. 8)."""
    strength = tf.clip_by_value(strength, _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
    logit = tf.math.log(strength) - tf.math.log1p(-strength)
    temperature = tf.convert_to_tensor(temperature, dtype_hint=strength.dtype)
    return tf.sigmoid(logit / tf.cast(temperature, strength.dtype))


def binarize(layer: tf.Tensor, threshold: float) -> tf.Tensor:
    """The paper's phi: 1 where an edge is at least as strong as the threshold, and else 0."""
    return tf.cast(layer >= threshold, layer.dtype)


def binary_adjacency(
    adjacency: np.ndarray, thresholds: Sequence[float] | None = None
) -> np.ndarray:
    """The edges that a soft adjacency tensor suggests, layer by layer: 0 or 1."""
    limits = [_threshold(thresholds, index) for index in range(len(adjacency))]
    return (adjacency >= np.array(limits, adjacency.dtype)[:, None, None]).astype(adjacency.dtype)


def _threshold(thresholds: Sequence[float] | None, index: int) -> float:
    return 0.5 if thresholds is None else thresholds[index]
