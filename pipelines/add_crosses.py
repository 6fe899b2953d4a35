"""From a dataset to one with crosses as further fields: the same rows, shards and splits.

Pass 1 counts the combinations of the crosses and gives them ids, pass 2 writes every shard anew
with the ids of the crosses behind those of the fields. Every step leaves a file that says that it
is complete, so that a killed run can be resumed.
"""

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils.shared import Shared

from fives_tf import __version__, storage
from fives_tf import crosses as crosses_format
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.cross_fitting import MIN_COUNT
from fives_tf.crosses import Cross
from fives_tf.dataset import SCHEMA, Dataset, Shard, manifest_json
from fives_tf.errors import UserError
from fives_tf.records import frame_examples
from pipelines import progress, runner
from pipelines.count_crosses import ROWS_AT_ONCE, CountJob, count_crosses
from pipelines.workspace import Workspace


@dataclass(frozen=True)
class Options:
    """How to add crosses.

    Attributes:
        min_count: How often a combination must occur to get an id of its own.
        hash_buckets: Into how many buckets to hash the combinations of a cross that may have more
            than that; None to hash none.
        resume: Go on with an unfinished run.
        overwrite: Replace what is in the directory.
        beam: Options for Beam.
    """

    min_count: int = MIN_COUNT
    hash_buckets: int | None = None
    resume: bool = False
    overwrite: bool = False
    beam: PipelineOptions = field(default_factory=lambda: runner.pipeline_options([]))


@dataclass(frozen=True)
class Job:
    """What the workers must know.

    Attributes:
        source: The dataset that is read.
        work: The directory for what this run has done so far.
        progress_path: The progress file, if the workers run on this machine.
    """

    source: str
    work: str
    progress_path: str | None

    @property
    def staging(self) -> str:
        """The files of the new dataset, which move to their places when all are there."""
        return storage.join(self.work, "dataset")

    def crosses(self) -> CrossEncoding:
        """The crosses that were fitted."""
        return CrossEncoding.from_files(
            lambda name: storage.read(storage.join(self.staging, name)),
            Dataset.open(self.source).encoding,
        )

    def counts(self, shard: Shard) -> str:
        """The file that says that a shard is written, and what it holds."""
        return storage.join(self.work, "shards", f"{shard.file.replace('/', '-')}.json")


def add_crosses(
    dataset: Dataset, crosses: Sequence[Cross], directory: str, options: Options | None = None
) -> Dataset:
    """Makes a dataset with crosses of another one.

    Args:
        dataset: The dataset, which has none yet.
        crosses: The crosses.
        directory: The dataset directory to write.
        options: See `Options`.

    Returns:
        The complete dataset.
    """
    options = options or Options()
    if dataset.crosses is not None:
        raise UserError(
            f"{dataset.directory}: has crosses already; add all of them to the dataset that it was "
            "made from."
        )
    if storage.same(dataset.directory, directory):
        raise UserError(f"{directory}: is the dataset that is read; choose another directory.")
    workspace = Workspace(directory)
    workspace.check_place([])
    fingerprint = _fingerprint(dataset, crosses, options)
    with workspace.locked():
        if not workspace.is_complete(fingerprint, options.resume, options.overwrite):
            run = _begin(workspace, fingerprint)
            with progress.created(runner.is_local(options.beam)) as shown:
                _run_passes(dataset, tuple(crosses), workspace, run, fingerprint, options, shown)
    return Dataset.open(directory)


def make_room(directory: str, overwrite: bool) -> None:
    """Refuses a directory that cannot become a dataset, or empties it, before much is done.

    Args:
        directory: The directory.
        overwrite: Whether to replace what is there.
    """
    workspace = Workspace(directory)
    workspace.check_place([])
    if overwrite:
        with workspace.locked():
            workspace.clear()
    elif storage.exists(workspace.manifest):
        raise UserError(
            f"{directory}: holds a complete dataset; choose another directory, or give --overwrite "
            "to replace it."
        )


class WriteShards(beam.DoFn):
    """Writes a shard anew, with the ids of the crosses."""

    def __init__(self, job: Job, compress: bool):
        self._job, self._compress = job, compress
        self._shared = Shared()
        self._dataset: Dataset | None = None
        self._crosses: CrossEncoding | None = None

    def setup(self) -> None:
        """Loads the crosses, once for all workers of a process."""
        self._dataset = Dataset.open(self._job.source)
        self._crosses = self._shared.acquire(self._job.crosses)

    def process(self, shard: Shard) -> None:
        """Writes the shard and then its counts, unless that is done."""
        job = self._job
        if not storage.exists(job.counts(shard)):
            with storage.create(storage.join(job.staging, shard.file)) as file:
                with storage.compressing(file, self._compress) as stream:
                    for ids, label in self._dataset.blocks(shard, ROWS_AT_ONCE):
                        both = np.concatenate([ids, self._crosses.encode(ids)], axis=1)
                        stream.write(frame_examples(both, label).buffers()[2])
                size = file.tell()
            counts = {"file": shard.file, "rows": shard.rows, "clicks": shard.clicks, "bytes": size}
            storage.write(job.counts(shard), json.dumps(counts).encode())
        progress.report(job.progress_path, shard.rows, shard.bytes)


def _begin(workspace: Workspace, fingerprint: dict[str, Any]) -> str:
    """The name of the run, be it the one that is resumed."""
    if storage.exists(workspace.plan):
        return json.loads(storage.read(workspace.plan))["run"]
    run = uuid.uuid4().hex[:12]
    plan = {"run": run, "fingerprint": fingerprint}
    storage.write(workspace.plan, json.dumps(plan).encode())
    return run


def _run_passes(
    dataset: Dataset,
    crosses: tuple[Cross, ...],
    workspace: Workspace,
    run: str,
    fingerprint: dict[str, Any],
    options: Options,
    shown: str | None,
) -> None:
    job = Job(dataset.directory, storage.join(workspace.work, run), shown)
    counting = CountJob(
        directory=dataset.directory,
        crosses=crosses,
        results=storage.join(job.work, "counts"),
        min_count=options.min_count,
        hash_buckets=options.hash_buckets,
        progress_path=shown,
    )
    fitted = count_crosses(counting, options.beam)
    for name, content in (dataset.encoding.to_files() | fitted.to_files()).items():
        storage.write(storage.join(job.staging, name), content)
    storage.write(storage.join(job.staging, SCHEMA), dataset.schema.to_yaml().encode())
    shards = [shard for split in dataset.splits.values() for shard in split.shards]
    compress = bool(dataset.manifest["compression"])
    with progress.show(shown, "write shards", sum(shard.bytes for shard in shards)):
        runner.run(options.beam, lambda pipeline: _build(pipeline, shards, job, compress))
    manifest = manifest_json(
        fields=[*dataset.manifest["fields"], *(one.cross.name for one in fitted.fields)],
        shards={
            name: [json.loads(storage.read(job.counts(shard))) for shard in split.shards]
            for name, split in dataset.splits.items()
        },
        compression=dataset.manifest["compression"],
        rejected=dataset.manifest["rejected"],
        inputs=dataset.manifest["inputs"],
        fingerprint=fingerprint,
    )
    workspace.publish(job.staging, manifest)


def _build(pipeline: beam.Pipeline, shards: list[Shard], job: Job, compress: bool) -> None:
    _ = (
        pipeline
        | "CreateShards" >> beam.Create(shards)
        | "SpreadShards" >> beam.Reshuffle()
        | "WriteShards" >> beam.ParDo(WriteShards(job, compress))
    )


def _fingerprint(dataset: Dataset, crosses: Sequence[Cross], options: Options) -> dict[str, Any]:
    """What must be unchanged for a run to be resumed, by the words of the error."""
    names = crosses_format.to_json(crosses)
    return {
        "version of the program": __version__,
        "dataset": hashlib.sha256(json.dumps(dataset.manifest).encode()).hexdigest(),
        "crosses": hashlib.sha256(names).hexdigest(),
        "flags for their values": [options.min_count, options.hash_buckets],
    }
