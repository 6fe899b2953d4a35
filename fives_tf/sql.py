"""Crosses as SQL: the value of each cross, computed from the raw columns of a log.

The values are those of `fives_tf.cross_values`. A column of the log may be stored as text or as
numbers.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fives_tf.cross_values import ESCAPES, SEPARATOR
from fives_tf.crosses import Cross, check_fields
from fives_tf.encoding import BucketField, Encoding, Field, to_single
from fives_tf.errors import UserError, nearest

LONGEST_NAME = 120  # old Hive takes 128 signs
_INFINITY = 0x7FF0 << 48  # its bits in double precision


def select(
    crosses: Iterable[Cross],
    encoding: Encoding,
    *,
    trim: bool = False,
    table: str = "log",
    dialect: str = "ansi",
) -> str:
    """One statement that reads a table and adds a column a cross.

    Args:
        crosses: The crosses.
        encoding: The encoding of their fields.
        trim: Whether blanks around values do not count, as the schema of the log says.
        table: The name of the table.
        dialect: One of `DIALECTS`.
    """
    crosses = list(crosses)
    expressions = cross_expressions(crosses, encoding, trim=trim, dialect=dialect)
    writer = DIALECTS[dialect]
    columns = [
        f"{comment}{expression} AS {writer.identifier(name)}"
        for expression, (name, comment) in zip(expressions, writer.name(crosses), strict=True)
    ]
    return "SELECT " + ",\n".join(["*", *columns]) + f"\nFROM {writer.identifier(table)}"


def cross_expressions(
    crosses: Iterable[Cross], encoding: Encoding, *, trim: bool = False, dialect: str = "ansi"
) -> list[str]:
    """The SQL expressions, in the order of the crosses, that compute their values; see `select`."""
    if dialect not in DIALECTS:
        raise UserError(
            f"no dialect `{dialect}`{nearest(dialect, DIALECTS)} Known: {', '.join(DIALECTS)}."
        )
    crosses = list(crosses)
    fields = {field.name: field for field in encoding.fields}
    check_fields(crosses, list(fields))
    writer = DIALECTS[dialect]
    used = dict.fromkeys(name for cross in crosses for name in cross.fields)
    parts = {name: _part(fields[name], trim, writer) for name in used}
    return [writer.join([parts[name] for name in cross.fields]) for cross in crosses]


@dataclass(frozen=True)
class Dialect:
    """How a system writes what a statement is made of.

    Attributes:
        identifier: Writes the name of a table or column.
        literal: Writes a text.
        text: The type of texts.
        number: A value as a number; NULL rather than an error where the system can.
        trim: A text without the ASCII blanks around it.
        join: Joins the parts of a value.
        name: The names of the columns of crosses, and a comment for each, or none.
    """

    identifier: Callable[[str], str]
    literal: Callable[[str], str]
    text: str
    number: str
    trim: str
    join: Callable[[list[str]], str]
    name: Callable[[Sequence[Cross]], list[tuple[str, str]]]


def _part(field: Field, trim: bool, writer: Dialect) -> str:
    value = writer.identifier(field.column)
    text = f"CAST({value} AS {writer.text})"
    if trim:
        value = text = writer.trim.format(text)
    markers = ", ".join(map(writer.literal, dict.fromkeys(("", *field.missing))))
    # First of all, since the text of a marker may be no number.
    lines = [f"WHEN {text} IS NULL OR {text} IN ({markers}) THEN ''"]
    if isinstance(field, BucketField):
        # NaN is above all numbers in some databases and beyond comparison in others: in either
        # case it passes by every line to the last one.
        lines += [*_bucket_lines(field, writer.number.format(value), writer), "ELSE ''"]
    else:
        for old, new in ESCAPES:
            text = f"REPLACE({text}, {writer.literal(old)}, {writer.literal(new)})"
        lines.append(f"ELSE {text}")
    return "\n  ".join(["CASE", *lines]) + "\nEND"


def _bucket_lines(field: BucketField, number: str, writer: Dialect) -> list[str]:
    markers = field.missing_numbers[~np.isnan(field.missing_numbers)]
    lines = [
        f"WHEN {number} BETWEEN {_number(low, writer)} AND {_number(high, writer)} THEN ''"
        for low, high in zip(_least(markers), -_least(-markers), strict=True)
    ]
    lines += [
        f"WHEN {number} < {_number(least, writer)} THEN '{bucket}'"
        for bucket, least in enumerate(_least(field.edges))
    ]
    lines.append(f"WHEN {number} <= {_number(np.inf, writer)} THEN '{len(field.edges)}'")
    return lines


def _least(singles: np.ndarray) -> np.ndarray:
    """The least doubles that the encoding, in single precision, takes to be at or above `singles`.

    With them SQL need not cast to REAL, which fails on numbers beyond its range and has double
    precision in some databases.
    """
    low = np.full(len(singles), -_INFINITY, np.int64)
    high = -low
    while (low < high).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # the mean, which cannot overflow
        reached = to_single(pa.array(_double(middle))) >= singles
        low = np.where(reached, low, middle + 1)
        high = np.where(reached, middle, high)
    return _double(high)


def _double(places: np.ndarray) -> np.ndarray:
    """The doubles at these places of their order, in which zero has the place 0."""
    return np.copysign(np.abs(places).view(np.float64), places)


def _number(value: float, writer: Dialect) -> str:
    if np.isinf(value):
        return writer.number.format(f"'{'-' if value < 0 else ''}Infinity'")
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"  # with an exponent it is a double, no decimal


def _doubled(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote + quote) + quote


def _escaped(text: str, quote: str) -> str:
    for old, new in (("\\", "\\\\"), (quote, f"\\{quote}"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(old, new)
    return quote + text + quote


def _with_operator(parts: list[str]) -> str:
    return f"\n|| '{SEPARATOR}' || ".join(parts)


def _with_function(parts: list[str]) -> str:
    return "CONCAT(" + f",\n'{SEPARATOR}', ".join(parts) + ")"


def _own_names(crosses: Sequence[Cross]) -> list[tuple[str, str]]:
    return [(cross.name, "") for cross in crosses]


def _plain_names(crosses: Sequence[Cross]) -> list[tuple[str, str]]:
    """Names of letters, digits and underscores, which any table can have, once each."""
    result: dict[str, tuple[str, str]] = {}
    for cross in crosses:
        plain = re.sub(r"[^0-9A-Za-z]+", "_", f"cross {cross.name}")[:LONGEST_NAME]
        name, number = plain, 1
        while name.lower() in result:
            number += 1
            name = f"{plain}_{number}"
        result[name.lower()] = (name, f"-- {' '.join(cross.name.splitlines())}\n")
    return list(result.values())


_ANSI = Dialect(
    identifier=functools.partial(_doubled, quote='"'),
    literal=functools.partial(_doubled, quote="'"),
    text="VARCHAR",  # without a length, which DuckDB, PostgreSQL and Trino take
    number="CAST({} AS DOUBLE PRECISION)",
    trim="TRIM(BOTH ' ' || CHR(9) || CHR(10) || CHR(11) || CHR(12) || CHR(13) FROM {})",
    join=_with_operator,
    name=_own_names,
)
_BIGQUERY = Dialect(
    identifier=functools.partial(_escaped, quote="`"),
    literal=functools.partial(_escaped, quote="'"),
    text="STRING",
    number="SAFE_CAST({} AS FLOAT64)",
    trim=r"TRIM({}, ' \t\n\v\f\r')",
    join=_with_operator,
    name=_plain_names,
)
_SPARK = Dialect(
    identifier=functools.partial(_doubled, quote="`"),
    literal=functools.partial(_escaped, quote="'"),
    text="STRING",
    number="TRY_CAST({} AS DOUBLE)",
    # TRIM of Hive knows the space only, and the `$` of Java also stands before a last line break.
    trim=r"REGEXP_REPLACE({}, '^[ \\t\\n\\x0B\\f\\r]+|[ \\t\\n\\x0B\\f\\r]+\\z', '')",
    join=_with_operator,
    name=_plain_names,
)
# CAST gives NULL where a text is no number.
_HIVE = dataclasses.replace(_SPARK, number="CAST({} AS DOUBLE)", join=_with_function)

DIALECTS = {"ansi": _ANSI, "bigquery": _BIGQUERY, "spark": _SPARK, "hive": _HIVE}
