"""Small SavedModels with the signatures of an export, written in a moment."""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from tests.serving.servables import WARM_UP

v1 = tf.compat.v1

COLUMNS = {"age": tf.float32, "city": tf.string, "user id": tf.string}


def write(
    directory: Path,
    scale: float = 1.0,
    defaults: Sequence[str] = tuple(COLUMNS),
    warm_up: Sequence[predict_pb2.PredictRequest] = (),
) -> None:
    """Writes a version aside and renames it.

    Args:
        directory: The version.
        scale: What the logit is multiplied by, to tell versions apart.
        defaults: The columns that may be left out.
        warm_up: The requests of its warm-up.
    """
    with tf.Graph().as_default() as graph:
        signatures = _signatures(scale)
        meta_graph = v1.train.export_meta_graph(graph=graph)
    meta_graph.meta_info_def.tags.append("serve")
    for name, signature in signatures.items():
        meta_graph.signature_def[name].CopyFrom(signature)
    for name in ("serving_default", "explain"):
        for column in defaults:
            empty = tf.make_tensor_proto([], COLUMNS[column])
            meta_graph.signature_def[name].defaults[column].CopyFrom(empty)
    saved = saved_model_pb2.SavedModel(saved_model_schema_version=1, meta_graphs=[meta_graph])
    aside = directory.with_name(f"{directory.name}.aside")
    (aside / WARM_UP.parent).mkdir(parents=True)
    (aside / "saved_model.pb").write_bytes(saved.SerializeToString())
    if warm_up:
        with tf.io.TFRecordWriter(str(aside / WARM_UP)) as writer:
            for request in warm_up:
                log = prediction_log_pb2.PredictLog(request=request)
                record = prediction_log_pb2.PredictionLog(predict_log=log)
                writer.write(record.SerializeToString())
    aside.rename(directory)


def probability(row: dict, scale: float = 1.0) -> float:
    """What the model says of a row."""
    logit = (row.get("age") or 0) / 100
    logit += len(row.get("city") or "") / 10 - len(row.get("user id") or "") / 4
    return float(tf.sigmoid(scale * logit))


def _signatures(scale: float) -> dict[str, meta_graph_pb2.SignatureDef]:
    columns = {
        name: v1.placeholder(dtype, [None], f"column_{number}")
        for number, (name, dtype) in enumerate(COLUMNS.items())
    }
    logit = _logit(columns, scale)
    score = {"probability": tf.sigmoid(logit)}
    crosses = tf.tile([[7, 9]], [tf.size(logit), 1])
    explained = {"logits": logit[:, None], "crosses": tf.cast(crosses, tf.int64)}
    serialized = v1.placeholder(tf.string, [None], "serialized")
    missing = {name: "" if dtype == tf.string else float("nan") for name, dtype in COLUMNS.items()}
    parsed = tf.io.parse_example(
        serialized,
        {name: tf.io.FixedLenFeature([], dtype, missing[name]) for name, dtype in COLUMNS.items()},
    )
    chance = tf.sigmoid(_logit(parsed, scale))
    classes = tf.tile([["0", "1"]], [tf.size(chance), 1])
    ids = v1.placeholder(tf.int64, [None, 2], "ids")
    text = v1.placeholder(tf.string, [None], "text")
    return {
        "serving_default": _signature(columns, score),
        "explain": _signature(columns, {**score, **explained}),
        "examples": _signature({"inputs": serialized}, {"probability": chance}),
        "classify": _signature(
            {"inputs": serialized},
            {"classes": classes, "scores": tf.stack([1 - chance, chance], 1)},
        ),
        "ids": _signature(
            {"ids": ids}, {"probability": tf.sigmoid(tf.cast(tf.reduce_sum(ids, 1), tf.float32))}
        ),
        "text": _signature(
            {"text": text}, {"echo": tf.identity(text), "echo_bytes": tf.identity(text)}
        ),
    }


def _logit(columns: dict[str, tf.Tensor], scale: float) -> tf.Tensor:
    """A column without rows is missing in all of them; any others must have as many rows."""
    rows = tf.reduce_max([tf.size(values) for values in columns.values()])

    def filled(name: str, missing: object) -> tf.Tensor:
        values = columns[name]
        return tf.cond(tf.size(values) > 0, lambda: values, lambda: tf.fill([rows], missing))

    age = filled("age", float("nan"))
    age = tf.where(tf.math.is_nan(age), tf.zeros_like(age), age)
    lengths = [
        tf.cast(tf.strings.length(filled(name, "")), tf.float32)
        for name in COLUMNS
        if COLUMNS[name] == tf.string
    ]
    weighted = tf.stack([age / 100, lengths[0] / 10, -lengths[1] / 4])
    return scale * tf.reduce_sum(weighted, 0)


def _signature(
    inputs: dict[str, tf.Tensor], outputs: dict[str, tf.Tensor]
) -> meta_graph_pb2.SignatureDef:
    return v1.saved_model.build_signature_def(
        {name: v1.saved_model.build_tensor_info(one) for name, one in inputs.items()},
        {name: v1.saved_model.build_tensor_info(one) for name, one in outputs.items()},
        "tensorflow/serving/predict",
    )
