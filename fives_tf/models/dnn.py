"""DNN: embeddings side by side, hidden layers, a logit; what click models are compared with."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from fives_tf.models.embedded import Drop, EmbeddedModel, Network
from fives_tf.models.layers import HIDDEN, hidden_layers, hidden_parameters


class DNN(EmbeddedModel):
    """A plain deep network: rectified layers without batch normalization.

    Example:
        optimizers = {
            "embedding": make_optimizer("lazy_adam", 1e-3),
            "network": make_optimizer("adam", 1e-3),
        }
        model = DNN(fields=39, frequency=frequency, batch=128, optimizers=optimizers)
        model.train_step((ids, label))
    """

    settings = ("hidden",)

    def __init__(
        self, fields: int, *args: Any, dim: int = 16, hidden: Sequence[int] = HIDDEN, **options: Any
    ):
        """Makes the variables.

        Args:
            fields: The number of fields, and of crosses if there are any.
            *args: See `EmbeddedModel`.
            dim: The dimension of the embedding.
            hidden: The units of the hidden layers.
            **options: See `EmbeddedModel`.
        """
        super().__init__(hidden_parameters(fields * dim, hidden), fields, *args, dim=dim, **options)

    def logit(self, nodes: tf.Tensor, network: Network, drop: Drop, training: bool) -> tf.Tensor:
        """See `EmbeddedModel.logit`."""
        return hidden_layers(nodes, network, drop)
