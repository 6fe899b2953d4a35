"""The graph that is served: encoding, crosses and model behind named signatures."""

import keyword
from collections.abc import Callable, Sequence
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
        names = (self._encoding.text_columns, self._encoding.number_columns)
        kinds = [[columns[name] for name in own] for own in names if own]
        every = [column for kind in kinds for column in kind]
        values = tf.add_n([tf.size(tf.concat(kind, axis=0)) for kind in kinds])
        specs = [tf.TensorSpec([None], column.dtype) for column in every]

        def branch(stack: Callable[..., list[tf.Tensor]]) -> Any:
            def call(*columns: tf.Tensor) -> list[tf.Tensor]:
                rest = iter(columns)
                return stack([[next(rest) for _ in kind] for kind in kinds])

            return tf.function(call).get_concrete_function(*specs)

        # Not `tf.cond`: with a switch for each column it costs more than it saves.
        stacked = iter(
            tf.raw_ops.If(
                cond=values == len(every) * tf.size(every[0]),
                input=every,
                Tout=[kind[0].dtype for kind in kinds],
                then_branch=branch(lambda kinds: [tf.stack(kind) for kind in kinds]),
                else_branch=branch(_filled),
                output_shapes=[[len(kind), None] for kind in kinds],
            )
        )
        return self._ids(*(next(stacked) if own else None for own in names))

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


def _filled(kinds: Sequence[Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    """The columns of each kind, [columns, rows]; empty ones are filled with what is missing."""
    lengths = [tf.concat(tf.shape_n(kind), axis=0) for kind in kinds]
    every = tf.concat(lengths, axis=0)
    rows = tf.reduce_max(every)
    same = tf.debugging.Assert(
        tf.reduce_all((every == rows) | (every == 0)),
        ["the columns of a batch must have the same length; they have:", every],
        summarize=sum(map(len, kinds)),
    )
    with tf.control_dependencies([same]):
        rows = tf.identity(rows)
    return [
        tf.RaggedTensor.from_row_lengths(tf.concat(kind, axis=0), own, validate=False).to_tensor(
            "" if kind[0].dtype == tf.string else np.nan, shape=[len(kind), rows]
        )
        for kind, own in zip(kinds, lengths, strict=True)
    ]
