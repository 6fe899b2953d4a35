"""Tables of several libraries: in as Arrow, out as what they were.

pandas and polars are not imported: whoever has such a table has the library.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def is_frame(table: Any) -> bool:
    """Whether it is a table with columns that have names and types of their own."""
    return isinstance(table, pa.Table) or _library(table) in ("pandas", "polars")


def to_arrow(table: Any, names: Sequence[str]) -> pa.Table:
    """The columns as Arrow, under the given names; NaN and None are null.

    Args:
        table: A table that `is_frame`, or a NumPy array of two dimensions.
        names: A name for each column.
    """
    if isinstance(table, pa.Table):
        return table.rename_columns(list(names))
    if _library(table) == "polars":
        return table.to_arrow().rename_columns(list(names))
    if _library(table) == "pandas":
        columns = [table.iloc[:, place] for place in range(table.shape[1])]
    else:
        columns = list(table.T)
    return pa.table([_column(values) for values in columns], names=list(names))


def append(table: Any, columns: Sequence[np.ndarray | pa.Array], names: Sequence[str]) -> Any:
    """The table with columns behind its own.

    Args:
        table: As for `to_arrow`.
        columns: The values of the new columns.
        names: Their names.
    """
    if not names:
        return table
    added = dict(zip(names, columns, strict=True))
    if isinstance(table, pa.Table):
        for name, values in added.items():
            table = table.append_column(name, pa.array(values))
        return table
    if _library(table) == "polars":
        return table.hstack(type(table)(added))
    if _library(table) == "pandas":
        added = {name: _to_pandas(values) for name, values in added.items()}
        return table.assign(**added)
    return np.column_stack([table, *map(np.asarray, columns)])


def _library(table: Any) -> str:
    """The library that a data frame is of."""
    has_columns = hasattr(table, "columns") and hasattr(table, "shape")
    return type(table).__module__.partition(".")[0] if has_columns else ""


def _column(values: Any) -> pa.Array | pa.ChunkedArray:
    """A column of pandas or NumPy; texts and other things side by side all become text."""
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(map(_text, values), pa.string())


def _text(value: Any) -> str | None:
    """A value as text, as it would be in a column of nothing but its type."""
    try:
        [one] = pa.array([value], from_pandas=True).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return str(value)
    return one.as_py()


def _to_pandas(values: np.ndarray | pa.Array) -> Any:
    """What `DataFrame.assign` takes, whatever the index of the frame is."""
    return values if isinstance(values, np.ndarray) else values.to_pandas().array
