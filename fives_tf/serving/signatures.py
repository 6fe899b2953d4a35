"""What TensorFlow cannot be told when it saves a model, written into the SavedModel afterwards."""

import os
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from fives_tf import storage
from fives_tf.exported import MODEL

RAW = ("serving_default", "explain")  # the signatures whose inputs are raw columns


def read_signatures(directory: str | Path) -> dict[str, meta_graph_pb2.SignatureDef]:
    """The signatures of a SavedModel by name."""
    return dict(_read(directory).meta_graphs[0].signature_def)


def name_columns(directory: str | Path, columns: dict[str, str]) -> None:
    """Gives the inputs of raw signatures the names of the columns, and makes them optional.

    A server fills in the default of an input that a request leaves out: an empty tensor, by which
    the graph knows that the column is missing.

    Args:
        directory: The SavedModel.
        columns: The names of the inputs by column.
    """
    model = _read(directory)
    for name in RAW:
        signature = model.meta_graphs[0].signature_def[name]
        before = meta_graph_pb2.SignatureDef()
        before.CopyFrom(signature)
        signature.inputs.clear()
        for column, parameter in columns.items():
            info = before.inputs[parameter]
            signature.inputs[column].CopyFrom(info)
            empty = tf.make_tensor_proto([], tf.dtypes.as_dtype(info.dtype), [0])
            signature.defaults[column].CopyFrom(empty)
    model.meta_graphs[0].signature_def["classify"].method_name = "tensorflow/serving/classify"
    path = storage.join(os.fspath(directory), MODEL)
    storage.write(path, model.SerializeToString(deterministic=True))


def _read(directory: str | Path) -> saved_model_pb2.SavedModel:
    content = storage.read(storage.join(os.fspath(directory), MODEL))
    return saved_model_pb2.SavedModel.FromString(content)
