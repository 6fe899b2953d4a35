"""The TensorFlow face of the encoding: raw tensors -> ids, with stock operations only.

A server often has one row to score, and then it is the number of operations that costs. So all
columns of a kind go through the same few operations: one lookup table for all vocabularies, one
binary search for all buckets.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
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
)

VOCABULARY = "vocabulary.txt"


class EncodingModule(tf.Module):
    """Maps one tensor a raw column to global ids, as `Encoding.encode` does.

    Example:
        module = encoding.tensorflow(scratch)
        module({"age": tf.constant([39.0]), "job": tf.constant(["clerk"])})  # int64 [1, fields]

    Attributes:
        text_columns: The columns whose values are strings.
        number_columns: The columns whose values are numbers.
        starts: The first id of each field, int64.
        ends: The id after its last one.
    """

    def __init__(self, encoding: Encoding, directory: str | Path):
        """Writes the vocabulary into `directory`; a SavedModel then carries it."""
        super().__init__(name="encoding")
        self.starts = np.array(encoding.offsets, np.int64)
        self.ends = self.starts + [field.size for field in encoding.fields]
        numeric = [isinstance(field, BucketField) for field in encoding.fields]
        placed = list(zip(encoding.fields, encoding.offsets, numeric, strict=True))
        texts = [(field, offset) for field, offset, is_number in placed if not is_number]
        numbers = [(field, offset) for field, offset, is_number in placed if is_number]
        self.text_columns = tuple(field.column for field, _ in texts)
        self.number_columns = tuple(dict.fromkeys(field.column for field, _ in numbers))
        # The place of each field, if those of a kind do not stand together.
        self._numbers_first = numeric[0]
        kinds = np.equal(numeric, not self._numbers_first)
        place = np.argsort(np.argsort(kinds, kind="stable"))
        self._order = None if (np.diff(place) == 1).all() else place
        self._texts = _Texts(texts, Path(directory, VOCABULARY)) if texts else None
        self._numbers = _Numbers(numbers, self.number_columns) if numbers else None

    def __call__(self, columns: dict[str, tf.Tensor]) -> tf.Tensor:
        """The global ids, int64 [rows, fields].

        Args:
            columns: By column, strings [rows] for categories and floats [rows] for numbers.
        """
        texts = [columns[name] for name in self.text_columns]
        numbers = [tf.cast(columns[name], tf.float32) for name in self.number_columns]
        return self.ids(
            tf.stack(texts) if texts else None,
            tf.stack(numbers) if numbers else None,
        )

    def ids(self, texts: tf.Tensor | None, numbers: tf.Tensor | None) -> tf.Tensor:
        """The global ids, int64 [rows, fields].

        Args:
            texts: The values of the text columns, [columns, rows]; None if there are none.
            numbers: Those of the number columns, float32.
        """
        parts = []
        if self._texts is not None:
            parts.append(self._texts(texts))
        if self._numbers is not None:
            parts.insert(0 if self._numbers_first else 1, self._numbers(numbers))
        ids = tf.concat(parts, axis=0) if len(parts) > 1 else parts[0]
        return tf.transpose(ids if self._order is None else tf.gather(ids, self._order))


class _Texts(tf.Module):
    """The ids of categorical columns.

    One table holds all vocabularies. A key is the number of the column, a tab and the value. The
    keys of a column stand one after the other, as the ids do: first its missing markers, then a
    line without a tab, which no value can have, in the place of the rare ones, then the values.
    """

    def __init__(self, fields: Sequence[tuple[Field, int]], path: Path):
        super().__init__()
        offsets = np.array([offset for _, offset in fields], np.int64)
        self._missing, self._rare = _down(offsets + MISSING), _down(offsets + RARE)
        self._prefixes = _down([f"{index}\t".encode() for index in range(len(fields))])
        self._hashed = {
            index: field.buckets
            for index, (field, _) in enumerate(fields)
            if isinstance(field, HashField)
        }
        self._odd_markers = tuple(
            (index, marker)
            for index, (field, _) in enumerate(fields)
            for marker in field.missing
            if not _is_line(marker)
        )
        rare, line = [], 0
        with path.open("wb") as file:
            for index, (field, _) in enumerate(fields):
                markers = [m.encode() for m in dict.fromkeys(field.missing) if _is_line(m)]
                known = isinstance(field, VocabularyField)
                values = field.values.to_pylist() if known else []
                file.writelines(b"%d\t%b\n" % (index, marker) for marker in markers)
                file.write(b"%d\n" % index)
                file.writelines(b"%d\t%b\n" % (index, value) for value in values)
                rare.append(line + len(markers))
                line += len(markers) + 1 + len(values)
        self._shift = _down(offsets + RARE - np.array(rare))
        self._table = _table(path)

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        """The global ids, [columns, rows], of strings, [columns, rows]."""
        # Not `+`, which would wake threads up for a few strings.
        prefixes = tf.broadcast_to(self._prefixes, tf.shape(values))
        place = self._table.lookup(tf.strings.join([prefixes, values]))
        # Of several markers all but the last one stand below the id for missing.
        ids = tf.maximum(place + self._shift, self._missing)
        ids = tf.where(place < 0, self._unknown(values), ids)
        for index, marker in self._odd_markers:
            column = tf.range(len(self._prefixes))[:, None] == index
            ids = tf.where(column & (values == marker), self._missing, ids)
        return ids

    def _unknown(self, values: tf.Tensor) -> tf.Tensor:
        """The ids of values that are not in the table."""
        if not self._hashed:
            return self._rare
        rows = tf.unstack(tf.broadcast_to(self._rare, tf.shape(values)))
        for index, buckets in self._hashed.items():
            bucket = tf.strings.to_hash_bucket_fast(values[index], buckets)
            rows[index] = self._missing[index] + FIRST_VALUE + bucket
        return tf.stack(rows)


class _Numbers(tf.Module):
    """The ids of numeric fields, of which a column may have several."""

    def __init__(self, fields: Sequence[tuple[BucketField, int]], columns: Sequence[str]):
        super().__init__()
        own = [field for field, _ in fields]
        self._column = [columns.index(field.column) for field in own]
        self._one_a_column = len(own) == len(columns)
        self._missing = _down([offset + MISSING for _, offset in fields])
        # All fields get as many edges, and infinity, too, is in the last bucket that there is.
        most = max(len(field.edges) for field in own)
        edges = np.full((len(own), most), np.inf, np.float32)
        ids = np.empty((len(own), most + 1), np.int64)
        for index, (field, offset) in enumerate(fields):
            edges[index, : len(field.edges)] = field.edges
            ids[index] = field.ids[-1] + offset
            ids[index, : len(field.ids)] = field.ids + offset
        # Numbers too close to zero count as zero, so those below it are not below an edge at zero.
        edges[edges == 0] = np.nextafter(-LEAST_NUMBER, np.float32(0))
        self._edges, self._ids = tf.constant(edges), tf.constant(ids.ravel())
        self._start = _down(np.arange(len(own)) * (most + 1), tf.int32)
        markers = {field.column: field.missing_numbers for field in own}
        most = max(map(len, markers.values()))
        padded = np.full((len(columns), most), np.nan, np.float32)
        for row, name in zip(padded, columns, strict=True):
            row[: len(markers[name])] = markers[name]
        self._markers = tf.constant(padded[:, None]) if most else None

    def __call__(self, numbers: tf.Tensor) -> tf.Tensor:
        """The global ids, [fields, rows], of numbers, [columns, rows]."""
        missing = tf.math.is_nan(numbers)
        if self._markers is not None:
            flushed = tf.where(tf.abs(numbers) < LEAST_NUMBER, 0.0, numbers)
            missing |= tf.reduce_any(flushed[:, :, None] == self._markers, axis=2)
        if not self._one_a_column:
            numbers, missing = tf.gather(numbers, self._column), tf.gather(missing, self._column)
        # What `tf.searchsorted` does, but for many operations on shapes. A NaN has no place among
        # the edges; whichever it gets is thrown away.
        bucket = tf.raw_ops.UpperBound(sorted_inputs=self._edges, values=numbers)
        return tf.where(missing, self._missing, tf.gather(self._ids, self._start + bucket))


def _is_line(text: str) -> bool:
    """Whether a text can stand in a vocabulary file."""
    return "\n" not in text and "\r" not in text


def _down(values: Sequence, dtype: tf.DType | None = None) -> tf.Tensor:
    """A value for each column or field, [columns, 1], to go with all rows."""
    if dtype is None and np.asarray(values).dtype.kind == "i":
        dtype = tf.int64
    return tf.constant(values, dtype)[:, None]


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
    return tf.lookup.StaticHashTable(_VocabularyFile(path), default_value=-1)
