"""What numbers of 16 bits need: a scale of the loss that keeps small gradients above zero."""

import keras
import tensorflow as tf

FIRST = 2.0**15
LEAST = 1.0
PATIENCE = 2000  # steps without an overflow after which the scale is doubled


class LossScale(keras.layers.Layer):
    """A factor of the loss that is halved when a gradient overflows, and else grows again.

    All replicas see an overflow of any of them, so they keep the same scale and make the same step.
    A step that overflows counts as one whose gradient is zero.
    """

    def __init__(self):
        """Makes the variables."""
        super().__init__(name="loss_scale")
        self._scale = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(FIRST),
            trainable=False,
            name="scale",
        )
        self._calm = self.add_weight(
            shape=(), initializer="zeros", dtype="int64", trainable=False, name="calm"
        )

    @property
    def value(self) -> tf.Tensor:
        """The scale."""
        return tf.convert_to_tensor(self._scale.value)

    def unscale(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """The gradients of the loss itself, or zeros if any of them overflows on any replica."""
        overflows = tf.logical_not(
            tf.reduce_all([tf.reduce_all(tf.math.is_finite(one)) for one in gradients])
        )
        context = tf.distribute.get_replica_context()
        overflow = context.all_reduce("SUM", tf.cast(overflows, tf.float32)) > 0
        scale = self.value
        self._adapt(scale, overflow)
        return [tf.where(overflow, tf.zeros_like(one), one / scale) for one in gradients]

    def _adapt(self, scale: tf.Tensor, overflow: tf.Tensor) -> None:
        calm = tf.where(overflow, tf.zeros_like(self._calm.value), self._calm.value + 1)
        grows = calm >= PATIENCE
        self._calm.assign(tf.where(grows, tf.zeros_like(calm), calm))
        factor = tf.where(overflow, 0.5, tf.where(grows, 2.0, 1.0))
        self._scale.assign(tf.maximum(scale * factor, LEAST))
