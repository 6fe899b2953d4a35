"""The JSON of TensorFlow Serving's REST: requests to tensors, tensors to answers."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import predict_pb2

from tests.serving.servables import INVALID, StatusError, tensor

Infos = Mapping[str, meta_graph_pb2.TensorInfo]


def fill(
    request: predict_pb2.PredictRequest, body: bytes, inputs_of: Callable[[str], Infos]
) -> bool:
    """Fills in the signature and the inputs of a request.

    Args:
        request: The request, with its model.
        body: The JSON.
        inputs_of: Gives the inputs of a signature.

    Returns:
        Whether the request, and so the answer, is by rows (`instances`) and not by columns.
    """
    try:
        document = json.loads(body)
    except ValueError as error:
        raise StatusError(INVALID, f"JSON Parse error: {error}") from error
    if not isinstance(document, dict):
        raise StatusError(INVALID, "JSON Value: Is not object")
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise StatusError(INVALID, "'signature_name' key must be a string value.")
    request.model_spec.signature_name = name
    infos = inputs_of(name)
    if "instances" in document and "inputs" in document:
        raise StatusError(INVALID, "expecting only one of 'inputs' or 'instances' keys to exist")
    if "instances" in document:
        _fill_by_rows(request, document["instances"], infos)
        return True
    if "inputs" not in document:
        raise StatusError(INVALID, "Missing 'inputs' or 'instances' key")
    _fill_by_columns(request, document["inputs"], infos)
    return False


def answer(outputs: Mapping[str, tensor_pb2.TensorProto], by_rows: bool) -> dict[str, Any]:
    """The outputs as JSON: without their name if there is only one."""
    columns = {name: _plain(name, proto) for name, proto in outputs.items()}
    if not by_rows:
        return {"outputs": columns if len(columns) > 1 else next(iter(columns.values()))}
    if any(not isinstance(values, list) for values in columns.values()):
        raise StatusError(INVALID, "a tensor has no shape information")
    if len({len(values) for values in columns.values()}) > 1:
        raise StatusError(INVALID, "a tensor has inconsistent batch size")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"predictions": rows if len(columns) > 1 else next(iter(columns.values()))}


def _fill_by_rows(request: predict_pb2.PredictRequest, rows: Any, infos: Infos) -> None:
    if not isinstance(rows, list) or not rows:
        raise StatusError(INVALID, "Expecting 'instances' to be a list with values")
    named = _is_named(rows[0])
    if not named and len(infos) > 1:
        raise StatusError(INVALID, "instances is a plain list, but expecting list of objects")
    columns: dict[str, list] = {name: [] for name in infos}
    for number, row in enumerate(rows):
        if _is_named(row) != named:
            raise StatusError(INVALID, f"Expecting other than an object or value at item {number}")
        if named and set(row) != set(infos):
            message = f"Failed to process element: {number} of 'instances' list."
            raise StatusError(
                INVALID, f"{message} keys must be equal to: {','.join(sorted(infos))}"
            )
        for name, values in columns.items():
            values.append(row[name] if named else row)
    for name, values in columns.items():
        request.inputs[name].CopyFrom(_tensor(values, infos[name].dtype))


def _fill_by_columns(request: predict_pb2.PredictRequest, columns: Any, infos: Infos) -> None:
    """What is not an input is ignored, and what is one must be there, even if it has a default."""
    if not _is_named(columns):
        if len(infos) > 1:
            raise StatusError(INVALID, "inputs is a plain value/list, but expecting an object")
        columns = {next(iter(infos)): columns}
    for name, info in infos.items():
        if name not in columns:
            raise StatusError(INVALID, f"Missing named input: {name} in 'inputs' object.")
        request.inputs[name].CopyFrom(_tensor(columns[name], info.dtype))


def _is_named(value: Any) -> bool:
    """Whether this is an object, and not one that stands for bytes."""
    return isinstance(value, dict) and not _is_bytes(value)


def _is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"b64"} and isinstance(value["b64"], str)


def _tensor(value: Any, dtype: int) -> tensor_pb2.TensorProto:
    shape, inner = [], value
    while isinstance(inner, list):
        shape.append(len(inner))
        inner = inner[0] if inner else None
    flat: list = []
    _flatten(value, shape, dtype, flat)
    try:
        values = np.empty(len(flat), object)
        values[:] = flat
        return tensor(values.reshape(shape), dtype)
    except ValueError as error:
        raise StatusError(INVALID, f"JSON Value: {error}") from error


def _flatten(value: Any, shape: list[int], dtype: int, flat: list) -> None:
    if not isinstance(value, list):
        if shape:
            raise StatusError(INVALID, f"JSON Value: {value} found at incorrect level")
        flat.append(_convert(value, dtype))
        return
    if not shape or len(value) != shape[0]:
        raise StatusError(INVALID, f"Encountered list at unexpected size: {len(value)}")
    for item in value:
        _flatten(item, shape[1:], dtype, flat)


def _convert(value: Any, dtype: int) -> Any:
    """One value of JSON: whole numbers pass for floats, but floats not for whole numbers."""
    kind = type(value)
    if dtype in (types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE) and kind in (int, float):
        return value
    if dtype in (types_pb2.DT_INT32, types_pb2.DT_INT64) and kind is int:
        return value
    if dtype == types_pb2.DT_BOOL and kind is bool:
        return value
    if dtype == types_pb2.DT_STRING and (kind is str or _is_bytes(value)):
        try:
            return value.encode() if kind is str else base64.b64decode(value["b64"], validate=True)
        except ValueError as error:
            raise StatusError(INVALID, f"Unable to decode: {error}") from error
    expected = tf.dtypes.as_dtype(dtype).name
    raise StatusError(INVALID, f"JSON Value: {value} is not of expected type: {expected}")


def _plain(name: str, proto: tensor_pb2.TensorProto) -> Any:
    values = tf.make_ndarray(proto).tolist()
    if proto.dtype == types_pb2.DT_STRING:
        return _each(values, _base64 if name.endswith("_bytes") else _text)
    return _each(values, _decimal) if proto.dtype == types_pb2.DT_FLOAT else values


def _each(value: Any, convert: Callable[[Any], Any]) -> Any:
    return [_each(item, convert) for item in value] if isinstance(value, list) else convert(value)


def _base64(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode()}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _decimal(value: float) -> float:
    """Six digits if they tell the float32 apart, else nine."""
    short = float(f"{value:.6g}")
    return short if np.float32(short) == np.float32(value) else float(f"{value:.9g}")
