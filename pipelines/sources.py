"""Files -> blocks of whole records, in pieces that workers read apart from each other.

A piece is a byte range of a text file that begins and ends between records (quoted line breaks do
not end a record), a whole compressed file, or a row group of a Parquet file. Where a record ends
depends on all the quotes before it, so each range is scanned on its own for both cases, and the
scans are put together into pieces with exact bounds, first row and first line.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from fives_tf import storage
from fives_tf.errors import UserError
from fives_tf.parsing import Rows, parse_batch, parse_text
from fives_tf.scanning import NEWLINE, Scan, State, scan, scan_exactly, scan_fast
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
class Range:
    """A byte range of a text file that is scanned on its own; all of it if it is compressed."""

    file: int
    start: int
    end: int


@dataclass(frozen=True)
class Finding:
    """What a range holds if it begins in a given state.

    Attributes:
        records: The number of line breaks that end a record.
        lines: The number of all line breaks.
        first: Where, in bytes from the start of the range, the first record ends; None if none.
        first_lines: The number of line breaks up to there.
        state: The state at the end.
        certain: Whether this is right; see `fives_tf.scanning.Scan`.
    """

    records: int
    lines: int
    first: int | None
    first_lines: int
    state: int
    certain: bool


@dataclass(frozen=True)
class RangeScan:
    """What a range holds.

    Attributes:
        size: The number of bytes, decompressed.
        open_end: Whether the last byte is no line break.
        doubled: Whether a quote stands on both sides of the start.
        outside: The finding for a start outside quoted values.
        inside: The finding for a start within one.
    """

    size: int
    open_end: bool
    doubled: bool
    outside: Finding
    inside: Finding | None

    @classmethod
    def of(cls, document: dict[str, Any]) -> "RangeScan":
        """Reads what `dataclasses.asdict` wrote."""
        findings = {name: document[name] for name in ("outside", "inside")}
        return cls(**document | {name: f and Finding(**f) for name, f in findings.items()})


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


def scan_range(part: Range, files: list[LogFile], form: Format, block_bytes: int) -> RangeScan:
    """Finds what the pieces must know about a range."""
    file = files[part.file]
    if storage.codec(file.path):
        return _scan_compressed(file, form, block_bytes)
    data, before = _read_range(part, file)
    doubled = form.quote is not None and before == ord(form.quote) and data[:1] == bytes([before])
    start = State.CLOSED if doubled else State.OUTSIDE
    return RangeScan(
        size=len(data),
        open_end=data[-1:] != b"\n",
        doubled=doubled,
        outside=_finding(scan_fast(data, form, start, before), data),
        inside=_finding(scan_fast(data, form, State.INSIDE, before), data),
    )


def plan_pieces(
    files: list[LogFile], form: Format, scans: dict[Range, RangeScan]
) -> tuple[list[Piece], int]:
    """Puts the scans together into pieces; also returns the number of rows of the log."""
    pieces: list[Piece] = []
    row = 0
    ranges = sorted(scans, key=lambda part: (part.file, part.start))
    by_file = {key: list(group) for key, group in itertools.groupby(ranges, lambda r: r.file)}
    for number, file in enumerate(files):
        if form.kind == "parquet":
            row = _plan_parquet(file, pieces, row)
            continue
        parts = by_file.get(number, [])
        bounds, records = _record_bounds(file, parts, scans, form)
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
    elif storage.codec(piece.file.path):
        yield from _read_compressed(piece, schema, block_bytes)
    else:
        with storage.open_read(piece.file.path) as file:
            file.seek(piece.start)
            data = file.read(piece.end - piece.start)
        yield _text_block(piece, 0, piece.size, data, schema, piece.first_row, piece.first_line)


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


def _read_range(part: Range, file: LogFile) -> tuple[bytes, int]:
    """The bytes of a range and the one before; the rows of a file begin like a line."""
    with storage.open_read(file.path) as source:
        if part.start == file.start:
            source.seek(part.start)
            return source.read(part.end - part.start), NEWLINE
        source.seek(part.start - 1)
        data = source.read(part.end - part.start + 1)
        return data[1:], data[0]


def _scan_compressed(file: LogFile, form: Format, block_bytes: int) -> RangeScan:
    size = records = lines = first_lines = 0
    first, state, before = None, State.OUTSIDE, NEWLINE
    with storage.Decompressed(file.path) as stream:
        stream.read(file.start)
        while data := stream.read(block_bytes):
            found = _finding(scan(data, form, state, before), data)
            if first is None and found.first is not None:
                first, first_lines = size + found.first, lines + found.first_lines
            records, lines, size = records + found.records, lines + found.lines, size + len(data)
            state, before = State(found.state), data[-1]
    whole = Finding(records, lines, first, first_lines, state, certain=True)
    # The rows of a file begin outside quotes, so nobody asks for the other case.
    return RangeScan(size, before != NEWLINE, doubled=False, outside=whole, inside=None)


def _finding(found: Scan, data: bytes) -> Finding:
    first = int(found.ends[0]) + 1 if len(found.ends) else None
    return Finding(
        records=len(found.ends),
        lines=found.lines,
        first=first,
        first_lines=data.count(b"\n", 0, first) if first else 0,
        state=int(found.state),
        certain=found.certain,
    )


def _record_bounds(
    file: LogFile, parts: list[Range], scans: dict[Range, RangeScan], form: Format
) -> tuple[list[tuple[int, int, int]], int]:
    """For each range, and for the end: first byte, rows before it, lines before it; all rows."""
    bounds: list[tuple[int, int, int] | None] = []
    records, lines, end, open_end, state = 0, file.lines, file.start, False, State.OUTSIDE
    for part in parts:
        found = _finding_for(state, part, scans[part], file, form)
        if part.start == file.start:
            bounds.append((part.start, 0, lines))
        elif found.first is None:
            bounds.append(None)  # a record that began earlier fills the whole range
        else:
            bounds.append((part.start + found.first, records + 1, lines + found.first_lines))
        records, lines, state = records + found.records, lines + found.lines, State(found.state)
        end, open_end = part.start + scans[part].size, scans[part].open_end
    if state == State.INSIDE:
        raise UserError(
            f"{file.path}: a quoted value is never closed. Look for a stray {form.quote} at the "
            "start of a value, or set `quote: false` if quotes mean nothing in this log."
        )
    total = records + bool(open_end and end > file.start)
    bounds.append((end, total, lines))
    for index in reversed(range(len(parts))):
        bounds[index] = bounds[index] or bounds[index + 1]
    return bounds, total


def _finding_for(
    state: State, part: Range, scanned: RangeScan, file: LogFile, form: Format
) -> Finding:
    """What a range holds, now that its state at the start is known."""
    found = scanned.inside if state == State.INSIDE else scanned.outside
    assumed = State.CLOSED if scanned.doubled else State.OUTSIDE
    as_assumed = state in (State.INSIDE, assumed) or (state == State.CLOSED and not scanned.doubled)
    if found.certain and as_assumed:
        return found
    data, before = _read_range(part, file)  # stray quotes or comments: rare, and slower
    return _finding(scan_exactly(data, form, state, before), data)


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
