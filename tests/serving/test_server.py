"""The test server itself: that it does what TensorFlow Serving does."""

import base64
import json
import shutil
import threading
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests.serving import tiny
from tests.serving.server import TestServer

ROW = {"age": [30.0], "city": ["Rome"], "user id": ["u1"]}
ANSWER = tiny.probability({"age": 30, "city": "Rome", "user id": "u1"})


def predict_request(inputs: dict, name: str = "fives", **spec: object):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = spec.get("signature", "")
    if "version" in spec:
        request.model_spec.version.value = spec["version"]
    for key, values in inputs.items():
        dtype = tiny.COLUMNS.get(key) if isinstance(values, list) else None
        request.inputs[key].CopyFrom(tf.make_tensor_proto(values, dtype))
    request.output_filter.extend(spec.get("output_filter", ()))
    return request


def call(server: TestServer, method: str, request):
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        return getattr(stub, method)(request, timeout=20)


def predict(server: TestServer, inputs: dict, **options: object) -> dict[str, np.ndarray]:
    outputs = call(server, "Predict", predict_request(inputs, **options)).outputs
    return {name: tf.make_ndarray(tensor) for name, tensor in outputs.items()}


def status(server: TestServer, name: str = "fives", version: int | None = None):
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = name
    if version is not None:
        request.model_spec.version.value = version
    with grpc.insecure_channel(server.grpc_address) as channel:
        stub = model_service_pb2_grpc.ModelServiceStub(channel)
        found = stub.GetModelStatus(request, timeout=20).model_version_status
    return {one.version: (one.State.Name(one.state), one.status.error_message) for one in found}


def over_rest(server: TestServer, path: str, body: object = None) -> tuple[int, dict]:
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.rest_address}/v1/models/{path}", data)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class TestVersions:
    @pytest.fixture
    def exports(self, tmp_path):
        tiny.write(tmp_path / "1")
        return tmp_path

    def test_the_next_version_takes_over_and_the_last_one_ends(self, exports):
        with TestServer(exports) as server:
            server.wait_for(1)
            tiny.write(exports / "10", scale=2.0)
            server.wait_for(1, state="END")
            response = call(server, "Predict", predict_request(ROW))
            assert response.model_spec.version.value == 10
            doubled = tiny.probability({"age": 30, "city": "Rome", "user id": "u1"}, scale=2.0)
            assert response.outputs["probability"].float_val == pytest.approx([doubled])
            assert status(server) == {1: ("END", ""), 10: ("AVAILABLE", "")}

    def test_there_is_always_a_version_that_answers(self, exports):
        failed, done = [], threading.Event()

        def ask():
            while not done.is_set():
                try:
                    predict(server, ROW)
                except grpc.RpcError as error:
                    failed.append(error)

        with TestServer(exports, poll_seconds=0.01) as server:
            server.wait_for(1)
            asking = threading.Thread(target=ask)
            asking.start()
            for version in range(2, 6):
                tiny.write(exports / str(version))
                server.wait_for(version)
            done.set()
            asking.join()
        assert failed == []

    def test_without_the_last_version_the_one_before_is_served_again(self, exports):
        tiny.write(exports / "2")
        with TestServer(exports) as server:
            server.wait_for(2)
            assert status(server) == {2: ("AVAILABLE", "")}
            shutil.rmtree(exports / "2")
            server.wait_for(2, state="END")
            assert call(server, "Predict", predict_request(ROW)).model_spec.version.value == 1

    def test_without_any_version_there_is_nothing_to_ask(self, exports):
        with TestServer(exports) as server:
            server.wait_for(1)
            shutil.rmtree(exports / "1")
            server.wait_for(1, state="END")
            with pytest.raises(grpc.RpcError) as error:
                predict(server, ROW)
            assert error.value.code() == grpc.StatusCode.NOT_FOUND

    def test_only_whole_numbers_are_versions(self, exports):
        for name in ("9.3fa2.aside", "v8", "-7", "1.5", "latest"):
            shutil.copytree(exports / "1", exports / name)
        (exports / "99").write_text("a file")
        with TestServer(exports) as server:
            server.wait_for(1)
            assert status(server) == {1: ("AVAILABLE", "")}

    def test_a_version_without_its_graph_waits_and_the_last_one_serves(self, exports):
        with TestServer(exports) as server:
            server.wait_for(1)
            (exports / "2").mkdir()
            server.wait_for(2, state="LOADING")
            assert call(server, "Predict", predict_request(ROW)).model_spec.version.value == 1
            part = exports / "2" / "part"
            shutil.copy(exports / "1/saved_model.pb", part)
            part.rename(exports / "2/saved_model.pb")
            server.wait_for(2)

    def test_a_broken_version_fails_and_the_last_one_serves(self, exports):
        with TestServer(exports) as server:
            server.wait_for(1)
            aside = exports / "2.aside"
            aside.mkdir()
            (aside / "saved_model.pb").write_bytes(b"no graph")
            aside.rename(exports / "2")
            server.wait_for(2, state="END")
            assert status(server, version=2)[2][1] != ""
            assert predict(server, ROW)["probability"] == pytest.approx([ANSWER])
            shutil.rmtree(exports / "2")
            tiny.write(exports / "3")
            server.wait_for(1, state="END")
            assert status(server) == {1: ("END", ""), 2: ("END", ""), 3: ("AVAILABLE", "")}

    def test_waiting_for_what_does_not_come_ends_with_an_error(self, exports):
        with TestServer(exports) as server:
            with pytest.raises(TimeoutError, match="expected version 2 to be AVAILABLE"):
                server.wait_for(2, seconds=0.01)


class TestWarmUp:
    def test_its_requests_are_run_first(self, tmp_path):
        requests = [
            predict_request(ROW),
            predict_request({"ids": np.array([[1, 2]])}, signature="ids"),
        ]
        tiny.write(tmp_path / "1", warm_up=requests)
        with TestServer(tmp_path) as server:
            server.wait_for(1)

    @pytest.mark.parametrize(
        ("request_", "message"),
        [
            (predict_request(ROW, signature="no"), 'Serving signature key "no" not found.'),
            (predict_request({"age": np.array(["x"])}), "DT_FLOAT"),
        ],
        ids=["signature", "dtype"],
    )
    def test_a_version_whose_warm_up_fails_is_not_served(self, tmp_path, request_, message):
        tiny.write(tmp_path / "1")
        tiny.write(tmp_path / "2", warm_up=[request_])
        with TestServer(tmp_path) as server:
            server.wait_for(2, state="END")
            state, told = status(server)[2]
            assert (state, message in told) == ("END", True), told

    def test_a_file_that_is_no_tfrecord_fails_it(self, tmp_path):
        tiny.write(tmp_path / "1", warm_up=[predict_request(ROW)])
        path = tmp_path / "1/assets.extra/tf_serving_warmup_requests"
        path.write_bytes(path.read_bytes()[:-3])
        with TestServer(tmp_path) as server:
            server.wait_for(1, state="END")

    def test_more_than_a_thousand_records_fail_it(self, tmp_path):
        tiny.write(tmp_path / "1", warm_up=[predict_request(ROW)] * 1001)
        with TestServer(tmp_path) as server:
            server.wait_for(1, state="END")
            assert "exceeds the maximum" in status(server)[1][1]


class TestPredict:
    def test_it_answers_in_typed_fields_with_its_version(self, tiny_server):
        response = call(tiny_server, "Predict", predict_request(ROW))
        assert response.outputs["probability"].float_val == pytest.approx([ANSWER])
        assert response.outputs["probability"].tensor_content == b""
        spec = response.model_spec
        assert (spec.name, spec.version.value, spec.signature_name) == (
            "fives", 3, "serving_default",
        )  # fmt: skip

    def test_what_is_left_out_gets_its_default(self, tiny_server):
        answers = predict(tiny_server, {"age": [1.0, 2.0]})["probability"]
        assert answers == pytest.approx([tiny.probability({"age": age}) for age in (1, 2)])
        assert predict(tiny_server, {})["probability"].shape == (0,)

    def test_only_the_outputs_that_are_asked_for_come_back(self, tiny_server):
        assert set(predict(tiny_server, ROW, signature="explain")) == {
            "probability", "logits", "crosses",
        }  # fmt: skip
        only = predict(tiny_server, ROW, signature="explain", output_filter=["crosses"])
        assert only["crosses"].tolist() == [[7, 9]]
        assert set(only) == {"crosses"}

    def test_large_messages_are_accepted(self, tiny_server):
        ages = np.zeros(2_000_000, np.float32)
        request = predict_request({"age": ages})
        unlimited = [("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(tiny_server.grpc_address, options=unlimited) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            answer = stub.Predict(request, timeout=20).outputs["probability"]
        assert answer.tensor_shape.dim[0].size == len(ages)

    @pytest.mark.parametrize(
        ("inputs", "options", "code", "message"),
        [
            ({"age": np.array([3])}, {}, "INVALID_ARGUMENT", "to be DT_FLOAT but DT_INT64"),
            ({"age": np.array([["x"]])}, {}, "INVALID_ARGUMENT", "to be DT_FLOAT but DT_STRING"),
            ({"age": np.float32([[1]])}, {}, "INVALID_ARGUMENT", "the shape [1, 1]"),
            ({"aeg": [1.0]}, {}, "INVALID_ARGUMENT", "aeg"),
            ({**ROW, "more": [1.0]}, {}, "INVALID_ARGUMENT", "Sent extra: ['more']"),
            ({"age": [1.0], "city": ["a", "b"]}, {}, "INVALID_ARGUMENT", "hapes of all inputs"),
            ({}, {"signature": "ids"}, "INVALID_ARGUMENT", "Missing but required: ['ids']"),
            (ROW, {"signature": "no"}, "FAILED_PRECONDITION", 'signature key "no" not found'),
            (ROW, {"name": "no"}, "NOT_FOUND", "Latest(no)"),
            (ROW, {"name": ""}, "INVALID_ARGUMENT", "Missing ModelSpec"),
            (ROW, {"version": 4}, "NOT_FOUND", "Specific(fives, 4)"),
            (ROW, {"output_filter": ["no"]}, "INVALID_ARGUMENT", "alias not found"),
            (ROW, {"output_filter": ["probability"] * 2}, "INVALID_ARGUMENT", "duplicate"),
        ],
    )
    def test_a_wrong_request_gets_the_status_of_tensorflow_serving(
        self, tiny_server, inputs, options, code, message
    ):
        with pytest.raises(grpc.RpcError) as error:
            predict(tiny_server, inputs, **options)
        assert (error.value.code().name, message in error.value.details()) == (code, True), (
            error.value.details()
        )

    def test_a_column_without_a_default_must_be_sent(self, tmp_path):
        tiny.write(tmp_path / "1", defaults=["city"])
        with TestServer(tmp_path) as server:
            server.wait_for(1)
            with pytest.raises(grpc.RpcError, match="age.*no default value provided"):
                predict(server, {"user id": ["u"]})


class TestOtherCalls:
    def test_classify_takes_examples(self, tiny_server):
        request = classification_pb2.ClassificationRequest()
        request.model_spec.name, request.model_spec.signature_name = "fives", "classify"
        request.input.example_list.examples.add().features.feature["age"].float_list.value.append(
            30
        )
        [row] = call(tiny_server, "Classify", request).result.classifications
        chance = tiny.probability({"age": 30})
        assert [one.label for one in row.classes] == ["0", "1"]
        assert [one.score for one in row.classes] == pytest.approx([1 - chance, chance])

    @pytest.mark.parametrize("signature", ["no", "examples", "explain", "text", "classify"])
    def test_classify_refuses_what_is_none_of_its_signatures_or_empty(self, tiny_server, signature):
        request = classification_pb2.ClassificationRequest()
        request.model_spec.name, request.model_spec.signature_name = "fives", signature
        with pytest.raises(grpc.RpcError) as error:
            call(tiny_server, "Classify", request)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    def test_regress_is_refused(self, tiny_server):
        request = regression_pb2.RegressionRequest()
        request.model_spec.name = "fives"
        with pytest.raises(grpc.RpcError) as error:
            call(tiny_server, "Regress", request)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT

    def test_metadata_has_the_signatures(self, tiny_server):
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        request.model_spec.name = "fives"
        response = call(tiny_server, "GetModelMetadata", request)
        found = get_model_metadata_pb2.SignatureDefMap()
        assert response.metadata["signature_def"].Unpack(found)
        assert response.model_spec.version.value == 3
        inputs = found.signature_def["serving_default"].inputs
        assert {name: info.dtype for name, info in inputs.items()} == {
            name: dtype.as_datatype_enum for name, dtype in tiny.COLUMNS.items()
        }
        request.metadata_field[0] = "weights"
        with pytest.raises(grpc.RpcError, match="not supported"):
            call(tiny_server, "GetModelMetadata", request)

    def test_the_status_of_what_is_not_there_is_not_found(self, tiny_server):
        assert status(tiny_server, version=3) == {3: ("AVAILABLE", "")}
        for options in ({"name": "no"}, {"version": 4}):
            with pytest.raises(grpc.RpcError) as error:
                status(tiny_server, **options)
            assert error.value.code() == grpc.StatusCode.NOT_FOUND


class TestRest:
    def test_status_and_metadata(self, tiny_server):
        state = {
            "version": "3",
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        for path in ("fives", "fives/versions/3"):
            assert over_rest(tiny_server, path) == (200, {"model_version_status": [state]})
        code, found = over_rest(tiny_server, "fives/metadata")
        inputs = found["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
        assert (code, inputs["user id"]["dtype"]) == (200, "DT_STRING")
        assert found["model_spec"]["version"] == "3"

    def test_rows_and_columns_say_the_same(self, tiny_server):
        rows = [{"age": 30, "city": "Rome", "user id": "u1"}] * 2
        code, by_rows = over_rest(tiny_server, "fives:predict", {"instances": rows})
        assert (code, by_rows["predictions"]) == (200, pytest.approx([ANSWER] * 2))
        columns = {"inputs": {name: values * 2 for name, values in ROW.items()}}
        code, by_columns = over_rest(tiny_server, "fives/versions/3:predict", columns)
        assert (code, by_columns) == (200, {"outputs": by_rows["predictions"]})

    def test_several_outputs_have_names(self, tiny_server):
        body = {"signature_name": "explain", "inputs": ROW}
        columns = over_rest(tiny_server, "fives:predict", body)[1]["outputs"]
        assert columns["crosses"] == [[7, 9]]
        rows = [{name: values[0] for name, values in ROW.items()}]
        body = {"signature_name": "explain", "instances": rows}
        [row] = over_rest(tiny_server, "fives:predict", body)[1]["predictions"]
        assert row == {name: values[0] for name, values in columns.items()}

    def test_an_empty_list_is_a_column_that_is_left_out(self, tiny_server):
        inputs = {"age": [30], "city": [], "user id": []}
        found = over_rest(tiny_server, "fives:predict", {"inputs": inputs})[1]["outputs"]
        assert found == pytest.approx([tiny.probability({"age": 30})])

    def test_nan_is_a_number(self, tiny_server):
        body = b'{"inputs": {"age": [NaN], "city": ["Rome"], "user id": [""]}}'
        found = over_rest(tiny_server, "fives:predict", body)[1]["outputs"]
        assert found == pytest.approx([tiny.probability({"city": "Rome"})])

    def test_a_single_input_needs_no_name(self, tiny_server):
        for body in ({"inputs": [[1, 1]]}, {"inputs": {"ids": [[1, 1]]}}, {"instances": [[1, 1]]}):
            code, found = over_rest(tiny_server, "fives:predict", {"signature_name": "ids", **body})
            [values] = found.values()
            assert (code, values) == (200, pytest.approx([0.880797]))

    def test_bytes_are_base64_in_both_ways(self, tiny_server):
        b64 = {"b64": base64.b64encode("é\n".encode()).decode()}
        for value in (b64, "é\n"):
            body = {"signature_name": "text", "instances": [value]}
            assert over_rest(tiny_server, "fives:predict", body) == (
                200, {"predictions": [{"echo": "é\n", "echo_bytes": b64}]},
            )  # fmt: skip

    @pytest.mark.parametrize(
        ("path", "body", "code", "message"),
        [
            ("fives:predict", b"{", 400, "JSON Parse error"),
            ("fives:predict", b"[]", 400, "Is not object"),
            ("fives:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
            ("fives:predict", {"inputs": {}, "instances": []}, 400, "expecting only one of"),
            ("fives:predict", {"inputs": {"age": [1]}}, 400, "Missing named input: "),
            ("fives:predict", {"inputs": [1]}, 400, "expecting an object"),
            ("fives:predict", {"instances": []}, 400, "to be a list with values"),
            ("fives:predict", {"instances": [{"age": 1}]}, 400, "keys must be equal to"),
            ("fives:predict", {"inputs": {**ROW, "age": ["x"]}}, 400, "expected type: float"),
            ("fives:predict", {"inputs": {**ROW, "age": [True]}}, 400, "not of expected type"),
            ("fives:predict", {"inputs": {**ROW, "city": [None]}}, 400, "not of expected type"),
            ("fives:predict", {"inputs": {**ROW, "city": [1]}}, 400, "expected type: string"),
            ("fives:predict", {"inputs": {**ROW, "city": [{"b64": "?"}]}}, 400, "Unable to decode"),
            ("fives:predict", {"inputs": {**ROW, "city": ["a", "b"]}}, 400, "hapes of all inputs"),
            ("fives:predict", {"signature_name": "ids", "inputs": [[1], [1, 2]]}, 400, "size"),
            ("fives:predict", {"signature_name": "ids", "inputs": [[1.5, 2]]}, 400, "int64"),
            ("fives:predict", {"signature_name": "ids", "inputs": [[2**64, 2]]}, 400, "range"),
            ("fives:predict", {"signature_name": "no", "inputs": ROW}, 400, '"no" not found'),
            ("fives:predict", {"signature_name": 1, "inputs": ROW}, 400, "must be a string"),
            ("no:predict", {"inputs": ROW}, 404, "Latest(no)"),
            ("fives/versions/4:predict", {"inputs": ROW}, 404, "Specific(fives, 4)"),
            ("fives:guess", {"inputs": ROW}, 400, "Malformed request: POST /v1/models/fives:guess"),
            ("fives:regress", {"inputs": ROW}, 501, "regress over REST"),
            ("no", None, 404, "Could not find any versions of model no"),
            ("fives/versions/4", None, 404, "Could not find version 4 of model fives"),
            ("fives/nothing", None, 400, "Malformed request: GET /v1/models/fives/nothing"),
        ],
    )  # fmt: skip
    def test_a_wrong_request_gets_the_code_of_its_status(
        self, tiny_server, path, body, code, message
    ):
        found, answer = over_rest(tiny_server, path, body)
        assert (found, message in answer["error"]) == (code, True), answer

    @settings(deadline=None, max_examples=30)
    @given(
        st.lists(
            st.tuples(
                st.floats(width=32, allow_nan=True, allow_infinity=False),
                st.text(st.characters(codec="utf-8"), max_size=5),
                st.text(st.characters(codec="utf-8"), max_size=5),
            ),
            min_size=1,
            max_size=5,
        )
    )
    def test_rest_and_grpc_say_the_same(self, tiny_server, rows):
        columns = dict(zip(tiny.COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
        over_grpc = predict(tiny_server, columns)["probability"]
        answer = over_rest(tiny_server, "fives:predict", {"inputs": columns})[1]["outputs"]
        assert np.array_equal(np.float32(answer), over_grpc)


def test_two_servers_have_ports_of_their_own(tiny_server, tmp_path):
    tiny.write(tmp_path / "1")
    with TestServer(tmp_path, name="other") as server:
        server.wait_for(1)
        assert server.grpc_address != tiny_server.grpc_address
        assert over_rest(server, "fives:predict", {"inputs": ROW})[0] == 404
        assert over_rest(server, "other:predict", {"inputs": ROW})[0] == 200


def test_the_fixture_serves_a_directory_once(serving, tmp_path, monkeypatch):
    monkeypatch.delenv("TF_SERVING_ADDRESS", raising=False)
    tiny.write(tmp_path / "4")
    tiny.write(tmp_path / "12")
    found = serving(tmp_path)
    assert serving(tmp_path) is found
    response = over_rest(found, "fives")[1]
    assert response["model_version_status"][0]["version"] == "12"


def test_the_fixture_gives_way_to_a_real_server(serving, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_SERVING_ADDRESS", "real:8500")
    monkeypatch.setenv("TF_SERVING_REST", "http://real:8501")
    found = serving(tmp_path)
    assert (found.grpc_address, found.rest_address) == ("real:8500", "http://real:8501")
