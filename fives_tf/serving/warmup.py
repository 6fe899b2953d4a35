"""Requests that a server replays before it serves a version, so that no client meets a cold one."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from fives_tf.encoding import Encoding
from fives_tf.serving.rows import raw_rows
from fives_tf.training.batches import Source

FILE = "tf_serving_warmup_requests"
BATCHES = (1, 32)


def write_warmup(path: Path, model: str, source: Source, encoding: Encoding) -> int:
    """Writes requests with rows of the validation split to every signature.

    Args:
        path: The file.
        model: The name of the model in the requests; a server does not look at it.
        source: The rows of the model's dataset.
        encoding: Its encoding.

    Returns:
        The number of requests; 0, and no file, if tensorflow-serving-api is not installed.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        return 0
    ids, _ = source.arrays("valid", sum(BATCHES))
    ids = ids[:, : len(encoding.fields)]  # crosses are found out from the fields
    blocks = [block for block in np.split(ids, BATCHES[:1]) if len(block)]
    count = 0
    with tf.io.TFRecordWriter(os.fspath(path)) as writer:
        for block in blocks:
            for log in _requests(prediction_log_pb2.PredictionLog, model, block, encoding):
                writer.write(log.SerializeToString(deterministic=True))
                count += 1
    return count


def _requests(kind: type, model: str, ids: np.ndarray, encoding: Encoding) -> Iterator:
    """The same rows in a request to each signature."""
    rows = raw_rows(encoding, ids)
    tensors = {name: _tensor(values) for name, values in rows.items()}
    examples = [
        _example(dict(zip(rows, row, strict=True))) for row in zip(*rows.values(), strict=True)
    ]
    serialized = tf.constant([one.SerializeToString(deterministic=True) for one in examples])
    for signature, inputs in {
        "serving_default": tensors,
        "explain": tensors,
        "examples": {"inputs": serialized},
        "ids": {"ids": tf.constant(ids, tf.int64)},
    }.items():
        log = kind()
        request = log.predict_log.request
        request.model_spec.name, request.model_spec.signature_name = model, signature
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        yield log
    log = kind()
    request = log.classify_log.request
    request.model_spec.name, request.model_spec.signature_name = model, "classify"
    request.input.example_list.examples.extend(examples)
    yield log


def _tensor(values: list[bytes] | list[float]) -> tf.Tensor:
    return tf.constant(values, tf.string if isinstance(values[0], bytes) else tf.float32)


def _example(row: dict[str, bytes | float]) -> tf.train.Example:
    """A raw row; what is missing is left out."""
    features = {}
    for name, value in row.items():
        if isinstance(value, bytes) and value:
            features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        elif not isinstance(value, bytes) and not np.isnan(value):
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Example(features=tf.train.Features(feature=features))
