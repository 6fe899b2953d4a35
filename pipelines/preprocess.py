"""From a raw log to a dataset directory: plans the pieces, runs both passes, writes the manifest.

Every step leaves a file that says that it is complete, so that a killed run can be resumed: the
plan (with the fingerprint of inputs and schema), the result of pass 1, spill files and shards of
pass 2, and last of all the manifest.
"""

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from fives_tf import storage
from fives_tf.dataset import MANIFEST, SCHEMA, Dataset, manifest_json
from fives_tf.encoding import encoding_json
from fives_tf.errors import UserError
from fives_tf.schema import SPLITS, Schema
from fives_tf.splitting import Splitter
from pipelines import encode_log, fit_encoding, progress, runner
from pipelines.job import Job
from pipelines.sources import (
    LogFile,
    Piece,
    Range,
    Scan,
    open_log,
    plan_pieces,
    scan_range,
    text_ranges,
)

MEBIBYTE = 1 << 20
ROWS_PER_SHARD = 200_000
MOST_SHARDS = 1024
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
    piece_bytes = options.piece_bytes or _piece_bytes(files)
    fingerprint = _fingerprint(files, schema, piece_bytes, options)
    if _is_complete(directory, fingerprint, options):
        return Dataset.open(directory)

    work = storage.join(directory, "work")
    plan = _Plan.load(work) or _make_plan(files, schema, piece_bytes, fingerprint, work, options)
    job = Job(
        schema=schema,
        splitter=Splitter(schema.split, plan.rows),
        directory=directory,
        block_bytes=piece_bytes,
        progress_path=storage.join(work, "progress") if runner.is_local(options.beam) else None,
    )
    fitted = _fit(plan.pieces, job, options)
    _check_rejected(fitted, directory, options.max_bad_fraction)
    shards = encode_log.list_shards(_shard_numbers(fitted["rows"], schema, options), options.gzip)
    with _shown(job, "pass 2: encode", plan.pieces, 1 + encode_log.WRITING_SHARE):
        runner.run(options.beam, lambda p: encode_log.build(p, plan.pieces, shards, job))
    return _finish(files, fitted, shards, job, fingerprint)


@dataclass(frozen=True)
class _Plan:
    pieces: list[Piece]
    rows: int

    @classmethod
    def load(cls, work: str) -> "_Plan | None":
        path = storage.join(work, "plan.json")
        if not storage.exists(path):
            return None
        document = json.loads(storage.read(path))
        files = [LogFile(**{**f, "columns": tuple(f["columns"])}) for f in document["files"]]
        pieces = [Piece(**{**p, "file": files[p["file"]]}) for p in document["pieces"]]
        return cls(pieces, document["rows"])

    def save(self, work: str, fingerprint: dict[str, Any], files: list[LogFile]) -> None:
        at = {file.path: index for index, file in enumerate(files)}
        document = {
            "fingerprint": fingerprint,
            "rows": self.rows,
            "files": [dataclasses.asdict(file) for file in files],
            "pieces": [
                dataclasses.asdict(piece) | {"file": at[piece.file.path]} for piece in self.pieces
            ],
        }
        storage.write(storage.join(work, "plan.json"), json.dumps(document).encode())


def _is_complete(directory: str, fingerprint: dict[str, Any], options: Options) -> bool:
    """Whether there is nothing to do; refuses a directory that may not be touched."""
    manifest = storage.join(directory, MANIFEST)
    plan = storage.join(directory, "work", "plan.json")
    if options.overwrite:
        for name in (MANIFEST, "work", "vocab", "rejected", "encoding.json", SCHEMA, *SPLITS):
            storage.remove(storage.join(directory, name))
        return False
    if storage.exists(manifest):
        if options.resume and Dataset.open(directory).manifest["fingerprint"] == fingerprint:
            return True
        raise UserError(
            f"{directory}: holds a complete dataset; choose another directory, or give --overwrite "
            "to replace it."
        )
    if not storage.exists(plan):
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
    storage.remove_asides(directory)
    return False


def _make_plan(
    files: list[LogFile],
    schema: Schema,
    piece_bytes: int,
    fingerprint: dict[str, Any],
    work: str,
    options: Options,
) -> _Plan:
    ranges = text_ranges(files, schema.format, piece_bytes)
    result = storage.join(work, "scan.json")
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
    plan = _Plan(*plan_pieces(files, schema.format, scans))
    if plan.rows == 0:
        raise UserError(f"{', '.join(file.path for file in files)}: no row to read.")
    plan.save(work, fingerprint, files)
    return plan


def _scan(
    numbered: tuple[int, Range], files: list[LogFile], schema: Schema, block_bytes: int
) -> tuple[int, Scan]:
    index, part = numbered
    return index, scan_range(part, files, schema.format, block_bytes)


def _write_scans(path: str, scans: dict[int, Scan]) -> None:
    document = {str(index): dataclasses.asdict(scan) for index, scan in scans.items()}
    storage.write(path, json.dumps(document).encode())


def _read_scans(path: str, ranges: list[Range]) -> dict[Range, Scan]:
    document = json.loads(storage.read(path))
    return {part: Scan(**document[str(index)]) for index, part in enumerate(ranges)}


def _fit(pieces: list[Piece], job: Job, options: Options) -> dict[str, Any]:
    """Runs pass 1 unless its result is there, and writes the encoding."""
    path = storage.join(job.work_directory, "fit.json")
    if not storage.exists(path):
        with _shown(job, "pass 1: fit", pieces):
            runner.run(options.beam, lambda p: fit_encoding.build(p, pieces, job, path))
    fitted = json.loads(storage.read(path))
    if fitted["fitted"] == 0:
        _check_rejected(fitted, job.directory, options.max_bad_fraction)
        raise UserError("the training and validation splits hold no row; change the split.")
    documents = [d for column in job.schema.columns for d in fitted["fields"][column.name]]
    content = encoding_json(documents, fitted["fitted"])
    storage.write(storage.join(job.directory, "encoding.json"), content)
    return fitted


def _check_rejected(fitted: dict[str, Any], directory: str, max_bad_fraction: float) -> None:
    """Fails if too many rows are bad, with the first of them."""
    bad, total = fitted["rejected"], fitted["rejected"] + fitted["rows"]
    if bad <= max_bad_fraction * total:
        return
    shown = "\n".join(f"  {r['file']}:{r['line']}: {r['reason']}" for r in fitted["examples"])
    raise UserError(
        f"{bad:,} of {total:,} rows are bad, more than --max_bad_fraction={max_bad_fraction:g} "
        f"allows. The first:\n{shown}\nAll of them are in {storage.join(directory, 'rejected')}. "
        "Correct the schema or the log and run again with --overwrite, or allow more and --resume."
    )


def _finish(
    files: list[LogFile],
    fitted: dict[str, Any],
    shards: list[encode_log.Shard],
    job: Job,
    fingerprint: dict[str, Any],
) -> Dataset:
    counts: dict[str, list[dict[str, Any]]] = {}
    for shard in shards:
        counts.setdefault(shard.split, []).append(encode_log.shard_counts(job, shard))
    written = sum(one["rows"] for part in counts.values() for one in part)
    if written != fitted["rows"]:
        raise RuntimeError(f"{written} rows were written, but {fitted['rows']} were read")
    schema_path = storage.join(job.directory, SCHEMA)
    storage.write(schema_path, job.schema.to_yaml().encode())
    content = manifest_json(
        fields=[f["name"] for c in job.schema.columns for f in fitted["fields"][c.name]],
        shards=counts,
        compression="GZIP" if shards[0].gzip else "",
        rejected=fitted["rejected"],
        inputs=[{"path": file.path, "bytes": file.size} for file in files],
        fingerprint=fingerprint,
    )
    storage.write(storage.join(job.directory, MANIFEST), content)
    storage.remove(job.work_directory)
    return Dataset.open(job.directory)


def _piece_bytes(files: list[LogFile]) -> int:
    """Depends on the log alone: the edges of sketched columns depend on the pieces."""
    total = sum(file.size for file in files)
    return min(max(16 * MEBIBYTE, total // MOST_PIECES), 256 * MEBIBYTE)


def _shard_numbers(rows: int, schema: Schema, options: Options) -> dict[str, int]:
    """The number of shards by split, in proportion to the rows where the user did not say."""
    split = schema.split
    share = {"valid": split.valid or 0.1, "test": split.test or 0.1}
    train = options.shards.get("train") or min(max(4, rows // ROWS_PER_SHARD), MOST_SHARDS)
    numbers = {"train": train}
    for name in split.splits()[1:]:
        numbers[name] = options.shards.get(name) or max(1, round(train * share[name]))
    return numbers


def _fingerprint(
    files: list[LogFile], schema: Schema, piece_bytes: int, options: Options
) -> dict[str, Any]:
    """What must be unchanged for a run to be resumed, by the words of the error."""
    inputs = [[file.path, file.size, file.modified] for file in files]
    layout = [piece_bytes, options.shards, options.gzip]
    return {
        "inputs": hashlib.sha256(json.dumps(inputs).encode()).hexdigest(),
        "schema": hashlib.sha256(schema.to_yaml().encode()).hexdigest(),
        "flags for pieces and shards": hashlib.sha256(json.dumps(layout).encode()).hexdigest(),
    }


def _shown(
    job: Job, label: str, pieces: list[Piece], times: float = 1
) -> contextlib.AbstractContextManager:
    if job.progress_path is None:
        return contextlib.nullcontext()
    total = int(times * sum(piece.size for piece in pieces))
    return progress.show(job.progress_path, label, total)
