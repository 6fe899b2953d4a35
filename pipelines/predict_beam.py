"""Scores a log on Beam's workers: one file of predictions a piece of the log, in its order.

    OUTPUT/part-00000-of-00012.parquet   the rows of the first piece
    OUTPUT/_SUCCESS                      written last

All of it is written aside, in a directory that takes its name when everything is there.
"""

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.utils.shared import Shared

from fives_tf import storage
from fives_tf.exported import Export
from fives_tf.predictor import Predictor
from fives_tf.schema import Schema
from pipelines import predictions, progress, runner
from pipelines.plan import cut_by_workers
from pipelines.predict import PART, SUCCESS, Options, score_blocks
from pipelines.scoring import Tally
from pipelines.sources import LogFile, Piece, read_blocks

BEFORE = ".before"  # the end of the name that an output has while another takes its place
MEBIBYTE = 1 << 20
MOST_PIECES = 4096


@dataclass(frozen=True)
class Job:
    """What the workers must know.

    Attributes:
        export: The model.
        schema: What the columns mean.
        directory: Where the predictions are written.
        ending: What the names of their files end in.
        parts: The number of those files.
        rows_at_once: How many rows go through the model at a time.
        block_bytes: How much of a compressed file is held in memory at a time.
        progress_path: The progress file, if the workers run on this machine.
    """

    export: Export
    schema: Schema
    directory: str
    ending: str
    parts: int
    rows_at_once: int
    block_bytes: int
    progress_path: str | None

    def part(self, index: int) -> str:
        """The file of a piece's predictions."""
        name = f"{PART}{index:05}-of-{self.parts:05}{self.ending}"
        return storage.join(self.directory, name)

    def tally(self, index: int) -> str:
        """The file that says that the predictions of a piece are complete, and their sums."""
        return storage.join(_work(self.directory), f"{index:05}.npz")

    def create_part(self, index: int) -> contextlib.AbstractContextManager[predictions.Predictions]:
        """Begins the file of a piece's predictions."""
        return predictions.create(self.part(index), self.schema.scoring.keep)


def score_files(
    export: Export, files: list[LogFile], schema: Schema, output: str, options: Options
) -> Tally:
    """Scores the files of a log into a directory; see `pipelines.predict.predict`."""
    directory = _aside(output)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            tally = _score_pieces(export, files, schema, output, directory, scratch, options)
        storage.remove(_work(directory))
        storage.write(storage.join(directory, SUCCESS), b"")
        _publish(directory, output)
    finally:
        storage.remove(directory)
    return tally


class ScorePieces(beam.DoFn):
    """Scores a piece block by block."""

    def __init__(self, job: Job):
        self._job = job
        self._shared = Shared()
        self._predictor: Predictor | None = None

    def setup(self) -> None:
        """Loads the model, once for all workers of a process."""
        job = self._job
        self._predictor = self._shared.acquire(lambda: Predictor(job.export, job.rows_at_once))

    def process(self, piece: Piece) -> Iterator[None]:
        """Writes the predictions of a piece, and then their sums."""
        job, tally = self._job, Tally()
        blocks = read_blocks(piece, job.schema, job.block_bytes)
        with job.create_part(piece.index) as written:
            for block in score_blocks(blocks, self._predictor, written, tally):
                progress.report(job.progress_path, len(block.rows.bad), block.size)
        with storage.create(job.tally(piece.index)) as file:
            tally.save(file)
        yield from ()


def _score_pieces(
    export: Export,
    files: list[LogFile],
    schema: Schema,
    output: str,
    directory: str,
    scratch: str,
    options: Options,
) -> Tally:
    local = runner.is_local(options.beam)  # workers elsewhere cannot write to a file here
    piece_bytes = options.piece_bytes or _piece_bytes(files)
    scans = storage.join(_work(directory), "scan.json")
    pieces, _ = cut_by_workers(files, schema, piece_bytes, scans, options.beam)
    job = Job(
        export=export,
        schema=schema,
        directory=directory,
        ending=predictions.ending(output),
        parts=max(len(pieces), 1),
        rows_at_once=options.rows_at_once,
        block_bytes=piece_bytes,
        progress_path=storage.join(scratch, "progress") if local else None,
    )
    with _shown(job, pieces):
        runner.run(options.beam, lambda pipeline: _build(pipeline, pieces, job))
    tally = Tally()
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
        | "ScorePieces" >> beam.ParDo(ScorePieces(job))
    )


def _shown(job: Job, pieces: list[Piece]) -> contextlib.AbstractContextManager:
    if job.progress_path is None:
        return contextlib.nullcontext()
    return progress.show(job.progress_path, "predict", sum(piece.size for piece in pieces))


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
