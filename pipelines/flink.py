"""A Flink cluster that a pipeline is to run on: checked, and reached through a job server."""

import atexit
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DebugOptions,
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
)
from apache_beam.runners.portability.flink_runner import (
    MAGIC_HOST_NAMES,
    FlinkJarJobServer,
    FlinkRunner,
)
from apache_beam.utils.subprocess_server import pick_port

from fives_tf.errors import UserError
from pipelines import job_server

ANSWER_SECONDS = 10
CACHED_MILLISECONDS = 60_000
_RESTART_KEYS = ("restart-strategy.type", "restart-strategy")  # the second until Flink 1.19
_NO_RESTART = ("none", "off", "disable")
# Beam would stage a list of what is installed here, for which workers elsewhere would look in vain.
STAGE_NOTHING = "disable_logging_submission_environment"
# Runs a command until it ends, or until the process that holds the other end of its input is gone.
_UNTIL_STDIN_CLOSES = (
    'exec 3<&0; "$@" </dev/null & program=$!; '
    "(cat <&3 >/dev/null; kill $program) 2>/dev/null & wait $program"
)


class FlinkOptions(PipelineOptions):
    """What we add to Beam's flags for Flink."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--job_server_beam",
            default=beam.__version__,
            help="the release of Beam that the job server comes with, if it is another one than "
            "that which is installed here",
        )


def prepare(options: PipelineOptions) -> None:
    """Checks the cluster and the job server, fills in what was not given, starts the job server.

    Args:
        options: Those of a pipeline for the FlinkRunner; all its passes use the one job server.
    """
    flink = options.view_as(FlinkRunnerOptions)
    if flink.flink_master not in MAGIC_HOST_NAMES:
        _use_cluster(options)
        flink.flink_master = FlinkRunner.add_http_scheme(flink.flink_master)
    wanted = job_server.Versions(options.view_as(FlinkOptions).job_server_beam, flink.flink_version)
    if flink.flink_job_server_jar is None:
        flink.flink_job_server_jar = job_server.fetch(wanted)
    if "://" not in flink.flink_job_server_jar:
        _check_jar(flink.flink_job_server_jar, wanted)
    _check_staging(options)
    options.view_as(DebugOptions).add_experiment(STAGE_NOTHING)
    portable = options.view_as(PortableOptions)
    # Else every step of a pipeline would start Python workers of its own.
    portable.environment_cache_millis = portable.environment_cache_millis or CACHED_MILLISECONDS
    _start_job_server(options)


def _use_cluster(options: PipelineOptions) -> None:
    """Takes from the cluster what was not given: its release of Flink and its number of slots."""
    flink = options.view_as(FlinkRunnerOptions)
    overview = _overview(flink.flink_master)
    release = ".".join(overview["flink-version"].split(".")[:2])
    known = FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
    if release not in known:
        raise UserError(
            f"{flink.flink_master}: runs Flink {release}, for which Beam {beam.__version__} has no "
            f"job server; it has them for {', '.join(known)}."
        )
    given = options.get_all_options(drop_default=True).get("flink_version")
    if given not in (None, release):
        raise UserError(
            f"{flink.flink_master}: runs Flink {release}, not --flink_version={given}; leave the "
            "flag out."
        )
    flink.flink_version = release
    if overview["taskmanagers"] == 0:
        raise UserError(f"{flink.flink_master}: has no TaskManager; start at least one.")
    if flink.parallelism < 1:
        flink.parallelism = overview["slots-total"]
    _warn_of_no_restart(flink.flink_master)


def _overview(master: str) -> dict[str, Any]:
    """What a JobManager tells of its cluster."""
    try:
        overview = _ask(master, "overview")
        return {key: overview[key] for key in ("flink-version", "taskmanagers", "slots-total")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise UserError(
            f"{master}: no Flink cluster answers there ({reason}); correct --flink_master, or "
            "start a cluster by `fives launch flink-local`."
        ) from None


def _warn_of_no_restart(master: str) -> None:
    """Beam leaves it to the cluster whether a batch job goes on without a worker that is lost."""
    try:
        settings = {item["key"]: item["value"] for item in _ask(master, "jobmanager/config")}
    except (OSError, ValueError, KeyError, TypeError):
        return  # a cluster may keep its settings to itself
    if not any(settings.get(key, "none") not in _NO_RESTART for key in _RESTART_KEYS):
        print(
            f"warning: {master}: has no restart strategy, so that the job ends if a worker is "
            "lost; set restart-strategy.type on the cluster, or go on with --resume then.",
            file=sys.stderr,
        )


def _ask(master: str, what: str) -> Any:
    url = f"{FlinkRunner.add_http_scheme(master)}/{what}"
    with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
        return json.load(answer)


def _check_jar(path: str, wanted: job_server.Versions) -> None:
    found = job_server.look_into(path)
    if found.flink != wanted.flink:
        raise UserError(
            f"{path}: is a job server for Flink {found.flink}, but the cluster runs Flink "
            f"{wanted.flink}; give the one that fits, or leave out --flink_job_server_jar."
        )
    if found.beam != wanted.beam:
        raise UserError(
            f"{path}: is a job server of Beam {found.beam}, expected {wanted.beam}; give the one "
            "that fits, leave out --flink_job_server_jar, or accept it by "
            f"--job_server_beam={found.beam}."
        )


def _check_staging(options: PipelineOptions) -> None:
    """What the job server hands on must lie where the TaskManagers can read it."""
    setup = options.view_as(SetupOptions)
    given = [name for name in ("setup_file", "extra_packages") if getattr(setup, name)]
    cluster = options.view_as(FlinkRunnerOptions).flink_master not in MAGIC_HOST_NAMES
    if given and cluster and not options.view_as(JobServerOptions).artifacts_dir:
        raise UserError(
            f"--{given[0]}: goes to the workers through a directory that they share with the job "
            "server; give --artifacts_dir, such as s3://BUCKET/artifacts."
        )


def _start_job_server(options: PipelineOptions) -> None:
    """Starts a job server that ends with this process, and waits until it answers."""
    flink, server = options.view_as(FlinkRunnerOptions), options.view_as(JobServerOptions)
    java = server.job_server_java_launcher
    if shutil.which(java) is None:
        raise UserError(f"{java}: is not on the PATH; the job server of Flink needs Java 17.")
    jar = FlinkJarJobServer.local_jar(flink.flink_job_server_jar, server.jar_cache_dir)
    [port] = pick_port(server.job_port or None)
    kept = tempfile.mkdtemp(prefix="fives-artifacts-")
    arguments = FlinkJarJobServer(options).java_arguments(
        port, server.artifact_port, server.expansion_port, server.artifacts_dir or kept
    )
    command = [java, *server.job_server_jvm_properties, "-jar", jar]
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(
            ["sh", "-c", _UNTIL_STDIN_CLOSES, "sh", *command, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=told,
            stderr=told,
        )
        atexit.register(shutil.rmtree, kept, ignore_errors=True)
        atexit.register(process.stdin.close)
        while not _answers(port):
            if process.poll() is not None:
                process.stdin.close()
                told.seek(0)
                last = told.read().decode(errors="replace").strip().splitlines()[-3:]
                raise UserError(f"{jar}: the job server did not start: {' '.join(last)}")
            time.sleep(0.1)
    options.view_as(PortableOptions).job_endpoint = f"localhost:{port}"


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), timeout=1).close()
    except OSError:
        return False
    return True
