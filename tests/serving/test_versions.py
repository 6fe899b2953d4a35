"""Versions: whole or not there at all, whoever kills an export and whoever watches it."""

import importlib.util
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
)

from fives_tf import crosses
from fives_tf.encoding import HashField
from fives_tf.errors import UserError
from fives_tf.run import Adjacency
from fives_tf.schema import Schema
from fives_tf.serving import export
from tests.serving import odd, quick
from tests.serving.servables import Servable
from tests.serving.server import TestServer

EXTRA = "assets.extra"
WARM_UP = f"{EXTRA}/tf_serving_warmup_requests"
TOLERANCE = 1e-6


def versions(exports: Path) -> list[int]:
    """What a server takes for versions."""
    return sorted(int(path.name) for path in exports.glob("*") if re.fullmatch("[0-9]+", path.name))


class TestNumbers:
    def test_the_next_one_is_above_all_others(self, log, tmp_path):
        for name in ("3", "10", "x11", "12.aside", "-13"):
            (tmp_path / name).mkdir()
        written = export(log.run, tmp_path, light=True)
        assert written.path == str(tmp_path / "11")
        assert (tmp_path / "11" / "saved_model.pb").exists()

    def test_a_given_one_and_that_one_again(self, log, tmp_path):
        assert export(log.run, tmp_path, version=7, light=True).path == str(tmp_path / "7")
        before = content(tmp_path / "7")
        with pytest.raises(UserError, match=r"version 7 is there already.* the next one, 8"):
            export(log.run, tmp_path, version=7, light=True)
        assert content(tmp_path / "7") == before
        assert versions(tmp_path) == [7]

    def test_places_that_cannot_hold_versions(self, log, model, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(UserError, match="is a file"):
            export(log.run, tmp_path / "file")
        with pytest.raises(UserError, match="is a version itself; name the directory above"):
            export(log.run, model)
        with pytest.raises(UserError, match="--version: expected at least 1. Received: 0"):
            export(log.run, tmp_path, version=0)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]

    def test_an_export_that_fails_leaves_nothing(self, log, tmp_path, monkeypatch):
        def fail(*_: object) -> None:
            raise OSError("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr("fives_tf.serving.versions.card_files", fail)
            with pytest.raises(OSError, match="the disk is full"):
                export(log.run, tmp_path, light=True)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["lock"]


class TestKilled:
    """A real process that is stopped when a file of the version is there."""

    @pytest.mark.parametrize(
        ("moment", "flags"),
        [
            ("*.aside", []),
            ("*.aside/saved_model.pb", ["--light"]),
            (f"*.aside/{EXTRA}/schema.yaml", ["--light"]),
        ],
    )
    def test_no_version_is_seen_and_the_next_export_clears_up(self, log, moment, flags, tmp_path):
        process = begin(log, tmp_path, *flags)
        pause(process, lambda: any(tmp_path.glob(moment)))
        assert versions(tmp_path) == []
        with pytest.raises(UserError, match="another process is at work here"):
            export(log.run, tmp_path, light=True)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert versions(tmp_path) == []
        assert any(tmp_path.glob("*.aside")), "it was killed after its end"

        assert export(log.run, tmp_path, light=True).path == str(tmp_path / "1")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "lock"]
        check(log, tmp_path / "1", light=True)

    def test_one_that_goes_on_is_not_disturbed_by_another(self, log, tmp_path):
        process = begin(log, tmp_path, "--light")
        pause(process, lambda: any(tmp_path.glob("*.aside/saved_model.pb")))
        with pytest.raises(UserError, match="another process is at work here"):
            export(log.run, tmp_path, light=True)
        process.send_signal(signal.SIGCONT)
        told, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert told == f"{tmp_path / '1'}\n"
        check(log, tmp_path / "1", light=True)
        assert export(log.run, tmp_path, light=True).path == str(tmp_path / "2")
        assert versions(tmp_path) == [1, 2]


class TestServed:
    def test_a_client_sees_the_old_model_or_the_new_one_and_never_an_error(self, log, tmp_path):
        columns = log.rows(20)
        export(log.run, tmp_path)
        expected = {
            version: quick.TrainingPath(
                log.run, log.exports[kind] / "1", light=kind == "light"
            ).probability(columns)
            for version, kind in {1: "fives", 2: "light"}.items()
        }
        assert np.abs(expected[1] - expected[2]).max() > 100 * TOLERANCE
        answers, errors, done = [], [], threading.Event()

        def ask(stub: object) -> None:
            while not done.is_set():
                try:
                    answers.append(stub.Predict(predict_request(columns), timeout=60))
                except grpc.RpcError as error:
                    errors.append(error)

        with TestServer(tmp_path, poll_seconds=0.01) as server:
            server.wait_for(1)
            with grpc.insecure_channel(server.grpc_address) as channel:
                stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
                client = threading.Thread(target=ask, args=(stub,))
                client.start()
                try:
                    export(log.run, tmp_path, light=True)
                    server.wait_for(2)
                    server.wait_for(1, state="END")
                    ask_until = len(answers) + 5
                    while len(answers) < ask_until and not errors:
                        time.sleep(0.001)
                finally:
                    done.set()
                    client.join()
        assert errors == []
        seen = [answer.model_spec.version.value for answer in answers]
        assert set(seen) == {1, 2}
        assert seen == sorted(seen)
        for version, answer in zip(seen, answers, strict=True):
            found = tf.make_ndarray(answer.outputs["probability"])
            np.testing.assert_allclose(found, expected[version], rtol=0, atol=TOLERANCE)


class TestFiles:
    def test_what_a_run_found_goes_with_it(self, log, model):
        extra = model / EXTRA
        found = Adjacency.from_bytes((extra / "adjacency.npz").read_bytes())
        for name, value in vars(log.run.adjacency).items():
            np.testing.assert_array_equal(getattr(found, name), value)
        told = crosses.from_json((extra / "crosses.json").read_bytes(), "crosses.json")
        assert len(told) > 2
        if model.parent.name == "light":
            assert {cross.fields for cross in told} <= {cross.fields for cross in log.run.crosses}
        else:
            assert told == log.run.crosses
        assert Schema.parse((extra / "schema.yaml").read_text()) == log.dataset.schema

    def test_the_card_for_programs(self, log, model):
        card = json.loads((model / EXTRA / "model_card.json").read_text())
        schema = log.dataset.schema
        assert card["model"] == model.parent.name
        assert {column["name"]: column["type"] for column in card["columns"]} == {
            column.name: "float32" if column.numeric else "string" for column in schema.columns
        }
        assert [
            (field["name"], field["ids"]) for one in card["columns"] for field in one["fields"]
        ] == [(field.name, field.size) for field in log.dataset.encoding.fields]
        assert {one["name"]: one["missing"] for one in card["columns"]}["n@2"] == ["", "-1"]
        valid = card["metrics"]["valid"]
        assert valid["rows"] == log.dataset.split("valid").rows
        assert 0 < valid["auc"] < 1
        assert valid["log_loss"] > 0
        assert card["versions"]["tensorflow"] == tf.__version__
        assert {"fives-tf", "keras", "python"} < card["versions"].keys()
        for name, split in card["data"]["splits"].items():
            found = log.dataset.split(name)
            assert (split["rows"], split["clicks"]) == (found.rows, found.clicks)
        explained = quick.Loaded(model).run("explain", log.rows(1))
        assert len(card["crosses"]) == explained["crosses"].shape[1]
        assert card["parameters"] == parameters(model)

    def test_the_card_for_people(self, log, model):
        text = (model / EXTRA / "model_card.md").read_text()
        for column in log.dataset.schema.columns:
            assert f"| `{column.name}` |" in text
        card = json.loads((model / EXTRA / "model_card.json").read_text())
        for cross in card["crosses"]:
            assert f"| `{cross['name']}` |" in text
        assert f"{card['metrics']['valid']['auc']:.5f}" in text

    def test_nothing_else_is_there(self, model):
        assert {path.name for path in model.iterdir()} <= {
            "saved_model.pb", "variables", "assets", EXTRA, "fingerprint.pb",
        }  # fmt: skip
        assert not [path for path in model.rglob("*") if path.name.endswith(".aside")]

    def test_signatures_are_those_that_were_agreed(self, log, model):
        signatures = quick.Loaded(model).signatures
        raw = {
            column.name: "DT_FLOAT" if column.numeric else "DT_STRING"
            for column in log.dataset.schema.columns
        }
        text, ids = {"inputs": "DT_STRING"}, {"ids": "DT_INT64"}
        one = {"probability": "DT_FLOAT"}
        more = one | {"logits": "DT_FLOAT", "crosses": "DT_INT64"}
        classified = {"classes": "DT_STRING", "scores": "DT_FLOAT"}
        expected = {
            "serving_default": (raw, one),
            "explain": (raw, more),
            "examples": (text, one),
            "classify": (text, classified),
            "ids": (ids, one),
        }
        found = {
            name: (types(one.inputs), types(one.outputs))
            for name, one in signatures.items()
            if not name.startswith("__")
        }
        assert found == expected
        for name in ("serving_default", "explain"):
            for column, info in signatures[name].inputs.items():
                default = signatures[name].defaults[column]
                assert tf.make_ndarray(default).shape == (0,)
                assert default.dtype == info.dtype
                assert tf.TensorShape(info.tensor_shape).as_list() == [None]


class TestWarmUp:
    def test_every_request_is_answered(self, model):
        servable = Servable("fives", 1, model)
        kinds = set()
        for record in records(model):
            if record.WhichOneof("log_type") == "classify_log":
                request = record.classify_log.request
                count = len(request.input.example_list.examples)
                assert len(servable.classify(request).result.classifications) == count
            else:
                request = record.predict_log.request
                assert len(servable.predict(request).outputs["probability"].float_val) > 0
            kinds.add(request.model_spec.signature_name)
        assert kinds == {"serving_default", "explain", "examples", "classify", "ids"}

    def test_its_rows_are_those_of_the_validation_split(self, log, model):
        path = quick.TrainingPath(log.run, model, light=True)
        [(valid, _)] = log.dataset.read("valid", 10_000)
        valid = {tuple(row) for row in valid.numpy().tolist()}
        requests = {"serving_default": [], "ids": []}
        for record in records(model):
            request = record.predict_log.request
            if request.model_spec.signature_name in requests:
                tensors = {name: tf.make_ndarray(one) for name, one in request.inputs.items()}
                requests[request.model_spec.signature_name].append(tensors)
        told = [
            i for i, field in enumerate(path.encoding.fields) if not isinstance(field, HashField)
        ]
        for columns, ids in zip(requests["serving_default"], requests["ids"], strict=True):
            assert {tuple(row) for row in ids["ids"].tolist()} <= valid
            np.testing.assert_array_equal(path.encode(columns)[:, told], ids["ids"][:, told])
        assert [len(one["ids"]) for one in requests["ids"]] == [1, 32]

    def test_without_tensorflow_serving_api_there_is_none(self, log, tmp_path, monkeypatch, capsys):
        assert importlib.util.find_spec("tensorflow_serving") is not None
        monkeypatch.setitem(sys.modules, "tensorflow_serving.apis", None)
        written = Path(export(log.run, tmp_path, light=True).path)
        assert "no warm-up requests: they need `pip install fives-tf[serving]`" in (
            capsys.readouterr().err
        )
        assert not (written / WARM_UP).exists()
        check(log, written, light=True)


class TestCommand:
    def test_help(self, cli):
        shown = cli("export", "--help")
        assert shown.returncode == 0
        for flag in ("--to", "--version", "--light", "--dataset"):
            assert flag in shown.stdout

    def test_it_writes_and_tells_where(self, cli, log, tmp_path):
        done = cli("export", log.run.directory, "--to", tmp_path, "--version", 5, "--light")
        assert (done.returncode, done.stdout) == (0, f"{tmp_path / '5'}\n")
        check(log, tmp_path / "5", light=True)
        again = cli("export", log.run.directory, "--to", tmp_path, "--version", 5, "--light")
        assert again.returncode == 2
        assert "version 5 is there already" in again.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["nowhere", "--to", "exports"], "nowhere: no such directory"),
            (["{tmp}", "--to", "exports"], "there is no run.json in it"),
            (["{run}", "--to", "{run}/run.json"], "is a file"),
            (["{run}", "--to", "exports", "--version", "0"], "expected at least 1"),
            (["{run}", "--to", "exports", "--version", "one"], "invalid int value: 'one'"),
            (["{run}"], "--to"),
            (["{run}", "--to", "exports", "--dataset", "{tmp}"], "is no dataset directory"),
        ],
    )
    def test_mistakes_are_told_in_a_line(self, cli, log, tmp_path, monkeypatch, arguments, message):
        monkeypatch.chdir(tmp_path)
        places = {"tmp": tmp_path, "run": log.run.directory}
        done = cli("export", *(word.format(**places) for word in arguments))
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "exports").exists()


def begin(log: odd.Odd, exports: Path, *flags: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "fives_tf.cli", "export", log.run.directory, "--to", exports]
    pipe = subprocess.PIPE
    words = [str(word) for word in (*command, *flags)]
    return subprocess.Popen(words, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def pause(process: subprocess.Popen, arrived: Callable[[], bool]) -> None:
    """Stops a process, for a while, as soon as it has come so far."""
    while not arrived():
        assert process.poll() is None, "the export ended before it could be stopped"
        time.sleep(0.0005)
    process.send_signal(signal.SIGSTOP)


def check(log: odd.Odd, version: Path, light: bool) -> None:
    """A version says what it must."""
    columns = log.rows(10)
    expected = quick.TrainingPath(log.run, version, light).probability(columns)
    found = quick.Loaded(version).probability("serving_default", columns)
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def predict_request(columns: quick.Columns) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "fives"
    for name, values in columns.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
    return request


def records(model: Path) -> list[prediction_log_pb2.PredictionLog]:
    read = tf.data.TFRecordDataset(str(model / WARM_UP)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record) for record in read]


def types(infos: dict) -> dict[str, str]:
    return {name: types_pb2.DataType.Name(info.dtype) for name, info in infos.items()}


def parameters(model: Path) -> int:
    """How many numbers the checkpoint holds that are no whole numbers."""
    checkpoint = tf.train.load_checkpoint(str(model / "variables" / "variables"))
    kinds = checkpoint.get_variable_to_dtype_map()
    shapes = checkpoint.get_variable_to_shape_map()
    return sum(int(np.prod(shapes[name])) for name, kind in kinds.items() if kind.is_floating)


def content(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
