"""The beginning of a log: how the file is laid out, and the columns of its first rows."""

import collections
import csv
import functools
import io
import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from fives_tf import storage
from fives_tf.encoding import parse_number
from fives_tf.errors import UserError
from fives_tf.parsing import to_category
from fives_tf.schema import Format

HEAD_BYTES = 64 << 20
SNIFF_BYTES = 1 << 20
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", "\\N")
WEAK_MISSING = ("-", "unknown")  # missing among categories; among numbers, perhaps a mistake
ALL_MISSING = (*MISSING, *WEAK_MISSING)
_COMMENT_SIGNS = ("#", "|", "%", "//", "--")
_BOM = b"\xef\xbb\xbf"
_TIME_NAME = re.compile(
    r"(?i:(^|[^a-z])(time|ts|timestamp|datetime|hour|date)([^a-z]|$))|[a-z](Time|Date|Timestamp)$"
)
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, eq=False)
class Column:
    """The values of a column in the sample: the distinct texts, sorted, and which a row has."""

    name: str
    texts: np.ndarray
    codes: np.ndarray
    unusable: str = ""  # the type, if it is one that can be no field

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """How many rows have each of the texts."""
        return np.bincount(self.codes, minlength=len(self.texts))

    def present(self, markers: tuple[str, ...] = MISSING) -> tuple[np.ndarray, np.ndarray]:
        """The texts that occur and are no missing markers, and their counts."""
        kept = ~np.isin(self.texts, markers) & (self.counts > 0)
        return self.texts[kept], self.counts[kept]

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """The numbers that the present texts mean, NaN for those that mean none."""
        return _numbers(self.present()[0])

    @functools.cached_property
    def is_time(self) -> bool:
        """Whether it is named like a time and holds dates or numbers only."""
        texts, _ = self.present()
        if not len(texts) or not _TIME_NAME.search(self.name):
            return False
        return all(map(_ISO_DATE.match, texts)) or not np.isnan(self.numbers).any()


@dataclass(frozen=True)
class Sample:
    """The first rows of a log, column by column, and the layout of its file."""

    path: str
    form: Format
    columns: list[Column]
    malformed: int

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0].codes)


def read_sample(path: str, rows: int) -> Sample:
    """Reads no more than so many rows from the beginning of a file, text or Parquet."""
    data, whole = _head(path, rows)
    if path.endswith(".parquet") or data.startswith(b"PAR1"):
        sample = _read_parquet(path, rows)
    else:
        sample = _read_text(path, data, whole, rows)
    names = collections.Counter(column.name for column in sample.columns)
    twice = [name for name, times in names.items() if times > 1]
    if twice:
        raise UserError(f"{path}: the column `{twice[0]}` occurs twice; rename one of them.")
    if not sample.rows:
        raise UserError(f"{path}: has column names but no rows; some rows are needed.")
    return sample


def _head(path: str, rows: int) -> tuple[bytes, bool]:
    """The first bytes, decompressed, and whether they are the whole file."""
    data, lines = bytearray(), 0
    with storage.Decompressed(path) if storage.codec(path) else storage.open_read(path) as stream:
        while len(data) < HEAD_BYTES and lines <= rows + 1:  # one more for the header
            chunk = stream.read(SNIFF_BYTES)
            if not chunk:
                return bytes(data), True
            data += chunk
            lines += chunk.count(b"\n")
            if data.startswith(b"PAR1"):
                break
    return bytes(data), False


def _read_parquet(path: str, rows: int) -> Sample:
    if storage.codec(path):
        raise UserError(f"{path}: is Parquet that was compressed as a whole; decompress it first.")
    batches, taken, size = [], 0, 0
    with storage.open_read(path) as source:
        try:
            file = pq.ParquetFile(source, pre_buffer=False)
            for batch in file.iter_batches(8192, use_threads=False):
                batches.append(batch)
                taken, size = taken + batch.num_rows, size + batch.nbytes
                if taken >= rows or size >= HEAD_BYTES:
                    break
        except (pa.ArrowInvalid, OSError) as error:
            raise UserError(f"{path}: is not a Parquet file ({error}).") from None
        table = pa.Table.from_batches(batches, file.schema_arrow).slice(0, rows)
    columns = [_column(*item) for item in zip(table.column_names, table.columns, strict=True)]
    return Sample(path, Format(kind="parquet", quote=None), columns, 0)


def _read_text(path: str, data: bytes, whole: bool, rows: int) -> Sample:
    if not data.strip():
        raise UserError(f"{path}: is empty; a log with some rows is needed.")
    if b"\0" in data or data.startswith(b"\x1f\x8b"):
        raise UserError(
            f"{path}: is neither text nor Parquet. Text must be UTF-8, and the name of a "
            "compressed file must end in .gz or .zst."
        )
    data = data.removeprefix(_BOM) if whole else data[: data.rfind(b"\n") + 1].removeprefix(_BOM)
    form, first = _sniff(path, data)
    if form.comment:
        sign = form.comment.encode()
        data = b"\n".join(line for line in data.split(b"\n") if not line.startswith(sign))
    malformed: list[int] = []
    keys = [str(number) for number in range(len(first))]
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        # In one thread, because the handler of bad rows is Python.
        pa_csv.ReadOptions(column_names=keys, block_size=len(data) + 1, use_threads=False),
        pa_csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char=form.quote or False,
            newlines_in_values=form.quote is not None,
            invalid_row_handler=lambda row: malformed.append(row.number) or "skip",
        ),
        pa_csv.ConvertOptions(
            column_types=dict.fromkeys(keys, pa.binary()), strings_can_be_null=False
        ),
    )
    if not whole:  # the end may lie within quotes, which spoils the last record
        table = table.slice(0, table.num_rows - 1)
    table = table.slice(int(form.header), rows)
    names = first if form.header else form.columns
    if "\N{REPLACEMENT CHARACTER}" in "".join(names):
        raise UserError(f"{path}: the column names are not UTF-8; convert the file to UTF-8.")
    columns = [_column(*item, form.trim) for item in zip(names, table.columns, strict=True)]
    return Sample(path, form, columns, len(malformed))


def _column(name: str, values: pa.ChunkedArray, trim: bool = False) -> Column:
    array = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    try:
        coded = to_category(array, name)
    except UserError:
        return Column(name, np.array([""]), np.zeros(len(array), np.int64), str(array.type))
    known = [(value or b"").decode("utf-8", "replace") for value in coded.dictionary.to_pylist()]
    known = [text.strip() for text in known] if trim else known
    # Trimming can make two values equal, and a null is as good as an empty text.
    texts, place = np.unique(np.array([*known, ""], object), return_inverse=True)
    return Column(name, texts, place[coded.indices.fill_null(len(known)).to_numpy()])


def _sniff(path: str, data: bytes) -> tuple[Format, list[str]]:
    """The layout of a text file, and its first row that is no comment."""
    head = data[:SNIFF_BYTES]
    head = head[: head.rfind(b"\n") + 1] or head if len(data) > SNIFF_BYTES else head
    text = head.decode("utf-8", "replace")
    is_tsv = re.search(r"\.tsv(\.gz|\.zst)?$", path) is not None
    best, form, rows, width = (False, 0.5, 1), Format(), [], 0
    for delimiter in (",", "\t", ";", "|"):
        quote = _quote(text, delimiter)
        found = _split(text, delimiter, quote)
        (common, times), *_ = collections.Counter(map(len, found)).most_common(1) or [(0, 0)]
        score = (is_tsv and delimiter == "\t", times / max(len(found), 1), common)
        if common > 1 and score[1] > 0.5 and score > best:
            kind = "tsv" if delimiter == "\t" else "csv"
            best, form = score, Format(kind, delimiter=delimiter, quote=quote)
            rows, width = found, common
    if not rows:
        raise UserError(
            f"{path}: neither comma nor tab, ; or | cuts its lines into one number of columns, at "
            "least two. Is it a table with a row on each line?"
        )
    sign = next((sign for sign in _COMMENT_SIGNS if rows[0][0].startswith(sign)), None)
    if sign and len(rows[0]) != width:
        form = replace(form, comment=sign)
        rows = [row for row in rows if not row[0].startswith(sign)]
    rows = [row for row in rows if len(row) == width]
    later = [value for row in rows for value in row[1:] if value.strip()]
    if 2 * sum(value[0] == " " for value in later) > len(later):
        form = replace(form, trim=True)
        rows = [[value.strip() for value in row] for row in rows]
    if not _has_header(rows):
        names = tuple(f"column_{number}" for number in range(1, width + 1))
        form = replace(form, header=False, columns=names)
    return form, rows[0]


def _quote(text: str, delimiter: str) -> str | None:
    """The quote sign, if about as many fields begin with it as end with it."""
    sign = re.escape(delimiter)
    opening = len(re.findall(rf'(?m)(?:^|{sign})"', text))
    closing = len(re.findall(rf'(?m)"(?:{sign}|\r?$)', text))
    if opening and closing and max(opening, closing) <= 2 * min(opening, closing):
        return '"'
    return None if '"' in text or delimiter == "\t" else '"'


def _split(text: str, delimiter: str, quote: str | None) -> list[list[str]]:
    quoting = csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)
    try:
        return list(itertools.islice(filter(None, reader), 1000))
    except csv.Error:  # an unclosed quote: not this delimiter
        return []


def _has_header(rows: list[list[str]]) -> bool:
    first, rest = rows[0], rows[1:]
    markers = set(ALL_MISSING)
    # Programs write row numbers under an empty name, so the first name may be empty.
    if any(name in markers for name in (first[0] or "unnamed", *first[1:])):
        return False
    if any(parse_number(name) is not None for name in first):
        return False
    below = [{row[i] for row in rest} - markers for i in range(len(first))]
    if any(values and not np.isnan(_numbers(values)).any() for values in below):
        return True  # even if a name occurs twice, which is refused later
    recur = any(name in values for name, values in zip(first, below, strict=True))
    return len(set(first)) == len(first) and not recur


def _numbers(texts: Iterable[str]) -> np.ndarray:
    """The numbers that texts mean in a log, NaN for those that mean none."""
    array = pa.array(list(texts), pa.string())
    try:
        return pc.cast(array, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        values = array.to_pylist()
    # One by one is slow, and of no use for what is text at first sight.
    some = [parse_number(text) for text in values[:: max(len(values) // 100, 1)]]
    if 2 * some.count(None) > len(some):
        return np.full(len(values), np.nan)
    return np.array([parse_number(text) for text in values], np.float64)
