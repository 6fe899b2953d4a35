"""Stops the real command in mid-training and resumes it: the end is the same, bit for bit."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

# An epoch of 125 steps or so, judged and saved every 40 of them, so that most are in its middle.
BATCH = 16
FLAGS = [
    f"--batch={BATCH}",
    f"--evaluate_rows={40 * BATCH}",
    "--checkpoint_seconds=0",
    "--search_epochs=2",
    "--epochs=2",
    "--patience=4",
    "--dim=8",
    "--dropout=0.1",
    "--form=crosses",
]
STAGES = [
    "lr",
    "search",
    "part-lr",
    "crosses-10",
    "crosses-30",
    "crosses",
    "from_scratch-crosses",
    "refit-crosses",
    "refit-0",
]


@pytest.fixture
def command(small_dataset):
    def build(run: Path, *more: str) -> list[str]:
        base = [sys.executable, "-m", "fives_tf.cli", "search", str(small_dataset)]
        return [*base, "--run", str(run), *FLAGS, *more]

    return build


def test_a_search_that_is_stopped_in_every_stage_ends_as_if_it_had_not_been(
    command, fives, tmp_path
):
    whole, run = tmp_path / "whole", tmp_path / "run"
    subprocess.run(command(whole), check=True, capture_output=True, timeout=300)
    last = {stage: saved_step(whole, stage) for stage in STAGES}

    stop(command(run), run, "lr", signal.SIGKILL)
    assert saved_step(run, "lr") < last["lr"], "it was not stopped in mid-training"
    refused = fives("crosses", run)
    assert refused.returncode == 2
    assert "the search is unfinished" in refused.stderr

    told = stop(command(run, "--resume"), run, "search", signal.SIGKILL)
    assert stages_of(told)[:1] == ["lr"]
    assert saved_step(run, "search") < last["search"]

    told = stop(command(run, "--resume"), run, "crosses-30", signal.SIGKILL)
    assert stages_of(told)[:1] == ["search"], "a stage that is done is not done again"
    assert saved_step(run, "crosses-30") < last["crosses-30"]

    told = stop(command(run, "--resume"), run, "from_scratch-crosses", signal.SIGKILL)
    assert stages_of(told)[:1] == ["crosses-30"]
    assert saved_step(run, "from_scratch-crosses") < last["from_scratch-crosses"]

    told = stop(command(run, "--resume"), run, "refit-crosses", signal.SIGKILL)
    assert stages_of(told)[:1] == ["from_scratch-crosses"]
    assert saved_step(run, "refit-crosses") < last["refit-crosses"]

    told = stop(command(run, "--resume"), run, "refit-0", signal.SIGTERM)
    assert stages_of(told) == ["refit-crosses", "refit-0"]
    assert "fives search: interrupted; the same command with --resume goes on" in told
    assert "Traceback" not in told
    assert saved_step(run, "refit-0") < last["refit-0"]

    resumed = subprocess.run(
        command(run, "--resume"), check=True, capture_output=True, text=True, timeout=300
    )
    assert stages_of(resumed.stderr) == ["refit-0"]
    assert_same_run(run, whole)


def stop(command: list[str], run: Path, stage: str, number: signal.Signals) -> str:
    """Sends a signal to a command as soon as it has saved a stage; returns what it told."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=pipe, text=True)
    while saved_step(run, stage) == 0:
        assert process.poll() is None, "the run ended before it could be stopped"
        time.sleep(0.001)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    return told


def stages_of(told: str) -> list[str]:
    """The stages that a command told of, each once."""
    names = (line.partition(":")[0] for line in told.splitlines())
    return [name for name in dict.fromkeys(names) if name in STAGES]


def saved_step(run: Path, stage: str) -> int:
    """The last step of a stage that a checkpoint holds."""
    names = [path.name for path in (run / "checkpoints" / stage / "last").glob("ckpt-*.index")]
    return max((int(re.search(r"\d+", name)[0]) for name in names), default=0)


def metrics(run: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in line.items() if key not in ("time", "seconds")}
        for line in lines
    ]


def assert_same_run(run: Path, expected: Path) -> None:
    [index] = (run / "members").glob("*.index")
    found, wanted = (
        tf.train.load_checkpoint(str(place / "members" / index.stem)) for place in (run, expected)
    )
    assert found.get_variable_to_shape_map() == wanted.get_variable_to_shape_map()
    for name in wanted.get_variable_to_shape_map():
        if not name.startswith("_"):  # the graph of the objects
            np.testing.assert_array_equal(found.get_tensor(name), wanted.get_tensor(name), name)
    with np.load(run / "adjacency.npz") as found, np.load(expected / "adjacency.npz") as wanted:
        assert found.files == wanted.files
        for name in wanted.files:
            np.testing.assert_array_equal(found[name], wanted[name], name)
    assert (run / "crosses.json").read_bytes() == (expected / "crosses.json").read_bytes()
    assert metrics(run) == metrics(expected)
