"""What is checked before a pipeline is submitted, against servers that really answer, or do not."""

import http.server
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile

import pytest
from apache_beam.options.pipeline_options import DebugOptions, FlinkRunnerOptions, PortableOptions

from fives_tf.errors import UserError
from pipelines import flink, job_server, runner, submission

needs_java = pytest.mark.skipif(not shutil.which("java"), reason="java is not on the PATH")
HERE = "--environment_type=LOOPBACK"


@pytest.fixture
def flink_at():
    """Answers as a JobManager does; yields a function that tells where, given the answer."""
    servers = []

    def serve(settings: dict[str, str] | None = None, **overview: object) -> str:
        answer = {"flink-version": "1.19.3", "taskmanagers": 2, "slots-total": 4, **overview}

        answers = {"/overview": answer}
        if settings is not None:
            pairs = [{"key": key, "value": value} for key, value in settings.items()]
            answers["/jobmanager/config"] = pairs

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200 if self.path in answers else 404)
                self.end_headers()
                self.wfile.write(json.dumps(answers.get(self.path)).encode())

            def log_message(self, *args):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def jar(tmp_path):
    """Writes a jar that names its versions as a job server does."""

    def write(beam: str = "2.77.0", flink: str = "1.19.0") -> str:
        path = tmp_path / "job-server.jar"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("org/apache/beam/sdk/sdk.properties", f"# SDK\nversion={beam}\n")
            archive.writestr(".flink-runtime.version.properties", f"project.version={flink}\n")
        return str(path)

    return write


def prepare(*flags: str, paths: tuple[str, ...] = ("s3://b/log.csv",)):
    options = runner.pipeline_options(list(flags))
    submission.prepare(options, paths)
    return options


def on_flink(master: str, *flags: str):
    return prepare("--runner=FlinkRunner", f"--flink_master={master}", HERE, *flags)


def test_the_in_process_runner_takes_any_path():
    prepare(paths=("log.csv",))


@pytest.mark.parametrize("name", ["FlinkRunner", "SparkRunner", "PortableRunner", "DataflowRunner"])
def test_a_local_path_is_refused_if_the_workers_are_elsewhere(name):
    flags = [f"--runner={name}", "--flink_master=h:1", "--spark_master_url=spark://h:1"]
    with pytest.raises(UserError, match=r"^/log.csv: .* s3://, or give --shared_paths"):
        prepare(*flags, paths=("s3://b/a.csv", "/log.csv"))
    with pytest.raises(UserError, match=r"^log.csv: is relative .* give the whole path, /"):
        prepare(*flags, "--shared_paths", paths=("log.csv",))
    with pytest.raises(UserError, match="its workers would lack this program; give --setup_file"):
        prepare(*flags, "--shared_paths", paths=("/log.csv",))


def test_workers_in_this_process_see_its_files_whatever_the_cluster():
    with pytest.raises(UserError, match="^h:1: no Flink cluster answers"):
        prepare("--runner=FlinkRunner", "--flink_master=h:1", HERE, paths=("log.csv",))
    prepare("--runner=SparkRunner", paths=("log.csv",))


@pytest.mark.parametrize(
    "flag", ["--setup_file=setup.py", "--sdk_container_image=i", "--environment_config=i"]
)
def test_there_are_several_ways_to_bring_the_program_to_the_workers(flag):
    prepare("--runner=SparkRunner", "--spark_master_url=spark://h:1", flag)


def test_a_job_server_that_does_not_answer_is_told():
    with pytest.raises(UserError, match="needs --job_endpoint=HOST:PORT"):
        prepare("--runner=PortableRunner", HERE)
    for wrong in ("127.0.0.1:1", "nonsense"):
        with pytest.raises(UserError, match=f"--job_endpoint={wrong}: no job server answers"):
            prepare("--runner=PortableRunner", f"--job_endpoint={wrong}", HERE)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        prepare("--runner=PortableRunner", f"--job_endpoint={address}", HERE)


def test_a_cluster_that_is_not_there_gets_one_message(cli, small_log):
    start = time.monotonic()
    flags = ["--runner=FlinkRunner", "--flink_master=127.0.0.1:1", HERE]
    log, schema = small_log / "log.csv", small_log / "schema.yaml"
    done = cli("preprocess", log, f"--schema={schema}", "--out=/nowhere", *flags)
    assert done.returncode == 2
    assert done.stderr.startswith("fives preprocess: 127.0.0.1:1: no Flink cluster answers there (")
    assert done.stderr.endswith("start a cluster by `fives launch flink-local`.\n")
    assert time.monotonic() - start < 30


def test_a_cluster_that_accepts_and_is_silent_is_told_too(monkeypatch):
    monkeypatch.setattr(flink, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(UserError, match="no Flink cluster answers there"):
            on_flink(f"127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize(
    ("overview", "flags", "message"),
    [
        ({"flink-version": "1.18.1"}, [], "runs Flink 1.18, for which Beam .* no job server; it"),
        ({"flink-version": "2.0.1"}, ["--flink_version=1.19"], "not --flink_version=1.19"),
        ({"taskmanagers": 0}, [], "has no TaskManager"),
    ],
)
def test_a_cluster_that_does_not_fit_is_refused(flink_at, overview, flags, message):
    with pytest.raises(UserError, match=message):
        on_flink(flink_at(**overview), *flags)


def test_a_job_server_that_does_not_fit_is_refused(flink_at, jar, tmp_path):
    master = flink_at()
    with pytest.raises(UserError, match="is a job server for Flink 2.0, but .* runs Flink 1.19"):
        on_flink(master, f"--flink_job_server_jar={jar(flink='2.0.1')}")
    with pytest.raises(UserError, match="of Beam 2.62.0, .*accept it by --job_server_beam=2.62.0"):
        on_flink(master, f"--flink_job_server_jar={jar(beam='2.62.0')}")
    with pytest.raises(UserError, match="nowhere.jar: no such file; correct --flink_job_server"):
        on_flink(master, "--flink_job_server_jar=/nowhere.jar")
    (tmp_path / "text.jar").write_text("no jar")
    with pytest.raises(UserError, match="text.jar: is no job server of Beam"):
        on_flink(master, f"--flink_job_server_jar={tmp_path / 'text.jar'}")


@needs_java
def test_a_jar_that_does_not_start_is_told(flink_at, jar):
    message = "job-server.jar: the job server did not start: Error: Invalid or corrupt jarfile"
    with pytest.raises(UserError, match=message):
        on_flink(flink_at(), f"--flink_job_server_jar={jar()}")


def test_a_job_server_ends_with_the_process_that_started_it(tmp_path):
    program = "import time; open('started', 'w').close(); time.sleep(600)"
    sleep = [sys.executable, "-c", program]
    command = ["sh", "-c", flink._UNTIL_STDIN_CLOSES, "sh", *sleep]
    with subprocess.Popen(command, stdin=subprocess.PIPE, cwd=tmp_path) as process:
        while not (tmp_path / "started").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.stdin.close()
        assert process.wait(timeout=20) == 128 + 15


def test_what_is_not_given_comes_from_the_cluster(flink_at, jar, monkeypatch):
    monkeypatch.setattr(flink, "_start_job_server", lambda options: None)
    given = f"--flink_job_server_jar={jar()}"
    options = on_flink(flink_at(), given)
    assert options.view_as(FlinkRunnerOptions).parallelism == 4
    assert options.view_as(FlinkRunnerOptions).flink_version == "1.19"
    assert options.view_as(PortableOptions).environment_cache_millis == 60_000
    options = on_flink(flink_at(), given, "--parallelism=1", "--environment_cache_millis=5")
    assert options.view_as(FlinkRunnerOptions).parallelism == 1
    assert options.view_as(PortableOptions).environment_cache_millis == "5"


@pytest.mark.parametrize(
    ("settings", "warned"),
    [
        (None, False),
        ({}, True),
        ({"restart-strategy.type": "none"}, True),
        ({"restart-strategy.type": "fixed-delay"}, False),
        ({"restart-strategy": "exponential-delay"}, False),
    ],
)
def test_a_cluster_that_does_not_start_jobs_again_is_told(
    flink_at, jar, monkeypatch, capsys, settings, warned
):
    monkeypatch.setattr(flink, "_start_job_server", lambda options: None)
    on_flink(flink_at(settings), f"--flink_job_server_jar={jar()}")
    assert ("has no restart strategy" in capsys.readouterr().err) == warned


def test_files_for_workers_elsewhere_need_a_place_that_they_can_read(flink_at, jar, monkeypatch):
    monkeypatch.setattr(flink, "_start_job_server", lambda options: None)
    flags = ["--runner=FlinkRunner", f"--flink_master={flink_at()}", "--environment_type=DOCKER"]
    flags += ["--setup_file=setup.py", f"--flink_job_server_jar={jar()}"]
    with pytest.raises(UserError, match="--setup_file: .*give --artifacts_dir"):
        prepare(*flags)
    prepare(*flags, "--artifacts_dir=s3://b/artifacts")


def test_nothing_is_staged_that_the_user_did_not_ask_for(flink_at, jar, monkeypatch):
    monkeypatch.setattr(flink, "_start_job_server", lambda options: None)
    options = on_flink(flink_at(), f"--flink_job_server_jar={jar()}", "--experiments=mine")
    assert options.view_as(DebugOptions).experiments == ["mine", flink.STAGE_NOTHING]


def test_java_and_maven_are_looked_for(flink_at, jar, monkeypatch, tmp_path):
    flags = [f"--flink_job_server_jar={jar()}", "--job_server_java_launcher=no-java"]
    with pytest.raises(UserError, match="no-java: is not on the PATH"):
        on_flink(flink_at(), *flags)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="mvn is not on the PATH to fetch it; install Maven"):
        on_flink(flink_at())


def test_a_job_server_is_fetched_once(monkeypatch, tmp_path):
    """Maven is a program that writes what it was asked for."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "bin" / "mvn"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nfor one in "$@"; do case $one in -DoutputDirectory=*) '
        'echo jar > "${one#*=}/beam-runners-flink-1.19-job-server-2.77.0.jar";; esac; done\n'
        f'echo "$@" >> {tmp_path}/calls\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    versions = job_server.Versions("2.77.0", "1.19")
    paths = {job_server.fetch(versions) for _ in range(2)}
    assert paths == {str(tmp_path / "cache/fives/beam-runners-flink-1.19-job-server-2.77.0.jar")}
    artifact = "org.apache.beam:beam-runners-flink-1.19-job-server:2.77.0"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [f"-Dartifact={artifact}" in call for call in calls] == [True, True]
    assert [path.name for path in (tmp_path / "cache/fives").iterdir()] == [
        "beam-runners-flink-1.19-job-server-2.77.0.jar"
    ]


def test_a_repository_without_it_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "mvn").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="can neither fetch nor build it; .* --job_server_beam"):
        job_server.fetch(job_server.Versions("2.77.0", "1.19"))
    assert list((tmp_path / "cache/fives").iterdir()) == []
