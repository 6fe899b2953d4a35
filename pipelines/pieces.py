"""How a log is cut into pieces that begin and end between records.

Where a record ends depends on all the quotes before it. So each byte range of a text file is
scanned on its own, for a start outside quoted values and for one within, and the scans are then put
together, in order, into pieces with exact bounds, first row and first line. A compressed file is
one piece, and so is each row group of a Parquet file.
"""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from fives_tf import storage
from fives_tf.errors import UserError
from fives_tf.scanning import NEWLINE, Scan, State, scan, scan_exactly, scan_fast
from fives_tf.schema import Format
from pipelines.sources import LogFile, Piece


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


def cut_log(
    files: list[LogFile], form: Format, piece_bytes: int, report: Callable[[int], None]
) -> tuple[list[Piece], int]:
    """Cuts a log in this process: its pieces, and the number of its rows.

    Args:
        files: The files of the log.
        form: Their format.
        piece_bytes: The size of a piece.
        report: Is told how many bytes of the files have been looked through.
    """
    ranges = text_ranges(files, form, piece_bytes)
    scans, done = {}, 0
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda part: scan_range(part, files, form, piece_bytes), ranges)
        for part, one in zip(ranges, found, strict=True):
            file = files[part.file]
            done += file.size if storage.codec(file.path) else part.end - part.start
            scans[part] = one
            report(done)
    return plan_pieces(files, form, scans)


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
