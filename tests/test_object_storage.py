"""The whole way with all files at a store: a real server that speaks S3, and real commands."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from fives_tf import storage
from fives_tf.dataset import Dataset
from fives_tf.run import Run
from tests.object_store import SECRET

pytestmark = pytest.mark.slow

FLAGS = [
    *("--batch=64", "--dim=4", "--lr_epochs=1", "--search_epochs=3", "--epochs=1"),
    *("--evaluate_rows=640", "--checkpoint_seconds=0.3", "--form=table", "--no_xla"),
]


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty disk: where commands run, and where they may keep what is not meant to last."""
    for name in ("here", "temporary", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def fives(home):
    """Runs a command that must end well."""

    def run(*arguments: str) -> str:
        done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done.stdout

    return run


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fives_tf.cli", *arguments]


def test_the_whole_way_at_a_store(bucket, object_store, fives, home, small_log, small_dataset):
    pytest.importorskip("tensorflow_io", reason="tensorflow-io does not go with this TensorFlow")
    for name in ("log.csv", "schema.yaml"):
        storage.write(f"{bucket}/log/{name}", (small_log / name).read_bytes())
    dataset, run, exports = (f"{bucket}/{name}" for name in ("dataset", "run", "exports"))

    object_store.fail(0.2, requests=400)
    refused = object_store.refused
    log, schema = f"{bucket}/log/*.csv", f"{bucket}/log/schema.yaml"
    shards = "--shards=train=3,valid=2,test=1"
    fives("preprocess", log, "--schema", schema, "--out", dataset, shards)
    assert object_store.refused > refused + 10
    assert_same_dataset(dataset, str(small_dataset))

    search = command("search", dataset, "--run", run, *FLAGS)
    process = subprocess.Popen(search, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not storage.exists(f"{run}/checkpoints/search/last/checkpoint"):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for left in (home / "temporary").iterdir():  # of the process that was killed
        storage.remove(str(left))
    object_store.fail(0.2, requests=400)
    fives("search", dataset, "--run", run, *FLAGS, "--resume")
    whole = home / "whole"  # the same search on the disk, without a stop
    fives("search", str(small_dataset), "--run", str(whole), *FLAGS)
    assert_same_run(run, str(whole))

    fives("export", run, "--to", exports)
    assert "AUC\t" in fives("evaluate", run, "--split", "test")
    log = f"{bucket}/log/log.csv"
    fives("predict", f"{exports}/1", "--input", log, "--output", f"{bucket}/scores.parquet")
    fives("export", str(whole), "--to", str(home / "exports"))
    paths = str(home / "exports"), "--input", str(small_log / "log.csv")
    fives("predict", *paths, "--output", str(home / "scores.parquet"))
    with storage.open_read(f"{bucket}/scores.parquet") as file:
        assert pq.read_table(file) == pq.read_table(home / "scores.parquet")

    for name in ("here", "temporary"):
        assert not list((home / name).iterdir()), "nothing is written to the disk"
    assert_no_secrets(bucket)


def assert_same_dataset(one: str, other: str) -> None:
    datasets = [Dataset.open(one), Dataset.open(other)]
    assert datasets[0].manifest["splits"] == datasets[1].manifest["splits"]
    for split in datasets[0].splits.values():
        for shard in split.shards:
            content = [storage.read(dataset.path(shard)) for dataset in datasets]
            assert content[0] == content[1]
    assert not storage.exists(f"{one}/work")


def assert_same_run(one: str, other: str) -> None:
    runs = [Run.open(one), Run.open(other)]
    assert runs[0].crosses == runs[1].crosses
    np.testing.assert_array_equal(runs[0].adjacency.h, runs[1].adjacency.h)
    assert runs[0].manifest["evaluation"] == runs[1].manifest["evaluation"]
    lines = [
        [json.loads(line) for line in storage.read(f"{run.directory}/metrics.jsonl").splitlines()]
        for run in runs
    ]
    steps = [[(line["stage"], line["step"]) for line in one] for one in lines]
    assert steps[0] == steps[1]


def assert_no_secrets(bucket: str) -> None:
    for name in storage.sizes(bucket):
        assert SECRET.encode() not in storage.read(f"{bucket}/{name}"), name


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "cannot be reached; check AWS_ENDPOINT_URL"),
        ("BUCKET", "s3://no-such-bucket", "there is no such bucket"),
    ],
)
@pytest.mark.parametrize("verb", ["preprocess", "search"])
def test_a_mistake_is_told_in_one_line(bucket, monkeypatch, verb, variable, value, message):
    monkeypatch.setenv(variable, value)
    bucket = os.environ.get("BUCKET", bucket)
    arguments = {
        "preprocess": (f"{bucket}/log.csv", "--schema", f"{bucket}/a.yaml", "--out", "dataset"),
        "search": (f"{bucket}/dataset", "--run", "run"),
    }
    start = time.monotonic()
    done = subprocess.run(command(verb, *arguments[verb]), capture_output=True, text=True)
    assert time.monotonic() - start < 30
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert message in done.stderr
