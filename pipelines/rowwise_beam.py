"""Adds columns to a log on Beam's workers: one file a piece of the log, in its order.

    OUTPUT/part-00000-of-00012.parquet   the rows of the first piece
    OUTPUT/_SUCCESS                      written last

All of it is written aside, in a directory that takes its name when everything is there.
"""

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.utils.shared import Shared

from fives_tf import storage
from fives_tf.schema import Schema
from pipelines import log_writer, progress, runner
from pipelines.plan import cut_by_workers
from pipelines.rowwise import PART, SUCCESS, Options, RowWork, Step, write_blocks
from pipelines.sources import LogFile, Piece, read_blocks
from pipelines.tally import Tally

BEFORE = ".before"  # the end of the name that an output has while another takes its place
MEBIBYTE = 1 << 20
MOST_PIECES = 4096


@dataclass(frozen=True)
class Job:
    """What the workers must know.

    Attributes:
        work: What is done with the rows.
        schema: What the columns mean.
        directory: Where the files are written.
        ending: What the names of their files end in.
        parts: The number of those files.
        block_bytes: How much of a compressed file is held in memory at a time.
        progress_path: The progress file, if the workers run on this machine.
    """

    work: RowWork
    schema: Schema
    directory: str
    ending: str
    parts: int
    block_bytes: int
    progress_path: str | None

    def part(self, index: int) -> str:
        """The file of a piece."""
        name = f"{PART}{index:05}-of-{self.parts:05}{self.ending}"
        return storage.join(self.directory, name)

    def tally(self, index: int) -> str:
        """The file that says that a piece is complete, and its sums."""
        return storage.join(_work(self.directory), f"{index:05}.npz")

    def create_part(self, index: int) -> contextlib.AbstractContextManager[log_writer.LogWriter]:
        """Begins the file of a piece."""
        return log_writer.create(self.part(index), self.schema.scoring.keep, self.work.added)


def write_rows(
    work: RowWork, files: list[LogFile], schema: Schema, output: str, options: Options
) -> Tally:
    """Writes a directory with the rows of a log; see `pipelines.rowwise.write_rows`."""
    directory = _aside(output)
    try:
        # Workers elsewhere cannot write to a file here.
        with progress.created(runner.is_local(options.beam)) as shown:
            tally = _write_pieces(work, files, schema, output, directory, shown, options)
        storage.remove(_work(directory))
        storage.write(storage.join(directory, SUCCESS), b"")
        _publish(directory, output)
    finally:
        storage.remove(directory)
    return tally


class WritePieces(beam.DoFn):
    """Goes through a piece block by block."""

    def __init__(self, job: Job):
        self._job = job
        self._shared = Shared()
        self._loaded: _Loaded | None = None

    def setup(self) -> None:
        """Loads what the work needs, once for all workers of a process."""
        self._loaded = self._shared.acquire(lambda: _Loaded(self._job.work.load()))

    def process(self, piece: Piece) -> Iterator[None]:
        """Writes the rows of a piece, and then their sums."""
        job, tally = self._job, self._job.work.tally()
        blocks = read_blocks(piece, job.schema, job.block_bytes)
        with job.create_part(piece.index) as writer:
            for block in write_blocks(blocks, self._loaded.step, writer, tally):
                progress.report(job.progress_path, len(block.rows.bad), block.size)
        with storage.create(job.tally(piece.index)) as file:
            tally.save(file)
        yield from ()


@dataclass(frozen=True, eq=False)
class _Loaded:
    """What a worker holds; Beam shares objects that can be referred to weakly."""

    step: Step


def _write_pieces(
    work: RowWork,
    files: list[LogFile],
    schema: Schema,
    output: str,
    directory: str,
    shown: str | None,
    options: Options,
) -> Tally:
    piece_bytes = options.piece_bytes or _piece_bytes(files)
    scans = storage.join(_work(directory), "scan.json")
    pieces, _ = cut_by_workers(files, schema, piece_bytes, scans, options.beam)
    job = Job(
        work=work,
        schema=schema,
        directory=directory,
        ending=log_writer.ending(output),
        parts=max(len(pieces), 1),
        block_bytes=piece_bytes,
        progress_path=shown,
    )
    with progress.show(job.progress_path, work.label, sum(piece.size for piece in pieces)):
        runner.run(options.beam, lambda pipeline: _build(pipeline, pieces, job))
    tally = work.tally()
    for piece in pieces:
        with storage.open_read(job.tally(piece.index)) as file:
            tally.merge(file)
    tally.check_bad(options.max_bad_fraction)
    if not pieces:
        with job.create_part(0):
            pass
    return tally


def _build(pipeline: beam.Pipeline, pieces: list[Piece], job: Job) -> None:
    _ = (
        pipeline
        | "CreatePieces" >> beam.Create(pieces)
        | "SpreadPieces" >> beam.Reshuffle()
        | "WritePieces" >> beam.ParDo(WritePieces(job))
    )


def _publish(directory: str, output: str) -> None:
    """Gives the directory its name; what had it before is removed, or keeps it if that fails."""
    if not storage.exists(output):
        storage.move(directory, output)
        return
    # A name of its own: what ends in `.aside` is nothing that a user would miss.
    before = f"{output}.{uuid.uuid4().hex}{BEFORE}"
    storage.move(output, before)
    try:
        storage.move(directory, output)
    except BaseException:
        storage.move(before, output)
        raise
    storage.remove(before)


def _piece_bytes(files: list[LogFile]) -> int:
    total = sum(file.size for file in files)
    return min(max(32 * MEBIBYTE, total // MOST_PIECES), 256 * MEBIBYTE)


def _aside(output: str) -> str:
    return f"{output}.{uuid.uuid4().hex}{storage.ASIDE}"


def _work(directory: str) -> str:
    return storage.join(directory, "work")
