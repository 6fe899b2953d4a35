"""AutoInt: blocks of self-attention over the embeddings."""

import itertools
from typing import Any

import keras
import tensorflow as tf

from fives_tf.models.embedded import Drop, EmbeddedModel, Network, Parameter
from fives_tf.models.layers import attention, attention_parameters


class AutoInt(EmbeddedModel):
    """AutoInt (Song et al., CIKM 2019), as the authors' code has it, which differs from the paper.

    So there are biases and rectifiers in the projections of a block, scores are divided by the root
    of a head's width, and a normalization ends the block (see `layers.attention`). The logit is a
    projection of all nodes side by side. There are neither first-order weights nor hidden layers
    beside the blocks.
    """

    settings = ("layers", "heads", "head_dim")

    def __init__(
        self,
        fields: int,
        *args: Any,
        dim: int = 16,
        layers: int = 3,
        heads: int = 2,
        head_dim: int = 32,
        **options: Any,
    ):
        """Makes the variables.

        Args:
            fields: The number of fields, and of crosses if there are any.
            *args: See `EmbeddedModel`.
            dim: The dimension of the embedding.
            layers: The number of blocks.
            heads: The number of heads of a block.
            head_dim: The width of a head.
            **options: See `EmbeddedModel`.
        """
        width = heads * head_dim
        blocks = (
            attention_parameters(layer, width if layer else dim, width) for layer in range(layers)
        )
        readout = Parameter("readout", (fields * width, 1), keras.initializers.GlorotUniform)
        parameters = [*itertools.chain(*blocks), readout]
        super().__init__(parameters, fields, *args, dim=dim, **options)
        self._blocks, self._heads = layers, heads

    def logit(self, nodes: tf.Tensor, network: Network, drop: Drop, training: bool) -> tf.Tensor:
        """See `EmbeddedModel.logit`."""
        for layer in range(self._blocks):
            nodes = drop(attention(nodes, layer, network, self._heads), layer + 1)
        return tf.matmul(tf.reshape(nodes, [-1, network["readout"].shape[0]]), network["readout"])
