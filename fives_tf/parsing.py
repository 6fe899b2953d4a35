"""Raw rows -> Arrow: text blocks and Parquet batches become the same clean record batches.

A clean batch holds, for every column that the schema uses, the values as the encoding expects them:
categories as dictionary-encoded bytes, numbers as float64 with null where the text is a missing
marker. Rows that cannot be read are set aside with their line and the reason.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from fives_tf.encoding import parse_number
from fives_tf.errors import UserError
from fives_tf.schema import Column, Format, Label, Schema

CATEGORY = pa.dictionary(pa.int32(), pa.binary())


@dataclass(frozen=True)
class Reject:
    """A row that could not be read. `line` counts from 1 within the file (Parquet: rows)."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True)
class Rows:
    """The good rows of one block.

    Attributes:
        batch: The clean columns by name.
        label: 1.0 for a click, 0.0 for none.
        number: The number of each row within the log, counted from 0 over all files.
        rejects: The rows that were set aside.
    """

    batch: pa.RecordBatch
    label: np.ndarray
    number: np.ndarray
    rejects: tuple[Reject, ...]


def parse_text(
    data: bytes, names: tuple[str, ...], schema: Schema, first_row: int, first_line: int
) -> Rows:
    """Reads a block of whole text records without a header.

    Args:
        data: The bytes of the block.
        names: The names of all columns in the order of the file.
        schema: What the columns mean.
        first_row: The number of the block's first row within the log.
        first_line: The line, from 1, at which the block begins in its file.
    """
    form = schema.format
    if form.comment:
        data = _blank_comments(data, form.comment.encode())
    table, malformed = _read_csv(data, names, schema)
    total = table.num_rows + len(malformed)
    number = np.delete(np.arange(total), list(malformed))
    batch = _one_batch(table)
    if form.trim:
        batch = _trim(batch)
    return _clean(
        batch,
        schema,
        number,
        malformed,
        locate=lambda wanted: _locate(data, form, wanted, first_line),
        first_row=first_row,
    )


def parse_batch(batch: pa.RecordBatch, schema: Schema, first_row: int, first_line: int) -> Rows:
    """Reads a record batch of a Parquet file; see `parse_text`."""
    return _clean(
        batch,
        schema,
        np.arange(batch.num_rows),
        {},
        locate=lambda wanted: {
            row: (first_line + row, str(batch.slice(row, 1).to_pylist()[0])) for row in wanted
        },
        first_row=first_row,
    )


def _read_csv(
    data: bytes, names: tuple[str, ...], schema: Schema
) -> tuple[pa.Table, dict[int, str]]:
    """The well-formed records, and the others by number with what is wrong with them."""
    form = schema.format
    malformed: dict[int, str] = {}

    def set_aside(row: pa_csv.InvalidRow) -> str:
        malformed[row.number - 1] = (
            f"has {row.actual_columns} columns, expected {row.expected_columns}"
        )
        return "skip"

    used = [name for name in names if name in schema.used_columns()]
    numeric = {column.name for column in schema.columns if column.numeric}
    if not data.strip():
        return pa.table({name: pa.array([], pa.binary()) for name in used}), malformed
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(
            column_names=names, use_threads=False, block_size=len(data) + 1
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char=form.quote or False,
            newlines_in_values=form.quote is not None,
            invalid_row_handler=set_aside,
        ),
        convert_options=pa_csv.ConvertOptions(
            include_columns=used,
            column_types={n: pa.binary() if n in numeric else CATEGORY for n in used},
            strings_can_be_null=False,
        ),
    )
    return table, malformed


def _clean(batch, schema, number, rejected, locate, first_row) -> Rows:
    """Brings the columns to their clean types and sets aside rows with bad values."""
    reasons: dict[int, str] = dict(rejected)
    columns: dict[str, pa.Array] = {}
    for column in schema.columns:
        values = batch.column(column.name)
        if column.numeric:
            columns[column.name], bad = _to_numbers(values, column)
            for row, text in bad.items():
                reasons.setdefault(
                    int(number[row]), f"column `{column.name}` is {text!r}, expected a number"
                )
        else:
            columns[column.name] = to_category(values, column.name)
    for name in schema.split.columns():
        columns.setdefault(name, to_category(batch.column(name), name))
    label, unknown = _to_label(batch.column(schema.label.column), schema.label)
    for row, text in unknown.items():
        reasons.setdefault(
            int(number[row]),
            f"label column `{schema.label.column}` is {text!r}, expected "
            f"one of {', '.join((*schema.label.positive, *schema.label.negative))}",
        )
    clean = pa.RecordBatch.from_pydict(columns)
    if not reasons:
        return Rows(clean, label, number + first_row, ())
    good = ~np.isin(number, list(reasons))
    places = locate(set(reasons))
    return Rows(
        clean.filter(pa.array(good)),
        label[good],
        number[good] + first_row,
        tuple(
            Reject(places[row][0], reason, places[row][1])
            for row, reason in sorted(reasons.items())
        ),
    )


def to_category(values: pa.Array, name: str) -> pa.DictionaryArray:
    """Any column as dictionary-encoded bytes: the text of each value, empty where it is null."""
    if values.type == CATEGORY:
        return values
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not pa.types.is_binary(values.type):
        try:
            values = pc.cast(pc.cast(values, pa.string()), pa.binary())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise _wrong_type(name, values, "categorical") from None
    return values.fill_null(b"").dictionary_encode()


def _to_numbers(values: pa.Array, column: Column) -> tuple[pa.Array, dict[int, str]]:
    """The column as float64, and the values by row that are no numbers."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_boolean(values.type):
        values = pc.cast(values, pa.int8())
    if not _is_text(values.type):
        try:
            return pc.cast(values, pa.float64(), safe=False), {}
        except pa.ArrowNotImplementedError:
            raise _wrong_type(column.name, values, "numeric") from None
    values = pc.cast(values, pa.binary())
    # A marker that is a number, such as -1, is left to the encoding, which must know it anyway.
    markers = [marker.encode() for marker in column.missing if parse_number(marker) is None]
    values = pc.if_else(pc.is_in(values, pa.array(markers, pa.binary())), None, values)
    try:
        return pc.cast(values, pa.float64()), {}
    except pa.ArrowInvalid:
        distinct = (
            text.decode("utf-8", "replace") for text in values.drop_null().unique().to_pylist()
        )
        wrong = pa.array([t.encode() for t in distinct if parse_number(t) is None], pa.binary())
    # Text that is not UTF-8 is no number either, though its repaired form is not in the column.
    bad = pc.fill_null(pc.is_in(values, wrong), False).to_numpy(zero_copy_only=False)
    for row, text in enumerate(values.to_pylist()):
        bad[row] |= text is not None and not text.isascii()
    texts = {
        int(row): values[row].as_py().decode("utf-8", "replace") for row in np.flatnonzero(bad)
    }
    return pc.cast(pc.if_else(pa.array(bad), None, values), pa.float64()), texts


def _to_label(values: pa.Array, label: Label) -> tuple[np.ndarray, dict[int, str]]:
    """1 for a click and 0 for none, and the values by row that are neither."""
    coded = to_category(values, label.column)
    meaning = {text.encode(): 1.0 for text in label.positive}
    meaning |= {text.encode(): 0.0 for text in label.negative}
    known = [meaning.get(value, np.nan) for value in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(len(known)).to_numpy()
    result = np.array([*known, np.nan], np.float32)[codes]
    unknown = {}
    for row in np.flatnonzero(np.isnan(result)):
        value = coded[int(row)].as_py()
        unknown[int(row)] = "" if value is None else value.decode("utf-8", "replace")
    return result, unknown


def _wrong_type(name: str, values: pa.Array, use: str) -> UserError:
    return UserError(
        f"column `{name}` has the type {values.type}, which cannot be {use}; drop it or convert it."
    )


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
    )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    table = table.combine_chunks()
    batches = table.to_batches()
    if batches:
        return batches[0]
    return pa.RecordBatch.from_arrays(
        [pa.array([], kind) for kind in table.schema.types], schema=table.schema
    )


def _trim(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Removes ASCII blanks around every value."""

    def trim(values: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(values.type):
            return pa.DictionaryArray.from_arrays(values.indices, trim(values.dictionary))
        # A view, not a cast: text that is not UTF-8 must not stop the log.
        return pc.ascii_trim_whitespace(values.view(pa.string())).view(pa.binary())

    return pa.RecordBatch.from_arrays(
        [trim(column) for column in batch.columns], names=batch.schema.names
    )


def _blank_comments(data: bytes, comment: bytes) -> bytes:
    """Empties the lines that begin with the comment sign; empty lines are passed over later."""
    if comment not in data:
        return data
    lines = data.split(b"\n")
    return b"\n".join(b"" if line.startswith(comment) else line for line in lines)


def _locate(
    data: bytes, form: Format, wanted: set[int], first_line: int
) -> dict[int, tuple[int, str]]:
    """Line and text of the wanted records of a block."""
    found: dict[int, tuple[int, str]] = {}
    quote = form.quote.encode() if form.quote else None
    record, start, pending = 0, 0, b""
    for line, text in enumerate(data.split(b"\n")):
        if not pending:
            start = line
            if not text.strip(b"\r"):
                continue
        pending = pending + b"\n" + text if pending else text
        if quote and pending.count(quote) % 2:
            continue
        if record in wanted:
            text = pending.rstrip(b"\r").decode("utf-8", "replace")
            found[record] = (first_line + start, text)
        record, pending = record + 1, b""
    for row in wanted:  # An unclosed quote: the rest of the block is one broken record.
        found.setdefault(row, (first_line + start, pending.decode("utf-8", "replace")[:1000]))
    return found
