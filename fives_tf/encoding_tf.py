"""The TensorFlow face of the encoding: raw tensors -> ids, with stock operations only."""

from pathlib import Path

import tensorflow as tf

from fives_tf.encoding import (
    FIRST_VALUE,
    LEAST_NUMBER,
    MISSING,
    RARE,
    BucketField,
    Encoding,
    Field,
    HashField,
    VocabularyField,
    vocabulary_path,
)


class EncodingModule(tf.Module):
    """Maps one tensor a raw column to global ids, as `Encoding.encode` does.

    Example:
        module = encoding.tensorflow("dataset")
        module({"age": tf.constant([39.0]), "job": tf.constant(["clerk"])})  # int64 [1, fields]
    """

    def __init__(self, encoding: Encoding, directory: str | Path):
        """Loads the vocabularies from the files below `directory`, which a SavedModel carries."""
        super().__init__(name="encoding")
        self._encoding = encoding
        self._tables = {
            field.name: _table(Path(directory, vocabulary_path(field.name)))
            for field in encoding.fields
            if isinstance(field, VocabularyField) and len(field.values)
        }

    def __call__(self, columns: dict[str, tf.Tensor]) -> tf.Tensor:
        """The global ids, int64 [rows, fields].

        Args:
            columns: By column, strings [rows] for categories and floats [rows] for numbers.
        """
        ids = [
            self._field_ids(field, columns[field.column]) + offset
            for field, offset in zip(self._encoding.fields, self._encoding.offsets, strict=True)
        ]
        return tf.stack(ids, axis=1)

    def _field_ids(self, field: Field, values: tf.Tensor) -> tf.Tensor:
        if isinstance(field, BucketField):
            return _bucket_ids(field, tf.cast(values, tf.float32))
        if isinstance(field, HashField):
            ids = tf.strings.to_hash_bucket_fast(values, field.buckets) + FIRST_VALUE
        elif field.name in self._tables:
            ids = self._tables[field.name].lookup(values) + FIRST_VALUE
        else:  # TensorFlow cannot load an empty vocabulary
            ids = tf.fill(tf.shape(values), tf.constant(RARE, tf.int64))
        markers = tf.constant([marker.encode() for marker in field.missing])
        missing = tf.reduce_any(values[:, tf.newaxis] == markers, axis=1)
        return tf.where(missing, tf.constant(MISSING, tf.int64), ids)


def _bucket_ids(field: BucketField, numbers: tf.Tensor) -> tf.Tensor:
    numbers = tf.where(tf.abs(numbers) < LEAST_NUMBER, tf.zeros_like(numbers), numbers)
    # Bucketize has no order for NaN, so it gets a number there; the result is thrown away.
    missing = tf.math.is_nan(numbers)
    bucket = tf.raw_ops.Bucketize(
        input=tf.where(missing, tf.zeros_like(numbers), numbers), boundaries=field.edges.tolist()
    )
    for marker in field.missing_numbers.tolist():
        missing |= numbers == marker
    ids = tf.gather(tf.constant(field.ids, tf.int64), bucket)
    return tf.where(missing, tf.constant(MISSING, tf.int64), ids)


class _VocabularyFile(tf.lookup.TextFileInitializer):
    """Fills a table from a vocabulary: the line's number for the line."""

    def __init__(self, path: Path):
        super().__init__(
            str(path),
            key_dtype=tf.string,
            key_index=tf.lookup.TextFileIndex.WHOLE_LINE,
            value_dtype=tf.int64,
            value_index=tf.lookup.TextFileIndex.LINE_NUMBER,
        )

    @property
    def _shared_name(self) -> str:
        # TensorFlow would share one table a path, and a vocabulary that was fitted anew at the
        # same place would meet the old one. Without a name, each table gets one of its own.
        return ""


def _table(path: Path) -> tf.lookup.StaticHashTable:
    return tf.lookup.StaticHashTable(_VocabularyFile(path), default_value=RARE - FIRST_VALUE)
