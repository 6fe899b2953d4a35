"""Files -> blocks of clean rows.

A log is read in pieces, which workers read apart from each other: a byte range of a text file that
begins and ends between records, a whole compressed file, or a row group of a Parquet file. See
`pipelines.pieces` for how a log is cut.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from fives_tf import storage
from fives_tf.errors import UserError
from fives_tf.parsing import Rows, ascii_only, parse_batch, parse_text
from fives_tf.scanning import blank_comments, scan
from fives_tf.schema import Format, Schema
from fives_tf.splitting import file_split

PARQUET_ROWS = 65_536
WIDTH_RECORDS = 100  # that tell whether a file without a header has the label
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LogFile:
    """An input file.

    Attributes:
        path: Where it is.
        size: Its size in bytes.
        modified: When it was written, in nanoseconds.
        split: The split it belongs to.
        columns: Its columns in order.
        start: The byte, decompressed, at which its rows begin.
        lines: The number of lines before its rows.
    """

    path: str
    size: int
    modified: int
    split: str
    columns: tuple[str, ...]
    start: int = 0
    lines: int = 0


@dataclass(frozen=True)
class Piece:
    """A part of the log that one worker reads.

    Attributes:
        index: Its number within the log.
        file: The file it is a part of.
        start: Its first byte, or the number of its row group.
        end: The byte after its last one.
        first_row: The number of its first row within the log.
        first_line: Its first line within the file, from 1.
        size: Its share of the log in bytes.
    """

    index: int
    file: LogFile
    start: int
    end: int
    first_row: int
    first_line: int
    size: int


@dataclass(frozen=True)
class Block:
    """Rows of a piece that are held in memory at a time; `index` counts within the piece."""

    piece: Piece
    index: int
    size: int
    parse: Callable[[], Rows]

    @functools.cached_property
    def rows(self) -> Rows:
        """The rows; a block that nobody asks is not parsed."""
        try:
            return self.parse()
        except UserError as error:
            raise UserError(f"{self.piece.file.path}: {error}") from None


def open_log(patterns: Iterable[str], schema: Schema) -> list[LogFile]:
    """Finds the files of a log and checks that their columns are those of the schema."""
    files = []
    for info in storage.find(patterns):
        split = file_split(schema, info.path)
        file = LogFile(info.path, info.size, info.modified, split, *_head(info.path, schema))
        schema.check_columns(file.columns, info.path)
        files.append(file)
    return files


def read_blocks(piece: Piece, schema: Schema, block_bytes: int) -> Iterator[Block]:
    """Reads a piece, block by block, so that memory stays bounded for a piece of any size."""
    if schema.format.kind == "parquet":
        yield from _read_parquet(piece, schema)
    elif storage.codec(piece.file.path):
        yield from _read_compressed(piece, schema, block_bytes)
    else:
        with storage.open_read(piece.file.path) as file:
            file.seek(piece.start)
            data = file.read(piece.end - piece.start)
        yield _text_block(piece, 0, piece.size, data, schema, piece.first_row, piece.first_line)


def read_first(file: LogFile, schema: Schema, size: int = 1 << 20) -> Rows:
    """The first rows of a file, about `size` bytes of them."""
    if schema.format.kind == "parquet":
        with storage.open_read(file.path) as source:
            if pq.read_metadata(source).num_rows == 0:
                raise UserError(f"{file.path}: no row to read.")
        return next(_read_parquet(Piece(0, file, 0, 1, 0, 1, file.size), schema)).rows
    peek = _Peek(file.path)
    data = peek[file.start : file.start + size]
    if len(data) == size:
        ends = scan(data, schema.format).ends
        data = data[: int(ends[-1]) + 1] if len(ends) else data
    piece = Piece(0, file, file.start, file.start + len(data), 0, file.lines + 1, len(data))
    return _text_block(piece, 0, len(data), data, schema, 0, piece.first_line).rows


def _text_block(
    piece: Piece, index: int, size: int, data: bytes, schema: Schema, row: int, line: int
) -> Block:
    parse = functools.partial(parse_text, data, piece.file.columns, schema, row, line)
    return Block(piece, index, size, parse)


def _head(path: str, schema: Schema) -> tuple[tuple[str, ...], int, int]:
    """The columns of a file, the byte at which its rows begin, and the lines before."""
    form = schema.format
    if form.kind == "parquet":
        try:
            with storage.open_read(path) as file:
                return tuple(pq.read_schema(file).names), 0, 0
        except pa.ArrowInvalid as error:
            raise UserError(f"{path}: is not a Parquet file ({error}).") from None
    data = _Peek(path)
    start = len(_BOM) if data[:3] == _BOM else 0
    if not form.header and schema.scoring is None:
        return form.columns, start, 0
    first, lines = _first_record(data, start, form)
    if not form.header:
        return _columns_by_width(data.records(first, WIDTH_RECORDS, form), schema), start, 0
    header = data.records(first, 1, form)
    if not header:
        raise UserError(f"{path}: is empty, expected a header line with column names.")
    names = _column_names(header, form, path)
    return names, first + len(header), lines + header.count(b"\n")


def _first_record(data: "_Peek", start: int, form: Format) -> tuple[int, int]:
    """Where the first record begins, and the lines before; comments are passed over."""
    lines = 0
    while True:
        record = data.records(start, 1, form)
        comment = form.comment and record.startswith(form.comment.encode())
        if not record or (record.strip() and not comment):
            return start, lines
        start, lines = start + len(record), lines + record.count(b"\n")


def _columns_by_width(records: bytes, schema: Schema) -> tuple[str, ...]:
    """The columns of a file without a header that is to be scored.

    It has no label if more of its first records have one column less than the schema lists than
    have all of them.
    """
    names, label = schema.format.columns, schema.label.column
    widths: Counter[int] = Counter()

    def count(row: pa_csv.InvalidRow) -> str:
        widths[row.actual_columns] += 1
        return "skip"

    if records:
        records = ascii_only(blank_comments(records, schema.format))
        widths[len(names)] = _read_csv(records, schema.format, names, count).num_rows
    if widths[len(names) - 1] > widths[len(names)]:
        return tuple(name for name in names if name != label)
    return names


def _column_names(header: bytes, form: Format, path: str) -> tuple[str, ...]:
    try:
        names = _read_csv(header, form).column_names
    except (UnicodeDecodeError, pa.ArrowInvalid):
        raise UserError(
            f"{path}: the header is not UTF-8 text. Is it {form.kind}, and does the name end in "
            ".gz or .zst if it is compressed?"
        ) from None
    return tuple(name.strip() if form.trim else name for name in names)


def _read_csv(
    records: bytes,
    form: Format,
    names: tuple[str, ...] | None = None,
    set_aside: Callable[[pa_csv.InvalidRow], str] | None = None,
) -> pa.Table:
    """Reads a few records; without names the first holds them."""
    return pa_csv.read_csv(
        pa.BufferReader(records + b"\n"),
        # All in one block, as a record may be longer than one commonly is.
        read_options=pa_csv.ReadOptions(column_names=names, block_size=len(records) + 2),
        parse_options=pa_csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char=form.quote or False,
            newlines_in_values=form.quote is not None,
            invalid_row_handler=set_aside,
        ),
    )


class _Peek:
    """The beginning of a file, read as far as it is asked for."""

    def __init__(self, path: str):
        self._path = path
        self._data = b""
        self._ended = False

    def __getitem__(self, part: slice) -> bytes:
        self._grow(part.stop)
        return self._data[part]

    def records(self, start: int, most: int, form: Format) -> bytes:
        """The records from `start` on, at most so many; comments and empty lines count too."""
        while True:
            data = self._data[start:]
            ends = scan(data, form).ends[:most]
            if len(ends) == most:
                return data[: int(ends[-1]) + 1]
            if self._ended:
                return data
            self._grow(2 * len(self._data) + 4096)

    def _grow(self, size: int) -> None:
        if size <= len(self._data) or self._ended:
            return
        path = self._path
        with storage.Decompressed(path) if storage.codec(path) else storage.open_read(path) as file:
            self._data = file.read(size)
        self._ended = len(self._data) < size


def _read_parquet(piece: Piece, schema: Schema) -> Iterator[Block]:
    with storage.open_read(piece.file.path) as source:
        # A small buffer, or the whole row group would be held in memory.
        file = pq.ParquetFile(source, buffer_size=1 << 20, pre_buffer=False)
        group_rows = file.metadata.row_group(piece.start).num_rows
        used = [name for name in piece.file.columns if name in schema.used_columns()]
        done = 0
        batches = file.iter_batches(
            PARQUET_ROWS, row_groups=[piece.start], columns=used, use_threads=False
        )
        for index, batch in enumerate(batches):
            first_row, first_line = piece.first_row + done, piece.first_line + done
            parse = functools.partial(parse_batch, batch, schema, first_row, first_line)
            yield Block(piece, index, piece.size * batch.num_rows // group_rows, parse)
            done += batch.num_rows


def _read_compressed(piece: Piece, schema: Schema, block_bytes: int) -> Iterator[Block]:
    row, line, index, rest = piece.first_row, piece.first_line, 0, b""
    with storage.Decompressed(piece.file.path) as stream:
        stream.read(piece.start)
        taken = 0
        while True:
            chunk = stream.read(block_bytes)
            data = rest + chunk
            ends = scan(data, schema.format).ends
            cut = (int(ends[-1]) + 1 if len(ends) else 0) if chunk else len(data)
            if cut:
                whole, position = data[:cut], stream.position()
                yield _text_block(piece, index, position - taken, whole, schema, row, line)
                row, line = row + len(ends), line + whole.count(b"\n")
                index, taken = index + 1, position
            if not chunk:
                return
            rest = data[cut:]
