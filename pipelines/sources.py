"""Files -> blocks of clean rows.

A log is read in pieces, which workers read apart from each other: a byte range of a text file that
begins and ends between records, a whole compressed file, or a row group of a Parquet file. See
`pipelines.pieces` for how a log is cut.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from fives_tf import storage
from fives_tf.errors import UserError
from fives_tf.parsing import Rows, parse_batch, parse_text
from fives_tf.scanning import scan
from fives_tf.schema import Format, Schema
from fives_tf.splitting import file_split

PARQUET_ROWS = 65_536
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
        return self.parse()


def open_log(patterns: Iterable[str], schema: Schema) -> list[LogFile]:
    """Finds the files of a log and checks that their columns are those of the schema."""
    files = []
    for info in storage.find(patterns):
        split = file_split(schema, info.path)
        file = LogFile(info.path, info.size, info.modified, split, *_head(info.path, schema.format))
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
    columns = piece.file.columns

    def parse() -> Rows:
        try:
            return parse_text(data, columns, schema, row, line)
        except UserError as error:
            raise UserError(f"{piece.file.path}: {error}") from None

    return Block(piece, index, size, parse)


def _head(path: str, form: Format) -> tuple[tuple[str, ...], int, int]:
    """The columns of a file, the byte at which its rows begin, and the lines before."""
    if form.kind == "parquet":
        try:
            with storage.open_read(path) as file:
                return tuple(pq.read_schema(file).names), 0, 0
        except pa.ArrowInvalid as error:
            raise UserError(f"{path}: is not a Parquet file ({error}).") from None
    data, start, lines = _Peek(path), 0, 0
    if data[:3] == _BOM:
        start = len(_BOM)
    if not form.header:
        return form.columns, start, 0
    while True:  # passes over empty lines and comments before the header
        end = data.record_end(start, form)
        record = data[start:end]
        start, lines = end, lines + record.count(b"\n")
        if not record:
            raise UserError(f"{path}: is empty, expected a header line with column names.")
        if record.strip() and not (form.comment and record.startswith(form.comment.encode())):
            return _column_names(record.rstrip(b"\r\n") + b"\n", form, path), start, lines


def _column_names(header: bytes, form: Format, path: str) -> tuple[str, ...]:
    try:
        names = pa_csv.read_csv(
            pa.BufferReader(header),
            parse_options=pa_csv.ParseOptions(
                delimiter=form.delimiter,
                quote_char=form.quote or False,
                newlines_in_values=form.quote is not None,
            ),
        ).column_names
    except (UnicodeDecodeError, pa.ArrowInvalid):
        raise UserError(
            f"{path}: the header is not UTF-8 text. Is it {form.kind}, and does the name end in "
            ".gz or .zst if it is compressed?"
        ) from None
    return tuple(name.strip() if form.trim else name for name in names)


class _Peek:
    """The beginning of a file, read as far as it is asked for."""

    def __init__(self, path: str):
        self._path = path
        self._data = b""
        self._ended = False

    def __getitem__(self, part: slice) -> bytes:
        self._grow(part.stop)
        return self._data[part]

    def record_end(self, start: int, form: Format) -> int:
        """Where the record that begins at `start` ends; the end of the file if it is the last."""
        while True:
            ends = scan(self._data[start:], form).ends
            if len(ends) or self._ended:
                return start + int(ends[0]) + 1 if len(ends) else len(self._data)
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
