"""Asks a server of TensorFlow Serving for the probabilities of rows, over gRPC or REST.

    python launch/serving/client.py --rows rows.json
    python launch/serving/client.py --rows rows.csv --protocol rest --signature explain --json

A row is an object of JSON or a line of CSV, by the names of the columns. A column that is absent,
null or empty is missing. The server tells which columns there are, and of what type. Needs nothing
but Python for REST, and tensorflow-serving-api for gRPC.

Exit codes: 1 if the server fails or refuses, 2 for a mistake in the flags or the rows.
"""

import argparse
import base64
import csv
import http.client
import json
import math
import os
import struct
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

FAILURE = 1
USER_ERROR = 2
DEFAULT_SIGNATURE = "serving_default"
EXAMPLES = "examples"  # the signature whose rows are serialized as tf.train.Example

_TEXT, _NUMBER, _IDS = "DT_STRING", "DT_FLOAT", "DT_INT64"


class RowsError(Exception):
    """The rows or the flags are wrong; the message says which and why."""


class ServerError(Exception):
    """The server failed, refused or did not answer; the message has its status."""


@dataclass(frozen=True)
class Signature:
    """What a signature takes and gives.

    Attributes:
        inputs: The type of each input, such as `DT_STRING`.
        outputs: The names of the outputs.
    """

    inputs: Mapping[str, str]
    outputs: tuple[str, ...]


class Client(Protocol):
    """A way to a server."""

    def signatures(self) -> dict[str, Signature]:
        """All signatures of the model."""

    def run(self, name: str, signature: Signature, inputs: Mapping[str, list]) -> dict[str, list]:
        """Sends one request with these columns and returns the columns of the answer."""


class GrpcClient:
    """Calls a model over gRPC.

    Args:
        address: Host and port.
        model: The name of the model.
        version: Its version; the one that is served if None.
        timeout: The deadline of each request, in seconds.
    """

    def __init__(
        self, address: str, model: str = "fives", version: int | None = None, timeout: float = 10
    ):
        try:
            import grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ImportError as error:
            raise RowsError(
                f"--protocol grpc: {error}. Install tensorflow-serving-api or use --protocol rest."
            ) from error
        unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(address, options=unlimited)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._model, self._version, self._timeout = model, version, timeout

    def __enter__(self) -> "GrpcClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def signatures(self) -> dict[str, Signature]:
        """All signatures of the model."""
        from tensorflow.core.framework import types_pb2
        from tensorflow_serving.apis import get_model_metadata_pb2

        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        self._name(request.model_spec)
        found = get_model_metadata_pb2.SignatureDefMap()
        self._call(self._stub.GetModelMetadata, request).metadata["signature_def"].Unpack(found)
        return {
            name: Signature(
                {key: types_pb2.DataType.Name(info.dtype) for key, info in one.inputs.items()},
                tuple(one.outputs),
            )
            for name, one in found.signature_def.items()
        }

    def run(self, name: str, signature: Signature, inputs: Mapping[str, list]) -> dict[str, list]:
        """Sends one request with these columns and returns the columns of the answer."""
        import tensorflow as tf
        from tensorflow.core.framework import types_pb2
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        self._name(request.model_spec)
        request.model_spec.signature_name = name
        for key, values in inputs.items():
            dtype = types_pb2.DataType.Value(signature.inputs[key])
            request.inputs[key].CopyFrom(tf.make_tensor_proto(values, dtype))
        outputs = self._call(self._stub.Predict, request).outputs
        return {key: _plain(tf.make_ndarray(tensor).tolist()) for key, tensor in outputs.items()}

    def _name(self, spec: Any) -> None:
        spec.name = self._model
        if self._version is not None:
            spec.version.value = self._version

    def _call(self, method: Any, request: Any) -> Any:
        import grpc

        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise ServerError(f"{error.code().name}: {error.details()}") from error


class RestClient:
    """Calls a model over REST.

    Args:
        url: Where the server is, such as `http://localhost:8501`.
        model: The name of the model.
        version: Its version; the one that is served if None.
        timeout: How long to wait for the server, in seconds.
    """

    def __init__(
        self, url: str, model: str = "fives", version: int | None = None, timeout: float = 10
    ):
        if not url.startswith(("http://", "https://")):
            raise RowsError(f"--rest: expected http://HOST:PORT. Received: {url!r}.")
        path = "" if version is None else f"/versions/{version}"
        self._url = f"{url.rstrip('/')}/v1/models/{urllib.parse.quote(model, safe='')}{path}"
        self._timeout = timeout

    def __enter__(self) -> "RestClient":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def signatures(self) -> dict[str, Signature]:
        """All signatures of the model."""
        answer = self._call("/metadata")
        try:
            found = answer["metadata"]["signature_def"]["signature_def"]
            return {
                name: Signature(
                    {key: info["dtype"] for key, info in one.get("inputs", {}).items()},
                    tuple(one.get("outputs", {})),
                )
                for name, one in found.items()
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise self._strange() from error

    def run(self, name: str, signature: Signature, inputs: Mapping[str, list]) -> dict[str, list]:
        """Sends one request with these columns and returns the columns of the answer."""
        body = {"signature_name": name, "inputs": inputs}
        answer = self._call(":predict", json.dumps(body, default=_as_base64).encode())
        outputs = answer.get("outputs") if isinstance(answer, dict) else None
        if isinstance(outputs, list):
            # The server leaves out the name of an output that is the only one.
            outputs = {signature.outputs[0]: outputs}
        if not isinstance(outputs, dict):
            raise self._strange()
        return outputs

    def _strange(self) -> ServerError:
        return ServerError(f"{self._url}: its answer is none of TensorFlow Serving")

    def _call(self, path: str, body: bytes | None = None) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ServerError(f"{error.code} {error.reason}: {_reason(error)}") from error
        except urllib.error.URLError as error:
            raise ServerError(f"{self._url}: {error.reason}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServerError(f"{self._url}: {error}") from error


def predict(
    client: Client,
    rows: Sequence[Mapping[str, Any]],
    signature: str = DEFAULT_SIGNATURE,
    batch: int = 512,
) -> dict[str, list]:
    """Asks for all outputs of rows.

    Args:
        client: The way to the server.
        rows: The values of each row by column; what is absent, None or empty is missing.
        signature: The signature to call.
        batch: How many rows to send in a request.

    Returns:
        Each output of the signature, with one element a row.
    """
    signatures = client.signatures()
    if signature not in signatures:
        known = ", ".join(sorted(signatures))
        raise RowsError(f"--signature: expected one of {known}. Received: {signature!r}.")
    found: dict[str, list] = {}
    for start in range(0, len(rows), batch):
        inputs = _inputs(rows[start : start + batch], signature, signatures, start + 1)
        for name, values in client.run(signature, signatures[signature], inputs).items():
            found.setdefault(name, []).extend(values)
    return found


def read_rows(path: str) -> list[dict[str, Any]]:
    """Reads rows from a file of JSON, which holds a list of objects, or of CSV with a header."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file)) if path.endswith(".csv") else json.load(file)
    except (OSError, ValueError, csv.Error) as error:
        raise RowsError(f"{path}: cannot be read ({error}).") from error
    if not isinstance(rows, list) or not rows:
        raise RowsError(f"{path}: expected a list of at least one row.")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise RowsError(f"{path}: row {number}: expected an object. Received: {row!r}.")
        if None in row:
            raise RowsError(f"{path}: row {number}: has more values than the header has names.")
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what the server says of the rows; returns the exit code."""
    # What TensorFlow tells of the machine when it is imported would hide the one line of an error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    flags = _parser().parse_args(argv)
    options = (flags.model, flags.version, flags.timeout)
    try:
        rows = read_rows(flags.rows)
        grpc = flags.protocol == "grpc"
        client = GrpcClient(flags.server, *options) if grpc else RestClient(flags.rest, *options)
        with client:
            outputs = predict(client, rows, flags.signature, flags.batch)
        for line in _lines(outputs, flags.json):
            print(line)
    except RowsError as error:
        print(f"client.py: {error}", file=sys.stderr)
        return USER_ERROR
    except ServerError as error:
        print(f"client.py: {' '.join(str(error).split())}", file=sys.stderr)
        return FAILURE
    return 0


def _parser() -> argparse.ArgumentParser:
    summary = __doc__.partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary, allow_abbrev=False)
    add = parser.add_argument
    add("--rows", required=True, help="the rows: a file that ends in .json or .csv")
    add("--protocol", choices=("grpc", "rest"), default="grpc", help="how to call (%(default)s)")
    add("--server", default="localhost:8500", help="host and port of gRPC (%(default)s)")
    add("--rest", default="http://localhost:8501", help="the server's REST (%(default)s)")
    add("--model", default="fives", help="the name of the model (%(default)s)")
    add("--version", type=int, help="its version (the one that is served)")
    add("--signature", default=DEFAULT_SIGNATURE, help="the signature to call (%(default)s)")
    add("--json", action="store_true", help="print all outputs, an object a row")
    add("--timeout", type=_positive, default=10.0, help="seconds to wait for an answer (10)")
    add("--batch", type=_count, default=512, help="rows of a request (%(default)s)")
    return parser


def _positive(text: str) -> float:
    if not 0 < float(text) < math.inf:
        raise ValueError(text)
    return float(text)


def _count(text: str) -> int:
    if int(text) < 1:
        raise ValueError(text)
    return int(text)


def _inputs(
    rows: Sequence[Mapping[str, Any]],
    name: str,
    signatures: Mapping[str, Signature],
    first: int,
) -> dict[str, list]:
    """The rows as columns; `first` is the number of the first one, for messages."""
    # Only the default signature knows the columns that an example is made of.
    types = signatures[DEFAULT_SIGNATURE if name == EXAMPLES else name].inputs
    columns: dict[str, list] = {column: [] for column in types}
    for number, row in enumerate(rows, first):
        for column in row:
            if column not in types:
                known = ", ".join(sorted(types))
                raise RowsError(f"row {number}: unknown column {column!r}. The model has: {known}.")
        for column, dtype in types.items():
            try:
                columns[column].append(_value(row.get(column), dtype))
            except ValueError as error:
                message = f"row {number}: column {column!r}: {error}"
                raise RowsError(f"{message} Received: {row.get(column)!r}.") from error
    for column, dtype in types.items():
        for number, ids in enumerate(columns[column] if dtype == _IDS else (), first):
            if len(ids) != len(columns[column][0]):
                raise RowsError(f"row {number}: {column!r} has another length than in row {first}.")
    if name != EXAMPLES:
        return columns
    values = zip(*columns.values(), strict=True)
    [key] = signatures[name].inputs
    return {key: [_example(dict(zip(columns, row, strict=True))) for row in values]}


def _value(value: Any, dtype: str) -> Any:
    """One value as the server takes it."""
    if dtype == _TEXT:
        return _text(value)
    if dtype == _NUMBER:
        return _number(value)
    if dtype == _IDS:
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise ValueError("expected a list of whole numbers.")
        return value
    raise ValueError(f"its type {dtype} is none that this program can send.")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if type(value) is int:
        return str(value)
    try:
        value.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise ValueError("expected a text.") from error
    return value


def _number(value: Any) -> float:
    if value is None or value == "":
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("expected a number.")
    try:
        number = float(value)
    except ValueError as error:
        raise ValueError("expected a number.") from error
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return _float32(number)


def _float32(value: float) -> float:
    """What a float32 cannot hold becomes infinite, as when TensorFlow converts it."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return math.copysign(math.inf, value)
    return value


def _example(row: Mapping[str, str | float]) -> bytes:
    """A row as a serialized tf.train.Example, without what is missing."""
    features = b""
    for column, value in row.items():
        if isinstance(value, str) and value:
            feature = _field(1, _field(1, value.encode()))  # Feature.bytes_list, BytesList.value
        elif isinstance(value, float) and not math.isnan(value):
            # Feature.float_list, FloatList.value
            feature = _field(2, _field(1, struct.pack("<f", value)))
        else:
            continue
        features += _field(1, _field(1, column.encode()) + _field(2, feature))
    return _field(1, features)


def _field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer that has a length."""
    size, left = b"", len(content)
    while left > 0x7F:
        size += bytes([left & 0x7F | 0x80])
        left >>= 7
    return bytes([number << 3 | 2]) + size + bytes([left]) + content


def _as_base64(value: Any) -> dict[str, str]:
    """How REST takes bytes; json asks for what it cannot write itself."""
    return {"b64": base64.b64encode(value).decode()}


def _plain(value: Any) -> Any:
    """Bytes as text, in lists of any depth."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _reason(error: urllib.error.HTTPError) -> str:
    text = error.read().decode("utf-8", "replace")
    try:
        return json.loads(text)["error"]
    except (ValueError, KeyError, TypeError):
        return text


def _lines(outputs: Mapping[str, list], as_json: bool) -> Iterator[str]:
    if as_json:
        for values in zip(*outputs.values(), strict=True):
            yield json.dumps(dict(zip(outputs, values, strict=True)), sort_keys=True)
    elif "probability" in outputs:
        yield from (f"{value:.7g}" for value in outputs["probability"])
    else:
        raise RowsError(f"--signature: has no probability but {', '.join(outputs)}; use --json.")


if __name__ == "__main__":
    sys.exit(main())
