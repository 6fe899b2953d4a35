"""How a log is cut into pieces, worked out once and kept, so that a run can be resumed."""

import dataclasses
import json
import uuid
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from fives_tf import storage
from fives_tf.errors import UserError
from fives_tf.schema import Schema
from pipelines import runner
from pipelines.pieces import Range, RangeScan, plan_pieces, scan_range, text_ranges
from pipelines.sources import LogFile, Piece
from pipelines.workspace import Workspace


@dataclass(frozen=True)
class Plan:
    """What a run does.

    Attributes:
        run: A name that no other run has.
        fingerprint: What the dataset depends on.
        files: The files of the log.
        piece_bytes: The size of a piece.
        pieces: The pieces of the log.
        rows: The number of rows of the log.
    """

    run: str
    fingerprint: dict[str, Any]
    files: list[LogFile]
    piece_bytes: int
    pieces: list[Piece]
    rows: int

    @classmethod
    def load(cls, path: str) -> "Plan | None":
        """The plan of an unfinished run, if there is one."""
        if not storage.exists(path):
            return None
        document = json.loads(storage.read(path))
        files = [LogFile(**{**f, "columns": tuple(f["columns"])}) for f in document["files"]]
        pieces = [Piece(**{**p, "file": files[p["file"]]}) for p in document["pieces"]]
        return cls(**document | {"files": files, "pieces": pieces})

    def save(self, path: str) -> None:
        """Writes the plan down; from then on the run can be resumed."""
        at = {file.path: index for index, file in enumerate(self.files)}
        document = dataclasses.asdict(self)
        for piece, item in zip(self.pieces, document["pieces"], strict=True):
            item["file"] = at[piece.file.path]
        storage.write(path, json.dumps(document).encode())


def make_plan(
    files: list[LogFile],
    schema: Schema,
    piece_bytes: int,
    fingerprint: dict[str, Any],
    workspace: Workspace,
    options: PipelineOptions,
) -> Plan:
    """Scans the log for the ends of records, cuts it into pieces, and keeps the result."""
    run = uuid.uuid4().hex[:12]
    result = storage.join(workspace.work, run, "scan.json")
    pieces, rows = cut_by_workers(files, schema, piece_bytes, result, options)
    if rows == 0:
        raise UserError(f"{', '.join(file.path for file in files)}: no row to read.")
    plan = Plan(run, fingerprint, files, piece_bytes, pieces, rows)
    plan.save(workspace.plan)
    return plan


def cut_by_workers(
    files: list[LogFile], schema: Schema, piece_bytes: int, result: str, options: PipelineOptions
) -> tuple[list[Piece], int]:
    """Cuts a log on Beam's workers: its pieces, and the number of its rows.

    Args:
        files: The files of the log.
        schema: What its columns mean.
        piece_bytes: The size of a piece.
        result: The file by which the workers tell what they found.
        options: Options for Beam.
    """
    ranges = text_ranges(files, schema.format, piece_bytes)
    scans: dict[Range, RangeScan] = {}
    if ranges:

        def build(pipeline: beam.Pipeline) -> None:
            scanned = (
                pipeline
                | "CreateRanges" >> beam.Create(list(enumerate(ranges)))
                | "SpreadRanges" >> beam.Reshuffle()
                | "ScanRanges" >> beam.Map(_scan, files, schema, piece_bytes)
            )
            _ = (
                pipeline
                | "CreateResult" >> beam.Create([result])
                | "WriteScans" >> beam.Map(_write_scans, beam.pvalue.AsDict(scanned))
            )

        runner.run(options, build)
        scans = _read_scans(result, ranges)
    return plan_pieces(files, schema.format, scans)


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
