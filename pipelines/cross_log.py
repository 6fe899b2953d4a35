"""Adds crosses to a raw log: its own columns, and one more for each cross."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fives_tf.cross_encoding import CrossEncoding
from fives_tf.cross_values import cross_values
from fives_tf.crosses import Cross, check_fields
from fives_tf.dataset import Dataset
from fives_tf.encoding import Encoding
from fives_tf.errors import UserError
from fives_tf.parsing import Rows
from fives_tf.schema import Schema
from pipelines import log_writer, rowwise
from pipelines.sources import open_log
from pipelines.tally import Tally


class CrossTally(Tally):
    """Counts the rows that crosses are added to."""

    lacks = "no crosses"


@dataclass(frozen=True, eq=False)
class CrossWork:
    """Gives rows the values of crosses; see `rowwise.RowWork`.

    Attributes:
        crosses: The crosses.
        encoding: The encoding of their fields.
        fitted: The ids of their values, which are given then, each counted from 0 within its cross;
            None to give the values as text.
    """

    crosses: tuple[Cross, ...]
    encoding: Encoding
    fitted: CrossEncoding | None

    label = "materialize"

    @property
    def added(self) -> pa.Schema:
        """See `rowwise.RowWork.added`."""
        kind = pa.large_string() if self.fitted is None else pa.int32()
        return pa.schema([(cross.name, kind) for cross in self.crosses])

    def tally(self) -> CrossTally:
        """See `rowwise.RowWork.tally`."""
        return CrossTally()

    def load(self) -> rowwise.Step:
        """See `rowwise.RowWork.load`."""
        return self._step

    def _step(self, rows: Rows, path: str, tally: CrossTally) -> list[pa.Array]:
        tally.add(rows, path)
        if self.fitted is None:
            texts = cross_values(rows.batch, self.crosses, self.encoding)
            columns = [column.dictionary_decode() for column in texts]
        else:
            ids = self.fitted.encode(self.encoding.encode(rows.batch)) - self.fitted.offsets
            columns = [pa.array(own, pa.int32()) for own in ids.T]
        if not rows.bad.any():
            return columns
        good = pa.array(~rows.bad)
        return [pc.if_else(good, column, None) for column in columns]


def write_cross_log(
    inputs: Iterable[str],
    output: str,
    dataset: Dataset,
    crosses: Sequence[Cross],
    options: rowwise.Options | None = None,
    fit: Callable[[], CrossEncoding] | None = None,
) -> Tally:
    """Writes a log with its own columns, as text, and one more for each cross.

    Args:
        inputs: Files or patterns.
        output: The file to write, or, if Beam runs it, the directory.
        dataset: A dataset of the same columns, whose schema and buckets count.
        crosses: The crosses.
        options: How to go through the log; all columns are kept, whatever they say.
        fit: Gives ids to the values of the crosses, which are written then; it is called when all
            else is found to be in order. None to write the values as text.
    """
    options = options or rowwise.Options()
    log_writer.ending(output)
    encoding = dataset.encoding
    check_fields(crosses, [one.name for one in encoding.fields])
    used = {name for cross in crosses for name in cross.fields}
    # For ids all fields are encoded.
    needed = {one.column for one in encoding.fields if fit is not None or one.name in used}
    schema, keep = _keep_all(inputs, dataset.schema, needed, options)
    for cross in crosses:
        if cross.name in keep:
            raise UserError(f"the log has a column `{cross.name}` already; rename it.")
    options = dataclasses.replace(options, scoring=schema.scoring)
    files = open_log(inputs, schema)
    rowwise.check_place(output, files, options)
    work = CrossWork(tuple(crosses), encoding, fit() if fit else None)
    return rowwise.write_rows(work, files, schema, output, options)


def _keep_all(
    inputs: Iterable[str], schema: Schema, needed: set[str], options: rowwise.Options
) -> tuple[Schema, tuple[str, ...]]:
    """The schema of a log of which every column is kept, and the names of its columns."""
    columns = tuple(column for column in schema.columns if column.name in needed)
    narrow = dataclasses.replace(schema, columns=columns)
    scoring = dataclasses.replace(options.scoring, keep=())
    first = open_log(inputs, narrow.for_scoring(scoring))[0]
    kept = dataclasses.replace(scoring, keep=first.columns)
    return narrow.for_scoring(kept), first.columns
