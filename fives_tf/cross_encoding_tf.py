"""The TensorFlow face of crosses: rows of ids -> ids of crosses, with stock operations only."""

import numpy as np
import tensorflow as tf

from fives_tf.cross_encoding import MIX, CrossEncoding
from fives_tf.encoding import FIRST_VALUE, RARE


class CrossModule(tf.Module):
    """Gives the ids that `CrossEncoding.encode` gives.

    It has few operations, however many crosses there are: for the one row of a request it is their
    number that costs.
    """

    def __init__(self, crosses: CrossEncoding):
        super().__init__(name="crosses")
        codes = crosses.codes
        most = max((len(code.places) for code in codes), default=1)

        def pad(rows: list[np.ndarray], fill: int = 0) -> tf.Tensor:
            """One row a cross; what a cross of fewer fields has too much counts for nothing."""
            padded = np.full((len(rows), most), fill, np.int64)
            for target, row in zip(padded, rows, strict=True):
                target[: len(row)] = row
            return tf.constant(padded)

        self._places = pad([code.places for code in codes])
        self._multipliers = pad([code.multipliers for code in codes])
        # The key of global ids is that of local ids but for a number that is always the same.
        shifts = [code.keys(-code.offsets[None]) for code in codes]
        self._shifts = tf.constant(np.concatenate([np.empty(0, np.int64), *shifts]))
        self._rare = tf.constant(crosses.offsets + RARE)
        self._keys = tf.Variable(crosses.keys, trainable=False, name="keys")
        self._ids = tf.Variable(crosses.ids, trainable=False, name="ids")
        self._last = len(crosses.keys) - 1
        self._buckets = None
        if any(field.is_hashed for field in crosses.fields):
            sizes = [len(field.counts) if field.is_hashed else 0 for field in crosses.fields]
            self._buckets = tf.constant(sizes, tf.int64)
            self._rare_parts = pad([code.offsets + RARE for code in codes], fill=-1)

    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        """The global ids of the crosses, int64 [rows, crosses], of rows of global ids."""
        parts = tf.gather(tf.cast(ids, tf.int64), self._places, axis=1)
        keys = tf.reduce_sum(parts * self._multipliers, axis=2) + self._shifts
        flat = tf.reshape(keys, [1, -1])
        known = tf.convert_to_tensor(self._keys)
        # What `tf.searchsorted` does, but for many operations on shapes.
        place = tf.raw_ops.LowerBound(sorted_inputs=known[None], values=flat)
        place = tf.reshape(tf.minimum(place, self._last), tf.shape(keys))
        other = self._rare if self._buckets is None else self._hashed(keys, parts)
        return tf.where(tf.gather(known, place) == keys, tf.gather(self._ids, place), other)

    def _hashed(self, keys: tf.Tensor, parts: tf.Tensor) -> tf.Tensor:
        """The ids of combinations that are not known; those of hashed crosses get a bucket."""
        first, factor, last = MIX
        mixed = tf.bitwise.bitwise_xor(keys, tf.bitwise.right_shift(keys, first)) * factor
        mixed = tf.bitwise.bitwise_xor(mixed, tf.bitwise.right_shift(mixed, last))
        bucket = tf.math.floormod(mixed, tf.maximum(self._buckets, 1))
        is_rare = tf.reduce_any(parts == self._rare_parts, axis=2) | (self._buckets == 0)
        return tf.where(is_rare, self._rare, self._rare - RARE + FIRST_VALUE + bucket)
