"""Files -> blocks of whole records, in pieces that workers read apart from each other.

A piece is a byte range of a text file that begins and ends between records (quoted line breaks do
not end a record), a whole compressed file, or a row group of a Parquet file. Where a record ends
depends on all the quotes before it, so each range is scanned once on its own, and the scans are put
together into pieces with exact bounds, first row and first line.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from fives_tf import storage
from fives_tf.errors import UserError
from fives_tf.parsing import Rows, parse_batch, parse_text
from fives_tf.schema import Format, Schema
from fives_tf.splitting import file_split

PARQUET_ROWS = 65_536
_BOM = b"\xef\xbb\xbf"
_NEWLINE = 10


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
class Range:
    """A byte range of a text file that is scanned on its own; all of it if it is compressed."""

    file: int
    start: int
    end: int


@dataclass(frozen=True)
class Scan:
    """What a range holds, for a start outside quotes and for a start inside.

    Attributes:
        size: The number of bytes, decompressed.
        quotes: The number of quote signs.
        lines: The number of line breaks.
        records: The number of line breaks that end a record.
        first: Where, in bytes from the start of the range, the first of those ends; None if none.
        first_lines: The number of line breaks up to there.
        open_end: Whether the last byte is no line break.
    """

    size: int
    quotes: int
    lines: int
    records: tuple[int, int]
    first: tuple[int | None, int | None]
    first_lines: tuple[int, int]
    open_end: bool


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


def text_ranges(files: list[LogFile], form: Format, piece_bytes: int) -> list[Range]:
    """The ranges to scan; none for Parquet, whose files say themselves where rows begin."""
    ranges = []
    for number, file in enumerate(files):
        if form.kind == "parquet":
            continue
        if storage.codec(file.path):  # its decompressed end is not known yet
            ranges.append(Range(number, file.start, file.start + 1))
            continue
        for start in range(file.start, file.size, piece_bytes):
            ranges.append(Range(number, start, min(start + piece_bytes, file.size)))
    return ranges


def scan_range(part: Range, files: list[LogFile], form: Format, block_bytes: int) -> Scan:
    """Counts what the pieces must know about a range."""
    path = files[part.file].path
    if not storage.codec(path):
        with storage.open_read(path) as file:
            file.seek(part.start)
            return _scan(np.frombuffer(file.read(part.end - part.start), np.uint8), form)
    size = records = lines = quotes = first_lines = 0
    first, open_end = None, False
    with storage.Decompressed(path) as stream:
        stream.read(part.start)
        while data := stream.read(block_bytes):
            scan = _scan(np.frombuffer(data, np.uint8), form)
            inside = quotes % 2
            if first is None and scan.first[inside] is not None:
                first = size + scan.first[inside]
                first_lines = lines + scan.first_lines[inside]
            records += scan.records[inside]
            size, open_end = size + scan.size, scan.open_end
            lines, quotes = lines + scan.lines, quotes + scan.quotes
    # The rows of a file begin outside quotes, so nobody asks for the other case.
    return Scan(size, quotes, lines, (records, 0), (first, None), (first_lines, 0), open_end)


def plan_pieces(
    files: list[LogFile], form: Format, scans: dict[Range, Scan]
) -> tuple[list[Piece], int]:
    """Puts the scans together into pieces; also returns the number of rows of the log."""
    pieces: list[Piece] = []
    row = 0
    for number, file in enumerate(files):
        if form.kind == "parquet":
            row = _plan_parquet(file, pieces, row)
            continue
        parts = sorted((r for r in scans if r.file == number), key=lambda part: part.start)
        bounds, records = _record_bounds(file, parts, scans)
        for part, (start, before, lines), (end, *_) in zip(
            parts, bounds[:-1], bounds[1:], strict=True
        ):
            if start < end:
                size = file.size if storage.codec(file.path) else part.end - part.start
                piece = Piece(len(pieces), file, start, end, row + before, lines + 1, size)
                pieces.append(piece)
        row += records
    return pieces, row


def read_blocks(piece: Piece, schema: Schema, block_bytes: int) -> Iterator[Block]:
    """Reads a piece, block by block, so that memory stays bounded for a piece of any size."""
    if schema.format.kind == "parquet":
        yield from _read_parquet(piece, schema)
        return
    if storage.codec(piece.file.path):
        yield from _read_compressed(piece, schema, block_bytes)
        return
    with storage.open_read(piece.file.path) as file:
        file.seek(piece.start)
        data = file.read(piece.end - piece.start)
    columns = piece.file.columns
    parse = functools.partial(parse_text, data, columns, schema, piece.first_row, piece.first_line)
    yield Block(piece, 0, piece.size, parse)


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
            return _column_names(record, form, path), start, lines


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
        raise UserError(f"{path}: the header is not UTF-8 text; save the file as UTF-8.") from None
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
            end = _scan(np.frombuffer(self._data[start:], np.uint8), form).first[0]
            if end is not None or self._ended:
                return start + end if end is not None else len(self._data)
            self._grow(2 * len(self._data) + 4096)

    def _grow(self, size: int) -> None:
        if size <= len(self._data) or self._ended:
            return
        path = self._path
        with storage.Decompressed(path) if storage.codec(path) else storage.open_read(path) as file:
            self._data = file.read(size)
        self._ended = len(self._data) < size


def _scan(data: np.ndarray, form: Format) -> Scan:
    newlines, quotes = _marks(data, form)
    before = np.searchsorted(quotes, newlines) % 2
    ends = (newlines[before == 0], newlines[before == 1])
    return Scan(
        size=len(data),
        quotes=len(quotes),
        lines=len(newlines),
        records=(len(ends[0]), len(ends[1])),
        first=tuple(int(end[0]) + 1 if len(end) else None for end in ends),
        first_lines=tuple(int(np.searchsorted(newlines, e[0])) + 1 if len(e) else 0 for e in ends),
        open_end=bool(len(data) and data[-1] != _NEWLINE),
    )


def _record_bounds(
    file: LogFile, parts: list[Range], scans: dict[Range, Scan]
) -> tuple[list[tuple[int, int, int]], int]:
    """For each range, and for the end: first byte, rows before it, lines before it; all rows."""
    bounds: list[tuple[int, int, int] | None] = []
    records, lines, quotes, end, open_end = 0, file.lines, 0, file.start, False
    for part in parts:
        scan = scans[part]
        inside = quotes % 2
        first = scan.first[inside]
        if part.start == file.start:
            bounds.append((part.start, 0, lines))
        elif first is None:
            bounds.append(None)  # a record that began earlier fills the whole range
        else:
            bounds.append((part.start + first, records + 1, lines + scan.first_lines[inside]))
        records += scan.records[inside]
        lines, quotes = lines + scan.lines, quotes + scan.quotes
        end, open_end = part.start + scan.size, scan.open_end
    total = records + open_end
    bounds.append((end, total, lines))
    for index in reversed(range(len(parts))):
        bounds[index] = bounds[index] or bounds[index + 1]
    return bounds, total


def _plan_parquet(file: LogFile, pieces: list[Piece], row: int) -> int:
    with storage.open_read(file.path) as source:
        metadata = pq.read_metadata(source)
    line = 1
    for group in range(metadata.num_row_groups):
        info = metadata.row_group(group)
        size = file.size * info.num_rows // max(metadata.num_rows, 1)
        pieces.append(Piece(len(pieces), file, group, group + 1, row, line, size))
        row, line = row + info.num_rows, line + info.num_rows
    return row


def _read_parquet(piece: Piece, schema: Schema) -> Iterator[Block]:
    with storage.open_read(piece.file.path) as source:
        file = pq.ParquetFile(source)
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
            cut = _last_record_end(data, schema.format) if chunk else len(data)
            if cut:
                whole = data[:cut]
                parse = functools.partial(parse_text, whole, piece.file.columns, schema, row, line)
                position = stream.position()
                yield Block(piece, index, position - taken, parse)
                scan = _scan(np.frombuffer(whole, np.uint8), schema.format)
                row, line = row + scan.records[0], line + scan.lines
                index, taken = index + 1, position
            if not chunk:
                return
            rest = data[cut:]


def _last_record_end(data: bytes, form: Format) -> int:
    newlines, quotes = _marks(np.frombuffer(data, np.uint8), form)
    ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    return int(ends[-1]) + 1 if len(ends) else 0


def _marks(data: np.ndarray, form: Format) -> tuple[np.ndarray, np.ndarray]:
    """Where the line breaks and the quotes are."""
    quotes = np.flatnonzero(data == ord(form.quote)) if form.quote else np.empty(0, np.int64)
    return np.flatnonzero(data == _NEWLINE), quotes
