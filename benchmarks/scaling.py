"""Several replicas: rows a second, and what they exchange in a step, sparse against dense.

    python benchmarks/scaling.py --out benchmarks/results/scaling.json

The search stage is trained through the real loop, in the paper's form, on 1, 2 and 4 logical
devices of the CPU that share one global batch. Each number of replicas is measured twice:

- sparse: as the program does it; the gradient of the embedding is a row number and values for each
  value of the batch, and stays so when the replicas exchange it;
- dense: the same model, but that gradient is made a tensor as large as the table before it is
  exchanged. The optimizer then moves all rows, as Keras' own does.

What a replica hands to the others is read off where Keras' optimizers sum the gradients. As a check
two workers, processes of their own, train over loopback, and the bytes that it carries are counted.
Logical devices share the cores, so that more of them are not faster: the times show what replicas
cost. From these figures a model tells what GPUs could do; `docs/scaling.md` explains it.

Each measurement has a process of its own. Use it on an idle machine.
"""

import argparse
import contextlib
import itertools
import json
import logging
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import harness
import scaling_model
import search_speed
from scaling_model import EXCHANGES, MILLION, find

from fives_tf import storage
from fives_tf.cluster import VARIABLE
from fives_tf.config import SearchConfig
from fives_tf.dataset import Dataset
from fives_tf.encoding import FIRST_VALUE
from fives_tf.errors import UserError
from fives_tf.tables import print_table
from launch.cluster import config_of
from launch.local import free_ports

if TYPE_CHECKING:
    from fives_tf.models.fives import FivesModel

REPLICAS = (1, 2, 4)
WORKERS = 2
DENSE_SHARE = 10  # steps of the dense exchange are slow, so one in so many is enough
MOST_SHARE = 0.05  # of the dense bytes that the sparse exchange may move
ROWS = 100_000
CALLS = 10  # that are timed; each trains a part of the steps
WARM_UP = 2  # calls before: the first one compiles
UPDATES = 20  # of the embedding that are timed alone
NETWORK = Path("/proc/net/dev")


@dataclass(frozen=True)
class Task(search_speed.Task):
    """One measurement; its name says which exchange.

    Attributes:
        replicas: The number of replicas in each process.
        workers: The number of processes.
    """

    replicas: int = 1
    workers: int = 1


class Mark(NamedTuple):
    """Where training stands after a call of the loop.

    Attributes:
        step: The number of steps.
        seconds: The time.
        carried: The bytes that loopback has carried.
    """

    step: int
    seconds: float
    carried: int


def main() -> int:
    """The command line."""
    return harness.command_line("scaling", run)


def run(argv: list[str] | None = None) -> dict[str, Any]:
    """Measures, prints the tables and the verdicts, and returns the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replicas", type=_numbers, default=list(REPLICAS), metavar="N,...")
    parser.add_argument("--size", type=int, default=MILLION, help="rows of the embedding table")
    parser.add_argument("--steps", type=int, default=200, help="about how many steps are timed")
    default = search_speed.Shape(rows=ROWS)
    for name, value in asdict(default).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    harness.add_out_flag(parser)
    args = parser.parse_args(argv)
    shape = search_speed.Shape(**{name: getattr(args, name) for name in asdict(default)})
    _check(args.replicas, args.size, shape)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as directory:
        task = Task("write", args.size, args.steps, shape, directory)
        harness.in_own_process(search_speed.write_dataset, task)
        measured = measure_all(task, args.replicas)
    compare(measured)
    print_measured(measured)
    model = scaling_model.extrapolate(measured, args.size, shape)
    scaling_model.print_model(model)
    criteria = judge(measured, args.size)
    for criterion in criteria:
        verdict = "reached" if criterion["reached"] else "NOT reached"
        print(f"{criterion['what']}: {criterion['value']:.2%}, {criterion['limit']}, {verdict}")
    result = {
        "shape": asdict(shape),
        "size": args.size,
        "steps": args.steps,
        "config": harness.config_values(make_config(shape)),
        "seed": shape.seed,
        "measured": measured,
        "criteria": criteria,
        "assumptions": scaling_model.assumptions(),
        "model": model,
        "machine": harness.machine() | {"load_before": round(load, 2)},
        "versions": harness.versions(harness.TRAINING),
    }
    harness.write_result(result, args.out)
    return result


def make_config(shape: search_speed.Shape) -> SearchConfig:
    """The paper's form, with rows that are streamed from TFRecords."""
    return SearchConfig.make(
        paper=True,
        order=shape.order,
        dim=shape.dim,
        batch=shape.batch,
        seed=shape.seed,
        memory=0,
    ).resolve(shape.rows)


def measure_all(task: Task, replicas: list[int]) -> list[dict[str, Any]]:
    """Measures one after the other on a dataset that is there."""
    tasks = [replace(task, replicas=number) for number in replicas]
    if NETWORK.exists():
        tasks.append(replace(task, workers=WORKERS))
    else:
        print(f"there is no {NETWORK}: what workers exchange is not counted", file=sys.stderr)
    measured = []
    for task, exchange in itertools.product(tasks, EXCHANGES):
        print(f"{_name(task.replicas, task.workers)}, {exchange}", file=sys.stderr, flush=True)
        steps = task.steps if exchange == "sparse" else max(1, task.steps // DENSE_SHARE)
        function = measure if task.workers == 1 else measure_workers
        found = harness.in_own_process(function, replace(task, name=exchange, steps=steps))
        kind = {"replicas": task.replicas, "workers": task.workers, "exchange": exchange}
        measured.append(kind | found)
        shutil.rmtree(Path(task.directory) / "run", ignore_errors=True)
    return measured


def measure_workers(task: Task) -> dict[str, Any]:
    """One measurement of workers on loopback: this process is the first and starts the others."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(task.workers)]
    # Not forked: a process must not inherit the state of TensorFlow.
    context = multiprocessing.get_context("spawn")
    configs = [json.dumps(config_of(addresses, index)) for index in range(task.workers)]
    others = [
        context.Process(target=_measure_worker, args=(task, config), daemon=True)
        for config in configs[1:]
    ]
    for other in others:
        other.start()
    found = _measure_worker(task, configs[0])
    for other in others:
        other.join()
    return found


def measure(task: Task) -> dict[str, Any]:
    """One measurement in this process, which must not have used TensorFlow before."""
    # These load TensorFlow, in this process only.
    from fives_tf.models.build import Facts, build_fives
    from fives_tf.quiet import start_xla
    from fives_tf.training.batches import Batches, Source
    from fives_tf.training.loop import Loop, Schedule
    from fives_tf.training.strategy import choose

    call = max(1, task.steps // CALLS)
    total = call * (WARM_UP + CALLS)
    strategy, _ = choose("auto", f"cpu:{task.replicas}")
    start_xla()
    marks: list[Mark] = []
    # Workers do not know the shapes of their batches beforehand; their wire is watched instead.
    noted = _noted() if task.workers == 1 else contextlib.nullcontext([])
    with strategy.scope(), noted as handed:
        dataset = Dataset.open(task.directory)
        config = make_config(task.shape)
        source = Source(dataset, config.memory)
        train = Batches(source, ["train"], config.batch, config.seed)
        valid = Batches(source, ["valid"], config.batch, config.seed)
        facts = Facts.of(dataset, config)
        model = build_fives(config, facts, seed=config.seed, steps=total)
        if task.name == "dense":
            _make_dense(model)
        # Without an evaluation, all that is done at its time is a line in the log and this call.
        schedule = Schedule(
            total / train.steps, evaluate_rows=call * train.batch, checkpoint_seconds=1e9
        )
        Loop(
            model,
            "search",
            storage.join(task.directory, "run"),
            source,
            schedule,
            lambda journal, step: marks.append(Mark(step, time.perf_counter(), carried())),
        ).train(train, valid, keep_best=False)
    if not marks:  # a worker that is not the chief
        return {}
    timed = marks[WARM_UP - 1 :]
    found = _speed(timed, task.shape.batch)
    if task.workers > 1:
        return found | {"wire_bytes": _wire_bytes(timed)}
    if task.replicas == 1:
        ids, _ = next(iter(train.stream()))
        found["update_milliseconds"] = round(1000 * _update_seconds(model, ids), 3)
        return found | {"slice_bytes": 0, "tensor_bytes": 0}
    if len(handed) != task.replicas * len(model.trainable_variables):
        raise RuntimeError("expected each replica to hand over each gradient once")
    for kind in ("slice_bytes", "tensor_bytes"):
        number = sum(count for name, count in handed if name == kind)
        found[kind] = number // task.replicas
    return found


def carried() -> int:
    """The bytes that loopback has carried so far, those of other programs included; else 0."""
    if not NETWORK.exists():
        return 0
    lines = (line.partition(":") for line in NETWORK.read_text().splitlines())
    return sum(int(figures.split()[0]) for name, _, figures in lines if name.strip() == "lo")


def compare(measured: list[dict[str, Any]]) -> None:
    """Adds to each measurement its speed as a part of that of one replica."""
    for found in measured:
        alone = find(measured, found["exchange"], 1)
        ratio = found["rows_per_second"] / alone["rows_per_second"]
        found["one_replica_ratio"] = round(ratio, 3)


def judge(measured: list[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Whether the sparse exchange moves little enough."""
    criteria = []
    for sparse in measured:
        if sparse["exchange"] == "dense" or sparse["replicas"] * sparse["workers"] == 1:
            continue
        dense = find(measured, "dense", sparse["replicas"], sparse["workers"])
        share = _moved(sparse) / _moved(dense)
        name = _name(sparse["replicas"], sparse["workers"])
        criteria.append(
            {
                "what": f"{name}: sparse over dense bytes at {size:,} rows",
                "value": round(share, 4),
                "limit": f"less than {MOST_SHARE:.0%}",
                "reached": share < MOST_SHARE,
            }
        )
    return criteria


def print_measured(measured: list[dict[str, Any]]) -> None:
    """Prints the measurements side by side."""
    header = ("what", "exchange", "rows/s", "ms a step", "of one replica", "MB a step")
    print_table(
        header,
        [
            (
                _name(found["replicas"], found["workers"]),
                found["exchange"],
                f"{found['rows_per_second']:,}",
                f"{found['step_milliseconds']:.2f}",
                f"{found['one_replica_ratio']:.2f}",
                f"{_moved(found) / MILLION:.3f}",
            )
            for found in measured
        ],
    )
    for found in measured:
        if "update_milliseconds" in found:
            update, step = found["update_milliseconds"], found["step_milliseconds"]
            share = f"{update:.2f} of {step:.2f} ms a step, {update / step:.0%}"
            print(f"one replica, {found['exchange']}: the embedding's update is {share}")


def _check(replicas: list[int], size: int, shape: search_speed.Shape) -> None:
    if replicas[0] != 1 or len(replicas) == 1:
        raise UserError(f"--replicas: expected 1 and larger numbers. Received: {replicas}.")
    for number in (*replicas, WORKERS):
        if shape.batch % number:
            raise UserError(f"--batch: {shape.batch} rows cannot be divided by {number}.")
    if size // shape.fields <= FIRST_VALUE or shape.rows // 10 < shape.batch:
        raise UserError(
            f"expected a size of at least {FIRST_VALUE + 1} values a field, and at least ten times "
            "as many rows as a batch has."
        )


def _measure_worker(task: Task, config: str) -> dict[str, Any]:
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    os.environ[VARIABLE] = config
    return measure(task)


@contextlib.contextmanager
def _noted() -> Iterator[list[tuple[str, int]]]:
    """Notes the kind and the bytes of each gradient that replicas hand over to have it summed.

    A step is traced once for each replica, and the shapes are known then. Keras' optimizers sum
    gradients by `ReplicaContext.all_reduce`, which gathers slices and adds up tensors.
    """
    import tensorflow as tf

    handed: list[tuple[str, int]] = []
    original = tf.distribute.ReplicaContext.all_reduce

    def all_reduce(context: Any, reduce_op: Any, value: Any, options: Any = None) -> Any:
        for gradient in tf.nest.flatten(value):
            if isinstance(gradient, tf.IndexedSlices):
                kind, parts = "slice_bytes", (gradient.indices, gradient.values)
            else:
                kind, parts = "tensor_bytes", (gradient,)
            handed.append((kind, sum(p.shape.num_elements() * p.dtype.size for p in parts)))
        return original(context, reduce_op, value, options)

    with mock.patch.object(tf.distribute.ReplicaContext, "all_reduce", all_reduce):
        yield handed


def _make_dense(model: "FivesModel") -> None:
    """Lets the embedding's gradient be a tensor as large as the table."""
    import tensorflow as tf

    sparse = model.embedding.gradient
    model.embedding.gradient = lambda *args: tf.convert_to_tensor(sparse(*args))


def _update_seconds(model: "FivesModel", ids: Any) -> float:
    """The median time in which the optimizer moves the embedding by the gradient of a batch."""
    import tensorflow as tf

    rows, table = tf.transpose(ids), model.embedding
    optimizer = model.learners()["embedding"]
    found = table.lookup(rows)
    gradient = table.gradient(rows, found, found)
    update = tf.function(lambda gradient: optimizer.apply([gradient], [table.values]))
    seconds = []
    for _ in range(1 + UPDATES):
        began = time.perf_counter()
        update(gradient)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])  # the first call traces


def _speed(marks: list[Mark], batch: int) -> dict[str, Any]:
    first, *_, last = marks
    steps = last.step - first.step
    seconds = [(b.seconds - a.seconds) / (b.step - a.step) for a, b in itertools.pairwise(marks)]
    return {
        "steps": steps,
        "rows_per_second": round(steps * batch / (last.seconds - first.seconds)),
        "step_milliseconds": round(1000 * statistics.median(seconds), 3),
    }


def _wire_bytes(marks: list[Mark]) -> int:
    """The bytes of a step; the median, as other programs use loopback at times."""
    return round(
        statistics.median(
            (b.carried - a.carried) / (b.step - a.step) for a, b in itertools.pairwise(marks)
        )
    )


def _moved(found: dict[str, Any]) -> int:
    """The bytes of a step: those that a replica hands over, or that the wire of workers carries."""
    return found.get("wire_bytes") or found["slice_bytes"] + found["tensor_bytes"]


def _name(replicas: int, workers: int) -> str:
    if workers > 1:
        return f"wire of {workers} workers"
    return "1 replica" if replicas == 1 else f"{replicas} replicas"


def _numbers(text: str) -> list[int]:
    try:
        return sorted({int(number) for number in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,2,4: {text!r}.") from None


if __name__ == "__main__":
    sys.exit(main())
