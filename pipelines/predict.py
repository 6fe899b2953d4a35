"""Scores a whole log with an exported model, in this process or on Beam's workers."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from fives_tf.errors import UserError
from fives_tf.exported import Export
from fives_tf.parsing import Rows
from fives_tf.quiet import import_tensorflow
from fives_tf.scored_log import PROBABILITY, ROWS_AT_ONCE
from pipelines import log_writer, rowwise
from pipelines.scoring import ScoreTally, Summary
from pipelines.sources import open_log


@dataclass(frozen=True)
class Options(rowwise.Options):
    """How to score a log; see `rowwise.Options`.

    Attributes:
        rows_at_once: How many rows go through the model at a time.
    """

    rows_at_once: int = ROWS_AT_ONCE


@dataclass(frozen=True)
class Scores:
    """Gives rows their probabilities; see `rowwise.RowWork`."""

    export: Export
    rows_at_once: int

    label = "predict"
    added = pa.schema([(PROBABILITY, pa.float32())])

    def tally(self) -> ScoreTally:
        """See `rowwise.RowWork.tally`."""
        return ScoreTally()

    def load(self) -> rowwise.Step:
        """See `rowwise.RowWork.load`."""
        from fives_tf.predictor import Predictor

        predictor = Predictor(self.export, self.rows_at_once)

        def step(rows: Rows, path: str, tally: ScoreTally) -> list[pa.Array]:
            probability = predictor.probability(rows.batch)
            tally.add_scores(rows, path, probability)
            return [pa.array(probability, mask=rows.bad)]

        return step


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
    log_writer.ending(output)
    if PROBABILITY in options.scoring.keep:
        raise UserError(f"the column `{PROBABILITY}` cannot be kept, as the scores have that name.")
    files = open_log(inputs, schema)
    rowwise.check_place(output, files, options)
    import_tensorflow()  # late: a mistake must not wait for it
    work = Scores(export, options.rows_at_once)
    return rowwise.write_rows(work, files, schema, output, options).summary()
