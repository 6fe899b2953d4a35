"""A server with the surface of TensorFlow Serving, over real sockets, for tests.

Predict, Classify, GetModelMetadata and GetModelStatus over gRPC; predict, status and metadata over
REST. It has no batching, no labels of versions, no metrics and only one model, and refuses every
Regress.
"""

import json
import re
import threading
import urllib.parse
from collections.abc import Callable
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.serving import rest
from tests.serving.servables import DEFAULT_SIGNATURE, INVALID, StatusError
from tests.serving.versions import Versions

HTTP_CODES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}


class TestServer:
    """Serves the latest version under a directory.

    Args:
        base_directory: Where the versions are; it may be empty and may change.
        name: The name of the model.
        poll_seconds: How long to wait between two looks at the directory.
    """

    __test__ = False  # pytest takes the name for that of a test

    def __init__(self, base_directory: Path | str, name: str = "fives", poll_seconds: float = 0.1):
        self._versions = Versions(name, Path(base_directory), poll_seconds)
        unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self._grpc = grpc.server(futures.ThreadPoolExecutor(4), options=unlimited)
        calls = _Calls(self._versions)
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            _PredictionService(calls), self._grpc
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(_ModelService(calls), self._grpc)
        self.grpc_address = f"127.0.0.1:{self._grpc.add_insecure_port('127.0.0.1:0')}"
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(calls))
        self.rest_address = f"http://127.0.0.1:{self._http.server_port}"
        self._http_thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    def __enter__(self) -> "TestServer":
        self._versions.start()
        self._grpc.start()
        self._http_thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http_thread.join()
        self._http.server_close()
        self._grpc.stop(grace=None).wait()
        self._versions.stop()

    def wait_for(self, version: int, seconds: float = 30, state: str = "AVAILABLE") -> None:
        """Waits until a version is in a state; a version that fails to load ends the wait."""
        self._versions.wait_for(version, seconds, state)


class _Calls:
    """What both protocols offer."""

    def __init__(self, versions: Versions):
        self._versions = versions

    def servable(self, spec):
        if not spec.name:
            raise StatusError(INVALID, "Missing ModelSpec")
        version = spec.version.value if spec.HasField("version") else None
        return self._versions.servable(spec.name, version)

    def predict(self, request):
        return self.servable(request.model_spec).predict(request)

    def classify(self, request):
        return self.servable(request.model_spec).classify(request)

    def regress(self, request):
        self.servable(request.model_spec)
        raise StatusError(INVALID, "no signature has the outputs of a regression")

    def metadata(self, request):
        if list(request.metadata_field) != ["signature_def"]:
            message = f"Metadata field {list(request.metadata_field)} is not supported"
            raise StatusError(INVALID, message)
        servable = self.servable(request.model_spec)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, signature in servable.signatures.items():
            signatures.signature_def[name].CopyFrom(signature)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = servable.name
        response.model_spec.version.value = servable.version
        response.metadata["signature_def"].Pack(signatures)
        return response

    def status(self, request):
        spec = request.model_spec
        states = self._versions.states() if spec.name == self._versions.name else {}
        if spec.HasField("version"):
            states = {key: one for key, one in states.items() if key == spec.version.value}
        if not states:
            wanted = f"version {spec.version.value}" if spec.HasField("version") else "any versions"
            message = f"Could not find {wanted} of model {spec.name}"
            raise StatusError(grpc.StatusCode.NOT_FOUND, message)
        response = get_model_status_pb2.GetModelStatusResponse()
        for version, state in sorted(states.items(), reverse=True):
            one = response.model_version_status.add(version=version)
            one.state = get_model_status_pb2.ModelVersionStatus.State.Value(state.name)
            one.status.error_code = state.code.value[0]
            one.status.error_message = state.message
        return response


class _PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, calls: _Calls):
        self.Predict = _over_grpc(calls.predict)
        self.Classify = _over_grpc(calls.classify)
        self.Regress = _over_grpc(calls.regress)
        self.GetModelMetadata = _over_grpc(calls.metadata)


class _ModelService(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, calls: _Calls):
        self.GetModelStatus = _over_grpc(calls.status)


def _over_grpc(call: Callable[[Any], Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
    def method(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return call(request)
        except StatusError as error:
            context.abort(error.code, str(error))

    return method


def _handler(calls: _Calls) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _answer(self, body: bytes) -> None:
            try:
                code, found = 200, _over_rest(calls, self.command, self.path, body)
            except StatusError as error:
                code, found = HTTP_CODES.get(error.code, 500), {"error": str(error)}
            text = json.dumps(found, indent=4, ensure_ascii=False)
            content = text.encode("utf-8", "surrogateescape")
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _over_rest(calls: _Calls, method: str, path: str, body: bytes) -> dict[str, Any]:
    model = r"/v1/models/(?P<name>[^/:]+)(/versions/(?P<version>\d+))?"
    verb = ":(?P<verb>predict|classify|regress)" if method == "POST" else "(?P<verb>/metadata)?"
    found = re.fullmatch(model + verb, path)
    if not found:
        raise StatusError(INVALID, f"Malformed request: {method} {path}")
    requests = {
        "predict": predict_pb2.PredictRequest,
        "/metadata": get_model_metadata_pb2.GetModelMetadataRequest,
        None: get_model_status_pb2.GetModelStatusRequest,
    }
    if found["verb"] not in requests:
        raise StatusError(grpc.StatusCode.UNIMPLEMENTED, f"{found['verb']} over REST")
    request = requests[found["verb"]]()
    request.model_spec.name = urllib.parse.unquote(found["name"])
    if found["version"]:
        request.model_spec.version.value = int(found["version"])
    if found["verb"] == "predict":
        return _predict_over_rest(calls, request, body)
    if found["verb"] == "/metadata":
        request.metadata_field.append("signature_def")
        return _metadata_as_json(calls.metadata(request))
    return _status_as_json(calls.status(request))


def _predict_over_rest(
    calls: _Calls, request: predict_pb2.PredictRequest, body: bytes
) -> dict[str, Any]:
    def inputs_of(name: str) -> rest.Infos:
        signatures = calls.servable(request.model_spec).signatures
        name = name or DEFAULT_SIGNATURE
        if name not in signatures:
            message = f'Serving signature name: "{name}" not found in signature def'
            raise StatusError(INVALID, message)
        return signatures[name].inputs

    by_rows = rest.fill(request, body, inputs_of)
    return rest.answer(calls.predict(request).outputs, by_rows)


def _metadata_as_json(response: get_model_metadata_pb2.GetModelMetadataResponse) -> dict[str, Any]:
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    as_dict = {"preserving_proto_field_name": True}
    return {
        "model_spec": json_format.MessageToDict(response.model_spec, **as_dict),
        "metadata": {"signature_def": json_format.MessageToDict(signatures, **as_dict)},
    }


def _status_as_json(response: get_model_status_pb2.GetModelStatusResponse) -> dict[str, Any]:
    """With the values that are defaults, which TensorFlow Serving writes too."""
    names = get_model_status_pb2.ModelVersionStatus.State.Name
    codes = {code.value[0]: code.name for code in grpc.StatusCode}
    return {
        "model_version_status": [
            {
                "version": str(one.version),
                "state": names(one.state),
                "status": {
                    "error_code": codes[one.status.error_code],
                    "error_message": one.status.error_message,
                },
            }
            for one in response.model_version_status
        ]
    }
