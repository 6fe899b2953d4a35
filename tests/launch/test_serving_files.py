"""The files that start TensorFlow Serving: valid, and in step with each other and the client."""

import json
import re
import shlex
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf import wrappers_pb2 as wrappers
from google.protobuf.message import Message
from tensorflow_serving.config import model_server_config_pb2

from launch.serving import client
from tests.serving import tiny
from tests.serving.server import TestServer

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "launch/serving"
PAGE = (ROOT / "docs/serving.md").read_text()
CONFIGS = {path.name: path.read_text() for path in PLACE.glob("*.config")}
COMPOSE = yaml.safe_load((PLACE / "docker-compose.yaml").read_text())["services"]["serving"]
DOCUMENTS = list(yaml.safe_load_all((PLACE / "deployment.yaml").read_text()))
CONFIG_MAP, SERVICE, DEPLOYMENT = DOCUMENTS
POD = DEPLOYMENT["spec"]["template"]
[CONTAINER] = POD["spec"]["containers"]
# The oldest that the training jobs run on, and the newest.
VERSIONS = ["1.31.0", kubernetes_validate.latest_version()]
# Some of tensorflow_model_server.
FLAGS = {
    *("port", "rest_api_port", "rest_api_timeout_in_ms", "model_name", "model_base_path"),
    *("model_config_file", "model_config_file_poll_wait_seconds", "file_system_poll_wait_seconds"),
    *("enable_batching", "batching_parameters_file", "monitoring_config_file"),
    *("enable_model_warmup", "tensorflow_session_parallelism", "max_num_load_retries"),
}
# Two messages that tensorflow-serving-api does not bring, written out here.
MESSAGES = """
name: "serving.proto" package: "serving" syntax: "proto3"
dependency: "google/protobuf/wrappers.proto"
message_type {
  name: "BatchingParameters"
  field { name: "max_batch_size" number: 1 INT64 }
  field { name: "batch_timeout_micros" number: 2 INT64 }
  field { name: "max_enqueued_batches" number: 3 INT64 }
  field { name: "num_batch_threads" number: 4 INT64 }
}
message_type {
  name: "PrometheusConfig"
  field { name: "enable" number: 1 type: TYPE_BOOL }
  field { name: "path" number: 2 type: TYPE_STRING }
}
message_type {
  name: "MonitoringConfig"
  field { name: "prometheus_config" number: 1 type: TYPE_MESSAGE type_name: "PrometheusConfig" }
}
""".replace("INT64", 'type: TYPE_MESSAGE type_name: ".google.protobuf.Int64Value"')


def parse(name: str, text: str) -> Message:
    """Reads a text of a message that is written out here."""
    file = text_format.Parse(MESSAGES, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return text_format.Parse(
        text, message_factory.GetMessageClass(pool.FindMessageTypeByName(f"serving.{name}"))()
    )


def flags(arguments: list[str]) -> dict[str, str]:
    return dict(re.fullmatch(r"--([a-z_]+)=(.+)", one).groups() for one in arguments)


class TestConfigs:
    def test_the_newest_version_of_fives_is_served(self):
        text = CONFIGS["models.config"]
        config = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
        [model] = config.model_config_list.config
        assert (model.name, model.base_path) == ("fives", "/models/fives")
        assert model.model_version_policy.latest.num_versions == 1

    def test_a_request_of_the_client_fits_a_batch(self):
        found = parse("BatchingParameters", CONFIGS["batching.config"])
        [batch] = re.findall(r"client.py sends (\d+)", CONFIGS["batching.config"])
        assert client._parser().get_default("batch") == int(batch) <= found.max_batch_size.value
        assert found.num_batch_threads.value == int(CONTAINER["resources"]["limits"]["cpu"])
        assert found.batch_timeout_micros.value > 0
        assert found.max_enqueued_batches.value > 0

    def test_prometheus_finds_the_metrics(self):
        found = parse("MonitoringConfig", CONFIGS["monitoring.config"]).prometheus_config
        notes = POD["metadata"]["annotations"]
        assert (found.enable, found.path) == (True, notes["prometheus.io/path"])
        assert notes["prometheus.io/scrape"] == "true"

    def test_an_unknown_field_is_not_read_over(self):
        with pytest.raises(text_format.ParseError):
            parse("BatchingParameters", "max_batch_sise { value: 1 }")


class TestCompose:
    def test_its_flags_are_those_of_the_server_and_name_files_that_are_mounted(self):
        found = flags(COMPOSE["command"])
        assert set(found) <= FLAGS
        [config] = [one for one in COMPOSE["volumes"] if one["target"] == "/config"]
        assert config["source"] == "."
        files = {Path(value) for value in found.values() if value.endswith(".config")}
        assert {path.parent for path in files} == {Path("/config")}
        assert {path.name for path in files} == set(CONFIGS)

    def test_exports_are_mounted_where_the_model_is_looked_for_and_cannot_be_written(self):
        [exports] = [one for one in COMPOSE["volumes"] if "EXPORTS" in one["source"]]
        assert f'base_path: "{exports["target"]}"' in CONFIGS["models.config"]
        assert all(one["read_only"] for one in COMPOSE["volumes"])

    def test_its_ports_are_those_of_the_client(self):
        ports = {port.rpartition(":")[0].rpartition(":")[2] for port in COMPOSE["ports"]}
        defaults = [client._parser().get_default(name) for name in ("server", "rest")]
        assert ports == {address.rpartition(":")[2] for address in defaults}

    def test_it_serves_the_tensorflow_that_exports(self):
        [pinned] = re.findall(r"^tensorflow==(\d+\.\d+)", _lock(), re.MULTILINE)
        assert COMPOSE["image"].startswith(f"tensorflow/serving:{pinned}.")
        assert CONTAINER["image"] == COMPOSE["image"]

    def test_the_check_of_health_tells_a_server_from_none(self, tmp_path):
        _, *command = COMPOSE["healthcheck"]["test"]
        assert "/8501" in command[-1]
        with TestServer(tmp_path) as server:
            port = server.rest_address.rpartition(":")[2]
            command = [*command[:-1], command[-1].replace("8501", port)]
            assert _ends(command) != 0, "nothing is loaded yet"
            tiny.write(tmp_path / "1")
            server.wait_for(1)
            assert _ends(command) == 0
        assert _ends(command) != 0

    @pytest.mark.parametrize(("state", "healthy"), [("AVAILABLE", True), ("UNAVAILABLE", False)])
    def test_the_check_of_health_reads_the_whole_word(self, state, healthy):
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.end_headers()
                self.wfile.write(f'{{"state": "{state}"}}'.encode())

            def log_message(self, *_):
                pass

        _, *command = COMPOSE["healthcheck"]["test"]
        with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
            threading.Thread(target=server.serve_forever).start()
            try:
                check = command[-1].replace("8501", str(server.server_port))
                assert (_ends([*command[:-1], check]) == 0) == healthy
            finally:
                server.shutdown()


class TestKubernetes:
    @pytest.mark.parametrize("version", VERSIONS)
    @pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one["kind"])
    def test_the_documents_fit_the_schemas(self, version, document):
        kubernetes_validate.validate(document, version, strict=True)

    def test_the_configs_are_those_of_the_directory(self):
        assert CONFIG_MAP["data"] == CONFIGS

    def test_it_is_started_as_by_compose(self):
        assert CONTAINER["args"] == COMPOSE["command"]
        mounts = {one["name"]: one for one in CONTAINER["volumeMounts"]}
        assert {mounts["exports"]["mountPath"], mounts["config"]["mountPath"]} == {
            one["target"] for one in COMPOSE["volumes"]
        }
        assert all(one["readOnly"] for one in mounts.values())
        volumes = {one["name"]: one for one in POD["spec"]["volumes"]}
        assert volumes["config"]["configMap"]["name"] == CONFIG_MAP["metadata"]["name"]
        assert volumes["exports"]["persistentVolumeClaim"]["claimName"] in PAGE

    def test_the_service_finds_the_pods_and_their_ports(self):
        labels = POD["metadata"]["labels"]
        assert SERVICE["spec"]["selector"].items() <= labels.items()
        assert DEPLOYMENT["spec"]["selector"]["matchLabels"].items() <= labels.items()
        ports = {one["name"]: one["containerPort"] for one in CONTAINER["ports"]}
        assert ports == {"grpc": 8500, "rest": 8501}
        for port in SERVICE["spec"]["ports"]:
            assert port["port"] == ports[port["targetPort"]]

    def test_the_probes_ask_what_the_server_has(self):
        assert CONTAINER["readinessProbe"]["httpGet"] == {
            "path": "/v1/models/fives",
            "port": "rest",
        }
        for probe in ("startupProbe", "livenessProbe"):
            assert CONTAINER[probe]["tcpSocket"] == {"port": "grpc"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Serves the tiny model, which the page shows."""
    directory = tmp_path_factory.mktemp("page")
    tiny.write(directory / "3")
    with TestServer(directory) as server:
        server.wait_for(3)
        yield server


class TestPage:
    @pytest.mark.parametrize(
        "line", re.findall(r"^python launch/serving/client\.py (.+)$", PAGE, re.MULTILINE)
    )
    def test_the_flags_of_its_commands_exist(self, line):
        client._parser().parse_args(shlex.split(line))

    def test_it_names_every_flag_of_the_client(self):
        known = set(re.findall(r"(?<=\s)--[a-z]+", client._parser().format_help())) - {"--help"}
        assert {flag for flag in known if f"`{flag}`" not in PAGE} == set()

    def test_its_requests_get_its_answers(self, server):
        pattern = r"^curl localhost:8501(\S+)(?: -d '(.+)')?\n```\n\n```json\n(.+)\n```$"
        found = re.findall(pattern, PAGE, re.MULTILINE)
        assert len(found) == 3
        for path, body, answer in found:
            request = server.rest_address + path, body.encode() or None
            with urllib.request.urlopen(*request, timeout=20) as given:
                assert json.load(given) == json.loads(answer)

    def test_its_program_prints_what_it_says(self, server, capsys):
        section = PAGE.partition("### By gRPC")[2]
        found = re.search(r"```python\n(.+?)```\n\n```\n(.+?)```", section, re.DOTALL)
        program, told = found.groups()
        exec(program.replace("localhost:8500", server.grpc_address), {})
        assert capsys.readouterr().out == told

    def test_its_commands_of_the_client_print_what_it_says(
        self, server, tmp_path, monkeypatch, capsys
    ):
        [rows] = re.findall(r"```json\n(\[.+?\n\])\n```", PAGE, re.DOTALL)
        (tmp_path / "rows.json").write_text(rows)
        monkeypatch.chdir(tmp_path)
        pattern = r"^python launch/serving/client\.py (.+)\n```\n\n```\n((?:[^`].*\n)+)```$"
        found = re.findall(pattern, PAGE, re.MULTILINE)
        assert len(found) == 2
        where = ["--server", server.grpc_address, "--rest", server.rest_address]
        for command, told in found:
            assert client.main([*where, *shlex.split(command)]) == 0
            assert capsys.readouterr().out == told

    def test_its_files_exist(self):
        named = set(re.findall(r"launch/serving/[a-z.-]+[a-z]", PAGE))
        assert {name for name in named if not (ROOT / name).exists()} == set()
        assert {path.name for path in PLACE.glob("*.*")} <= {Path(name).name for name in named}


def _lock() -> str:
    return (ROOT / "requirements-runtime.lock").read_text()


def _ends(command: list[str]) -> int:
    return subprocess.run(command, capture_output=True, timeout=20).returncode
