"""A version of a model in a session of its own, run as TensorFlow Serving runs it."""

from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_log_pb2

DEFAULT_SIGNATURE = "serving_default"
WARM_UP = Path("assets.extra", "tf_serving_warmup_requests")
MOST_WARM_UP_RECORDS = 1000

INVALID = grpc.StatusCode.INVALID_ARGUMENT

# The field of a TensorProto that holds the values of a type.
FIELDS = {
    types_pb2.DT_FLOAT: "float_val",
    types_pb2.DT_DOUBLE: "double_val",
    types_pb2.DT_INT32: "int_val",
    types_pb2.DT_INT64: "int64_val",
    types_pb2.DT_BOOL: "bool_val",
    types_pb2.DT_STRING: "string_val",
}


class StatusError(Exception):
    """A status other than OK."""

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(message)
        self.code = code


class Servable:
    """A SavedModel, loaded and warm."""

    def __init__(self, name: str, version: int, directory: Path):
        self.name, self.version = name, version
        saved = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
        [graph_def] = [one for one in saved.meta_graphs if "serve" in one.meta_info_def.tags]
        self.signatures = dict(graph_def.signature_def)
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            tf.compat.v1.saved_model.load(self._session, ["serve"], str(directory))
        self._warm_up(directory / WARM_UP)

    def predict(self, request: predict_pb2.PredictRequest) -> predict_pb2.PredictResponse:
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            message = f'Serving signature key "{name}" not found.'
            raise StatusError(grpc.StatusCode.FAILED_PRECONDITION, message)
        signature = self.signatures[name]
        outputs = self._run(_feeds(signature, request), _fetches(signature, request.output_filter))
        response = predict_pb2.PredictResponse()
        self._describe(response.model_spec, name)
        for alias, values in outputs.items():
            response.outputs[alias].CopyFrom(tensor(values, signature.outputs[alias].dtype))
        return response

    def classify(
        self, request: classification_pb2.ClassificationRequest
    ) -> classification_pb2.ClassificationResponse:
        name = request.model_spec.signature_name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise StatusError(INVALID, f"No signature was found with the name: {name}")
        signature = self.signatures[name]
        if len(signature.inputs) != 1:
            raise StatusError(INVALID, "Expected one input Tensor.")
        if len(signature.outputs) not in (1, 2):
            found = len(signature.outputs)
            raise StatusError(INVALID, f"Expected one or two output Tensors, found {found}")
        wanted = {"classes", "scores"} & set(signature.outputs)
        if "inputs" not in signature.inputs or not wanted:
            raise StatusError(INVALID, f"{name} is no signature of classification")
        examples = [one.SerializeToString() for one in request.input.example_list.examples]
        if not examples:
            raise StatusError(INVALID, "Input is empty.")
        feeds = {signature.inputs["inputs"].name: np.array(examples, object)}
        outputs = self._run(feeds, {alias: signature.outputs[alias].name for alias in wanted})
        response = classification_pb2.ClassificationResponse()
        self._describe(response.model_spec, name)
        for row in range(len(examples)):
            classes = response.result.classifications.add().classes
            for column in range(next(iter(outputs.values())).shape[1]):
                one = classes.add()
                if "classes" in outputs:
                    one.label = outputs["classes"][row, column]
                if "scores" in outputs:
                    one.score = outputs["scores"][row, column]
        return response

    def _run(self, feeds: dict[str, np.ndarray], fetches: dict[str, str]) -> dict[str, np.ndarray]:
        try:
            return self._session.run(fetches, feeds)
        except tf.errors.OpError as error:
            raise status_error(error) from error

    def _describe(self, spec, signature_name: str) -> None:
        spec.name, spec.signature_name = self.name, signature_name
        spec.version.value = self.version

    def _warm_up(self, path: Path) -> None:
        if not path.exists():
            return
        records = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
        for number, record in enumerate(records, 1):
            if number > MOST_WARM_UP_RECORDS:
                message = f"Number of warmup records exceeds the maximum ({MOST_WARM_UP_RECORDS})"
                raise StatusError(INVALID, message)
            log = prediction_log_pb2.PredictionLog.FromString(record)
            kind = log.WhichOneof("log_type")
            if kind == "predict_log":
                self.predict(log.predict_log.request)
            elif kind == "classify_log":
                self.classify(log.classify_log.request)
            else:
                raise StatusError(grpc.StatusCode.UNIMPLEMENTED, f"warm-up by {kind}")


def status_error(error: tf.errors.OpError) -> StatusError:
    """The status of an error of TensorFlow, whose codes are those of gRPC."""
    [code] = [code for code in grpc.StatusCode if code.value[0] == error.error_code]
    return StatusError(code, error.message)


def tensor(values: np.ndarray, dtype: int) -> tensor_pb2.TensorProto:
    """Values in the typed fields of a TensorProto, which is how TensorFlow Serving answers."""
    values = np.asarray(values)
    proto = tensor_pb2.TensorProto(dtype=dtype)
    for size in values.shape:
        proto.tensor_shape.dim.add(size=size)
    getattr(proto, FIELDS[dtype]).extend(values.ravel().tolist())
    return proto


def _feeds(
    signature: meta_graph_pb2.SignatureDef, request: predict_pb2.PredictRequest
) -> dict[str, np.ndarray]:
    """The values of all inputs, by the names of their tensors."""
    sent, known = set(request.inputs), set(signature.inputs)
    if len(sent) > len(known) or (len(sent) < len(known) and not signature.defaults):
        raise StatusError(
            INVALID,
            f"input size does not match signature: {len(sent)}!={len(known)}. Sent extra: "
            f"{sorted(sent - known)}. Missing but required: {sorted(known - sent)}.",
        )
    feeds = {}
    for alias, info in signature.inputs.items():
        if alias in sent:
            proto = request.inputs[alias]
        elif alias in signature.defaults:
            proto = signature.defaults[alias]
        else:
            raise StatusError(
                INVALID,
                f"Signature input alias: {alias}(feed name: {info.name}) not found in request and "
                "no default value provided.",
            )
        feeds[info.name] = _feed(alias, info, proto)
    if sent - known:
        raise StatusError(INVALID, f"Inputs contains invalid name: {sorted(sent - known)}")
    return feeds


def _feed(alias: str, info: meta_graph_pb2.TensorInfo, proto: tensor_pb2.TensorProto) -> np.ndarray:
    """Refuses another type or rank, which a session in Python would convert or tell otherwise."""
    if proto.dtype != info.dtype:
        expected, found = (types_pb2.DataType.Name(one.dtype) for one in (info, proto))
        raise StatusError(INVALID, f"{alias}: Expects arg to be {expected} but {found} is provided")
    try:
        values = tf.make_ndarray(proto)
    except (ValueError, TypeError) as error:
        raise StatusError(INVALID, f"tensor parsing error: {alias}") from error
    shape = tf.TensorShape(info.tensor_shape)
    if not shape.is_compatible_with(values.shape):
        message = f"{alias}: the shape {list(values.shape)} does not fit {shape}"
        raise StatusError(INVALID, message)
    return values


def _fetches(signature: meta_graph_pb2.SignatureDef, output_filter: list[str]) -> dict[str, str]:
    """The names of the tensors to fetch, by alias."""
    wanted = list(output_filter) or list(signature.outputs)
    for index, alias in enumerate(wanted):
        if alias not in signature.outputs:
            message = f"output tensor alias not found in signature: {alias}"
            raise StatusError(INVALID, message)
        if alias in wanted[:index]:
            raise StatusError(INVALID, f"duplicate output tensor alias: {alias}")
    return {alias: signature.outputs[alias].name for alias in wanted}
