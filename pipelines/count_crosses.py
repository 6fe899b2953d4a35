"""Counts the combinations of crosses in the rows of a dataset, and gives ids to the frequent ones.

Each shard is counted by one worker, and the counts of each cross are added up by one. The test rows
are not read: nothing is fitted on them.
"""

import contextlib
import io
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.shared import Shared

from fives_tf import storage
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.cross_fitting import MIN_COUNT, MOST_VALUES, CrossCounter, CrossCounts
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset, Shard
from pipelines import progress, runner

ROWS_AT_ONCE = 65_536
FITTED = ("train", "valid")
_HELD = 8  # counts that are held before they are added up


class Addable(Protocol):
    """The counts of one cross in some rows, such as `CrossCounts`."""

    @classmethod
    def sum(cls, parts: Iterable["Addable"]) -> "Addable":
        """The counts of all rows of several parts, of which there is one at least."""


@dataclass(frozen=True)
class CountJob:
    """What the workers must know.

    Attributes:
        directory: The dataset.
        crosses: The crosses.
        min_count: How often a combination must occur to get an id of its own.
        most: How many combinations may have one.
        hash_buckets: See `CrossCounter`.
        results: The directory for what was counted.
        progress_path: The progress file, if the workers run on this machine.
    """

    directory: str
    crosses: tuple[Cross, ...]
    results: str
    min_count: int = MIN_COUNT
    most: int = MOST_VALUES
    hash_buckets: int | None = None
    progress_path: str | None = None

    def counter(self) -> "CrossCounter":
        """What counts."""
        encoding = Dataset.open(self.directory).encoding
        return CrossCounter(self.crosses, encoding, self.min_count, self.most, self.hash_buckets)

    def result(self, index: int) -> str:
        """The file with the counts of a cross."""
        return storage.join(self.results, f"{index:05}.npz")


def count_crosses(job: CountJob, beam_options: PipelineOptions) -> CrossEncoding:
    """The crosses with the ids of their combinations; what was counted before is not counted again.

    Args:
        job: What to count.
        beam_options: Options for Beam.
    """
    counter = job.counter()  # refuses crosses of other fields before anything is read
    dataset = Dataset.open(job.directory)
    shards = [shard for name in FITTED for shard in dataset.split(name).shards]
    missing = [i for i in range(len(job.crosses)) if not storage.exists(job.result(i))]
    if missing:
        total = sum(shard.bytes for shard in shards)
        with progress.show(job.progress_path, "count crosses", total):
            runner.run(beam_options, lambda pipeline: _build(pipeline, shards, job))
    sums = [_read(storage.read(job.result(index))) for index in range(len(job.crosses))]
    return counter.fit([sums])


def fit_on_dataset(
    dataset: Dataset,
    crosses: Sequence[Cross],
    beam_options: PipelineOptions,
    beside: str,
    **rules: int | None,
) -> CrossEncoding:
    """As `count_crosses`, without anything that is left behind.

    Args:
        dataset: The dataset.
        crosses: The crosses.
        beam_options: Options for Beam.
        beside: A path that the workers can write next to.
        **rules: `min_count`, `most` and `hash_buckets`.
    """
    with scratch(beside, beam_options) as (results, shown):
        job = CountJob(dataset.directory, tuple(crosses), results, progress_path=shown, **rules)
        return count_crosses(job, beam_options)


@contextlib.contextmanager
def scratch(beside: str, beam_options: PipelineOptions) -> Iterator[tuple[str, str | None]]:
    """A directory for what workers count, and a progress file; removed at the end.

    Args:
        beside: A path that the workers can write next to.
        beam_options: Options for Beam; if the workers run elsewhere there is no progress file.
    """
    directory = f"{beside}.{uuid.uuid4().hex}{storage.ASIDE}"
    try:
        with progress.created(runner.is_local(beam_options)) as shown:
            yield directory, shown
    finally:
        storage.remove(directory)


def _build(pipeline: beam.Pipeline, shards: list[Shard], job: CountJob) -> None:
    _ = (
        pipeline
        | "CreateShards" >> beam.Create(shards)
        | "SpreadShards" >> beam.Reshuffle()
        | "CountShards" >> beam.ParDo(CountShards(job))
        | "AddCounts" >> beam.CombinePerKey(AddCounts())
        | "WriteCounts" >> beam.Map(_write, job)
    )


class CountShards(beam.DoFn):
    """Counts the combinations of all crosses in a shard."""

    def __init__(self, job: Any):
        """Takes a job, which has `directory`, `crosses`, `progress_path` and `counter()`."""
        self._job = job
        self._shared = Shared()
        self._dataset: Dataset | None = None
        self._counter: Any = None

    def setup(self) -> None:
        """Loads the encoding, once for all workers of a process."""
        self._dataset = Dataset.open(self._job.directory)
        self._counter = self._shared.acquire(self._job.counter)

    def process(self, shard: Shard) -> Iterator[tuple[int, Addable]]:
        """Yields the counts by the number of the cross."""
        parts: list[list[Addable]] = [[] for _ in self._job.crosses]
        for ids, label in self._dataset.blocks(shard, ROWS_AT_ONCE):
            for part, counts in zip(parts, self.count(ids, label), strict=True):
                part[:] = _hold(part, counts)
        progress.report(self._job.progress_path, shard.rows, shard.bytes)
        for index, part in enumerate(parts):
            if part:
                yield index, _sum(part)

    def count(self, ids: np.ndarray, label: np.ndarray) -> Iterable[Addable]:
        """The counts of each cross in some rows."""
        return self._counter.count(ids)


class AddCounts(beam.CombineFn):
    """Adds up the counts of a cross."""

    def create_accumulator(self) -> list[Addable]:
        """See `beam.CombineFn`."""
        return []

    def add_input(self, held: list[Addable], counts: Addable) -> list[Addable]:
        """See `beam.CombineFn`."""
        return _hold(held, counts)

    def merge_accumulators(self, several: Iterable[list[Addable]]) -> list[Addable]:
        """See `beam.CombineFn`."""
        merged: list[Addable] = []
        for held in several:
            for counts in held:
                merged = self.add_input(merged, counts)
        return merged

    def extract_output(self, held: list[Addable]) -> Addable:
        """See `beam.CombineFn`."""
        return _sum(held)


def _hold(held: list[Addable], counts: Addable) -> list[Addable]:
    """Adds counts to those that are held; they are added up before they are many."""
    held = [*held, counts]
    return [_sum(held)] if len(held) >= _HELD else held


def _sum(parts: list[Addable]) -> Addable:
    return type(parts[0]).sum(parts)


def _write(counted: tuple[int, CrossCounts], job: CountJob) -> None:
    index, sums = counted[0], counted[1].without_rare(job.min_count)
    buffer = io.BytesIO()
    values = {} if sums.values is None else {"values": sums.values}
    np.savez(
        buffer,
        keys=sums.keys,
        counts=sums.counts,
        special=np.array([sums.missing_count, sums.rare_count]),
        **values,
    )
    storage.write(job.result(index), buffer.getvalue())


def _read(content: bytes) -> CrossCounts:
    with np.load(io.BytesIO(content), allow_pickle=False) as saved:
        missing, rare = saved["special"].tolist()
        return CrossCounts(saved["keys"], saved.get("values"), saved["counts"], missing, rare)
