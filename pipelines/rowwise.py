"""Goes through a whole log, block by block, and writes its rows with further columns.

In this process, the next blocks are parsed while one is worked on, and memory is that of a few
blocks. If a Beam runner is named, `pipelines.rowwise_beam` spreads the pieces over its workers.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from fives_tf import progress, storage
from fives_tf.errors import UserError
from fives_tf.parsing import Rows
from fives_tf.schema import Schema
from fives_tf.scored_log import Scoring
from pipelines import log_writer
from pipelines.pieces import cut_log
from pipelines.sources import Block, LogFile, Piece, read_blocks
from pipelines.tally import Tally

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

SUCCESS = "_SUCCESS"
PART = "part-"
PIECE_BYTES = 4 << 20
MOST_PIECES = 65_536
PARSED_AHEAD = 2
SCANNING_SHARE = 0.05  # what looking for the ends of records takes of the time of all the rest

Step = Callable[[Rows, str, Tally], list[pa.Array]]


class RowWork(Protocol):
    """What is done with the rows of a log; it is sent to Beam's workers."""

    @property
    def label(self) -> str:
        """What is shown beside the progress."""

    @property
    def added(self) -> pa.Schema:
        """The columns that are added."""

    def tally(self) -> Tally:
        """A new tally."""

    def load(self) -> Step:
        """What gives the added columns of a block, and adds its rows, in this file, to a tally."""


@dataclass(frozen=True)
class Options:
    """How to go through a log.

    Attributes:
        scoring: Which columns to keep, and which may be absent.
        piece_bytes: The size of the pieces the log is read in; chosen by its size if None.
        max_bad_fraction: The part of the rows that may be bad.
        overwrite: Replace the output.
        beam: Options for Beam, which runs it then; None to run in this process.
    """

    scoring: Scoring = field(default_factory=Scoring)
    piece_bytes: int | None = None
    max_bad_fraction: float = 0.001
    overwrite: bool = False
    beam: "PipelineOptions | None" = None


def check_place(output: str, files: list[LogFile], options: Options) -> None:
    """Refuses to write where something stands that the user did not ask to replace."""
    if not storage.exists(output):
        return
    if not options.overwrite:
        raise UserError(f"{output}: exists; choose another name, or give --overwrite.")
    if any(storage.same(output, file.path) for file in files):
        raise UserError(f"{output}: is a file of the log; choose another name.")
    if not storage.is_directory(output):
        return
    ours = all(name == SUCCESS or name.startswith(PART) for name in storage.names(output))
    if options.beam is None or not ours or any(storage.holds(output, f.path) for f in files):
        raise UserError(f"{output}: is a directory that is not replaced; choose another name.")


def write_rows(
    work: RowWork, files: list[LogFile], schema: Schema, output: str, options: Options
) -> Tally:
    """Writes one row for each row of a log, in its order.

    Args:
        work: What is done with the rows.
        files: The files of the log.
        schema: What their columns mean; see `Schema.for_scoring`.
        output: The file to write, or, if Beam runs it, the directory.
        options: See `Options`.
    """
    if options.beam is not None:
        from pipelines import rowwise_beam  # late: this process need not wait for Beam

        return rowwise_beam.write_rows(work, files, schema, output, options)
    size = sum(file.size for file in files)
    piece_bytes = options.piece_bytes or max(PIECE_BYTES, size // MOST_PIECES)
    step, tally = work.load(), work.tally()
    whole = int(size * (1 + SCANNING_SHARE))
    with (
        log_writer.create(output, options.scoring.keep, work.added) as writer,
        progress.view(work.label, whole) as view,
    ):

        def scanned(done: int) -> None:
            view.update(0, int(SCANNING_SHARE * done))

        pieces, total = cut_log(files, schema.format, piece_bytes, scanned)
        rows, done = 0, SCANNING_SHARE * size
        blocks = _parsed(_all_blocks(pieces, schema, piece_bytes))
        for block in write_blocks(blocks, step, writer, tally):
            rows, done = rows + len(block.rows.bad), done + block.size
            tally.check_bad(options.max_bad_fraction, total)
            view.update(rows, int(done))
        view.update(rows, whole)
        tally.check_bad(options.max_bad_fraction)
    return tally


def write_blocks(
    blocks: Iterable[Block], step: Step, writer: log_writer.LogWriter, tally: Tally
) -> Iterator[Block]:
    """Writes and counts the rows of blocks, and yields each block when that is done."""
    for block in blocks:
        rows = block.rows
        writer.write(rows.kept, step(rows, block.piece.file.path, tally))
        yield block


def _all_blocks(pieces: list[Piece], schema: Schema, block_bytes: int) -> Iterator[Block]:
    for piece in pieces:
        yield from read_blocks(piece, schema, block_bytes)


def _parsed(blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks, each parsed while others are worked on."""
    with ThreadPoolExecutor(1) as pool:
        waiting: deque[Future[Block]] = deque()
        for block in blocks:
            waiting.append(pool.submit(_parse, block))
            if len(waiting) > PARSED_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _parse(block: Block) -> Block:
    _ = block.rows
    return block
