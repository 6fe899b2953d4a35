"""Both passes on a real Flink cluster: the dataset must be that of the in-process runner."""

import gzip
import json
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster


def records(dataset: Path, split: str) -> Counter:
    """The records of a split, each with how often it is there."""
    found = Counter()
    for path in (dataset / split).glob("part-*.tfrecord"):
        content, at = path.read_bytes(), 0
        while at < len(content):
            [size] = struct.unpack_from("<Q", content, at)
            found[content[at + 12 : at + 12 + size]] += 1
            at += 12 + size + 4
    return found


def assert_same(dataset: Path, expected: Path) -> None:
    manifest, wanted = (json.loads((d / "dataset.json").read_text()) for d in (dataset, expected))
    assert manifest["splits"] == wanted["splits"]
    assert (dataset / "encoding.json").read_text() == (expected / "encoding.json").read_text()
    for split in manifest["splits"]:
        assert records(dataset, split) == records(expected, split)
    assert not (dataset / "work").exists()


def restarts(cluster) -> int:
    """How often the cluster has started a job again."""
    return cluster.log("jobmanager").read_text().count("switched from state RUNNING to RESTARTING")


def test_the_dataset_is_that_of_the_in_process_runner(
    cluster, job_server, arguments, expected, fives, tmp_path
):
    out = tmp_path / "dataset"
    done = fives("preprocess", *arguments, f"--out={out}", *cluster.flags, *job_server)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "pass 1: fit: running on the workers",
        "pass 2: encode: running on the workers",
    ]
    assert sum(records(expected, "train").values()) > 100_000
    assert_same(out, expected)


def test_a_users_mistake_on_a_worker_gets_one_message(
    cluster, job_server, log, arguments, fives, tmp_path
):
    broken = tmp_path / "log.csv.gz"
    broken.write_bytes(gzip.compress((log / "log.csv").read_bytes()[:1_000_000])[:-1000])
    out = tmp_path / "dataset"
    flags = [f"--out={out}", *cluster.flags, *job_server]
    done = fives("preprocess", broken, *arguments[1:], *flags)
    assert done.returncode == 2
    assert done.stderr == (
        f"fives preprocess: {broken}: cannot be decompressed (Truncated compressed stream); is it "
        "whole, and compressed as its ending says?\n"
    )
    assert not out.exists()


def test_the_command_runs_a_cluster_until_it_is_told_to_stop(job_server, tmp_path):
    command = [sys.executable, "-m", "fives_tf.cli", "launch", "flink-local", "--task_managers=1"]
    logs = tmp_path / "logs"
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, f"--logs={logs}"], stdout=pipe, stderr=pipe, text=True) as one:
        lines = [one.stdout.readline() for _ in range(3)]
        children = Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split()
        one.send_signal(signal.SIGTERM)
        _, told = one.communicate(timeout=60)
    assert "--runner=FlinkRunner --flink_master=127.0.0.1:" in lines[2]
    assert (one.returncode, told) == (128 + signal.SIGTERM, "fives launch: interrupted\n")
    assert len(children) == 3
    assert not any(Path("/proc", pid).exists() for pid in children)
    names = {"jobmanager.log", "taskmanager-0.log", "pool.log"}
    assert {path.name for path in logs.iterdir()} == names


def test_a_task_manager_that_is_killed_in_pass_2_costs_no_record(
    cluster, job_server, arguments, expected, tmp_path
):
    """The last test: the cluster is not whole afterwards."""
    out = tmp_path / "dataset"
    flags = [f"--out={out}", *cluster.flags, *job_server]
    command = [sys.executable, "-m", "fives_tf.cli", "preprocess", *map(str, arguments), *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not list(out.glob("work/*/spill/*.arrow")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        assert not list(out.glob("work/*/shards/*"))
        before = restarts(cluster)
        cluster.processes["taskmanager-0"].send_signal(signal.SIGKILL)
        _, told = process.communicate(timeout=300)
    assert process.returncode == 0, told
    assert 0 < restarts(cluster) - before < 3, "of the three that the cluster allows"
    assert_same(out, expected)
