"""`fives doctor`: what it says is what is there."""

import importlib.metadata
import json
import os
import socket
import stat
import sys
import tempfile

import pytest

from fives_tf.doctor import machine, packages, programs, stores
from fives_tf.doctor.finding import MISSING, OK, WARNING
from fives_tf.doctor.needs import PROGRAMS
from fives_tf.doctor.packages import Package
from fives_tf.doctor.processes import Answer, call_each

BASIC = "search, fit, predict"


@pytest.fixture
def executables(tmp_path, monkeypatch):
    """Makes programs, the only ones that are on the PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))

    def make(**scripts: str) -> None:
        for name, script in scripts.items():
            path = directory / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)

    return make


@pytest.fixture
def loaded(monkeypatch):
    """Lets packages be as a test says, without the time that their imports take."""
    answers = {}

    def call_each(function, asked, seconds):
        good = {"version": "1.2.3", "gpus": [], "schemes": ["s3", "hdfs", "gs"]}
        return [answers.get(name, Answer(good)) for _, name in asked]

    monkeypatch.setattr(packages, "call_each", call_each)
    return answers


@pytest.fixture
def doctor(cli):
    """Runs `fives doctor --json`; its exit code, whether the tasks can be done, all findings."""

    def run(*flags: str) -> tuple[int, dict[str, bool], dict[str, dict[str, str]]]:
        done = cli("doctor", "--json", *flags)
        assert done.stderr == ""
        document = json.loads(done.stdout)
        assert document["ok"] == (done.returncode == 0)
        tasks = {task["name"]: task["ok"] for task in document["tasks"]}
        findings = [finding for task in document["tasks"] for finding in task["findings"]]
        return done.returncode, tasks, {finding["what"]: finding for finding in findings}

    return run


class TestProcesses:
    def test_a_module_that_fails_is_an_answer(self, tmp_path, monkeypatch):
        for name, code in {
            "raises": "raise RuntimeError('a library\\nis missing')",
            "crashes": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "exits": "import sys; sys.exit(3)",
            "ends": "import os; os._exit(4)",
            "needs": "import no_such_module",
            "chats": """import os; print('{"value": 1}'); os.write(1, b'more\\n')""",
            "hangs": "import threading; threading.Event().wait()",
            "good": "__version__ = '1.2'",
        }.items():
            (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        expected = {
            "raises": Answer(problem="RuntimeError: a library"),
            "crashes": Answer(problem="the process was killed by signal 9 (Killed)"),
            "exits": Answer(problem="SystemExit: 3"),
            "ends": Answer(problem="exit code 4"),
            "needs": Answer(problem="ModuleNotFoundError: No module named 'no_such_module'"),
            "chats": Answer({"version": "of an unknown version"}),
            "no_such_package": Answer(None),
            "hangs": Answer(problem="no answer within 3 seconds"),
            "good": Answer({"version": "1.2"}),
        }
        asked = [(module, f"no-such-{module}") for module in expected]
        assert call_each(packages.load, asked, 3) == list(expected.values())

    def test_modules_are_not_looked_for_in_the_working_directory(self, tmp_path, monkeypatch):
        (tmp_path / "lightgbm.py").write_text("raise RuntimeError")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
        [answer] = call_each(packages.load, [("lightgbm", "lightgbm")], 60)
        assert answer.value["version"] == importlib.metadata.version("lightgbm")


class TestPackages:
    def test_an_answer_becomes_a_finding(self):
        package = Package("tree", "tree", "growing", "plant one")
        finding = packages.judge(package, Answer({"version": "2"}))
        assert (finding.state, finding.found, finding.remedy) == (OK, "2", "")
        finding = packages.judge(package, Answer(None))
        assert (finding.state, finding.found) == (MISSING, "not installed")
        finding = packages.judge(package, Answer(problem="OSError: no libgomp"))
        assert (finding.state, finding.found) == (MISSING, "does not load: OSError: no libgomp")
        assert finding.remedy == "plant one"

    def test_without_tensorflow_nothing_can_be_learned(self, loaded, doctor):
        loaded["tensorflow"] = loaded["fives_tf.search"] = Answer(None)
        code, tasks, findings = doctor()
        assert (code, tasks[BASIC]) == (1, False)
        assert findings["tensorflow"]["found"] == "not installed"
        assert findings["fives-tf"]["found"].startswith("fives_tf.search does not load")
        assert findings["GPU"]["found"] == "not known, as TensorFlow does not load"

    def test_tensorflow_io_without_its_native_code_is_missing(self, loaded, doctor):
        loaded["tensorflow"] = Answer({"version": "2.21.0", "gpus": []})
        loaded["tensorflow-io"] = Answer({"version": "0.37.1", "schemes": ["gs"]})
        code, tasks, findings = doctor()
        assert (code, tasks["object storage"]) == (0, False)
        told = "0.37.1, but its native code does not load; TensorFlow is 2.21.0"
        assert findings["tensorflow-io"]["found"] == told
        assert "works with TensorFlow 2.16" in findings["tensorflow-io"]["remedy"]

    def test_gpus_are_named(self, loaded, doctor):
        loaded["tensorflow"] = Answer({"version": "2.16.2", "gpus": ["Tesla T4", "Tesla T4"]})
        assert doctor()[2]["GPU"]["found"] == "2: Tesla T4, Tesla T4"

    def test_the_extras_are_not_needed_for_the_basic_tasks(self, loaded, doctor):
        for name in ("scikit-learn", "lightgbm", "tensorflow-serving-api", "tensorflow-io"):
            loaded[name] = Answer(None)
        code, tasks, findings = doctor()
        assert (code, tasks[BASIC], tasks["scikit-learn"]) == (0, True, False)
        assert findings["lightgbm"]["remedy"] == "pip install 'fives-tf[bench]'"


class TestPrograms:
    def test_without_any(self, executables, loaded, doctor):
        code, tasks, findings = doctor()
        assert code == 0
        assert not tasks["launch"]
        assert not tasks["preprocess on a cluster"]
        for program in PROGRAMS:
            finding = findings[program.name]
            assert finding["state"] == MISSING
            assert finding["found"] == f"{program.command[0]} is not on the PATH"
            assert finding["use"]
            assert finding["remedy"]

    def test_with_all(self, executables, loaded, doctor, tmp_path):
        executables(
            java="""echo 'openjdk version "17.0.9" 2023-10-17' >&2""",
            mvn="printf '\\033[1mApache Maven 3.9.6 (abc)\\033[m\\n'",
            docker='case "$1 $2" in\n'
            "  --version*) echo 'Docker version 28.2.2, build e6534b4' ;;\n"
            "  compose*) echo 'Docker Compose version v2.36.1' ;;\n"
            "  version*) echo 28.2.1 ;;\n"
            "esac",
            kubectl="echo 'Client Version: v1.32.4'\n"
            '[ "$2" = --client ] || echo "Server Version: v1.31.0"',
            sbatch="echo slurm 23.11.4",
            tensorflow_model_server="echo 'TensorFlow ModelServer: 2.16.1-rc0'",
        )
        _, tasks, findings = doctor()
        assert tasks["launch"]
        assert tasks["serving"]
        assert {findings[program.name]["state"] for program in PROGRAMS} == {OK}
        versions = {
            program.name: findings[program.name]["found"].split(", ") for program in PROGRAMS
        }
        place = str(tmp_path / "bin")
        assert versions == {
            "Java": ["17.0.9", f"{place}/java"],
            "Maven": ["3.9.6", f"{place}/mvn"],
            "Docker client": ["28.2.2", f"{place}/docker"],
            "Docker engine": ["28.2.1"],
            "Docker Compose": ["2.36.1"],
            "kubectl": ["v1.32.4", f"{place}/kubectl"],
            "Kubernetes": ["v1.31.0"],
            "sbatch": ["23.11.4", f"{place}/sbatch"],
            "tensorflow_model_server": ["2.16.1-rc0", f"{place}/tensorflow_model_server"],
        }

    def test_that_fail(self, executables, loaded, doctor, monkeypatch):
        monkeypatch.setattr(programs, "SECONDS", 1)
        executables(
            java="""echo 'openjdk version "1.8.0_292"' >&2""",
            docker="[ $1 = --version ] && echo 'Docker version 28.2.2' && exit\n"
            "echo 'no engine at the socket' >&2; exit 1",
            sbatch="exec /bin/sleep 60",
            mvn="kill -KILL $$",
            kubectl="exit 9",
            tensorflow_model_server="echo of an unknown kind",
        )
        _, _, findings = doctor()
        assert findings["Java"]["state"] == WARNING
        assert findings["Java"]["remedy"].startswith("Flink was run with Java 17")
        assert findings["Docker client"]["state"] == OK
        told = {name: (one["state"], one["found"]) for name, one in findings.items()}
        engine = "`docker version --format {{.Server.Version}}`: no engine at the socket"
        assert told["Docker engine"] == (MISSING, engine)
        assert told["sbatch"] == (MISSING, "`sbatch --version`: no answer within 1 seconds")
        killed = "`mvn --version`: the process was killed by signal 9 (Killed)"
        assert told["Maven"] == (MISSING, killed)
        assert told["kubectl"] == (MISSING, "`kubectl version --client`: exit code 9")
        server = "`tensorflow_model_server --version`: tells no version"
        assert told["tensorflow_model_server"] == (MISSING, server)


class TestMachine:
    def test_a_directory_that_cannot_be_written(self, monkeypatch):
        monkeypatch.chdir("/proc")
        finding = machine.working_directory()
        assert finding.state == WARNING
        assert finding.found.startswith("/proc: cannot be written (")
        monkeypatch.setattr(tempfile, "tempdir", "/proc")
        finding = machine.temporary_directory()
        assert finding.state == MISSING
        assert "TMPDIR" in finding.remedy

    def test_a_directory_that_is_gone(self, tmp_path, monkeypatch):
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        assert machine.working_directory().found == "was removed"

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_directory_without_permission(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        assert "Permission denied" in machine.working_directory().found

    def test_little_space_is_a_warning(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert machine.working_directory().state == OK
        assert list(tmp_path.iterdir()) == []
        monkeypatch.setattr(machine, "LITTLE_SPACE", 1 << 60)
        assert machine.working_directory().state == WARNING

    def test_the_limits_of_a_container_count(self, tmp_path):
        assert machine.memory(tmp_path).found.count("GiB") == 2
        assert "limited" not in machine.processor(tmp_path).found
        (tmp_path / "cpu.max").write_text("50000 100000\n")
        assert machine.processor(tmp_path).found.endswith(", limited to the time of 0.5")
        (tmp_path / "memory.max").write_text(f"{1 << 30}\n")
        (tmp_path / "memory.current").write_text(f"{1 << 29}\n")
        finding = machine.memory(tmp_path)
        assert finding.state == WARNING
        assert finding.found.endswith("; the container's limit is 1.0 GiB, 0.5 GiB left")
        (tmp_path / "memory.max").write_text("max\n")
        (tmp_path / "cpu.max").write_text("max 100000\n")
        assert "limit" not in machine.memory(tmp_path).found
        assert "limited" not in machine.processor(tmp_path).found


class TestStores:
    def test_a_store_is_used_and_left_as_it_was(
        self, loaded, doctor, cli, bucket, object_store, monkeypatch
    ):
        monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token-of-a-session")
        code, tasks, findings = doctor("--storage", f"{bucket}/some/directory")
        assert (code, tasks["the store of --storage"]) == (0, True)
        tried = findings[f"{bucket}/some/directory"]
        assert tried["state"] == OK
        assert tried["found"].startswith("listed, wrote, read back and removed a small file in ")
        objects = object_store.client().list_objects_v2(Bucket=bucket.removeprefix("s3://"))
        left = [one["Key"] for one in objects.get("Contents", [])]
        assert not any("fives-doctor" in name for name in left), left
        assert findings["S3 endpoint"]["found"] == f"{object_store.url}: accepts connections"
        keys = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are set"
        assert findings["S3 credentials"]["found"] == keys
        for flags in ([], ["--json"]):
            shown = cli("doctor", "--storage", bucket, *flags)
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
                assert os.environ[name] not in shown.stdout + shown.stderr

    def test_a_store_that_cannot_be_used_fails(self, loaded, doctor, bucket):
        code, tasks, findings = doctor("--storage", "s3://no-such-bucket/x")
        assert (code, tasks[BASIC], tasks["the store of --storage"]) == (1, True, False)
        tried = findings["s3://no-such-bucket/x"]
        assert tried["state"] == MISSING
        assert "s3://no-such-bucket: there is no such bucket" in tried["found"]

    def test_an_endpoint_that_does_not_answer(self, monkeypatch):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        finding = stores.s3_endpoint({"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
        assert finding.state == WARNING
        assert finding.found == f"http://127.0.0.1:{port}: cannot be reached (Connection refused)"

    @pytest.mark.parametrize(
        ("variables", "state", "found"),
        [
            ({}, OK, "none is set, so Amazon S3 in us-east-1; not asked"),
            ({"AWS_REGION": "eu-west-1"}, OK, "none is set, so Amazon S3 in eu-west-1; not asked"),
            ({"AWS_ENDPOINT_URL": "ftp://x"}, WARNING, "ftp://x: is no URL of a store"),
            ({"AWS_ENDPOINT_URL": "http://x:port"}, WARNING, "http://x:port: is no URL of a store"),
            ({"AWS_ENDPOINT_URL": "http://"}, WARNING, "http://: is no URL of a store"),
            (
                {"AWS_CA_BUNDLE": "/absent.pem"},
                WARNING,
                "/absent.pem, the file of certificates, is not there",
            ),
        ],
    )
    def test_the_settings_of_the_endpoint(self, variables, state, found):
        finding = stores.s3_endpoint(variables)
        assert (finding.state, finding.found) == (state, found)

    def test_certificates_must_be_checked(self):
        finding = stores.s3_endpoint({"S3_VERIFY_SSL": "0"})
        assert finding.state == WARNING
        assert finding.found.startswith("S3_VERIFY_SSL: certificates are always checked")

    @pytest.mark.parametrize(
        ("variables", "state", "found"),
        [
            ({"AWS_ACCESS_KEY_ID": "k"}, WARNING, "AWS_ACCESS_KEY_ID is set, but not the other"),
            ({"AWS_PROFILE": "work"}, OK, "AWS_PROFILE is set"),
            ({"AWS_SHARED_CREDENTIALS_FILE": __file__}, OK, f"in {__file__}"),
            ({"AWS_SHARED_CREDENTIALS_FILE": "/absent"}, WARNING, "neither in the environment nor"),
        ],
    )
    def test_where_credentials_come_from(self, variables, state, found):
        finding = stores.s3_credentials(variables)
        assert finding.state == state
        assert finding.found.startswith(found)

    def test_credentials_of_a_url_are_not_shown(self):
        text = "https://me:hidden@store.example:9000: cannot be reached"
        shown = "https://***@store.example:9000: cannot be reached"
        assert stores.without_secrets(text, {}) == shown

    def test_a_path_of_the_disk_is_a_mistake(self, cli):
        done = cli("doctor", "--storage", "dataset")
        assert done.returncode == 2
        assert "--storage: expected the URL of a store" in done.stderr


def test_the_table_tells_what_and_ends_with_a_line_for_each_task(loaded, cli, executables):
    loaded["catboost"] = Answer(None)
    shown = cli("doctor")
    assert shown.returncode == 0, shown.stderr
    lines = [line.split("\t") for line in shown.stdout.splitlines()]
    assert lines[:2] == [[BASIC], ["what", "state", "found", "needed for; how to get it"]]
    missing = next(line for line in lines if line[0] == "catboost")
    assert missing[1:3] == ["missing", "not installed"]
    assert missing[3].endswith("; pip install 'fives-tf[bench]'")
    assert lines[-1] == ["benchmarks: missing: catboost"]
    assert [f"{BASIC}: all is there"] in lines


@pytest.mark.slow
def test_this_machine(doctor):
    code, _, findings = doctor()
    assert code == 0
    for package in ("tensorflow", "apache-beam", "pyarrow", "scikit-learn", "lightgbm"):
        assert findings[package]["found"] == importlib.metadata.version(package)
    assert sys.executable in findings["Python"]["found"]
