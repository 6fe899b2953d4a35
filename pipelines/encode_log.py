"""Pass 2: encodes the rows, deals them out to splits and shards, and writes TFRecords.

The shuffle goes through files, because the in-process runner would hold it in memory: each block
writes its encoded rows to a spill file with one batch a shard; then each shard is gathered from all
spill files, sorted by the rows' keys and written. Memory is that of one block or one shard a
worker. A row's shard and its place there depend on its number in the log alone, so every runner
writes the same files. Spill files and shards take their names when they are whole, so a killed run
goes on from those that are there.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.shared import Shared

from fives_tf import storage
from fives_tf.encoding import Encoding
from fives_tf.records import frame_examples
from fives_tf.schema import SPLITS
from fives_tf.splitting import shard_of, shuffle_key
from pipelines import progress
from pipelines.job import Job
from pipelines.sources import Block, Piece, read_blocks

WRITTEN_AT_ONCE = 65_536
WRITING_SHARE = 0.25  # what writing the shards takes of the time that encoding takes
SPILL_SCHEMA = pa.schema(
    [("key", pa.uint64()), ("click", pa.bool_()), ("record", pa.large_binary())]
)


@dataclass(frozen=True)
class ShardPlan:
    """A file of the dataset that is to be written.

    Attributes:
        split: The split it is a part of.
        index: Its number within the split.
        of: The number of shards of the split.
        batch: Its number among the batches of a spill file.
        gzip: Whether it is compressed.
    """

    split: str
    index: int
    of: int
    batch: int
    gzip: bool

    @property
    def path(self) -> str:
        """Its path below the dataset directory."""
        ending = ".tfrecord.gz" if self.gzip else ".tfrecord"
        return f"{self.split}/part-{self.index:05}-of-{self.of:05}{ending}"


def list_shards(shards: dict[str, int], gzip: bool) -> list[ShardPlan]:
    """All shards, given their number a split."""
    listed: list[ShardPlan] = []
    for split in SPLITS:
        for index in range(shards.get(split, 0)):
            listed.append(ShardPlan(split, index, shards[split], len(listed), gzip))
    return listed


def build(pipeline: beam.Pipeline, pieces: list[Piece], shards: list[ShardPlan], job: Job) -> None:
    """Adds pass 2 to a pipeline; each finished shard leaves a JSON file with its counts."""
    share = int(WRITING_SHARE * sum(piece.size for piece in pieces) / len(shards))
    spills = (
        pipeline
        | "CreatePieces" >> beam.Create(pieces)
        | "SpreadPieces" >> beam.Reshuffle()
        | "EncodeBlocks" >> beam.ParDo(EncodeBlocks(job, shards))
    )
    _ = (
        pipeline
        | "CreateShards" >> beam.Create(shards)
        | "SpreadShards" >> beam.Reshuffle()
        # The side input also makes the shards wait until every block is spilled.
        | "WriteShards" >> beam.Map(_write_shard, beam.pvalue.AsList(spills), job, share)
    )


def shard_counts(job: Job, shard: ShardPlan) -> dict[str, Any] | None:
    """The counts of a finished shard: file, rows, clicks, bytes; None if it is not finished."""
    path = _counts_path(job, shard)
    return json.loads(storage.read(path)) if storage.exists(path) else None


class EncodeBlocks(beam.DoFn):
    """Encodes a piece block by block into spill files, and yields their paths."""

    def __init__(self, job: Job, shards: list[ShardPlan]):
        self._job = job
        self._shards = shards
        self._shared = Shared()
        self._encoding: Encoding | None = None
        self._rows = beam.metrics.Metrics.counter("fives", "rows_encoded")

    def setup(self) -> None:
        """Loads the encoding, once for all workers of a process."""
        self._encoding = self._shared.acquire(lambda: Encoding.load(self._job.staging))

    def process(self, piece: Piece) -> Iterator[str]:
        """Yields the paths of the piece's spill files."""
        job = self._job
        for block in read_blocks(piece, job.schema, job.block_bytes):
            name = f"{piece.index:05}-{block.index:05}.arrow"
            path = storage.join(job.work, "spill", name)
            spilled = 0
            if not storage.exists(path):
                spilled = self._spill(block, path)
            self._rows.inc(spilled)
            progress.report(job.progress_path, spilled, block.size)
            yield path

    def _spill(self, block: Block, path: str) -> int:
        rows = block.rows
        splits = self._job.splitter.assign(rows.number, rows.keys, block.piece.file.split)
        key = shuffle_key(rows.number, self._job.schema.split.seed)
        batch = np.full(len(key), -1)
        first = {shard.split: shard for shard in reversed(self._shards)}
        for code, split in enumerate(SPLITS):
            if split in first:
                here = splits == code
                batch[here] = first[split].batch + shard_of(key[here], first[split].of)
        order = np.argsort(batch, kind="stable")
        ends = np.cumsum(np.bincount(batch, minlength=len(self._shards)))
        ids = self._encoding.encode(rows.batch)[order]
        label = rows.label[order]
        whole = pa.RecordBatch.from_arrays(
            [pa.array(key[order]), pa.array(label > 0), frame_examples(ids, label)],
            schema=SPILL_SCHEMA,
        )
        with storage.create(path) as file, pa.ipc.new_file(file, SPILL_SCHEMA) as writer:
            for start, end in zip([0, *ends[:-1]], ends, strict=True):
                writer.write_batch(whole.slice(start, end - start))
        return whole.num_rows


def _write_shard(shard: ShardPlan, spills: list[str], job: Job, progress_size: int) -> None:
    """Gathers the rows of a shard, orders them by their keys, and writes them."""
    if shard_counts(job, shard) is None:
        _gather_shard(shard, spills, job)
    progress.report(job.progress_path, 0, progress_size)


def _gather_shard(shard: ShardPlan, spills: list[str], job: Job) -> None:
    keys, clicks, records = [], 0, []
    for path in sorted(spills):
        with storage.open_read(path) as file:
            batch = pa.ipc.open_file(file).get_batch(shard.batch)
        keys.append(batch["key"].to_numpy())
        clicks += batch["click"].true_count
        records.append(batch["record"])
    order = np.argsort(np.concatenate(keys))
    whole = pa.concat_arrays(records)
    del records  # a shard may be large: it is held once, and written piece by piece
    with storage.create(storage.join(job.staging, shard.path)) as file:
        with storage.compressing(file, shard.gzip) as stream:
            for start in range(0, len(order), WRITTEN_AT_ONCE):
                taken = whole.take(pa.array(order[start : start + WRITTEN_AT_ONCE]))
                stream.write(taken.buffers()[2])
        size = file.tell()
    counts = {"file": shard.path, "rows": len(order), "clicks": clicks, "bytes": size}
    storage.write(_counts_path(job, shard), json.dumps(counts).encode())


def _counts_path(job: Job, shard: ShardPlan) -> str:
    return storage.join(job.work, "shards", f"{shard.split}-{shard.index:05}.json")
