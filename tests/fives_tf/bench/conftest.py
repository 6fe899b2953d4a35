"""Benchmarks in this process, where TensorFlow is imported once, on a small log."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from fives_tf.bench import cells, data, table3
from fives_tf.bench.data import Data
from fives_tf.bench.processes import Call, Outcome, perform
from fives_tf.training import crossing

TINY = {
    "lr_epochs": 1,
    "search_epochs": 1,
    "epochs": 1,
    "batch": 512,
    "dim": 2,
    "hidden": "[4]",
    "layers": 1,
    "order": 2,
    "xla": "false",
}


@pytest.fixture
def one_process(monkeypatch):
    """Calls in this process what else has one of its own."""

    def here(calls: Iterable[Call], jobs: int = 1) -> Iterator[tuple[int, Outcome]]:
        return ((number, perform(call)) for number, call in enumerate(calls))

    for module in (cells, data):
        monkeypatch.setattr(module, "in_processes", here)
    monkeypatch.setattr(crossing, "COUNTS", (1, 3))
    monkeypatch.setattr(table3, "COUNT", 3)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Trees have one thread, as threads that wait for each other's cores take long."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def bench(one_process, cli, small_dataset):
    """Runs `fives bench` on a small log with tiny settings."""

    def run(experiment: str, work: Path, *flags: str, **settings: object):
        settings = [f"--set={name}={value}" for name, value in (TINY | settings).items()]
        where = (f"--datasets={small_dataset}", f"--work={work}")
        return cli("bench", experiment, *where, "--quick", *settings, *flags)

    return run


@pytest.fixture
def small_data(small_dataset) -> Data:
    (found,) = data.prepare([str(small_dataset)], range(1), Path(), Path(), 1)["dataset"]
    return found


def result(work: Path, experiment: str) -> dict:
    """The written result, which tells nothing of where it was made."""
    text = (work / "results" / f"{experiment}.json").read_text()
    assert str(work) not in text
    return json.loads(text)
