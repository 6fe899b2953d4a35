"""Searches and fits on several devices and in several processes: all end as one device does.

What several devices add up may differ in the last bits of float32, and training carries that on, so
"the same" means: losses to 1e-5, AUCs to ten pairs of rows in ten thousand, and each parameter of
each checkpoint to 1e-5 of its largest value. Momenta are sums of what cancels out: they are the
same to 1e-4 of the largest, and to 1e-8. Edges at the end of the search are steep in H, fifty times
as steep as at a temperature of 1: they are the same to 1e-4.
"""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fives_tf.cli import TRY_AGAIN
from fives_tf.crosses import Cross, to_json
from fives_tf.dataset import Dataset
from launch.cluster import config_of
from launch.local import free_ports

from .fives_tf.test_resume import metrics, saved_step

SECONDS = 500  # longer than any of these searches takes, on a busy machine too
BOUND = 60  # seconds within which a worker notes that another one is gone
# What can be divided among two, three and four replicas.
BATCH = 96
FORMS = {
    # All stages but the last, which does the same on more rows; dropout after the search.
    "lazy_adam": [
        f"--batch={BATCH}",
        "--order=2",
        "--dim=4",
        "--lr_epochs=1",
        "--form=crosses",
        "--search_epochs=2",
        "--epochs=1",
        "--no_refit",
        "--no_xla",
    ],
    # Another form of the network, with dropout in the search, compiled.
    "adam": [
        "--paper",
        "--embedding_optimizer=adam",
        f"--batch={BATCH}",
        "--dim=4",
        "--search_epochs=2",
    ],
    # Many steps, judged and saved in mid-epoch. Three shards cannot be dealt out to two workers
    # equally, so each reads all.
    "streamed": [
        "--memory=0",
        f"--batch={BATCH // 2}",
        f"--evaluate_rows={BATCH // 2 * 15}",
        "--checkpoint_seconds=0",
        "--order=2",
        "--dim=4",
        "--lr_epochs=2",
        "--search_epochs=1",
        "--epochs=1",
        "--no_refit",
        "--no_xla",
    ],
}
# There are 14 crosses of order 2.
ALL_STAGES = {"lr", "search", "part-lr", "crosses-10", "crosses-14", "crosses"} | {
    "from_scratch-crosses"
}
# On how many devices of one process each is searched.
DEVICES = {"lazy_adam": [4, 2, 1], "adam": [4, 2, 1], "streamed": [1]}


@pytest.fixture(scope="module")
def command(small_dataset):
    def build(run: Path, *flags: str) -> list[str]:
        base = [sys.executable, "-m", "fives_tf.cli", "search", str(small_dataset)]
        return [*base, "--run", str(run), *flags]

    return build


@pytest.fixture(scope="module")
def searched(command, tmp_path_factory):
    """Searches of a form in one process, with so many logical devices each; each once."""

    def search(run: Path, form: str, devices: str) -> tuple[Path, str]:
        line = command(run, *FORMS[form], devices)
        done = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr
        return run, done.stderr

    @functools.cache
    def search_all(form: str) -> dict[int, tuple[Path, str]]:
        directory = tmp_path_factory.mktemp(form)
        with ThreadPoolExecutor(2) as pool:
            runs = {
                count: pool.submit(search, directory / f"{count}", form, f"--devices=cpu:{count}")
                for count in DEVICES[form]
            }
        return {count: run.result() for count, run in runs.items()}

    return search_all


@pytest.fixture(scope="module")
def streamed_by_two(command, tmp_path_factory):
    """A search of two workers that nothing disturbs."""
    run = tmp_path_factory.mktemp("streamed") / "run"
    run_with(2, command(run, *FORMS["streamed"]))
    return run


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("form", ["lazy_adam", "adam"])
def test_several_devices_learn_what_one_does(form, devices, searched):
    expected, _ = searched(form)[1]
    run, told = searched(form)[devices]
    assert f"MirroredStrategy on {devices} devices, CPU:0 to CPU:{devices - 1}" in told
    stages = {line["stage"] for line in metrics(run)}
    assert stages == (ALL_STAGES if form == "lazy_adam" else {"search"})
    assert_same(run, expected)


def test_two_workers_that_read_all_shards_learn_what_one_process_does(searched, streamed_by_two):
    assert_same(streamed_by_two, searched("streamed")[1][0])


def test_three_workers_learn_what_one_process_does(searched, command, tmp_path):
    told = run_with(3, command(tmp_path / "run", *FORMS["adam"]))
    line = "MultiWorkerMirroredStrategy on 3 workers, 3 replicas"
    assert [text.count(line) for text in told] == [1, 0, 0], "the chief tells it for all"
    assert_same(tmp_path / "run", searched("adam")[1][0])


def test_three_workers_with_shards_of_their_own_judge_every_row_once(
    command, cli, small_dataset, tmp_path
):
    """The rows of train are dealt out, those of valid, in two shards, are not."""
    run, dataset = tmp_path / "run", Dataset.open(str(small_dataset))
    launch = [sys.executable, "-m", "fives_tf.cli", "launch", "local", "--workers=3", "--"]
    search = command(run, *FORMS["adam"], "--memory=0", "--no_xla")
    done = subprocess.run([*launch, *search], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    # The shortest of the shards, a third of a batch at a time, and not a third of all rows.
    steps = min(shard.rows for shard in dataset.split("train").shards) // (BATCH // 3)
    assert steps != dataset.split("train").rows // BATCH
    lines = metrics(run)
    assert [line["step"] for line in lines] == [steps, 2 * steps]
    assert {line["rows"] for line in lines} == {dataset.split("valid").rows}
    judged = json.loads((run / "run.json").read_text())["evaluation"]
    alone = json.loads(cli("evaluate", run, "--split=valid", "--json").stdout)
    assert judged["rows"] == alone["rows"] == dataset.split("valid").rows
    assert judged["log_loss"] == pytest.approx(alone["log_loss"], abs=1e-6)
    assert judged["auc"] == pytest.approx(alone["auc"], abs=1e-3)


def test_workers_that_are_lost_or_stopped_go_on_and_end_as_if_they_had_not_been(
    command, streamed_by_two, tmp_path
):
    run = tmp_path / "run"
    begin = command(run, *FORMS["streamed"])
    resume = [*begin, "--resume"]
    last = {stage: saved_step(streamed_by_two, stage) for stage in ("lr", "search")}

    with workers(2, begin) as (chief, other):
        stop(other, run, "lr", signal.SIGKILL)
        assert_lost(chief)
    killed = saved_step(run, "lr")

    with workers(2, resume) as (chief, other):
        stop(chief, run, "lr", signal.SIGKILL, after=killed)
        assert_lost(other)
    assert killed < saved_step(run, "lr") < last["lr"], "they were not killed in mid-training"

    with workers(2, resume) as (chief, other):
        stop(other, run, "search", signal.SIGTERM)
        ends = [end(worker, BOUND) for worker in (chief, other)]
    for code, told in ends:
        assert code == 128 + signal.SIGTERM, told
        assert told.count("fives search: interrupted; the same command with --resume goes on") == 1
        assert "Traceback" not in told
    assert saved_step(run, "search") < last["search"], "they were not stopped in mid-training"

    run_with(2, resume)
    assert_same(run, streamed_by_two)


@pytest.mark.parametrize("model", ["wide_deep", "autofis"])
def test_two_workers_fit_what_one_process_does(model, small_dataset, tmp_path):
    crosses = tmp_path / "crosses.json"
    crosses.write_bytes(to_json([Cross(("C1", "C2"), 1.0)]))

    def command(run: str) -> list[str]:
        base = [sys.executable, "-m", "fives_tf.cli", "fit", str(small_dataset)]
        flags = [f"--model={model}", f"--crosses={crosses}", "--top=1", f"--batch={BATCH}"]
        flags += ["--dim=4", "--hidden=8", "--lr_epochs=1", "--epochs=2", "--no_xla"]
        return [*base, f"--run={tmp_path / run}", *flags]

    alone = subprocess.run(command("alone"), capture_output=True, text=True, timeout=SECONDS)
    assert alone.returncode == 0, alone.stderr
    chief, _ = run_with(2, command("both"))
    assert "MultiWorkerMirroredStrategy on 2 workers, 2 replicas" in chief
    stages = {line["stage"] for line in metrics(tmp_path / "both")}
    assert stages >= ({"search", "fit", "refit"} if model == "autofis" else {"fit", "refit"})
    assert_same_course(tmp_path / "both", tmp_path / "alone")


def test_workers_save_together_though_their_clocks_differ(command, tmp_path):
    run = tmp_path / "run"
    flags = [*FORMS["adam"], "--no_xla", "--evaluate_rows=500"]
    seconds = [0, 1_000_000]  # as if it were time to save for the chief only
    commands = [command(run, *flags, f"--checkpoint_seconds={one}") for one in seconds]
    with workers(2, *commands) as both:
        ends = [end(worker) for worker in both]
    assert [code for code, _ in ends] == [0, 0], ends


def test_a_mistake_that_the_chief_meets_ends_all_workers(command, streamed_by_two):
    before = (streamed_by_two / "run.json").read_bytes()
    with workers(2, command(streamed_by_two, *FORMS["streamed"])) as both:
        (code, told), (other_code, other_told) = [end(worker, BOUND) for worker in both]
    assert (code, other_code) == (2, TRY_AGAIN)
    assert "holds a search; --resume goes on with it, --overwrite replaces it" in told
    assert "worker 0 has stopped; its output says why" in other_told
    assert "Traceback" not in told + other_told
    assert (streamed_by_two / "run.json").read_bytes() == before


@contextmanager
def workers(count: int, *commands: list[str]) -> Iterator[list[subprocess.Popen]]:
    """Processes that find each other by TF_CONFIG on loopback; none of them is left behind.

    All run the same command, or each has its own.
    """
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]
    started = []
    try:
        for index in range(count):
            config = json.dumps(config_of(addresses, index))
            started.append(
                subprocess.Popen(
                    commands[index % len(commands)],
                    env=os.environ | {"TF_CONFIG": config},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        yield started
    finally:
        for worker in started:
            worker.kill()
            worker.communicate()


def run_with(count: int, command: list[str]) -> list[str]:
    """Runs a command with so many workers, each of which must end well; what they told."""
    with workers(count, [*command, "--debug"]) as started:
        ends = [end(worker) for worker in started]
    assert [code for code, _ in ends] == [0] * count, "\n".join(told for _, told in ends)
    return [told for _, told in ends]


def end(worker: subprocess.Popen, seconds: float = SECONDS) -> tuple[int, str]:
    """Waits for the end of a worker; its exit code and what it told."""
    _, told = worker.communicate(timeout=seconds)
    return worker.returncode, told


def stop(
    worker: subprocess.Popen, run: Path, stage: str, number: signal.Signals, after: int = 0
) -> None:
    """Sends a signal to a worker as soon as the chief has saved a stage after a step."""
    deadline = time.monotonic() + SECONDS
    while saved_step(run, stage) <= after:
        assert worker.poll() is None, "the worker ended before it could be stopped"
        assert time.monotonic() < deadline, "nothing was saved"
        time.sleep(0.001)
    worker.send_signal(number)


def assert_lost(worker: subprocess.Popen) -> None:
    """Asserts that a worker ends soon, and says in one line that it lost another one."""
    code, told = end(worker, BOUND)
    assert code == TRY_AGAIN, told
    assert told.count("fives search: another worker is gone") == 1
    assert "--resume" in told
    assert "Traceback" not in told


def assert_same(run: Path, expected: Path) -> None:
    """Asserts the same course of a search and the same edges; see the top of this file."""
    assert_same_course(run, expected)
    with np.load(run / "adjacency.npz") as found, np.load(expected / "adjacency.npz") as wanted:
        np.testing.assert_allclose(found["soft"], wanted["soft"], rtol=0, atol=1e-4)
        np.testing.assert_array_equal(found["binary"], wanted["binary"])


def assert_same_course(run: Path, expected: Path) -> None:
    """Asserts the same course of training, and the same weights after each stage."""
    found, wanted = metrics(run), metrics(expected)
    for one, other in zip(found, wanted, strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            place = f"{name} at step {other['step']} of {other['stage']}"
            if name in ("stage", "step", "epoch", "rows"):
                assert one[name] == value, place
            else:
                limit = 1e-3 if name.endswith("auc") else 1e-5
                assert one[name] == pytest.approx(value, abs=limit), place
    for stage in {line["stage"] for line in wanted}:
        assert_same_checkpoint(run, expected, f"checkpoints/{stage}/last")


def assert_same_checkpoint(run: Path, expected: Path, name: str) -> None:
    found, wanted = (
        tf.train.load_checkpoint(tf.train.latest_checkpoint(str(place / name)))
        for place in (run, expected)
    )
    assert found.get_variable_to_shape_map() == wanted.get_variable_to_shape_map()
    for variable in wanted.get_variable_to_shape_map():
        if variable.startswith(("_", "save_counter")):  # the graph of the objects; how often saved
            continue
        value = wanted.get_tensor(variable)
        largest = np.max(np.abs(value), initial=0)
        limit = 1e-4 * largest + 1e-8 if "/_variables/" in variable else 1e-5 * largest
        place = f"{variable} in {name}"
        np.testing.assert_allclose(found.get_tensor(variable), value, 0, limit, err_msg=place)
