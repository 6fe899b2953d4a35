"""Dropout that does not depend on how a batch is divided.

What is dropped of a row follows from the seed and the place of the row in the global batch alone,
so that any number of replicas drops the same as one device. It is also drawn faster than by a
generator of TensorFlow: a few operations on each number, which XLA fuses with what uses them.
"""

from collections.abc import Sequence

import tensorflow as tf


def kept(shape: Sequence[int], seed: tf.Tensor, first_row: tf.Tensor, rate: float) -> tf.Tensor:
    """Which values of a tensor are kept.

    Args:
        shape: Its shape, [fields, batch, dim].
        seed: Two integers.
        first_row: The place of its first row in the global batch.
        rate: The part of the values that is dropped.

    Returns:
        A tensor of booleans of that shape.
    """
    fields, batch, dim = shape
    before, within = tf.unstack(
        tf.random.stateless_uniform([2], seed, minval=None, maxval=None, dtype=tf.uint32)
    )
    row = tf.cast(first_row + tf.range(batch), tf.uint32)
    column = tf.cast(tf.range(fields * dim), tf.uint32)
    number = row[:, None] * tf.constant(fields * dim, tf.uint32)
    number = number + tf.reshape(column, [fields, 1, dim])
    drawn = _mix(number + before, within)
    return drawn >= tf.constant(int(rate * 2**32), tf.uint32)


def _mix(number: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """A number of 32 bits, each of which depends on all bits of the given one and of a key."""
    for multiplier, shift in ((0x7FEB352D, 15), (0x846CA68B, 16)):
        number = tf.bitwise.bitwise_xor(number, tf.bitwise.right_shift(number, _word(16)))
        number = (number + key) * _word(multiplier)
        number = tf.bitwise.bitwise_xor(number, tf.bitwise.right_shift(number, _word(shift)))
    return number


def _word(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint32)
