"""Raw rows -> Arrow: text blocks and Parquet batches become the same clean record batches.

A clean batch holds, for every column that the schema uses, the values as the encoding expects them:
categories as dictionary-encoded bytes, numbers as float64 with null where the text is a missing
marker. Rows that cannot be read are set aside with their line and the reason; in a log that is
only scored they keep their place.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from fives_tf.arrow import single_batch
from fives_tf.encoding import parse_number
from fives_tf.errors import UserError
from fives_tf.scanning import blank_comments, is_blank, lone_returns, scan
from fives_tf.schema import Column, Format, Label, Schema, SplitRule

_BOM = b"\xef\xbb\xbf"
_ASCII = bytes(range(128)) + b"?" * 128
CATEGORY = pa.dictionary(pa.int32(), pa.binary())


@dataclass(frozen=True)
class Reject:
    """A row that could not be read. `line` counts from 1 within the file (Parquet: rows)."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True)
class Rows:
    """The good rows of one block, or all of them if they are to be scored.

    Attributes:
        batch: The clean columns of the features by name, of those that the file has.
        keys: The columns that the split reads, as categories by name.
        kept: The columns that are kept beside the scores, as bytes by name.
        label: 1.0 for a click, 0.0 for none; in rows to be scored NaN where it is not known.
        number: The number of each row within the log, counted from 0 over all files.
        bad: Which of the rows could not be read: none, unless they are to be scored.
        rejects: What is wrong with the rows that could not be read.
    """

    batch: pa.RecordBatch
    keys: dict[str, pa.DictionaryArray]
    kept: dict[str, pa.BinaryArray]
    label: np.ndarray
    number: np.ndarray
    bad: np.ndarray
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
    data = blank_comments(data, schema.format)
    _refuse_lone_returns(data, schema.format, first_line)
    table, malformed = _read_csv(data, names, schema)
    number = _record_numbers(data, schema.format, table.num_rows + len(malformed))
    batch = single_batch(table)
    if schema.format.trim:
        batch = _trim(batch)
    return _clean(
        batch,
        schema,
        np.delete(number, list(malformed)),
        {int(number[row]): reason for row, reason in malformed.items()},
        locate=lambda wanted: _locate(data, schema.format, wanted, first_line),
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


def ascii_only(data: bytes) -> bytes:
    """The text with other signs replaced, which has the same records of as many columns."""
    return data.translate(_ASCII)


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
    plain = {column.name for column in schema.columns if column.numeric}
    if schema.scoring is not None:
        plain |= set(schema.scoring.keep)
    if not data[:1].strip(b"\r\n") and not data.strip(b"\r\n"):
        return pa.table({name: pa.array([], pa.binary()) for name in used}), malformed

    def read(data: bytes, handler: Callable[[pa_csv.InvalidRow], str] | None) -> pa.Table:
        if data.startswith(_BOM):  # the parser takes one away; that of the file is away already
            data = _BOM + data
        return pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(
                column_names=names, use_threads=False, block_size=len(data) + 1
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=form.delimiter,
                quote_char=form.quote or False,
                newlines_in_values=form.quote is not None,
                invalid_row_handler=handler,
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=used,
                column_types={n: pa.binary() if n in plain else CATEGORY for n in used},
                strings_can_be_null=False,
            ),
        )

    if _is_utf8(data):
        return read(data, set_aside), malformed
    try:
        return read(data, None), {}
    except pa.ArrowInvalid:  # the parser cannot tell of a malformed record that is not UTF-8
        read(ascii_only(data), set_aside)
        return read(_without(data, form, malformed), None), malformed


def _clean(
    batch: pa.RecordBatch,
    schema: Schema,
    number: np.ndarray,
    rejected: dict[int, str],
    locate: Callable[[set[int]], dict[int, tuple[int, str]]],
    first_row: int,
) -> Rows:
    """Brings the columns to their clean types and sets aside rows with bad values."""
    reasons: dict[int, str] = dict(rejected)
    columns: dict[str, pa.Array] = {}
    present = set(batch.schema.names)
    for column in schema.columns:
        if column.name not in present:  # which `Schema.check_columns` has allowed
            continue
        values = batch.column(column.name)
        if column.numeric:
            columns[column.name], wrong = _to_numbers(values, column)
            for row, text in wrong.items():
                reasons.setdefault(
                    int(number[row]),
                    f"column `{column.name}` is {text!r}, expected a number{_trim_hint(text)}",
                )
        else:
            columns[column.name] = to_category(values, column.name)
    keys = {name: to_category(batch.column(name), name) for name in schema.split.columns()}
    if schema.split.by == "time":
        for row, text in _no_times(keys[schema.split.column], schema.split).items():
            reasons.setdefault(
                int(number[row]), f"time `{schema.split.column}` is {text!r}, expected a time"
            )
    kept: dict[str, pa.BinaryArray] = {}
    if schema.scoring is None:
        label, unknown = _to_label(batch.column(schema.label.column), schema.label)
        for row, text in unknown.items():
            reasons.setdefault(
                int(number[row]),
                f"label column `{schema.label.column}` is {text!r}, expected "
                f"one of {', '.join((*schema.label.positive, *schema.label.negative))}",
            )
    else:
        label = np.full(len(number), np.nan, np.float32)
        if schema.label.column in present:
            label = _known_labels(batch.column(schema.label.column), schema.label)
        kept = {name: _to_kept(batch.column(name), name) for name in schema.scoring.keep}
    clean = pa.RecordBatch.from_pydict(columns)
    if not reasons:
        none = np.zeros(len(number), bool)
        return Rows(clean, keys, kept, label, number + first_row, none, ())
    bad = np.array(sorted(reasons))
    stay = np.setdiff1d(number, bad) if schema.scoring is None else np.union1d(number, bad)
    # A row that is no record at all is null here, and so are all its values.
    taken = pa.array(np.searchsorted(number, stay), mask=~np.isin(stay, number))
    places = locate(set(reasons))
    return Rows(
        clean.take(taken),
        {name: values.take(taken) for name, values in keys.items()},
        {name: values.take(taken) for name, values in kept.items()},
        pa.array(label).take(taken).to_numpy(zero_copy_only=False),
        stay + first_row,
        np.isin(stay, bad),
        tuple(
            Reject(places[row][0], reason, places[row][1])
            for row, reason in sorted(reasons.items())
        ),
    )


def to_category(values: pa.Array, name: str) -> pa.DictionaryArray:
    """Any column as dictionary-encoded bytes: the text of each value, empty where it is null."""
    if values.type == CATEGORY and values.null_count == 0:
        return values
    texts = _to_bytes(values, name, "categorical", "drop it")
    return texts.fill_null(b"").dictionary_encode()


def _to_kept(values: pa.Array, name: str) -> pa.BinaryArray:
    """A column to keep beside the scores, as the text of each value; null stays null."""
    return _to_bytes(values, name, "kept as text", "leave it out")


def _to_bytes(values: pa.Array, name: str, use: str, remedy: str) -> pa.BinaryArray:
    """The text of each value of any column; null stays null."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not pa.types.is_binary(values.type):
        try:
            if not _is_text(values.type):
                values = pc.cast(values, pa.string())
            values = pc.cast(values, pa.binary())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            raise _wrong_type(name, values, use, remedy) from None
    return values


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
            raise _wrong_type(column.name, values, "numeric", "drop it") from None
    values = pc.cast(values, pa.binary())
    # A marker that is a number, such as -1, is left to the encoding, which must know it anyway.
    markers = [marker.encode() for marker in column.missing if parse_number(marker) is None]
    values = pc.if_else(pc.is_in(values, pa.array(markers, pa.binary())), None, values)
    wrong = _no_numbers(values)
    if wrong:
        bad = np.zeros(len(values), bool)
        bad[list(wrong)] = True
        values = pc.if_else(pa.array(bad), None, values)
    return pc.cast(values, pa.float64()), wrong


def _no_numbers(values: pa.Array) -> dict[int, str]:
    """The texts by row, of those that are not null, that are no numbers."""
    try:
        pc.cast(values, pa.float64())
        return {}
    except pa.ArrowInvalid:
        coded = values.dictionary_encode()
    texts = [value.decode("utf-8", "replace") for value in coded.dictionary.to_pylist()]
    wrong = np.array([*(parse_number(text) is None for text in texts), False])
    codes = coded.indices.fill_null(len(texts)).to_numpy()
    return {int(row): texts[codes[row]] for row in np.flatnonzero(wrong[codes])}


def _no_times(times: pa.DictionaryArray, rule: SplitRule) -> dict[int, str]:
    """The texts by row that cannot be compared with the bounds of a split by time."""
    values = times.dictionary_decode()
    if rule.times_are_numbers():
        wrong = _no_numbers(values)
        if not wrong:
            nan = np.isnan(pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False))
            wrong = {int(row): "nan" for row in np.flatnonzero(nan)}
        return wrong
    return {int(row): "" for row in np.flatnonzero(pc.equal(values, b"").to_numpy(False))}


def _to_label(values: pa.Array, label: Label) -> tuple[np.ndarray, dict[int, str]]:
    """1 for a click and 0 for none, and the values by row that are neither."""
    coded = to_category(values, label.column)
    result = _known_labels(coded, label)
    unknown = {
        int(row): coded[int(row)].as_py().decode("utf-8", "replace")
        for row in np.flatnonzero(np.isnan(result))
    }
    return result, unknown


def _known_labels(values: pa.Array, label: Label) -> np.ndarray:
    """1 for a click, 0 for none, and NaN for any other value."""
    coded = to_category(values, label.column)
    meaning = {text.encode(): 1.0 for text in label.positive}
    meaning |= {text.encode(): 0.0 for text in label.negative}
    known = [meaning.get(value, np.nan) for value in coded.dictionary.to_pylist()]
    return np.array([*known, np.nan], np.float32)[coded.indices.to_numpy()]


def _trim_hint(text: str) -> str:
    return "; set `trim: true`" if parse_number(text.strip()) is not None else ""


def _wrong_type(name: str, values: pa.Array, use: str, remedy: str) -> UserError:
    return UserError(
        f"column `{name}` has the type {values.type}, which cannot be {use}; {remedy} or convert "
        "it."
    )


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
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


def _record_numbers(data: bytes, form: Format, parsed: int) -> np.ndarray:
    """The numbers within the block of the records that were parsed; empty lines count too."""
    if parsed == data.count(b"\n") + (data[-1:] not in (b"\n", b"")):
        return np.arange(parsed)
    ends = _record_ends(data, form)
    number = np.flatnonzero(~is_blank(data, ends))
    if len(number) != parsed:
        raise RuntimeError(f"{parsed} records were parsed, but {len(number)} were found")
    return number


def _without(data: bytes, form: Format, rows: Iterable[int]) -> bytes:
    """The text with some records emptied, which are counted without empty lines."""
    ends = _record_ends(data, form)
    number = np.flatnonzero(~is_blank(data, ends))
    pieces, last = [], 0
    for record in sorted(number[list(rows)].tolist()):
        pieces.append(data[last : int(ends[record - 1]) + 1 if record else 0])
        last = int(ends[record])
    return b"".join([*pieces, data[last:]])


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _record_ends(data: bytes, form: Format) -> np.ndarray:
    ends = scan(data, form).ends
    return ends if data.endswith(b"\n") else np.append(ends, len(data))


def _refuse_lone_returns(data: bytes, form: Format, first_line: int) -> None:
    """The parser would take a carriage return alone for the end of a record."""
    for place in lone_returns(data, form)[:1].tolist():
        line = first_line + data.count(b"\n", 0, place)
        raise UserError(
            f"line {line}: a carriage return without a line feed. Lines must end in \\n or \\r\\n, "
            "and a value that holds a carriage return must be quoted."
        )


def _locate(
    data: bytes, form: Format, wanted: set[int], first_line: int
) -> dict[int, tuple[int, str]]:
    """Line and text of the wanted records of a block."""
    ends = _record_ends(data, form)
    found: dict[int, tuple[int, str]] = {}
    for record in wanted:
        start = int(ends[record - 1]) + 1 if record else 0
        text = data[start : int(ends[record])].rstrip(b"\r").decode("utf-8", "replace")
        found[record] = (first_line + data.count(b"\n", 0, start), text)
    return found
