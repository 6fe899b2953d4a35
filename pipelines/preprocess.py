"""From a raw log to a dataset directory: plans the pieces, runs both passes, writes the manifest.

Every step leaves a file that says that it is complete, so that a killed run can be resumed: the
plan (with the fingerprint of inputs and schema), the result of pass 1, spill files and shards of
pass 2, and last of all the manifest.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from fives_tf import __version__, storage
from fives_tf.dataset import SCHEMA, Dataset, manifest_json
from fives_tf.encoding import ENCODING, encoding_json
from fives_tf.errors import UserError
from fives_tf.schema import SPLITS, Schema
from fives_tf.splitting import Splitter
from pipelines import encode_log, fit_encoding, progress, runner
from pipelines.job import Job
from pipelines.plan import Plan, make_plan
from pipelines.sources import LogFile, Piece, open_log
from pipelines.workspace import Workspace

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
    workspace = Workspace(directory)
    files = open_log(inputs, schema)
    workspace.check_place(files)
    piece_bytes = options.piece_bytes or _piece_bytes(files)
    fingerprint = _fingerprint(files, schema, piece_bytes, options)
    with workspace.locked():
        if not workspace.is_complete(fingerprint, options.resume, options.overwrite):
            plan = Plan.load(workspace.plan) or make_plan(
                files, schema, piece_bytes, fingerprint, workspace, options.beam
            )
            with progress.created(runner.is_local(options.beam)) as shown:
                _run_passes(plan, schema, workspace, options, shown)
    return Dataset.open(directory)


def _run_passes(
    plan: Plan, schema: Schema, workspace: Workspace, options: Options, shown: str | None
) -> None:
    job = Job(
        schema=schema,
        splitter=Splitter(schema.split, plan.rows),
        work=storage.join(workspace.work, plan.run),
        block_bytes=plan.piece_bytes,
        progress_path=shown,
    )
    fitted = _fit(plan.pieces, job, options)
    _check_rejected(fitted, storage.join(job.staging, "rejected"), options.max_bad_fraction)
    _check_splits(fitted, schema)
    shards = encode_log.list_shards(_shard_numbers(fitted, options), options.gzip)
    if any(encode_log.shard_counts(job, shard) is None for shard in shards):
        with _shown(job, "pass 2: encode", plan.pieces, 1 + encode_log.WRITING_SHARE):
            runner.run(options.beam, lambda p: encode_log.build(p, plan.pieces, shards, job))
    storage.write(storage.join(job.staging, SCHEMA), schema.to_yaml().encode())
    workspace.publish(job.staging, _manifest(plan, fitted, shards, job))


def _fit(pieces: list[Piece], job: Job, options: Options) -> dict[str, Any]:
    """Runs pass 1 unless its result is there, and writes the encoding."""
    path = storage.join(job.work, "fit.json")
    if not storage.exists(path):
        with _shown(job, "pass 1: fit", pieces):
            runner.run(options.beam, lambda p: fit_encoding.build(p, pieces, job, path))
    fitted = json.loads(storage.read(path))
    _check_counts(fitted, job.schema)
    if fitted["train"] + fitted["valid"]:
        documents = [d for column in job.schema.columns for d in fitted["fields"][column.name]]
        content = encoding_json(documents, fitted["train"] + fitted["valid"])
        storage.write(storage.join(job.staging, ENCODING), content)
    return fitted


def _check_counts(fitted: dict[str, Any], schema: Schema) -> None:
    """Every row must have been counted in every column: no worker's result may be lost."""
    rows = fitted["train"] + fitted["valid"]
    for column in schema.columns:
        counted = fitted["counted"].get(column.name)
        if rows and counted != rows and column.hash_buckets is None:
            raise RuntimeError(f"{counted} of {rows} rows were counted in column `{column.name}`")


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
    if total == 0:
        raise UserError("the log has no row, only empty lines and comments.")
    too_many = bad > max_bad_fraction * total
    if not too_many and bad < total:
        return
    limit = f"more than --max_bad_fraction={max_bad_fraction:g} allows"
    shown = "\n".join(f"  {r['file']}:{r['line']}: {r['reason']}" for r in fitted["examples"])
    raise UserError(
        f"{bad:,} of {total:,} rows are bad, {limit if too_many else 'so that none is left'}. "
        f"The first:\n{shown}\nAll of them are in {place}. "
        "Correct the schema or the log and run again with --overwrite, or allow more and --resume."
    )


def _manifest(
    plan: Plan, fitted: dict[str, Any], shards: list[encode_log.ShardPlan], job: Job
) -> bytes:
    """The manifest, if every row that was read was also written."""
    counts: dict[str, list[dict[str, Any]]] = {}
    for shard in shards:
        counts.setdefault(shard.split, []).append(encode_log.shard_counts(job, shard))
    for split, part in counts.items():
        written = sum(one["rows"] for one in part)
        if written != fitted[split]:
            raise RuntimeError(f"{written} rows of {split} were written, {fitted[split]} were read")
    return manifest_json(
        fields=[f["name"] for c in job.schema.columns for f in fitted["fields"][c.name]],
        shards=counts,
        compression="GZIP" if shards[0].gzip else "",
        rejected=fitted["rejected"],
        inputs=[{"path": file.path, "bytes": file.size} for file in plan.files],
        fingerprint=plan.fingerprint,
    )


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


def _shown(
    job: Job, label: str, pieces: list[Piece], times: float = 1
) -> contextlib.AbstractContextManager:
    total = int(times * sum(piece.size for piece in pieces))
    return progress.show(job.progress_path, label, total)
