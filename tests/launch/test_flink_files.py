"""What `launch/flink` holds, as far as it can be tried without a Kubernetes cluster."""

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import apache_beam
import kubernetes_validate
import pytest
import yaml
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.stager import Stager

from fives_tf.cli import parse_flags
from launch import flink_local

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "launch/flink/Dockerfile.worker"
DOCUMENTS = list(yaml.safe_load_all((ROOT / "launch/flink/session-cluster.yaml").read_text()))
CONFIG, SERVICE, JOB_MANAGER, TASK_MANAGER = DOCUMENTS


def containers(deployment: dict) -> dict[str, dict]:
    return {one["name"]: one for one in deployment["spec"]["template"]["spec"]["containers"]}


def test_the_linter_has_nothing_to_say():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_of_the_beam_that_is_installed():
    base = f"apache/beam_python3.11_sdk:{apache_beam.__version__}"
    assert re.findall("^FROM (.+)$", DOCKERFILE.read_text(), re.MULTILINE) == [base]
    pinned = (ROOT / "requirements-runtime.lock").read_text()
    assert f"apache-beam=={apache_beam.__version__}\n" in pinned


def test_what_is_copied_is_not_ignored():
    copied = re.findall("^COPY (.+) .+$", DOCKERFILE.read_text(), re.MULTILINE)
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    assert all(f"!{name}" in kept for names in copied for name in names.split())


@pytest.mark.parametrize("version", ["1.31.0", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["kind"])
def test_kubernetes_accepts_the_manifests(document, version):
    kubernetes_validate.validate(document, version, strict=True)


def test_all_parts_have_the_release_of_flink_that_is_tested():
    for container in (
        containers(JOB_MANAGER)["jobmanager"],
        containers(TASK_MANAGER)["taskmanager"],
    ):
        assert container["image"] == f"flink:{flink_local.RELEASE}-java17"


def test_the_command_starts_that_release_too():
    assert parse_flags(["fives", "launch", "flink-local"]).flink == flink_local.RELEASE


def test_the_parts_find_each_other():
    settings = yaml.safe_load(CONFIG["data"]["config.yaml"])
    assert settings["jobmanager.rpc.address"] == SERVICE["metadata"]["name"]
    ports = {port["containerPort"] for port in containers(JOB_MANAGER)["jobmanager"]["ports"]}
    assert ports == {port["port"] for port in SERVICE["spec"]["ports"]}
    assert settings["blob.server.port"] in ports
    labels = JOB_MANAGER["spec"]["template"]["metadata"]["labels"]
    assert SERVICE["spec"]["selector"].items() <= labels.items()
    [pool] = containers(TASK_MANAGER)["workers"]["ports"]
    text = (ROOT / "launch/flink/session-cluster.yaml").read_text()
    assert f"--environment_config=localhost:{pool['containerPort']}" in text


def test_the_setup_file_brings_the_program_to_the_workers(tmp_path):
    options = PipelineOptions([f"--setup_file={ROOT / 'setup.py'}"])
    resources = Stager.create_job_resources(options, str(tmp_path))
    names = {resource.role_payload for resource in resources}
    assert any(b"workflow.tar.gz" in name for name in names)
    [package] = tmp_path.glob("*.tar.gz")
    with tarfile.open(package) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pipelines/encode_log.py", "fives_tf/encoding.py", "pipelines/job_server.xml"} <= held
    assert "launch/flink/session-cluster.yaml" in held
