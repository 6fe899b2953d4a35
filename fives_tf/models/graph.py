"""The graph convolution of FIVES, as pure functions.

Equation numbers are those of the paper. Tensors are laid out as [fields, batch, dim]: the
transformation of all nodes is then one batched matrix product, and the aggregations of all layers
are one product of [layers * fields, fields] with [fields, batch * dim].
"""

import tensorflow as tf


def propagate(
    nodes: tf.Tensor, adjacency: tf.Tensor, transform: tf.Tensor, aggregate: str = "mean"
) -> list[tf.Tensor]:
    """The representations n(0) to n(K - 1) of all nodes (eq. 2).

    Args:
        nodes: The embeddings n(0), [fields, batch, dim].
        adjacency: The edges' strengths, [K - 1, fields, fields]; a node without edges gets zeros.
            They may have more bits than the nodes, and are normalised in theirs.
        transform: The matrices W_j, [fields, dim, dim].
        aggregate: "mean" or "sum" over the neighbours.

    Returns:
        K tensors [fields, batch, dim].
    """
    layers, fields = adjacency.shape[0], adjacency.shape[1]
    if aggregate == "mean":
        degree = tf.reduce_sum(adjacency, axis=-1, keepdims=True)
        adjacency = tf.math.divide_no_nan(adjacency, degree)
    adjacency = tf.cast(adjacency, nodes.dtype)
    transformed = tf.reshape(tf.matmul(nodes, transform, transpose_b=True), [fields, -1])
    neighbours = tf.matmul(tf.reshape(adjacency, [layers * fields, fields]), transformed)
    neighbours = tf.reshape(neighbours, [layers, fields, -1, nodes.shape[-1]])
    representations = [nodes]
    for layer in range(layers):
        representations.append(neighbours[layer] * representations[-1])
    return representations


def project(nodes: tf.Tensor, readout: tf.Tensor) -> tf.Tensor:
    """W(k) [n_1 : ... : n_m], without the bias (eq. 3), as float32.

    Args:
        nodes: The representations of a layer, [fields, batch, dim].
        readout: The projection W(k), [fields, dim].
    """
    parts = tf.matmul(nodes, readout[:, :, None])[..., 0]
    return tf.reduce_sum(tf.cast(parts, tf.float32), axis=0)
