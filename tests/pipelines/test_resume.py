"""Kills the real command with SIGKILL and resumes it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fives_tf.synth import SynthConfig, generate

SHARDS = 40


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    generate(SynthConfig(rows=60_000, fields=30, numeric=8, seed=5), directory)
    return directory


@pytest.fixture(scope="module")
def command(log):
    """The command line for a dataset directory; small pieces, so that there is time to kill it."""

    def build(out: Path, *more: str) -> list[str]:
        base = [sys.executable, "-m", "fives_tf.cli", "preprocess", str(log / "log.csv")]
        flags = ["--schema", str(log / "schema.yaml"), "--out", str(out)]
        return [*base, *flags, "--piece_bytes=150000", f"--shards={SHARDS}", "--workers=1", *more]

    return build


@pytest.fixture(scope="module")
def uninterrupted(command, files_of, tmp_path_factory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole") / "dataset"
    subprocess.run(command(out), check=True, capture_output=True, timeout=300)
    return files_of(out)


def count(directory: Path, pattern: str) -> int:
    return len(list(directory.glob(pattern)))


MOMENTS = {
    "in pass 1": lambda out: (out / "work/plan.json").exists(),
    "while rows are encoded": lambda out: count(out, "work/*/spill/*.arrow") >= 3,
    "while shards are written": lambda out: count(out, "work/*/shards/*.json") >= 3,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_is_resumed_to_the_same_dataset(
    moment, command, uninterrupted, files_of, fives, tmp_path
):
    out = tmp_path / "dataset"
    process = subprocess.Popen(command(out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not MOMENTS[moment](out):
        assert process.poll() is None, "the run ended before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.wait()

    assert not (out / "dataset.json").exists()
    fitted = count(out, "work/*/fit.json") == 1
    assert fitted == (moment != "in pass 1")
    kept = {
        name: path.stat().st_ino
        for record in out.glob("work/*/shards/*.json")
        for name in [json.loads(record.read_text())["file"]]
        for path in out.glob(f"work/*/dataset/{name}")
    }
    assert len(kept) < SHARDS
    refused = fives("describe", out)
    assert refused.returncode == 2
    assert "unfinished" in refused.stderr
    assert "--resume" in refused.stderr

    resumed = subprocess.run(
        command(out, "--resume"), check=True, capture_output=True, text=True, timeout=300
    )
    assert files_of(out) == uninterrupted
    assert ("pass 1" in resumed.stderr) == (not fitted)
    assert {name: (out / name).stat().st_ino for name in kept} == kept, "finished shards are kept"


def test_an_interrupted_run_says_how_to_go_on(command, tmp_path):
    out = tmp_path / "dataset"
    process = subprocess.Popen(
        command(out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A shell in the background may have told us, and so our children, to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not MOMENTS["in pass 1"](out):
        assert process.poll() is None, "the run ended before it could be stopped"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; the same command with --resume goes on from here" in told
    assert "Traceback" not in told
