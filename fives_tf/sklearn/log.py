"""A table as a log: what its columns mean, and which rows are for validation."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fives_tf.arrow import single_batch
from fives_tf.errors import UserError, nearest
from fives_tf.schema import Column, Discretize, Format, Label, Schema, SplitRule

FROM_DTYPE = "from_dtype"
MIN_COUNT = 5
MAX_VOCAB = 1_000_000
_ROWS_A_COUNT = 200


@dataclass(frozen=True)
class Cut:
    """How columns become fields.

    Attributes:
        categorical: `from_dtype`, or the names or places of the categorical columns.
        bins: The numbers of buckets of a numeric column, each of which is a field.
        binning: How the edges of the buckets are found: `quantile`, `width` or `log`.
        min_count: Values with fewer rows share an id; None for 5, and less for few rows.
    """

    categorical: str | Sequence[str | int | bool]
    bins: int | Sequence[int]
    binning: str
    min_count: int | None

    def schema(self, table: pa.Table, valid: float, seed: int) -> Schema:
        """What the columns of a table mean.

        Args:
            table: The columns.
            valid: The part of the rows, the last ones, that is for validation.
            seed: Decides the order of the rows in the dataset.
        """
        categorical = self._categorical(table)
        min_count = self.min_count
        if min_count is None:
            min_count = min(max(table.num_rows // _ROWS_A_COUNT, 1), MIN_COUNT)
        bins = [self.bins] if isinstance(self.bins, numbers.Integral) else self.bins
        buckets = tuple(int(one) if isinstance(one, numbers.Integral) else one for one in bins)
        columns = [
            Column(name, False, min_count=min_count, max_vocab=MAX_VOCAB)
            if name in categorical
            else Column(
                name, True, min_count=min_count, discretize=Discretize(self.binning, buckets)
            )
            for name in table.column_names
        ]
        label = "label"
        while label in table.column_names:
            label += "_"
        schema = Schema(
            Format("parquet", quote=None),
            Label(label),
            tuple(columns),
            (),
            SplitRule("position", valid=valid, test=0.0, seed=seed, valid_rows="last"),
        )
        return Schema.parse(schema.to_yaml(), "X")  # which checks all of it

    def _categorical(self, table: pa.Table) -> set[str]:
        names = table.column_names
        if isinstance(self.categorical, str):
            if self.categorical != FROM_DTYPE:
                raise UserError(
                    f"`categorical_features`: expected {FROM_DTYPE!r} or the names or places of "
                    f"columns. Received: {self.categorical!r}."
                )
            return {field.name for field in table.schema if not _is_number(field)}
        given = list(self.categorical)
        if given and all(isinstance(one, bool | np.bool_) for one in given):
            if len(given) != len(names):
                raise UserError(
                    f"`categorical_features`: expected one flag for each of the {len(names)} "
                    f"columns. Received: {len(given)} flags."
                )
            return {name for name, chosen in zip(names, given, strict=True) if chosen}
        found = {_name(one, names) for one in given}
        texts = [f for f in table.schema if f.name not in found and not _is_number(f)]
        if texts:
            raise UserError(
                f"column `{texts[0].name}` has the type {texts[0].type}, which is no number; name "
                "it in `categorical_features`, or leave it out of X."
            )
        return found


def labelled_rows(
    table: pa.Table, clicks: np.ndarray, schema: Schema, order: np.ndarray
) -> pa.RecordBatch:
    """The rows of a log: the table and its label, in the given order."""
    label = pa.array(clicks.astype(np.int8))
    return single_batch(table.append_column(schema.label.column, label).take(pa.array(order)))


def validation_last(
    clicks: np.ndarray, fraction: float, seed: int, classes: Sequence[Any]
) -> tuple[np.ndarray, int]:
    """The rows in random order, those for validation last; both parts have rows of both classes.

    Args:
        clicks: The class of each row, 0 or 1.
        fraction: The part of the rows of each class that is for validation.
        seed: Decides the order.
        classes: The labels of both classes, for messages.

    Returns:
        The numbers of the rows in this order, and how many of them are for validation.
    """
    random = np.random.default_rng(seed)
    train, valid = [], []
    for value in (0, 1):
        rows = random.permutation(np.flatnonzero(clicks == value))
        if len(rows) < 2:
            raise UserError(
                f"y has {len(rows)} row of the class {classes[value]!r}; of each class two are "
                "needed at least, one to learn from and one to validate on."
            )
        count = min(max(round(fraction * len(rows)), 1), len(rows) - 1)
        valid.append(rows[:count])
        train.append(rows[count:])
    parts = [random.permutation(np.concatenate(part)) for part in (train, valid)]
    return np.concatenate(parts), len(parts[1])


def _is_number(field: pa.Field) -> bool:
    """Whether a column is numeric by its type; refuses one that is neither number nor text."""
    kind = field.type
    checks = pa.types
    if any(check(kind) for check in (checks.is_integer, checks.is_floating, checks.is_decimal)):
        return True
    if checks.is_null(kind):
        return True
    if checks.is_temporal(kind) or checks.is_nested(kind):
        raise UserError(
            f"column `{field.name}` has the type {kind}, which is neither a number nor text; "
            "convert it, or leave it out of X."
        )
    return False


def _name(one: str | int, names: Sequence[str]) -> str:
    if isinstance(one, str):
        if one not in names:
            raise UserError(
                f"`categorical_features`: X has no column `{one}`{nearest(one, names)} Its "
                f"columns: {', '.join(names)}."
            )
        return one
    if not 0 <= one < len(names):
        raise UserError(
            f"`categorical_features`: expected places from 0 to {len(names) - 1}. Received: {one}."
        )
    return names[one]
