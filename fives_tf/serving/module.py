"""The graph that is served: encoding, crosses and model behind named signatures."""

import keyword
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from fives_tf.cross_encoding import CrossEncoding
from fives_tf.encoding_tf import EncodingModule
from fives_tf.scored_log import PROBABILITY
from fives_tf.serving.scorers import Scorer

CLASSES = (b"0", b"1")
Columns = dict[str, tf.Tensor]


class ServedModel(tf.Module):
    """What a SavedModel is made of.

    The columns of a batch have the same length, but for those that are missing altogether: these
    may be empty.

    Example:
        model = ServedModel(encoding.tensorflow(scratch), scorer, crosses, fields)
        tf.saved_model.save(model, path, signatures=model.signatures())
    """

    def __init__(
        self,
        encoding: EncodingModule,
        scorer: Scorer,
        crosses: CrossEncoding,
        fields: int,
        trim: bool = False,
    ):
        """Takes the parts.

        Args:
            encoding: The encoding of raw columns.
            scorer: The model.
            crosses: The derived crosses whose ids are told on request.
            fields: The number of fields.
            trim: Whether blanks around a text do not count, as the schema of the log says.
        """
        super().__init__(name="served")
        self._encoding = encoding
        self._crosses = crosses.module
        self._cross_offsets = np.array(crosses.offsets, np.int64)
        self._fields = fields
        self._trim = trim
        # In a function, or TensorFlow would save all that a model needs to learn.
        self._score = lambda ids: scorer(ids)

    def signatures(self) -> dict[str, Any]:
        """The functions by the names of their signatures; inputs have names that Python takes."""
        columns = self.columns()
        parameters = parameter_names(columns)
        raw = {
            parameters[name]: tf.TensorSpec([None], dtype, name=parameters[name])
            for name, dtype in columns.items()
        }

        def by_name(inputs: Columns) -> Columns:
            return {name: inputs[parameters[name]] for name in columns}

        examples = tf.TensorSpec([None], tf.string, name="inputs")
        functions = {
            "serving_default": tf.function(
                lambda **inputs: self._probability(self._encode(by_name(inputs)))
            ).get_concrete_function(**raw),
            "explain": tf.function(
                lambda **inputs: self._explain(self._encode(by_name(inputs)))
            ).get_concrete_function(**raw),
            "examples": tf.function(
                lambda inputs: self._probability(self._parse(inputs))
            ).get_concrete_function(examples),
            "classify": tf.function(
                lambda inputs: self._classify(self._parse(inputs))
            ).get_concrete_function(examples),
            "ids": tf.function(
                lambda ids: self._probability(self._checked(ids))
            ).get_concrete_function(tf.TensorSpec([None, self._fields], tf.int64, name="ids")),
        }
        # Whatever the graphs refer to is saved with them.
        self.parameters = list(
            {id(v): v for one in functions.values() for v in one.graph.variables}.values()
        )
        return functions

    def columns(self) -> dict[str, tf.DType]:
        """The types of the raw columns by name."""
        texts = dict.fromkeys(self._encoding.text_columns, tf.string)
        return texts | dict.fromkeys(self._encoding.number_columns, tf.float32)

    def _probability(self, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        return {PROBABILITY: self._score(ids).probability}

    def _explain(self, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        scores = self._score(ids)
        return {
            PROBABILITY: scores.probability,
            "logits": scores.logits,
            "crosses": self._crosses(ids) - self._cross_offsets,
        }

    def _classify(self, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        """What the Classify API asks for, which takes a signature of these two outputs only."""
        probability = self._score(ids).probability
        return {
            "classes": tf.broadcast_to(
                tf.constant([CLASSES]), [tf.size(probability), len(CLASSES)]
            ),
            "scores": tf.stack([1 - probability, probability], axis=1),
        }

    def _checked(self, ids: tf.Tensor) -> tf.Tensor:
        """The ids, if each is one of its field's; those of another would be looked up too."""
        starts, ends = self._encoding.starts, self._encoding.ends
        # Not `tf.debugging.Assert`, which makes it a condition of many operations.
        known = tf.raw_ops.Assert(
            condition=tf.reduce_all((ids >= starts) & (ids < ends)),
            data=["an id is none of its field's; the fields' ids begin at", starts, "in", ids],
            summarize=self._fields,
        )
        with tf.control_dependencies([known]):
            return tf.identity(ids)

    def _parse(self, inputs: tf.Tensor) -> tf.Tensor:
        """The ids of serialized examples."""
        features = {
            name: tf.io.FixedLenFeature([], dtype, "" if dtype == tf.string else np.nan)
            for name, dtype in self.columns().items()
        }
        columns = tf.io.parse_example(inputs, features)
        texts = [columns[name] for name in self._encoding.text_columns]
        numbers = [columns[name] for name in self._encoding.number_columns]
        return self._ids(tf.stack(texts) if texts else None, tf.stack(numbers) if numbers else None)

    def _encode(self, columns: Columns) -> tf.Tensor:
        """The ids of raw columns, of which some may be empty."""
        texts = [columns[name] for name in self._encoding.text_columns]
        numbers = [columns[name] for name in self._encoding.number_columns]
        text_lengths, number_lengths = _lengths(texts, tf.string), _lengths(numbers, tf.float32)
        every = tf.concat([text_lengths, number_lengths], axis=0)
        rows = tf.reduce_max(every)
        same = tf.debugging.Assert(
            tf.reduce_all((every == rows) | (every == 0)),
            ["the columns of a batch must have the same length; they have:", every],
            summarize=len(columns),
        )
        with tf.control_dependencies([same]):
            rows = tf.identity(rows)
        return self._ids(
            _stack(texts, text_lengths, rows, "") if texts else None,
            _stack(numbers, number_lengths, rows, np.nan) if numbers else None,
        )

    def _ids(self, texts: tf.Tensor | None, numbers: tf.Tensor | None) -> tf.Tensor:
        """The ids of all text columns and all number columns, each [columns, rows]."""
        if self._trim and texts is not None:
            texts = tf.strings.strip(texts)
        return self._encoding.ids(texts, numbers)


def parameter_names(columns: Sequence[str]) -> dict[str, str]:
    """A name that TensorFlow takes for each column.

    It is what TensorFlow itself makes of the name, so that a caller in Python may use the column's;
    unless it is not ASCII, a word of Python, or differs from another one in nothing but case.
    """
    names: dict[str, str] = {}
    taken = {"self"}
    for column in columns:
        plain = "".join(sign if sign.isascii() and sign.isalnum() else "_" for sign in column)
        plain = plain if plain[:1].isalpha() else f"arg_{plain}"
        name, count = plain, 1
        while name.lower() in taken or keyword.iskeyword(name):
            name, count = f"{plain}_{count}", count + 1
        taken.add(name.lower())
        names[column] = name
    return names


def _lengths(columns: Sequence[tf.Tensor], dtype: tf.DType) -> tf.Tensor:
    """A zero and the lengths of the columns; their sums are where each column begins."""
    return tf.concat(tf.shape_n([tf.zeros([0], dtype), *columns]), axis=0)


def _stack(
    columns: Sequence[tf.Tensor], lengths: tf.Tensor, rows: tf.Tensor, missing: Any
) -> tf.Tensor:
    """The columns, [columns, rows]; empty ones are filled."""
    # What a `tf.RaggedTensor` does, in fewer operations.
    return tf.raw_ops.RaggedTensorToTensor(
        shape=tf.stack([len(columns), rows]),
        values=tf.concat(columns, axis=0),
        default_value=missing,
        row_partition_tensors=[tf.cumsum(lengths)],
        row_partition_types=["ROW_SPLITS"],
    )
