"""AutoFIS: products of pairs of embeddings, of which a search keeps the useful ones."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from fives_tf.models.base import replicas
from fives_tf.models.embedded import Drop, EmbeddedModel, Network, Parameter
from fives_tf.models.layers import HIDDEN, hidden_layers, hidden_parameters

LEAST_FIRST_GATE, MOST_FIRST_GATE = 0.599, 0.601
_MOMENTUM = 0.99
_EPSILON = 1e-3


class AutoFIS(EmbeddedModel):
    """AutoFIS (Liu et al., KDD 2020) in its form AutoDeepFM.

    The logit is sum_i w_i + sum_{i<j} g_ij * BN(<v_i, v_j>) + that of hidden layers, where BN is a
    batch normalization for each pair, without scale and shift. In the search GRDA moves the gates
    g, on the same loss and in the same step as all else, and sets most of them to 0; then a new
    model with the pairs that are left learns from scratch, and its gates with it. Predictions take
    moving means and variances in place of those of a batch. As in TensorFlow's layer they start at
    0 and 1, of which a share of 0.99^t is left after t steps: much, where an epoch has a hundred,
    and the variances of products of small embeddings are far below 1. The hidden layers
    have no batch normalization, whereas those of the authors' code have, and the strength of GRDA
    follows from the length of the search.
    """

    settings = ("hidden",)
    has_first_order = True

    def __init__(
        self,
        fields: int,
        *args: Any,
        dim: int = 16,
        hidden: Sequence[int] = HIDDEN,
        jit: bool = True,
        **options: Any,
    ):
        """Makes the variables.

        Args:
            fields: The number of fields, and of crosses if there are any.
            *args: See `EmbeddedModel`; the gates have an optimizer of their own, "gates".
            dim: The dimension of the embedding.
            hidden: The units of the hidden layers.
            jit: Not used: replicas must talk to each other in the midst of the network, where XLA
                does not let them.
            **options: See `EmbeddedModel`.
        """
        pairs = np.array(list(itertools.combinations(range(fields), 2)), np.int32).reshape(-1, 2)
        parameters = [
            Parameter("gates", (len(pairs),), _first_gates),
            *hidden_parameters(fields * dim, hidden),
        ]
        super().__init__(parameters, fields, *args, dim=dim, jit=False, **options)
        self._places = pairs[:, 0] * fields + pairs[:, 1]
        for name, first in (("kept", "ones"), ("mean", "zeros"), ("variance", "ones")):
            variable = self.add_weight(
                shape=(len(pairs),), initializer=first, trainable=False, name=name
            )
            setattr(self, name, variable)

    def keep(self, gates: np.ndarray) -> None:
        """Keeps the pairs whose gate is not 0; the others are left out for good."""
        self.kept.assign(gates != 0)

    def logit(self, nodes: tf.Tensor, network: Network, drop: Drop, training: bool) -> tf.Tensor:
        """See `EmbeddedModel.logit`."""
        products = tf.matmul(nodes, nodes, transpose_b=True)
        products = tf.reshape(products, [-1, products.shape[1] ** 2])
        products = tf.gather(products, self._places, axis=1)
        mean, variance = self._moments(products) if training else (self.mean, self.variance)
        normal = (products - mean) * tf.math.rsqrt(variance + _EPSILON)
        gates = network["gates"] * self.kept
        gated = tf.linalg.matvec(normal, gates)[:, None]
        return gated + hidden_layers(nodes, network, drop)

    def _shares(self) -> dict[str, list[str]]:
        others = [name for name in self.network if name != "gates"]
        return {"network": others, "gates": ["gates"]}

    def _moments(self, products: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance over the global batch, which those for predictions follow."""
        moments = tf.stack([tf.reduce_mean(products, axis=0), tf.reduce_mean(products**2, axis=0)])
        context = tf.distribute.get_replica_context()
        if replicas() > 1 and context:
            moments = context.all_reduce("SUM", moments) / replicas()
        mean, square = tf.unstack(moments)
        variance = tf.maximum(square - mean**2, 0.0)
        for kept, now in ((self.mean, mean), (self.variance, variance)):
            kept.assign(_MOMENTUM * kept.value + (1 - _MOMENTUM) * tf.stop_gradient(now))
        return mean, variance


def _first_gates(seed: int) -> keras.initializers.Initializer:
    return keras.initializers.RandomUniform(LEAST_FIRST_GATE, MOST_FIRST_GATE, seed)
