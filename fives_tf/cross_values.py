"""The values of crosses as text, from the clean rows of a log.

The value of a cross is made of the parts of its fields, joined by ` x `. The part of a categorical
field is its value, that of a numeric field the number of its bucket, from 0 on; either is empty
where the value is missing. Within a part a backslash becomes two, and then ` x` becomes ` \\x`, so
that rows of different parts never have the same text. `fives_tf.sql` gives the same texts.
"""

import functools
import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fives_tf.crosses import Cross, check_fields
from fives_tf.encoding import BucketField, Encoding, Field, is_missing_category, to_single

SEPARATOR = " x "
ESCAPES = (("\\", "\\\\"), (" x", " \\x"))  # in this order

_NOT_UTF8 = re.compile("[\udc80-\udcff]")


def cross_values(
    batch: pa.RecordBatch, crosses: Iterable[Cross], encoding: Encoding
) -> list[pa.DictionaryArray]:
    """The values of each cross, a row each and never null.

    Bytes of a category that are not UTF-8 are written as a backslash and two hexadecimal digits,
    such as `\\E9`; nothing else is written so.

    Args:
        batch: Clean rows (see `fives_tf.parsing`).
        crosses: The crosses.
        encoding: The encoding of their fields.

    Returns:
        A column a cross, in their order. Every text stands once in a column's dictionary.
    """
    crosses = list(crosses)
    fields = {field.name: field for field in encoding.fields}
    check_fields(crosses, list(fields))
    used = dict.fromkeys(name for cross in crosses for name in cross.fields)
    parts = {name: _part(fields[name], batch.column(fields[name].column)) for name in used}
    return [functools.reduce(_join, (parts[name] for name in cross.fields)) for cross in crosses]


def _part(field: Field, values: pa.Array) -> pa.DictionaryArray:
    """What a field adds to the crosses it is in."""
    if isinstance(field, BucketField):
        numbers = to_single(values)
        buckets = np.searchsorted(field.edges, numbers, side="right")
        places = np.where(field.is_missing(numbers), len(field.edges) + 1, buckets)
        return _dictionary(places, [*map(str, range(len(field.edges) + 1)), ""])
    texts = pc.cast(values.dictionary, pa.large_binary())
    for old, new in ESCAPES:
        texts = pc.replace_substring(texts, old, new)
    missing = pa.array(is_missing_category(values.dictionary, field.missing))
    texts = pc.if_else(missing, "", _to_text(texts))
    # Several values may have one text: missing ones, and those that differed in blanks only.
    coded = pa.concat_arrays([texts, pa.array([""], texts.type)]).dictionary_encode()
    places = values.indices.fill_null(len(texts)).to_numpy()
    return _dictionary(coded.indices.to_numpy()[places], coded.dictionary)


def _join(left: pa.DictionaryArray, right: pa.DictionaryArray) -> pa.DictionaryArray:
    """Two columns as one: texts are made for the pairs that occur, not for the rows."""
    size = max(len(right.dictionary), 1)
    # Less than 2^62: neither has more texts than an int32 can count.
    pairs = left.indices.to_numpy().astype(np.int64) * size + right.indices.to_numpy()
    coded = pa.array(pairs).dictionary_encode()
    first, second = np.divmod(coded.dictionary.to_numpy(), size)
    texts = pc.binary_join_element_wise(
        left.dictionary.take(pa.array(first)),
        right.dictionary.take(pa.array(second)),
        pa.scalar(SEPARATOR, pa.large_string()),
    )
    return pa.DictionaryArray.from_arrays(coded.indices, texts)


def _dictionary(places: np.ndarray, texts: pa.Array | list[str]) -> pa.DictionaryArray:
    # Large, so that the texts of a batch may be longer than 2 GiB together.
    return pa.DictionaryArray.from_arrays(
        pa.array(places, pa.int32()), pa.array(texts, pa.large_string())
    )


def _to_text(values: pa.Array) -> pa.Array:
    """Bytes as text, where backslashes have been doubled already."""
    try:
        return pc.cast(values, pa.large_string())
    except pa.ArrowInvalid:
        texts = [value.decode("utf-8", "surrogateescape") for value in values.to_pylist()]
    return pa.array([_NOT_UTF8.sub(_hexadecimal, text) for text in texts], pa.large_string())


def _hexadecimal(sign: re.Match) -> str:
    return f"\\{ord(sign[0]) - 0xDC00:02X}"
