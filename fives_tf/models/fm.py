"""FM: a logistic regression and, for each pair of fields, the product of their embeddings."""

from typing import Any

import tensorflow as tf

from fives_tf.models.embedded import Drop, EmbeddedModel, Network


class FactorizationMachine(EmbeddedModel):
    """A factorization machine of degree 2 (Rendle, ICDM 2010).

    y = sigmoid(b + sum_i w_i + sum_{i<j} <v_i, v_j>), where every field of a row has one value; the
    pairs are summed as 1/2 * sum_d [(sum_i v_id)^2 - sum_i v_id^2].
    """

    has_first_order = True

    def __init__(self, *args: Any, **options: Any):
        """Makes the variables; see `EmbeddedModel`."""
        super().__init__([], *args, **options)

    def logit(self, nodes: tf.Tensor, network: Network, drop: Drop, training: bool) -> tf.Tensor:
        """See `EmbeddedModel.logit`."""
        squared_sum = tf.reduce_sum(nodes, axis=1) ** 2
        return tf.reduce_sum(squared_sum - tf.reduce_sum(nodes**2, axis=1), 1, keepdims=True) / 2
