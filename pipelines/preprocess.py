"""From a raw log to a dataset directory: plans the pieces, runs both passes, writes the manifest.

Every step leaves a file that says that it is complete, so that a killed run can be resumed: the
plan (with the fingerprint of inputs and schema), the result of pass 1, spill files and shards of
pass 2, and last of all the manifest.
"""

import contextlib
import dataclasses
import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from fives_tf import __version__, storage
from fives_tf.dataset import MANIFEST, SCHEMA, WORK, Dataset, manifest_json
from fives_tf.encoding import ENCODING, encoding_json
from fives_tf.errors import UserError
from fives_tf.schema import SPLITS, Schema
from fives_tf.splitting import Splitter
from pipelines import encode_log, fit_encoding, progress, runner
from pipelines.job import Job
from pipelines.sources import (
    LogFile,
    Piece,
    Range,
    RangeScan,
    open_log,
    plan_pieces,
    scan_range,
    text_ranges,
)

PLAN = "plan.json"
LOCK = "fives.lock"
FILES = (ENCODING, SCHEMA, "vocab", "counts", "rejected")
MEBIBYTE = 1 << 20
ROWS_PER_SHARD = 200_000
LEAST_SHARDS = 4
MOST_SHARDS = 4096
MOST_PIECES = 4096


@dataclass(frozen=True)
class Options:
    """How to preprocess, apart from what the schema says.

    Attributes:
        shards: The number of shards by split; a split that is not named gets its share.
        gzip: Whether to compress the shards.
        piece_bytes: The size of the pieces that workers read; chosen by the log's size if None.
        max_bad_fraction: The part of the rows that may be bad.
        resume: Go on with an unfinished run.
        overwrite: Replace what is in the dataset directory.
        beam: Options for Beam.
    """

    shards: dict[str, int] = field(default_factory=dict)
    gzip: bool = False
    piece_bytes: int | None = None
    max_bad_fraction: float = 0.001
    resume: bool = False
    overwrite: bool = False
    beam: PipelineOptions = field(default_factory=lambda: runner.pipeline_options([]))


def preprocess(
    inputs: Iterable[str], schema: Schema, directory: str, options: Options | None = None
) -> Dataset:
    """Turns a raw log into a dataset directory.

    Args:
        inputs: Files or patterns.
        schema: What the log's columns mean.
        directory: The dataset directory to write.
        options: See `Options`.

    Returns:
        The complete dataset.
    """
    options = options or Options()
    files = open_log(inputs, schema)
    _check_place(directory, files)
    piece_bytes = options.piece_bytes or _piece_bytes(files)
    fingerprint = _fingerprint(files, schema, piece_bytes, options)
    with _locked(directory):
        if not _is_complete(directory, fingerprint, options):
            plan = _Plan.load(directory)
            if plan is None:
                plan = _make_plan(files, schema, piece_bytes, fingerprint, directory, options)
            _run_passes(plan, files, schema, piece_bytes, fingerprint, directory, options)
    return Dataset.open(directory)


def _run_passes(plan, files, schema, piece_bytes, fingerprint, directory, options) -> None:
    work = storage.join(directory, WORK, plan.run)
    job = Job(
        schema=schema,
        splitter=Splitter(schema.split, plan.rows),
        work=work,
        block_bytes=piece_bytes,
        progress_path=_progress_path(directory, options),
    )
    fitted = _fit(plan.pieces, job, options)
    _check_rejected(fitted, storage.join(job.staging, "rejected"), options.max_bad_fraction)
    _check_splits(fitted, schema)
    shards = encode_log.list_shards(_shard_numbers(fitted, options), options.gzip)
    if any(encode_log.shard_counts(job, shard) is None for shard in shards):
        with _shown(job, "pass 2: encode", plan.pieces, 1 + encode_log.WRITING_SHARE):
            runner.run(options.beam, lambda p: encode_log.build(p, plan.pieces, shards, job))
    _publish(files, fitted, shards, job, fingerprint, directory)


@dataclass(frozen=True)
class _Plan:
    """The pieces of the log.

    Attributes:
        run: A name that no other run has. What a run does is kept below it, so that workers that
            outlive a killed run cannot meddle with the next.
        pieces: The pieces.
        rows: The number of rows of the log.
    """

    run: str
    pieces: list[Piece]
    rows: int

    @classmethod
    def load(cls, directory: str) -> "_Plan | None":
        """The plan of an unfinished run, if there is one."""
        path = storage.join(directory, WORK, PLAN)
        if not storage.exists(path):
            return None
        document = json.loads(storage.read(path))
        files = [LogFile(**{**f, "columns": tuple(f["columns"])}) for f in document["files"]]
        pieces = [Piece(**{**p, "file": files[p["file"]]}) for p in document["pieces"]]
        return cls(document["run"], pieces, document["rows"])

    def save(self, directory: str, fingerprint: dict[str, Any], files: list[LogFile]) -> None:
        """Writes the plan down; from then on the run can be resumed."""
        at = {file.path: index for index, file in enumerate(files)}
        document = {
            "run": self.run,
            "fingerprint": fingerprint,
            "rows": self.rows,
            "files": [dataclasses.asdict(file) for file in files],
            "pieces": [
                dataclasses.asdict(piece) | {"file": at[piece.file.path]} for piece in self.pieces
            ],
        }
        storage.write(storage.join(directory, WORK, PLAN), json.dumps(document).encode())


def _check_place(directory: str, files: list[LogFile]) -> None:
    """Refuses a directory with anything in it that is not ours."""
    for file in files:
        if storage.holds(directory, file.path):
            raise UserError(f"{directory}: holds the log {file.path}; choose another directory.")
    if storage.exists(directory) and not storage.is_directory(directory):
        raise UserError(f"{directory}: is a file; choose another directory.")
    ours = any(storage.exists(storage.join(directory, *p)) for p in ((MANIFEST,), (WORK, LOCK)))
    if storage.names(directory) and not ours:
        raise UserError(
            f"{directory}: is not empty, and holds no dataset; choose another directory."
        )


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Keeps other runs away, and removes the working directory if nobody needs it any more."""
    work = storage.join(directory, WORK)
    with storage.lock(storage.join(work, LOCK)):
        try:
            yield
        finally:
            complete = storage.exists(storage.join(directory, MANIFEST))
            if complete or not storage.exists(storage.join(work, PLAN)):
                storage.remove(work)
                if not storage.names(directory):
                    storage.remove(directory)


def _is_complete(directory: str, fingerprint: dict[str, Any], options: Options) -> bool:
    """Whether there is nothing to do; refuses a directory that may not be touched."""
    manifest = storage.join(directory, MANIFEST)
    plan = storage.join(directory, WORK, PLAN)
    if options.overwrite:
        _clear(directory)
        return False
    if storage.exists(manifest):
        if options.resume and Dataset.open(directory).manifest["fingerprint"] == fingerprint:
            return True
        raise UserError(
            f"{directory}: holds a complete dataset; choose another directory, or give --overwrite "
            "to replace it."
        )
    if not storage.exists(plan):
        _clear(directory)  # what a run left that was killed while it cleared the directory
        return False
    if not options.resume:
        raise UserError(
            f"{directory}: holds an unfinished run. Give --resume to go on with it, or --overwrite "
            "to start again."
        )
    before = json.loads(storage.read(plan))["fingerprint"]
    changed = [key for key in fingerprint if fingerprint[key] != before.get(key)]
    if changed:
        raise UserError(
            f"{directory}: cannot be resumed: the {' and the '.join(changed)} changed since the "
            "run began. Give --overwrite to start again."
        )
    storage.remove_asides(storage.join(directory, WORK))
    return False


def _clear(directory: str) -> None:
    """Removes a dataset and what is left of runs; first what makes either look usable."""
    work = storage.join(directory, WORK)
    for name in (MANIFEST, storage.join(WORK, PLAN), *FILES, *SPLITS):
        storage.remove(storage.join(directory, name))
    for name in storage.names(work):
        if name != LOCK:
            storage.remove(storage.join(work, name))


def _make_plan(
    files: list[LogFile],
    schema: Schema,
    piece_bytes: int,
    fingerprint: dict[str, Any],
    directory: str,
    options: Options,
) -> _Plan:
    run = uuid.uuid4().hex[:12]
    ranges = text_ranges(files, schema.format, piece_bytes)
    result = storage.join(directory, WORK, run, "scan.json")
    if ranges:

        def build(pipeline: beam.Pipeline) -> None:
            scans = (
                pipeline
                | "CreateRanges" >> beam.Create(list(enumerate(ranges)))
                | "SpreadRanges" >> beam.Reshuffle()
                | "ScanRanges" >> beam.Map(_scan, files, schema, piece_bytes)
            )
            _ = (
                pipeline
                | "CreateResult" >> beam.Create([result])
                | "WriteScans" >> beam.Map(_write_scans, beam.pvalue.AsDict(scans))
            )

        runner.run(options.beam, build)
    scans = _read_scans(result, ranges) if ranges else {}
    plan = _Plan(run, *plan_pieces(files, schema.format, scans))
    if plan.rows == 0:
        raise UserError(f"{', '.join(file.path for file in files)}: no row to read.")
    plan.save(directory, fingerprint, files)
    return plan


def _scan(
    numbered: tuple[int, Range], files: list[LogFile], schema: Schema, block_bytes: int
) -> tuple[int, RangeScan]:
    index, part = numbered
    return index, scan_range(part, files, schema.format, block_bytes)


def _write_scans(path: str, scans: dict[int, RangeScan]) -> None:
    document = {str(index): dataclasses.asdict(scan) for index, scan in scans.items()}
    storage.write(path, json.dumps(document).encode())


def _read_scans(path: str, ranges: list[Range]) -> dict[Range, RangeScan]:
    document = json.loads(storage.read(path))
    return {part: RangeScan.of(document[str(index)]) for index, part in enumerate(ranges)}


def _fit(pieces: list[Piece], job: Job, options: Options) -> dict[str, Any]:
    """Runs pass 1 unless its result is there, and writes the encoding."""
    path = storage.join(job.work, "fit.json")
    if not storage.exists(path):
        with _shown(job, "pass 1: fit", pieces):
            runner.run(options.beam, lambda p: fit_encoding.build(p, pieces, job, path))
    fitted = json.loads(storage.read(path))
    if fitted["train"] + fitted["valid"]:
        documents = [d for column in job.schema.columns for d in fitted["fields"][column.name]]
        content = encoding_json(documents, fitted["train"] + fitted["valid"])
        storage.write(storage.join(job.staging, ENCODING), content)
    return fitted


def _check_splits(fitted: dict[str, Any], schema: Schema) -> None:
    """The network learns on one split and the adjacency tensor on the other."""
    for name in ("train", "valid"):
        if fitted[name] == 0:
            rows = ", ".join(f"{fitted[split]:,} {split}" for split in SPLITS)
            raise UserError(
                f"the {name} split has no row ({rows}); change `split` in the schema, which is by "
                f"{schema.split.by}, and run again with --overwrite."
            )


def _check_rejected(fitted: dict[str, Any], place: str, max_bad_fraction: float) -> None:
    """Fails if too many rows are bad, with the first of them."""
    bad = fitted["rejected"]
    total = bad + sum(fitted[split] for split in SPLITS)
    if bad <= max_bad_fraction * total:
        return
    shown = "\n".join(f"  {r['file']}:{r['line']}: {r['reason']}" for r in fitted["examples"])
    raise UserError(
        f"{bad:,} of {total:,} rows are bad, more than --max_bad_fraction={max_bad_fraction:g} "
        f"allows. The first:\n{shown}\nAll of them are in {place}. "
        "Correct the schema or the log and run again with --overwrite, or allow more and --resume."
    )


def _publish(
    files: list[LogFile],
    fitted: dict[str, Any],
    shards: list[encode_log.ShardPlan],
    job: Job,
    fingerprint: dict[str, Any],
    directory: str,
) -> None:
    """Moves the files of the dataset to their places, and writes the manifest last."""
    counts: dict[str, list[dict[str, Any]]] = {}
    for shard in shards:
        counts.setdefault(shard.split, []).append(encode_log.shard_counts(job, shard))
    for split, part in counts.items():
        written = sum(one["rows"] for one in part)
        if written != fitted[split]:
            raise RuntimeError(f"{written} rows of {split} were written, {fitted[split]} were read")
    storage.write(storage.join(job.staging, SCHEMA), job.schema.to_yaml().encode())
    for name in storage.names(job.staging):
        storage.move(storage.join(job.staging, name), storage.join(directory, name))
    content = manifest_json(
        fields=[f["name"] for c in job.schema.columns for f in fitted["fields"][c.name]],
        shards=counts,
        compression="GZIP" if shards[0].gzip else "",
        rejected=fitted["rejected"],
        inputs=[{"path": file.path, "bytes": file.size} for file in files],
        fingerprint=fingerprint,
    )
    storage.write(storage.join(directory, MANIFEST), content)


def _piece_bytes(files: list[LogFile]) -> int:
    """Depends on the log alone: the edges of sketched columns depend on the pieces."""
    total = sum(file.size for file in files)
    return min(max(16 * MEBIBYTE, total // MOST_PIECES), 256 * MEBIBYTE)


def _shard_numbers(fitted: dict[str, Any], options: Options) -> dict[str, int]:
    """The number of shards by split, in proportion to the rows where the user did not say."""
    train = options.shards.get("train", 0)
    train = train or min(max(LEAST_SHARDS, fitted["train"] // ROWS_PER_SHARD), MOST_SHARDS)
    return {
        split: options.shards.get(split, 0)
        or max(1, round(train * fitted[split] / fitted["train"]))
        for split in SPLITS
        if fitted[split]
    } | {"train": train}


def _fingerprint(
    files: list[LogFile], schema: Schema, piece_bytes: int, options: Options
) -> dict[str, Any]:
    """What must be unchanged for a run to be resumed, by the words of the error."""
    inputs = [[file.path, file.size, file.modified] for file in files]
    layout = [piece_bytes, sorted(options.shards.items()), options.gzip]
    return {
        "version of the program": __version__,
        "inputs": hashlib.sha256(json.dumps(inputs).encode()).hexdigest(),
        "schema": hashlib.sha256(schema.to_yaml().encode()).hexdigest(),
        "flags for pieces and shards": hashlib.sha256(json.dumps(layout).encode()).hexdigest(),
    }


def _progress_path(directory: str, options: Options) -> str | None:
    """Workers that run elsewhere cannot write to a file here."""
    return storage.join(directory, WORK, "progress") if runner.is_local(options.beam) else None


def _shown(
    job: Job, label: str, pieces: list[Piece], times: float = 1
) -> contextlib.AbstractContextManager:
    if job.progress_path is None:
        return contextlib.nullcontext()
    total = int(times * sum(piece.size for piece in pieces))
    return progress.show(job.progress_path, label, total)
