"""Crosses as SQL: the value of each cross, computed from the raw columns of a log.

The SQL is ANSI's, but for VARCHAR without a length, which DuckDB, PostgreSQL and Trino take. A
column of the log may be stored as text or as numbers.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from fives_tf.crosses import Cross, check_fields
from fives_tf.encoding import BucketField, Encoding, Field, to_single

_INFINITY = 0x7FF0 << 48  # its bits in double precision


def select(crosses: Iterable[Cross], encoding: Encoding, table: str = "log") -> str:
    """One statement that reads a table and adds a column a cross, named as the cross is."""
    expressions = cross_expressions(crosses, encoding)
    columns = [f"{value} AS {_identifier(name)}" for name, value in expressions.items()]
    return "SELECT " + ",\n".join(["*", *columns]) + f"\nFROM {_identifier(table)}"


def cross_expressions(crosses: Iterable[Cross], encoding: Encoding) -> dict[str, str]:
    """The SQL expressions, by the names of the crosses, that compute their values.

    The value is text and never NULL: the parts of the fields joined by ` x `. The part of a
    categorical field is its value, that of a numeric field the number of its bucket, from 0 on;
    either is empty where the value is missing.
    """
    crosses = list(crosses)
    fields = {field.name: field for field in encoding.fields}
    check_fields(crosses, list(fields))
    parts = {name: _part(fields[name]) for cross in crosses for name in cross.fields}
    return {
        cross.name: "\n|| ' x ' || ".join(parts[field] for field in cross.fields)
        for cross in crosses
    }


def _part(field: Field) -> str:
    text = f"CAST({_identifier(field.column)} AS VARCHAR)"
    markers = ", ".join(map(_text, dict.fromkeys(("", *field.missing))))
    # First of all, since the text of a marker may be no number.
    lines = [f"WHEN {text} IS NULL OR {text} IN ({markers}) THEN ''"]
    if isinstance(field, BucketField):
        # NaN is above all numbers in some databases and beyond comparison in others: in either
        # case it passes by every line to the last one.
        lines += [*_bucket_lines(field), "ELSE ''"]
    else:
        lines.append(f"ELSE {text}")
    return "\n  ".join(["CASE", *lines]) + "\nEND"


def _bucket_lines(field: BucketField) -> list[str]:
    number = f"CAST({_identifier(field.column)} AS DOUBLE PRECISION)"
    markers = field.missing_numbers[~np.isnan(field.missing_numbers)]
    lines = [
        f"WHEN {number} BETWEEN {_number(low)} AND {_number(high)} THEN ''"
        for low, high in zip(_least(markers), -_least(-markers), strict=True)
    ]
    lines += [
        f"WHEN {number} < {_number(least)} THEN '{bucket}'"
        for bucket, least in enumerate(_least(field.edges))
    ]
    lines.append(f"WHEN {number} <= {_number(np.inf)} THEN '{len(field.edges)}'")
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


def _number(value: float) -> str:
    if np.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS DOUBLE PRECISION)"
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"  # with an exponent it is a double, no decimal


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
