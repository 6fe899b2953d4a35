"""From ids to logits and a probability: what differs between the models that are exported."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf

from fives_tf.light import Light
from fives_tf.models.base import ClickModel


class Scores(NamedTuple):
    """What a model says of a batch.

    Attributes:
        probability: The click probability, [rows].
        logits: The logits of the model's outputs, [rows, outputs].
    """

    probability: tf.Tensor
    logits: tf.Tensor


class Scorer(Protocol):
    """Scores rows of global ids, int64 [rows, fields]."""

    def __call__(self, ids: tf.Tensor) -> Scores:
        """The scores."""


class MeanScorer:
    """The mean prediction of the models that a run ended with."""

    def __init__(self, models: Sequence[ClickModel]):
        self._models = models

    def __call__(self, ids: tf.Tensor) -> Scores:
        """See `Scorer`."""
        logits = [model.call(ids) for model in self._models]
        pairs = zip(self._models, logits, strict=True)
        probability = [model.probability(own) for model, own in pairs]
        count = len(self._models)
        return Scores(tf.add_n(probability) / count, tf.add_n(logits) / count)


class LightScorer:
    """The prediction of a light model."""

    def __init__(self, light: Light):
        self._crosses = light.crosses.module
        self._weights = tf.Variable(light.weights, trainable=False, name="weights")
        self._bias = tf.Variable(light.bias, trainable=False, dtype=tf.float32, name="bias")

    def __call__(self, ids: tf.Tensor) -> Scores:
        """See `Scorer`."""
        every = tf.concat([ids, self._crosses(ids)], axis=1)
        logit = tf.reduce_sum(tf.gather(self._weights, every), axis=1) + self._bias
        return Scores(tf.sigmoid(logit), logit[:, None])
