"""What becomes of a column, and which column is the label, each with the reason."""

import math
import re
from dataclasses import dataclass

import numpy as np
import yaml

from fives_tf.errors import UserError, nearest
from fives_tf.infer.sample import ALL_MISSING, MISSING, WEAK_MISSING, Column, Sample

LABEL_NAMES = (  # the likeliest first
    *("click", "clicked", "label", "target", "y", "class", "is_click", "converted"),
    *("conversion", "response", "action", "income"),
)
PAIRS = (  # positive and negative, in lower case
    *(("1", "0"), ("1", "-1"), ("+1", "-1"), ("1.0", "0.0"), ("yes", "no"), ("true", "false")),
    *(("y", "n"), ("t", "f"), ("click", "noclick"), ("click", "no_click")),
)
FEW = 10  # integers with no more values than this are codes, unless they look like counts
FEW_BAD = 0.01  # the part of the rows whose label may be neither of two values
UNIQUE_ROWS = 20  # in fewer rows, values that never repeat say little
HASH_ROWS = 10_000
LEAST_BUCKETS = 100_000
_CODE_NAME = re.compile(r"(?i:(^|[^a-z])(id|code|zip|zipcode|postcode|hash|type)$)|[a-z]I[dD]$")
_CODE_TEXT = re.compile(r"[-+]?0[0-9]+|[0-9]+[eE][0-9]{4,}")  # 007; 1e234567 is hexadecimal


@dataclass(frozen=True)
class Label:
    """The column to predict, its positive and its negative value, and why it is taken."""

    column: Column
    positive: str
    negative: str
    why: str


@dataclass(frozen=True)
class Guess:
    """What becomes of a column (numeric, categorical or drop), and why."""

    column: Column
    kind: str
    note: str
    hash_buckets: int | None = None


def choose_label(sample: Sample, name: str | None) -> Label:
    """Takes the label column that is named, or guesses it from names and values."""
    columns = {column.name: column for column in sample.columns}
    if name is not None and name not in columns:
        raise UserError(
            f"{sample.path}: has no column `{name}`{nearest(name, columns)} "
            f"Its columns: {', '.join(columns)}."
        )
    if name is not None:
        return _label(sample, columns[name], "Given by --label.")
    two = [column for column in sample.columns if len(column.present()[0]) == 2]
    nearly_two = [c for c in sample.columns if len(_frequent_values(c)[0]) == 2]
    by_name = {column.name.lower(): column for column in reversed(nearly_two)}
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


def guess_column(column: Column) -> Guess:
    """Decides what becomes of a column that is not the label."""
    if reason := _drop_reason(column):
        return Guess(column, "drop", reason)
    texts, counts = column.present()
    wrong = np.isnan(column.numbers)
    hint = ""
    if counts[wrong].sum() <= 0.01 * counts.sum():
        hint = _code_reason(column.name, texts[~wrong], column.numbers[~wrong], counts[~wrong])
        if not hint:
            return Guess(column, "numeric", _number_note(column))
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
    return Guess(column, "categorical", note, buckets)


def scalar(text: str) -> str:
    """A text as YAML on one line, quoted where it would be read as anything else."""
    style = None if text.isprintable() else '"'
    dumped = yaml.safe_dump(
        [text], default_flow_style=True, default_style=style, allow_unicode=True, width=math.inf
    )
    return dumped[1:-2]


def _frequent_values(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """The values and their counts, without those that few rows have if two make up the rest."""
    texts, counts = column.present()
    kept = np.sort(np.argsort(-counts, kind="stable")[:2])
    if counts[kept].sum() >= (1 - FEW_BAD) * counts.sum():
        return texts[kept], counts[kept]
    return texts, counts


def _label(sample: Sample, column: Column, why: str) -> Label:
    texts, counts = _frequent_values(column)
    others = np.setdiff1d(column.present()[0], texts)
    if len(others):
        why += f" Rows with any other value, such as {scalar(others[0][:40])}, will be bad rows."
    if len(texts) != 2:
        shown = [repr(text) for text in texts[np.argsort(-counts, kind="stable")]]
        raise UserError(
            f"{sample.path}: the label column `{column.name}` must have two values, but has "
            f"{len(texts):,} in the first {sample.rows:,} rows: {', '.join(shown[:10]) or 'none'}"
            f"{', ...' if len(texts) > 10 else ''}. Name another column with --label"
            f"{', or raise --sample_rows.' if len(texts) < 2 else '.'}"
        )
    if pair := _known_pair(texts):
        return Label(column, *pair, why)
    rare, common = texts[np.argsort(counts, kind="stable")]
    return Label(column, rare, common, f"{why} The rarer value is taken as positive.")


def _known_pair(texts: np.ndarray) -> tuple[str, str] | None:
    """Positive and negative, if two texts are one of the known pairs."""
    known = {text.lower(): text for text in texts}
    pairs = (pair for pair in PAIRS if known.keys() == set(pair))
    return next(((known[positive], known[negative]) for positive, negative in pairs), None)


def _drop_reason(column: Column) -> str:
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
        return f"always {scalar(texts[0][:40])} in the sample{later}"
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


def _missing_note(column: Column, markers: tuple[str, ...]) -> str:
    share = column.counts[np.isin(column.texts, markers)].sum() / len(column.codes)
    return f", {100 * share:.2g} % missing" if share else ""


def _number_note(column: Column) -> str:
    wrong = np.isnan(column.numbers)
    texts, counts = column.present()
    rows = np.repeat(column.numbers[~wrong], counts[~wrong])
    low, high, middle = (_figure(x) for x in (rows.min(), rows.max(), np.median(rows)))
    note = f"{low} .. {high}, median {middle}" + _missing_note(column, MISSING)
    if wrong.any():
        note += f"; {scalar(texts[wrong][0][:20])} is no number: a bad row, or add it to missing"
    return note


def _figure(number: float) -> str:
    return f"{number:,.0f}" if 1000 <= abs(number) < 1e15 else f"{number:.4g}"
