"""A first schema, guessed from the beginning of a log and written down with the reasons."""

import collections
import csv
import functools
import io
import itertools
import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import yaml

from fives_tf import storage
from fives_tf.encoding import parse_number
from fives_tf.errors import UserError, nearest
from fives_tf.parsing import to_category
from fives_tf.schema import Format, Schema

HEAD_BYTES = 64 << 20
SNIFF_BYTES = 1 << 20
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", "\\N")
WEAK_MISSING = ("-", "unknown")  # missing among categories; among numbers, perhaps a mistake
ALL_MISSING = (*MISSING, *WEAK_MISSING)
LABEL_NAMES = (  # the likeliest first
    *("click", "clicked", "label", "target", "y", "class", "is_click", "converted"),
    *("conversion", "response", "action", "income"),
)
PAIRS = (  # positive and negative, in lower case
    *(("1", "0"), ("1", "-1"), ("+1", "-1"), ("1.0", "0.0"), ("yes", "no"), ("true", "false")),
    *(("y", "n"), ("t", "f"), ("click", "noclick"), ("click", "no_click")),
)
FEW = 10  # integers with no more values than this are codes, unless they look like counts
UNIQUE_ROWS = 20  # in fewer rows, values that never repeat say little
HASH_ROWS = 10_000
LEAST_BUCKETS = 100_000
_COMMENT_SIGNS = ("#", "|", "%", "//", "--")
_BOM = b"\xef\xbb\xbf"
_CODE_NAME = re.compile(r"(?i:(^|[^a-z])(id|code|zip|zipcode|postcode|hash|type)$)|[a-z]I[dD]$")
_TIME_NAME = re.compile(
    r"(?i:(^|[^a-z])(time|ts|timestamp|datetime|hour|date)([^a-z]|$))|[a-z](Time|Date|Timestamp)$"
)
_CODE_TEXT = re.compile(r"[-+]?0[0-9]+|[0-9]+[eE][0-9]{4,}")  # 007; 1e234567 is hexadecimal
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def infer_schema(paths: Iterable[str], label: str | None = None, sample_rows: int = 100_000) -> str:
    """Guesses the schema of a log from the first rows of its first file.

    Args:
        paths: Files or patterns, as `fives preprocess` takes them.
        label: The label column; guessed from names and values if it is not given.
        sample_rows: How many rows to look at; never more than about 64 MB.

    Returns:
        YAML text with comments, which `fives_tf.schema.Schema.parse` reads.
    """
    paths = list(paths)
    if sample_rows < 1:
        raise UserError(f"--sample_rows: expected at least 1. Received: {sample_rows}.")
    files = storage.find(paths)
    sample = _read_sample(files[0].path, sample_rows)
    chosen = _choose_label(sample, label)
    guesses = [_guess(column) for column in sample.columns if column is not chosen.column]
    if all(guess.kind == "drop" for guess in guesses):
        raise UserError(f"{sample.path}: no column but the label says anything; is it a log?")
    text = _render(sample, chosen, guesses, paths, len(files))
    Schema.parse(text, f"the schema inferred from {sample.path}")
    return text


@dataclass(frozen=True, eq=False)
class _Column:
    """The values of a column in the sample: the distinct texts, sorted, and which a row has."""

    name: str
    texts: np.ndarray
    codes: np.ndarray
    unusable: str = ""  # the type, if it is one that can be no field

    @functools.cached_property
    def counts(self) -> np.ndarray:
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
        texts, _ = self.present()
        if not len(texts) or not _TIME_NAME.search(self.name):
            return False
        return all(map(_ISO_DATE.match, texts)) or not np.isnan(self.numbers).any()


@dataclass(frozen=True)
class _Sample:
    path: str
    form: Format
    columns: list[_Column]
    malformed: int

    @property
    def rows(self) -> int:
        return len(self.columns[0].codes)


def _read_sample(path: str, rows: int) -> _Sample:
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


def _read_parquet(path: str, rows: int) -> _Sample:
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
    return _Sample(path, Format(kind="parquet", quote=None), columns, 0)


def _read_text(path: str, data: bytes, whole: bool, rows: int) -> _Sample:
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
    return _Sample(path, form, columns, len(malformed))


def _column(name: str, values: pa.ChunkedArray, trim: bool = False) -> _Column:
    array = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    try:
        coded = to_category(array, name)
    except UserError:
        return _Column(name, np.array([""]), np.zeros(len(array), np.int64), str(array.type))
    known = [(value or b"").decode("utf-8", "replace") for value in coded.dictionary.to_pylist()]
    known = [text.strip() for text in known] if trim else known
    # Trimming can make two values equal, and a null is as good as an empty text.
    texts, place = np.unique(np.array([*known, ""], object), return_inverse=True)
    return _Column(name, texts, place[coded.indices.fill_null(len(known)).to_numpy()])


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


@dataclass(frozen=True)
class _Label:
    column: _Column
    positive: str
    negative: str
    why: str


@dataclass(frozen=True)
class _Guess:
    """What becomes of a column (numeric, categorical or drop), and why."""

    column: _Column
    kind: str
    note: str
    hash_buckets: int | None = None


def _choose_label(sample: _Sample, name: str | None) -> _Label:
    columns = {column.name: column for column in sample.columns}
    if name is not None and name not in columns:
        raise UserError(
            f"{sample.path}: has no column `{name}`{nearest(name, columns)} "
            f"Its columns: {', '.join(columns)}."
        )
    if name is not None:
        return _label(sample, columns[name], "Given by --label.")
    two = [column for column in sample.columns if len(column.present()[0]) == 2]
    by_name = {column.name.lower(): column for column in reversed(two)}
    for known in LABEL_NAMES:
        if known in by_name:
            return _label(sample, by_name[known], "Guessed from its name.")
    if len(two) == 1:
        return _label(sample, two[0], "Guessed: no other column has two values.")
    ends = [column for column in (sample.columns[0], sample.columns[-1]) if column in two]
    if len(ends) == 2:
        ends = [column for column in ends if _known_pair(column.present()[0])]
    if len(ends) == 1:
        place = "first" if ends[0] is sample.columns[0] else "last"
        return _label(sample, ends[0], f"Guessed: it comes {place} and has two values.")
    found = ", ".join(f"`{column.name}`" for column in two)
    raise UserError(
        f"{sample.path}: cannot tell which column is the label; name it with --label. "
        + (f"Columns with two values: {found}." if two else "No column has exactly two values.")
    )


def _label(sample: _Sample, column: _Column, why: str) -> _Label:
    texts, counts = column.present()
    if len(texts) != 2:
        shown = [repr(text) for text in texts[np.argsort(-counts, kind="stable")]]
        raise UserError(
            f"{sample.path}: the label column `{column.name}` must have two values, but has "
            f"{len(texts):,} in the first {sample.rows:,} rows: {', '.join(shown[:10]) or 'none'}"
            f"{', ...' if len(texts) > 10 else ''}. Name another column with --label"
            f"{', or raise --sample_rows.' if len(texts) < 2 else '.'}"
        )
    if pair := _known_pair(texts):
        return _Label(column, *pair, why)
    rare, common = texts[np.argsort(counts, kind="stable")]
    return _Label(column, rare, common, f"{why} The rarer value is taken as positive.")


def _known_pair(texts: np.ndarray) -> tuple[str, str] | None:
    """Positive and negative, if two texts are one of the known pairs."""
    known = {text.lower(): text for text in texts}
    pairs = (pair for pair in PAIRS if known.keys() == set(pair))
    return next(((known[positive], known[negative]) for positive, negative in pairs), None)


def _guess(column: _Column) -> _Guess:
    if reason := _drop_reason(column):
        return _Guess(column, "drop", reason)
    texts, counts = column.present()
    wrong = np.isnan(column.numbers)
    hint = ""
    if counts[wrong].sum() <= 0.01 * counts.sum():
        hint = _code_reason(column.name, texts[~wrong], column.numbers[~wrong], counts[~wrong])
        if not hint:
            return _Guess(column, "numeric", _number_note(column))
    elif not wrong[~np.isin(texts, WEAK_MISSING)].any():
        hint = "; numbers otherwise: if it is a quantity, move it to numeric"
    distinct = len(column.present(ALL_MISSING)[0])
    note = f"{distinct:,} value{'s' if distinct != 1 else ''} in the sample"
    note += _missing_note(column, ALL_MISSING) + hint
    if column.name.lower() in LABEL_NAMES and distinct == 2:
        note += "; named like a label: drop it if it is known only after the click"
    buckets = None
    if len(column.codes) >= HASH_ROWS and 2 * distinct > len(column.codes):
        buckets = 2 ** math.ceil(math.log2(max(LEAST_BUCKETS, 2 * distinct)))
    return _Guess(column, "categorical", note, buckets)


def _drop_reason(column: _Column) -> str:
    texts, counts = column.present()
    numbers, rows = column.numbers, len(column.codes)
    if column.unusable:
        return f"its type, {column.unusable}, can be no field"
    if not column.name:
        return "has no name, as the row numbers that some programs write"
    if not len(texts):
        return "always missing in the sample"
    if len(texts) == 1 and counts[0] == rows:
        later = "; a time that may change further on" if column.is_time else ""
        return f"always {_scalar(texts[0][:40])} in the sample{later}"
    no_number = bool(np.isnan(numbers).all())
    if column.is_time and (no_number or numbers.min() >= 1e6):
        return "a time, whose values do not come again; it can serve for a split"
    if len(texts) == rows >= UNIQUE_ROWS:
        in_order = numbers[np.searchsorted(texts, column.texts[column.codes])]
        if (np.diff(in_order) == 1).all():
            return "rises by one with each row: a row number"
        if no_number or _code_reason(column.name, texts, numbers, counts):
            return "never repeats: an id of the row"
    return ""


def _code_reason(name: str, texts: np.ndarray, numbers: np.ndarray, counts: np.ndarray) -> str:
    """Why numbers look like codes, as the end of a note; nothing if they look like a quantity."""
    if any(map(_CODE_TEXT.fullmatch, texts)):
        return "; zero-padded or hexadecimal: codes"
    if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any():
        return ""
    if np.abs(numbers).max() > 2**53:
        return "; too long for numbers: codes"
    if _CODE_NAME.search(name):
        return "; integers named like codes"
    numbers, place = np.unique(numbers, return_inverse=True)  # 1 and 1.0 are the same
    counts = np.bincount(place, counts)
    if len(numbers) <= FEW and 2 * len(numbers) <= counts.sum():
        return "" if _are_counts(numbers, counts) else "; few integers: codes?"
    if numbers[0] > 10 * np.ptp(numbers):
        return "; integers far from zero, close together: codes?"
    digits = np.floor(np.log10(np.maximum(np.abs(numbers), 1))).astype(int) + 1
    alike = np.bincount(digits).max() > 0.8 * len(digits) and np.median(digits) >= 7
    if alike and len(numbers) > 0.95 * counts.sum():
        return "; long integers that hardly repeat: ids?"
    # Zero is the most common value of many quantities and of few codes.
    if numbers[np.argmax(counts)] != 0 and _filling(numbers, counts) < 0.5:
        return "; gaps between integers that repeat: codes?"
    return ""


def _are_counts(numbers: np.ndarray, counts: np.ndarray) -> bool:
    """Whether few integers look like counts: 0, 1, 2, ... without a gap, each rarer than before."""
    falling = (np.diff(numbers) == 1).all() and (np.diff(counts) < 0).all()
    return bool(len(numbers) >= 5 and numbers[0] in (0, 1) and falling)


def _filling(numbers: np.ndarray, counts: np.ndarray) -> float:
    """How many of the integers that could occur do occur: near 1 for a quantity, less for codes.

    The rows are cut by value into ten equal parts. Rows that fall evenly on the range of their part
    have a number of distinct values that can be expected; codes have fewer, because some of them
    are frequent and their neighbours are not in use. The result is the median of the ten ratios.
    """
    step = np.gcd.reduce(np.diff(numbers).astype(np.int64)) or 1
    part = (np.cumsum(counts) - 1) * 10 // counts.sum()
    ratios = []
    for inside in (part == number for number in np.unique(part)):
        span = np.ptp(numbers[inside]) / step + 1
        ratios.append(inside.sum() / (-span * np.expm1(-counts[inside].sum() / span)))
    return float(np.median(ratios))


def _missing_note(column: _Column, markers: tuple[str, ...]) -> str:
    share = column.counts[np.isin(column.texts, markers)].sum() / len(column.codes)
    return f", {100 * share:.2g} % missing" if share else ""


def _number_note(column: _Column) -> str:
    wrong = np.isnan(column.numbers)
    texts, counts = column.present()
    rows = np.repeat(column.numbers[~wrong], counts[~wrong])
    low, high, middle = (_figure(x) for x in (rows.min(), rows.max(), np.median(rows)))
    note = f"{low} .. {high}, median {middle}" + _missing_note(column, MISSING)
    if wrong.any():
        note += f"; {_scalar(texts[wrong][0][:20])} is no number: a bad row, or add it to missing"
    return note


def _figure(number: float) -> str:
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e15 else f"{number:.4g}"


def _render(
    sample: _Sample, label: _Label, guesses: list[_Guess], paths: list[str], files: int
) -> str:
    of_files = f", the first of {files:,} files" if files > 1 else ""
    log = " ".join(map(shlex.quote, paths[:3])) + (" ..." if paths[3:] else "")
    intro = [
        f"A first schema, guessed from {sample.rows:,} rows of {sample.path}{of_files}.",
        "It is a guess: read it through and correct it. Then run",
        f"  fives preprocess {log} --schema schema.yaml --out dataset",
    ]
    if sample.malformed:
        intro.append(f"Rows with another number of columns in the sample: {sample.malformed:,}.")
    return f"""\
{_comments(intro)}
version: 1

{_render_format(sample.form)}

# The column to predict, and which of its values is a click.
# {label.why}
label:
  column: {_scalar(label.column.name)}
  positive: {_scalar(label.positive)}
  negative: {_scalar(label.negative)}

# Texts that mean that there is no value.
missing: [{", ".join(map(_scalar, _missing_markers(guesses)))}]

# Values with fewer rows than min_count, or not among the max_vocab most frequent, share one id.
min_count: 5
max_vocab: 1000000

# Quantities: cut into buckets, one field for each number of buckets.
{_render_columns("numeric", guesses)}

# quantile puts about equally many rows into each bucket. Other kinds: width cuts the range into
# equal parts, log into equal parts of its logarithm, edges at given bounds: edges: [0, 18, 65].
discretize:
  kind: quantile
  buckets: [10, 100]

# Names and codes: one field each.
{_render_columns("categorical", guesses)}

# Columns that are not read.
{_render_columns("drop", guesses)}

{_render_overrides(guesses)}\
# Which rows the network learns on (train), the adjacency tensor (valid), and neither (test).
# Other kinds than random:
#   by: hash      with key: COLUMN; rows of the same value, such as a user, stay together
#   by: position  the last rows are for valid and test; for a log in the order of time
#   by: time      with column, valid_from and test_from
#   by: files     with files: {{train: [PATTERN], valid: [PATTERN], test: [PATTERN]}}
{_render_times(sample)}split:
  by: random
  valid: 0.1
  test: 0.1
  seed: 0
"""


def _render_format(form: Format) -> str:
    lines = [f"format: {form.kind}"]
    if form.kind != "parquet":
        lines += [f"delimiter: {_scalar(form.delimiter)}", f"header: {str(form.header).lower()}"]
        lines.append(f"quote: {_scalar(form.quote) if form.quote else 'false'}")
    if form.trim:
        lines.append("trim: true  # blanks around values do not count")
    if form.comment:
        lines.append(f"comment: {_scalar(form.comment)}  # lines that begin with it are no rows")
    if form.columns:
        lines.append("# The file names no columns: replace these names, here and below.")
        lines += ["columns:", *(f"  - {_scalar(name)}" for name in form.columns)]
    return "\n".join(lines)


def _missing_markers(guesses: list[_Guess]) -> list[str]:
    found = {""}
    for guess in guesses:
        if guess.kind != "drop":
            markers = MISSING if guess.kind == "numeric" else ALL_MISSING
            found |= set(guess.column.present(())[0]) & set(markers)
    return [marker for marker in ALL_MISSING if marker in found]


def _render_columns(kind: str, guesses: list[_Guess]) -> str:
    chosen = [(_scalar(g.column.name), g.note) for g in guesses if g.kind == kind]
    if not chosen:
        return f"{kind}: []"
    width = min(max(len(name) for name, _ in chosen), 40)
    return "\n".join([f"{kind}:", *(f"  - {n:{width}}  {_comments([note])}" for n, note in chosen)])


def _render_overrides(guesses: list[_Guess]) -> str:
    items = [
        f"  {_scalar(guess.column.name)}:\n    hash_buckets: {guess.hash_buckets}\n"
        for guess in guesses
        if guess.hash_buckets
    ]
    if not items:
        return ""
    return f"""\
# Ids without bound: in more than half of the sampled rows they are new. Hashing them into a fixed
# number of ids spares a vocabulary that would never be complete.
overrides:
{"".join(items)}
"""


def _render_times(sample: _Sample) -> str:
    lines = []
    for column in (column for column in sample.columns if column.is_time):
        texts, counts = column.present()
        order = np.argsort(texts if np.isnan(column.numbers).any() else column.numbers)
        late = np.searchsorted(np.cumsum(counts[order]), (0.8 * counts.sum(), 0.9 * counts.sum()))
        name, valid, test = map(_scalar, (column.name, *texts[order][late]))
        lines += [
            f"{name} looks like a time. A split by it, with bounds that suit the whole log:",
            f"  split: {{by: time, column: {name}, valid_from: {valid}, test_from: {test}}}",
        ]
    return f"{_comments(lines)}\n" if lines else ""


def _comments(lines: list[str]) -> str:
    """YAML comments, one line each, whatever the log holds."""
    return "\n".join(
        "# " + "".join(sign if sign.isprintable() else "?" for sign in line) for line in lines
    )


def _scalar(text: str) -> str:
    """A text as YAML on one line, quoted where it would be read as anything else."""
    style = None if text.isprintable() else '"'
    dumped = yaml.safe_dump(
        [text], default_flow_style=True, default_style=style, allow_unicode=True, width=math.inf
    )
    return dumped[1:-2]
