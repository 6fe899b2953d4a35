"""From the environment to a `tf.distribute` strategy, and what the workers of one job agree on.

One device needs no strategy, several of one machine are mirrored, and a cluster in TF_CONFIG makes
each process a worker of a larger job. The loop, the models and the input are the same in all cases.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import tensorflow as tf

from fives_tf import cluster
from fives_tf.errors import UserError, WorkerLostError
from fives_tf.quiet import silence

T = TypeVar("T")
KINDS = ("auto", "one", "mirrored", "workers")
# What a collective raises when a worker that it waits for is gone.
_GONE = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


@dataclass(frozen=True)
class Devices:
    """The devices that were asked for.

    Attributes:
        kind: "cpu" or "gpu".
        count: How many of them.
    """

    kind: str
    count: int

    @classmethod
    def parse(cls, text: str) -> "Devices":
        """Reads `cpu:4`, four logical devices of the CPU, or `gpu:2`, the first two GPUs."""
        kind, _, count = text.partition(":")
        if kind not in ("cpu", "gpu") or not (count or "1").isdecimal() or int(count or 1) < 1:
            raise UserError(
                f"`devices`: expected cpu:N or gpu:N, such as cpu:4. Received: {text!r}."
            )
        return cls(kind, int(count or 1))


@functools.cache
def choose(kind: str = "auto", devices: str = "") -> tuple[tf.distribute.Strategy, str]:
    """Chooses a strategy. To be called before TensorFlow does anything else.

    Args:
        kind: One of KINDS.
        devices: What `Devices.parse` reads; all GPUs, or else one CPU, if empty.

    Returns:
        The strategy, and a line that says what was chosen and why.
    """
    wanted = Devices.parse(devices) if devices else None
    try:
        names = _prepare(wanted)
    except RuntimeError:
        raise UserError(
            f"`devices`: {devices or 'all GPUs'} cannot be had any more, as TensorFlow has begun "
            "with others in this process; use a process of its own."
        ) from None
    gpus = names[0].startswith("GPU")
    workers = cluster.read(os.environ)
    if kind == "workers" and workers is None:
        raise UserError(
            "`strategy`: workers need a cluster in the environment variable TF_CONFIG, and it is "
            "not set; start them with `fives launch`."
        )
    if workers and kind in ("auto", "workers"):
        strategy = _join(workers, gpus)
        replicas = _count(strategy.num_replicas_in_sync, "replica")
        count = _count(len(workers.workers), "worker")
        return strategy, f"MultiWorkerMirroredStrategy on {count}, {replicas}: as TF_CONFIG tells"
    reason = "as asked for"
    if kind == "auto" and wanted is None:
        reason = "all GPUs that TensorFlow sees" if gpus else "TensorFlow sees no GPU"
    if kind == "mirrored" or (kind == "auto" and len(names) > 1):
        count = _count(len(names), "device")
        where = f"MirroredStrategy on {count}, {names[0]} to {names[-1]}"
        return tf.distribute.MirroredStrategy(names), f"{where}: {reason}"
    return tf.distribute.get_strategy(), f"one device, {names[0]}: {reason}"


@dataclass(frozen=True)
class Place:
    """Where this process stands among the workers of a job.

    Attributes:
        worker: The number of this process, from 0 on; 0 is the chief.
        workers: The number of all processes.
        replicas: The number of all replicas, those of other processes included.
    """

    worker: int = 0
    workers: int = 1
    replicas: int = 1

    @classmethod
    def here(cls) -> "Place":
        """The place of this process under the strategy in whose scope this is called."""
        strategy = tf.distribute.get_strategy()
        resolver = strategy.cluster_resolver
        if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            return cls(replicas=strategy.num_replicas_in_sync)
        workers = len(resolver.cluster_spec().as_dict().get("worker", [0]))
        return cls(resolver.task_id or 0, workers, strategy.num_replicas_in_sync)

    @property
    def is_chief(self) -> bool:
        """Whether this is the process that writes files."""
        return self.worker == 0

    @property
    def local(self) -> int:
        """The number of replicas of this process."""
        return self.replicas // self.workers


def agree(value: int) -> int:
    """The largest value that any worker gives; each must call this, and waits for all others."""
    if Place.here().workers == 1:
        return value
    strategy = tf.distribute.get_strategy()
    values = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant([value], tf.int32)
    )
    return int(tf.reduce_max(strategy.gather(values, axis=0)))


def on_chief(work: Callable[[], T]) -> T | None:
    """Does something on the chief alone while the others wait; if it fails there, all stop.

    Returns:
        What the work gave on the chief, None elsewhere.
    """
    found, failed = None, 1
    try:
        if Place.here().is_chief:
            found = work()
        failed = 0
    finally:
        failed = agree(failed)
    if failed:
        raise WorkerLostError("worker 0 has stopped; its output says why.")
    return found


def tell(line: str) -> None:
    """Prints a line to standard error, once for all workers."""
    if Place.here().is_chief:
        print(line, file=sys.stderr)


@contextlib.contextmanager
def losing_workers() -> Iterator[None]:
    """Turns what TensorFlow raises when another worker is gone into one clear error."""
    try:
        yield
    except _GONE as error:
        if cluster.read(os.environ) is None:
            raise
        raise WorkerLostError(
            "another worker is gone; look at its output, and start all of them again with --resume."
        ) from error


def _join(workers: cluster.Cluster, gpus: bool) -> tf.distribute.Strategy:
    """Waits for all workers to be there."""
    kinds = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=kinds.NCCL if gpus else kinds.RING  # left alone, TensorFlow takes the ring
    )
    number = f"worker {workers.index} of {len(workers.workers)}"
    print(f"{number}: listens on {workers.workers[workers.index]}, waits for all", file=sys.stderr)
    with silence():
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    # All workers get equally many batches. Else TensorFlow reckons with a worker that has none
    # left: batches lose their static size, and XLA compiles anew in each step.
    strategy.extended.experimental_enable_get_next_as_optional = False
    return strategy


def _prepare(wanted: Devices | None) -> list[str]:
    """Makes the wanted devices the only visible ones; their names."""
    gpus = tf.config.list_physical_devices("GPU")
    if wanted is None:
        wanted = Devices("gpu", len(gpus)) if gpus else Devices("cpu", 1)
    if wanted.kind == "gpu":
        if wanted.count > len(gpus):
            raise UserError(
                f"`devices`: gpu:{wanted.count} asked for, and TensorFlow sees {len(gpus)} of "
                "them. Ask for fewer, or look at the drivers and at CUDA_VISIBLE_DEVICES."
            )
        tf.config.set_visible_devices(gpus[: wanted.count], "GPU")
        for gpu in gpus[: wanted.count]:
            with contextlib.suppress(RuntimeError):  # if a notebook has begun to use it
                tf.config.experimental.set_memory_growth(gpu, True)
    else:
        tf.config.set_visible_devices([], "GPU")
        (cpu,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * wanted.count
        if (tf.config.get_logical_device_configuration(cpu) or parts[:1]) != parts:
            tf.config.set_logical_device_configuration(cpu, parts)
    return [f"{wanted.kind.upper()}:{index}" for index in range(wanted.count)]


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
