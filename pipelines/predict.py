"""Scores a whole log with an exported model, block by block.

In this process, the next blocks are parsed while the model scores one, and memory is that of a few
blocks. If a Beam runner is named, `pipelines.predict_beam` spreads the pieces over its workers.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from fives_tf import progress, storage
from fives_tf.errors import UserError
from fives_tf.exported import Export
from fives_tf.quiet import import_tensorflow
from fives_tf.schema import Schema
from fives_tf.scored_log import PROBABILITY, ROWS_AT_ONCE, Scoring
from pipelines import predictions
from pipelines.pieces import cut_log
from pipelines.scoring import Summary, Tally
from pipelines.sources import Block, LogFile, Piece, open_log, read_blocks

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from fives_tf.predictor import Predictor

SUCCESS = "_SUCCESS"
PART = "part-"
PIECE_BYTES = 4 << 20
MOST_PIECES = 65_536
PARSED_AHEAD = 2
SCANNING_SHARE = 0.05  # what looking for the ends of records takes of the time that scoring takes


@dataclass(frozen=True)
class Options:
    """How to score a log.

    Attributes:
        scoring: Which columns to keep, and which may be absent.
        rows_at_once: How many rows go through the model at a time.
        piece_bytes: The size of the pieces the log is read in; chosen by its size if None.
        max_bad_fraction: The part of the rows that may be bad.
        overwrite: Replace the output.
        beam: Options for Beam, which runs it then; None to run in this process.
    """

    scoring: Scoring = field(default_factory=Scoring)
    rows_at_once: int = ROWS_AT_ONCE
    piece_bytes: int | None = None
    max_bad_fraction: float = 0.001
    overwrite: bool = False
    beam: "PipelineOptions | None" = None


def predict(
    export: Export, inputs: Iterable[str], output: str, options: Options | None = None
) -> Summary:
    """Scores a log and writes one row for each of its rows, in its order.

    Args:
        export: The model.
        inputs: Files or patterns.
        output: The file to write, or, if Beam runs it, the directory.
        options: See `Options`.
    """
    options = options or Options()
    schema = export.schema.for_scoring(options.scoring)
    predictions.ending(output)
    if PROBABILITY in options.scoring.keep:
        raise UserError(f"the column `{PROBABILITY}` cannot be kept, as the scores have that name.")
    files = open_log(inputs, schema)
    _check_place(output, files, options)
    # Late, here and below: a mistake must not wait for TensorFlow, nor this process for Beam.
    import_tensorflow()
    if options.beam is not None:
        from pipelines import predict_beam

        tally = predict_beam.score_files(export, files, schema, output, options)
    else:
        tally = _score_files(export, files, schema, output, options)
    return tally.summary()


def score_blocks(
    blocks: Iterable[Block],
    predictor: "Predictor",
    written: predictions.Predictions,
    tally: Tally,
) -> Iterator[Block]:
    """Scores blocks, writes and counts their rows, and yields each block when that is done."""
    for block in blocks:
        rows = block.rows
        probability = predictor.probability(rows.batch)
        written.write(rows.kept, pa.array(probability, mask=rows.bad))
        tally.add(rows, probability, block.piece.file.path)
        yield block


def _score_files(
    export: Export, files: list[LogFile], schema: Schema, output: str, options: Options
) -> Tally:
    from fives_tf.predictor import Predictor

    size = sum(file.size for file in files)
    piece_bytes = options.piece_bytes or max(PIECE_BYTES, size // MOST_PIECES)
    predictor = Predictor(export, options.rows_at_once)
    tally = Tally()
    whole = int(size * (1 + SCANNING_SHARE))
    with (
        predictions.create(output, options.scoring.keep) as written,
        progress.view("predict", whole) as view,
    ):

        def scanned(done: int) -> None:
            view.update(0, int(SCANNING_SHARE * done))

        pieces, total = cut_log(files, schema.format, piece_bytes, scanned)
        rows, done = 0, SCANNING_SHARE * size
        blocks = _parsed(_all_blocks(pieces, schema, piece_bytes))
        for block in score_blocks(blocks, predictor, written, tally):
            rows, done = rows + len(block.rows.bad), done + block.size
            tally.check_bad(options.max_bad_fraction, total)
            view.update(rows, int(done))
        view.update(rows, whole)
        tally.check_bad(options.max_bad_fraction)
    return tally


def _all_blocks(pieces: list[Piece], schema: Schema, block_bytes: int) -> Iterator[Block]:
    for piece in pieces:
        yield from read_blocks(piece, schema, block_bytes)


def _parsed(blocks: Iterator[Block]) -> Iterator[Block]:
    """The blocks, each parsed while others are scored."""
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


def _check_place(output: str, files: list[LogFile], options: Options) -> None:
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
