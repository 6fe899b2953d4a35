"""Ids -> raw values that have these ids: rows to warm a server up with, without the log."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fives_tf.encoding import (
    FIRST_VALUE,
    LEAST_NUMBER,
    MISSING,
    RARE,
    BucketField,
    Encoding,
    Field,
    VocabularyField,
)


def raw_rows(encoding: Encoding, ids: np.ndarray) -> dict[str, list[bytes] | list[float]]:
    """Raw values by column whose ids are the given ones.

    A value that was hashed cannot be told from its id; any text stands for it.

    Args:
        encoding: The encoding.
        ids: Rows of global ids, [rows, fields].
    """
    local = np.asarray(ids) - np.array(encoding.offsets)
    places: dict[str, list[int]] = {}
    for index, field in enumerate(encoding.fields):
        places.setdefault(field.column, []).append(index)
    columns = {}
    for name, own in places.items():
        fields = [encoding.fields[index] for index in own]
        if isinstance(fields[0], BucketField):
            numbers = _numbers(fields)
            columns[name] = [numbers[tuple(row)] for row in local[:, own].tolist()]
        else:
            unseen = _unseen(fields[0])
            columns[name] = [_text(fields[0], row, unseen) for row in local[:, own[0]].tolist()]
    return columns


def _text(field: Field, identity: int, unseen: bytes) -> bytes:
    if identity == MISSING:
        return b""
    if not isinstance(field, VocabularyField):
        return b"%d" % identity
    return unseen if identity == RARE else field.values[identity - FIRST_VALUE].as_py()


def _unseen(field: Field) -> bytes:
    """A text that is no value of a field."""
    text = "unseen"
    while text in field.missing or (
        isinstance(field, VocabularyField)
        and pc.index(field.values, pa.scalar(text.encode(), field.values.type)).as_py() >= 0
    ):
        text += "!"
    return text.encode()


def _numbers(fields: Sequence[BucketField]) -> dict[tuple[int, ...], float]:
    """A number for each combination of ids that the fields of a column can have."""
    edges = np.unique(np.concatenate([np.float32([0]), *(field.edges for field in fields)]))
    # Those above and below are for edges that are missing markers themselves. What is nearest to 0
    # would be taken for 0.
    below = np.nextafter(np.where(edges == 0, -LEAST_NUMBER, edges), np.float32(-np.inf))
    above = np.nextafter(np.where(edges == 0, LEAST_NUMBER, edges), np.float32(np.inf))
    numbers = np.concatenate([[np.nan], above[::-1], below[::-1], edges[::-1]])
    ids = [field.encode(pa.array(numbers, pa.float64())).tolist() for field in fields]
    return dict(zip(zip(*ids, strict=True), numbers.tolist(), strict=True))
