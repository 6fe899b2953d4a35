"""What the TensorFlow face does its own way; that it agrees at large is in test_encoding.py."""

import dataclasses
import itertools

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from fives_tf.encoding import BucketField, Encoding, HashField, VocabularyField
from fives_tf.parsing import to_category

MARKERS = ("", "NA", "two\nlines", "return\r", "0", "?", "NA")
TEXTS = ["a", "", "NA", "two\nlines", "return\r", "return", "two", "0", "b", "1\ta", "?", "new"]
TINY = np.float32(1e-42)
NUMBERS = [0.0, -0.0, -TINY, TINY, -1.0, 5.0, np.nan, np.inf, -np.inf, 7.0, -1.5e-38, 1.0]


def vocabulary(column, *values):
    counts = np.ones(len(values), np.int64)
    return VocabularyField(
        column, column, MARKERS, 0, 0, pa.array([v.encode() for v in values]), counts
    )


def buckets(column, *edges, missing=("",)):
    ids, counts = np.arange(2, len(edges) + 3), np.ones(len(edges) + 1, np.int64)
    return BucketField(column, column, missing, 0, 0, np.array(edges, np.float32), ids, counts)


FIELDS = (
    vocabulary("known", "a", "b", "1\ta"),
    HashField("hashed", "hashed", MARKERS, 0, 0, 5),
    buckets("zero", 0.0),
    buckets("many", -1.0, 0.0, 1.0, 7.0),
)


def check(fields, directory):
    """Encodes every value in every column by both faces."""
    encoding = Encoding(tuple(fields), 1)
    numeric = {field.column: isinstance(field, BucketField) for field in fields}
    batch = pa.RecordBatch.from_pydict(
        {
            name: pa.array([None if np.isnan(x) else x for x in NUMBERS], pa.float64())
            if is_number
            else to_category(pa.array(TEXTS), name)
            for name, is_number in numeric.items()
        }
    )
    columns = {
        name: tf.constant(NUMBERS, tf.float32) if is_number else tf.constant(TEXTS)
        for name, is_number in numeric.items()
    }
    ids = encoding.tensorflow(directory)(columns)
    np.testing.assert_array_equal(ids, encoding.encode(batch))


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::3])
def test_fields_of_any_kind_stand_in_any_order(order, tmp_path):
    check([FIELDS[index] for index in order], tmp_path)


@pytest.mark.parametrize("index", range(4))
def test_there_may_be_fields_of_one_kind_only(index, tmp_path):
    check([FIELDS[index]], tmp_path)


def test_nothing_needs_to_be_known_or_missing(tmp_path):
    check([VocabularyField("x", "x", (), 0, 0, pa.array([], pa.binary()), np.array([]))], tmp_path)


def test_numbers_that_count_as_zero_may_mean_missing(tmp_path):
    check([buckets("x", -1.0, 0.0, missing=("", "0"))], tmp_path)


def test_a_graph_for_a_row_has_few_operations(tmp_path):
    """It is the number of operations that a server with one row pays for."""
    plain = dataclasses.replace(FIELDS[0], missing=("", "NA"))
    module = Encoding((plain, *FIELDS[2:]), 1).tensorflow(tmp_path)
    texts, numbers = tf.TensorSpec([1, None], tf.string), tf.TensorSpec([2, None], tf.float32)
    graph = tf.function(module.ids).get_concrete_function(texts, numbers).graph
    names = [operation.type for operation in graph.get_operations()]
    assert sum(name not in ("Const", "Placeholder", "Identity", "NoOp") for name in names) <= 18
    assert "Add" not in names  # of strings, which wakes threads up
