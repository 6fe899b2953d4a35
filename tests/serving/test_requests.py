"""Requests as no one should send them, and as some will: right answers, or INVALID_ARGUMENT."""

import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.serving import odd, quick

TOLERANCE = 1e-6
INVALID = grpc.StatusCode.INVALID_ARGUMENT
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


@dataclass(frozen=True, eq=False)
class Served:
    """A server of a model, and what the model must say."""

    log: odd.Odd
    path: quick.TrainingPath
    stub: Any
    rest: str

    def ask(
        self, inputs: dict, signature: str = "", name: str = "probability", model: str = "fives"
    ) -> np.ndarray:
        """An output over gRPC."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = model, signature
        for alias, values in inputs.items():
            request.inputs[alias].CopyFrom(tf.make_tensor_proto(values))
        return tf.make_ndarray(self.stub.Predict(request, timeout=60).outputs[name])

    def post(self, body: object) -> tuple[int, dict]:
        """The status and the answer over REST."""
        address = f"{self.rest}/v1/models/fives:predict"
        request = urllib.request.Request(address, json.dumps(body, default=_base64).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def check(self, columns: quick.Columns) -> None:
        """The answers of all signatures for raw columns are those of the training path."""
        ids = self.path.encode(columns)
        expected = self.path.scores(ids)
        for found in (
            self.ask(columns),
            self.ask(columns, "explain"),
            self.ask({"inputs": quick.serialized(columns)}, "examples"),
            self.ask({"ids": ids.astype(np.int64)}, "ids"),
        ):
            np.testing.assert_allclose(found, expected.probability, rtol=0, atol=TOLERANCE)
        crosses = self.ask(columns, "explain", "crosses")
        np.testing.assert_array_equal(crosses, expected.crosses)

    def refuses(self, inputs: dict, signature: str = "", code: grpc.StatusCode = INVALID) -> str:
        """Why a request is refused; a good one is still answered afterwards."""
        with pytest.raises(grpc.RpcError) as error:
            self.ask(inputs, signature)
        assert error.value.code() == code, error.value.details()
        self.answers()
        return error.value.details()

    def refuses_rest(self, body: object) -> str:
        """The same over REST."""
        code, answer = self.post(body)
        assert code == 400, answer
        self.answers()
        return answer["error"]

    def answers(self) -> None:
        """A good request is answered rightly."""
        columns = self.log.rows(3)
        expected = self.path.probability(columns)
        np.testing.assert_allclose(self.ask(columns), expected, rtol=0, atol=TOLERANCE)


@pytest.fixture(scope="module", params=["fives", "light"])
def served(request, serving, log):
    exports = log.exports[request.param]
    addresses = serving(exports)
    path = quick.TrainingPath(log.run, exports / "1", request.param == "light")
    with grpc.insecure_channel(addresses.grpc_address, UNLIMITED) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        yield Served(log, path, stub, addresses.rest_address)


def changed(columns: quick.Columns, **values: list) -> quick.Columns:
    """The columns with other values in some of them, by names without odd signs."""
    names = {"user": "user id", "number": "num er", "marked": "n@2", "hashed": odd.HASHED}
    new = {names[name]: column(own) for name, own in values.items()}
    return columns | new


def column(values: list) -> np.ndarray:
    return np.array(values, object if isinstance(values[0], bytes) else np.float32)


def as_json(columns: quick.Columns) -> dict[str, list]:
    return {name: values.tolist() for name, values in columns.items()}


class TestAnswers:
    def test_rows_of_the_log(self, served):
        served.check(served.log.rows(200))

    def test_unknown_categories(self, served):
        columns = changed(
            served.log.rows(4),
            user=[b"nobody", b"X", b" x", b"x "],
            hashed=[b"nobody", b"S1", "ÿ".encode(), b"s1"],
        )
        known = served.path.encode(served.log.rows(4))
        assert (served.path.encode(columns) != known).any()
        served.check(columns)

    def test_numbers_that_are_none_or_without_end(self, served):
        inf, nan = np.inf, np.nan
        columns = changed(
            served.log.rows(8),
            number=[nan, inf, -inf, 1e38, -1e38, 1e-45, -0.0, 0.0],
            marked=[-1.0, -1.0000001, nan, inf, -inf, -0.99999994, -1e-45, -0.0],
        )
        served.check(columns)

    @pytest.mark.parametrize("missing", ["user id", "num er", "n@2", odd.HASHED, "ü"])
    def test_a_column_that_is_left_out_is_missing_in_all_rows(self, served, missing):
        columns = served.log.rows(5)
        empty = np.full(5, b"", object) if columns[missing].dtype == object else [np.nan] * 5
        expected = served.path.probability(columns | {missing: column(list(empty))})
        rest = {name: values for name, values in columns.items() if name != missing}
        explained = served.ask(rest, "explain")
        for found in (served.ask(rest), explained):
            np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)
        found = served.ask({"inputs": quick.serialized(rest)}, "examples")
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)

    def test_only_one_column_is_there(self, served):
        for name in ("user id", "n@2"):
            columns = {
                other: values
                if other == name
                else column([b"" if values.dtype == object else np.nan] * 3)
                for other, values in served.log.rows(3).items()
            }
            found = served.ask({name: columns[name]})
            expected = served.path.probability(columns)
            np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)

    def test_no_rows(self, served):
        columns = served.log.rows(0)
        width = len(served.path.encoding.fields)
        assert served.ask(columns).shape == (0,)
        assert served.ask({}).shape == (0,)
        assert served.ask(columns, "explain", "logits").shape[0] == 0
        assert served.ask({"inputs": np.array([], object)}, "examples").shape == (0,)
        assert served.ask({"ids": np.empty((0, width), np.int64)}, "ids").shape == (0,)
        assert served.post({"inputs": as_json(columns)}) == (200, {"outputs": []})

    def test_a_hundred_thousand_rows(self, served):
        few = served.log.rows(1000)
        many = {name: np.tile(values, 100) for name, values in few.items()}
        expected = np.tile(served.path.probability(few), 100)
        np.testing.assert_allclose(served.ask(many), expected, rtol=0, atol=TOLERANCE)

    @pytest.mark.parametrize("size", [1 << 20, 10 << 20])
    def test_strings_of_megabytes(self, served, size):
        long = b"long" * (size // 4)
        served.check(changed(served.log.rows(2), user=[long, b"x"], hashed=[long, long[:-1]]))

    @pytest.mark.parametrize(
        "text",
        [b"\0", b"x\0", b"\xff\xfe", b"x\n", b"\n", b"x\ty", b"0\tx", b"x\r", b"x\n0\ty", b"\xc3"],
    )
    def test_strings_that_are_no_text(self, served, text):
        served.check(changed(served.log.rows(2), user=[text, b"x"], hashed=[text, b"x"]))


class TestBothProtocols:
    def test_rest_says_what_grpc_says(self, served):
        columns = changed(served.log.rows(6), marked=[np.nan, np.inf, -np.inf, -1.0, 0.0, 7.5])
        expected = served.ask(columns)
        by_column = served.post({"inputs": as_json(columns)})
        rows = [
            dict(zip(columns, row, strict=True))
            for row in zip(*as_json(columns).values(), strict=True)
        ]
        by_row = served.post({"instances": rows})
        np.testing.assert_array_equal(np.float32(by_column[1]["outputs"]), expected)
        np.testing.assert_array_equal(np.float32(by_row[1]["predictions"]), expected)

    def test_every_signature_over_rest(self, served):
        columns = served.log.rows(4)
        ids = served.path.encode(columns)
        expected = served.path.scores(ids)
        for signature, inputs in {
            "explain": as_json(columns),
            "examples": quick.serialized(columns).tolist(),
            "ids": ids.tolist(),
        }.items():
            code, answer = served.post({"signature_name": signature, "inputs": inputs})
            assert code == 200
            found = answer["outputs"]
            probability = found["probability"] if signature == "explain" else found
            np.testing.assert_allclose(probability, expected.probability, rtol=0, atol=TOLERANCE)
        np.testing.assert_array_equal(
            served.post({"signature_name": "explain", "inputs": as_json(columns)})[1]["outputs"][
                "crosses"
            ],
            expected.crosses,
        )

    def test_rest_asks_for_every_column_and_takes_an_empty_one(self, served):
        columns = served.log.rows(3)
        sent = as_json(columns)
        del sent["user id"]
        assert "user id" in served.refuses_rest({"inputs": sent})
        code, answer = served.post({"inputs": sent | {"user id": []}})
        assert code == 200
        expected = served.path.probability(changed(columns, user=[b"", b"", b""]))
        np.testing.assert_allclose(answer["outputs"], expected, rtol=0, atol=TOLERANCE)

    def test_classify(self, served):
        columns = served.log.rows(5)
        request = classification_pb2.ClassificationRequest()
        request.model_spec.name, request.model_spec.signature_name = "fives", "classify"
        for one in quick.serialized(columns):
            request.input.example_list.examples.add().ParseFromString(one)
        found = served.stub.Classify(request, timeout=60).result.classifications
        assert [[one.label for one in row.classes] for row in found] == [["0", "1"]] * 5
        scores = np.array([[one.score for one in row.classes] for row in found])
        expected = served.path.probability(columns)
        np.testing.assert_allclose(scores[:, 1], expected, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=0, atol=TOLERANCE)


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("num er", np.array([1, 2], np.int64)),
            ("num er", np.array([1.0, 2.0], np.float64)),
            ("num er", np.array([b"1", b"2"], object)),
            ("user id", np.array([1.0, 2.0], np.float32)),
            ("user id", np.array([[b"x", b"y"]], object)),
            ("num er", np.array(1.0, np.float32)),
        ],
    )
    def test_another_type_or_rank(self, served, name, value):
        assert name in served.refuses(served.log.rows(2) | {name: value})

    @pytest.mark.parametrize("length", [1, 2, 4])
    @pytest.mark.parametrize("name", ["user id", "n@2"])
    def test_lengths_that_differ(self, served, name, length):
        columns = served.log.rows(3) | {name: served.log.columns[name][:length]}
        assert "same length" in served.refuses(columns)
        assert "same length" in served.refuses(columns, "explain")
        assert "same length" in served.refuses_rest({"inputs": as_json(columns)})

    @pytest.mark.parametrize("garbage", [b"garbage", b"\0", b"\x0a", b"\x0a\x05\x0a"])
    def test_what_is_no_example(self, served, garbage):
        good = quick.serialized(served.log.rows(1))[0]
        inputs = np.array([good, garbage], object)
        served.refuses({"inputs": inputs}, "examples")
        served.refuses_rest({"signature_name": "examples", "inputs": inputs.tolist()})

    @pytest.mark.parametrize(
        ("name", "feature"),
        [
            ("num er", {"int64_list": {"value": [1]}}),
            ("num er", {"bytes_list": {"value": [b"1"]}}),
            ("user id", {"float_list": {"value": [1.0]}}),
            ("num er", {"float_list": {"value": [1.0, 2.0]}}),
            ("user id", {"bytes_list": {"value": [b"x", b"y"]}}),
        ],
    )
    def test_features_of_another_type_or_of_two_values(self, served, name, feature):
        example = tf.train.Example.FromString(quick.serialized(served.log.rows(1))[0])
        example.features.feature[name].CopyFrom(tf.train.Feature(**feature))
        inputs = np.array([example.SerializeToString()], object)
        assert name in served.refuses({"inputs": inputs}, "examples")

    def test_features_that_no_column_has_are_passed_over(self, served):
        example = tf.train.Example.FromString(quick.serialized(served.log.rows(1))[0])
        example.features.feature["nothing"].int64_list.value.extend([1, 2, 3])
        found = served.ask({"inputs": np.array([example.SerializeToString()], object)}, "examples")
        expected = served.path.probability(served.log.rows(1))
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)

    @pytest.mark.parametrize("place", [0, 5, -1])
    def test_ids_that_a_field_does_not_have(self, served, place):
        good = served.path.encode(served.log.rows(2)).astype(np.int64)
        encoding = served.path.encoding
        low, size = encoding.offsets[place], encoding.fields[place].size
        for wrong in (-1, low - 1, low + size, encoding.size, 2**31, 2**40, -(2**63), 2**63 - 1):
            ids = good.copy()
            ids[1, place] = wrong
            served.refuses({"ids": ids}, "ids")

    def test_rows_of_ids_of_another_width(self, served):
        good = served.path.encode(served.log.rows(2)).astype(np.int64)
        for ids in (good[:, :-1], np.repeat(good, 2, axis=1), good[0], good[None]):
            served.refuses({"ids": ids}, "ids")
            served.refuses_rest({"signature_name": "ids", "inputs": {"ids": ids.tolist()}})

    def test_an_unknown_input(self, served):
        columns = served.log.rows(2)
        assert "nothing" in served.refuses(columns | {"nothing": columns["user id"]})
        # The name that the graph gives a column is not the column's.
        renamed = {name.replace(" ", "_"): values for name, values in columns.items()}
        served.refuses(renamed)

    def test_an_unknown_signature_or_model(self, served):
        columns = served.log.rows(2)
        served.refuses(columns, "nothing", grpc.StatusCode.FAILED_PRECONDITION)
        served.refuses_rest({"signature_name": "nothing", "inputs": as_json(columns)})
        with pytest.raises(grpc.RpcError) as error:
            served.ask(columns, model="nothing")
        assert error.value.code() == grpc.StatusCode.NOT_FOUND
        served.answers()


def _base64(value: bytes) -> Any:
    """Bytes as text where they are such, and else as REST takes them."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}
