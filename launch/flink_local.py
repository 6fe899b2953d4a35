"""A Flink cluster on this machine: JobManager, TaskManagers and a pool of Beam's Python workers."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fives_tf.errors import Interrupted, UserError
from launch.flink_libraries import libraries
from launch.local import free_ports

HOST = "127.0.0.1"
RELEASE = "1.19.3"
START_SECONDS = 120.0
GRACE_SECONDS = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# What Flink's own start scripts open to it on Java 17.
_EXPORTS = (
    "java.base/sun.net.util",
    "java.rmi/sun.rmi.registry",
    "java.security.jgss/sun.security.krb5",
)
_OPENS = (
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/sun.nio.ch",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
)
_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %-5p %c{1} - %m%n
"""


@dataclass(frozen=True)
class Config:
    """How a cluster is to be.

    Every TaskManager has as many slots as there are TaskManagers, and work is spread over all: so
    when one is lost, the others can take over what it did.

    Attributes:
        task_managers: How many.
        release: The release of Flink.
        port: Where the JobManager answers; 0 for a free one.
        pool_port: Where the pool of Python workers answers; 0 for a free one.
        logs: The directory for what the processes tell.
    """

    task_managers: int = 2
    release: str = RELEASE
    port: int = 0
    pool_port: int = 0
    logs: str = "flink-logs"


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        release: The release of Flink.
        master: Where the JobManager answers, as `host:port`.
        pool: Where the pool starts Python workers, as `host:port`.
        logs: The directory with what each process tells.
        processes: The processes by name: `jobmanager`, `taskmanager-0`, ..., `pool`.
    """

    release: str
    master: str
    pool: str
    logs: Path
    processes: dict[str, subprocess.Popen]

    @property
    def task_managers(self) -> dict[str, subprocess.Popen]:
        """The TaskManagers among the processes."""
        return {name: p for name, p in self.processes.items() if name.startswith("taskmanager")}

    @property
    def flags(self) -> list[str]:
        """The flags by which a pipeline is run here."""
        return [
            "--runner=FlinkRunner",
            f"--flink_master={self.master}",
            "--environment_type=EXTERNAL",
            f"--environment_config={self.pool}",
            f"--parallelism={len(self.task_managers)}",
            "--shared_paths",
        ]

    def log(self, name: str) -> Path:
        """The file with what a process tells."""
        return self.logs / f"{name}.log"

    def ended(self) -> list[str]:
        """The names of the processes that have ended."""
        return [name for name, process in self.processes.items() if process.poll() is not None]


@contextlib.contextmanager
def start(config: Config) -> Iterator[Cluster]:
    """Starts a cluster, waits until all TaskManagers are there, and ends it with the block."""
    if shutil.which("java") is None:
        raise UserError("java: is not on the PATH; Flink needs Java 17.")
    jars = libraries(config.release)
    rpc_port, *free = free_ports(3)
    port, pool_port = config.port or free[0], config.pool_port or free[1]
    logs = Path(config.logs)
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fives-flink-") as temporary:
        directory = Path(temporary)
        _configure(directory, rpc_port, port, config.task_managers)
        with _Processes(directory, logs) as processes:
            processes.java("jobmanager", jars, "entrypoint.StandaloneSessionClusterEntrypoint")
            for index in range(config.task_managers):
                processes.java(f"taskmanager-{index}", jars, "taskexecutor.TaskManagerRunner")
            processes.pool(pool_port)
            cluster = Cluster(
                release=config.release,
                master=f"{HOST}:{port}",
                pool=f"localhost:{pool_port}",
                logs=logs,
                processes=processes.running,
            )
            _wait(cluster, config.task_managers)
            yield cluster


def tell(cluster: Cluster) -> None:
    """Prints how to use a cluster."""
    print(f"Flink {cluster.release} at http://{cluster.master}, logs in {cluster.logs}")
    print("run a pipeline there with the flags")
    print(f"  {' '.join(cluster.flags)}", flush=True)


def launch(config: Config, started: Callable[[Cluster], None] = tell) -> int:
    """Runs a cluster until a signal ends it.

    Args:
        config: How it is to be.
        started: Is called when it is there.

    Returns:
        1 if a process that the cluster cannot do without ended by itself.
    """

    def stop(number: int, frame: Any) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)  # the end is on its way
        raise Interrupted(number, "the cluster was stopped")

    for number in _SIGNALS:
        signal.signal(number, stop)
    with start(config) as cluster:
        started(cluster)
        return _watch(cluster)


def _watch(cluster: Cluster) -> int:
    """Tells of processes that end; a cluster can do without a TaskManager."""
    told: set[str] = set()
    while told <= cluster.task_managers.keys():
        time.sleep(1)
        for name in set(cluster.ended()) - told:
            told.add(name)
            print(f"fives launch: {name} ended; see {cluster.log(name)}", file=sys.stderr)
    return 1


def _configure(directory: Path, rpc_port: int, rest_port: int, task_managers: int) -> None:
    """Writes Flink's settings; JSON is YAML too."""
    settings = {
        "jobmanager.rpc.address": HOST,
        "jobmanager.rpc.port": rpc_port,
        "jobmanager.bind-host": HOST,
        "rest.address": HOST,
        "rest.bind-address": HOST,
        "rest.port": rest_port,
        "taskmanager.host": HOST,
        "taskmanager.bind-host": HOST,
        "taskmanager.numberOfTaskSlots": task_managers,
        "taskmanager.load-balance.mode": "SLOTS",
        # The start scripts work these out from the size of the process; here they are given.
        "taskmanager.cpu.cores": 1,
        "taskmanager.memory.framework.heap.size": "128m",
        "taskmanager.memory.task.heap.size": "384m",
        "taskmanager.memory.framework.off-heap.size": "128m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.network.min": "128m",
        "taskmanager.memory.network.max": "128m",
        "taskmanager.memory.managed.size": "128m",
        "taskmanager.memory.jvm-metaspace.size": "256m",
        "taskmanager.memory.jvm-overhead.min": "128m",
        "taskmanager.memory.jvm-overhead.max": "128m",
        "io.tmp.dirs": str(directory),
        # A TaskManager that is lost is given up after 20 seconds, not 50.
        "heartbeat.interval": 2000,
        "heartbeat.timeout": 20000,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 3,
        # Longer than it takes to notice that a TaskManager is gone: else it is given work again.
        "restart-strategy.fixed-delay.delay": "5s",
    }
    (directory / "config.yaml").write_text(json.dumps(settings, indent=1))
    (directory / "log4j.properties").write_text(_LOGGING)


def _wait(cluster: Cluster, task_managers: int) -> None:
    """Waits until all TaskManagers are known to the JobManager, and the pool answers."""
    host, _, port = cluster.pool.partition(":")
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        for name in cluster.ended():
            told = cluster.log(name).read_text(errors="replace").strip().splitlines()[-5:]
            raise UserError(f"{name}: ended while the cluster started:\n" + "\n".join(told))
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://{cluster.master}/overview", timeout=5) as answer:
                known = json.load(answer)["taskmanagers"]
            if known == task_managers:
                socket.create_connection((host, int(port)), timeout=5).close()
                return
        time.sleep(0.2)
    raise UserError(
        f"the cluster did not start within {START_SECONDS:.0f} seconds; see {cluster.logs}."
    )


class _Processes:
    """The processes of a cluster, each the head of a group, so that what they start ends too."""

    def __init__(self, directory: Path, logs: Path):
        self._directory, self._logs = directory, logs
        self.running: dict[str, subprocess.Popen] = {}

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *error: object) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.running.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            deadline = time.monotonic() + GRACE_SECONDS
            for process in self.running.values():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(deadline - time.monotonic(), 0))

    def java(self, name: str, jars: Path, program: str) -> None:
        """Starts a program of Flink."""
        self._start(
            name,
            [
                "java",
                "-Xmx768m" if name == "jobmanager" else "-Xmx512m",
                "-XX:MaxMetaspaceSize=256m",
                # The work is done in Python: what counts here is a quick start, and little memory.
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                *(f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTS),
                *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENS),
                f"-Dlog4j.configurationFile={self._directory / 'log4j.properties'}",
                "-cp",
                str(jars / "*"),
                f"org.apache.flink.runtime.{program}",
                f"--configDir={self._directory}",
            ],
        )

    def pool(self, port: int) -> None:
        """Starts what starts Python workers; it calls them `python`, which must be this one."""
        python = self._directory / "bin" / "python"
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
        self._start("pool", [sys.executable, "-m", "launch.worker_pool", str(port)], PATH=path)

    def _start(self, name: str, command: Sequence[str], **environ: str) -> None:
        with open(self._logs / f"{name}.log", "wb") as log:
            self.running[name] = subprocess.Popen(
                command,
                env=os.environ | environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
