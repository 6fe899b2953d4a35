"""Crosses as fields of their own: combinations of ids -> ids.

The ids of a cross: 0 if all of its fields are missing, 1 if the combination is rare or unseen or if
one of its values is rare already, from 2 on the combinations by falling count. Global ids go on
where those of the encoding end.

A combination is known by its key, a number of 64 bits that is the sum of the fields' ids, each
multiplied by an odd number of its own. Two combinations of one key would be taken for the same; of
ten million, that has a chance of about one in ten thousand to happen at all.
"""

import dataclasses
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import farmhash
import numpy as np
import tensorflow as tf

from fives_tf.crosses import Cross, check_fields
from fives_tf.encoding import FIRST_VALUE, MISSING, MOST_IDS, RARE, Encoding
from fives_tf.errors import UserError

VERSION = 1
CROSS_ENCODING = "cross_encoding.json"
MIN_COUNT = 2
MOST_VALUES = 2_000_000


@dataclass(frozen=True, eq=False)
class CrossField:
    """One cross as a field.

    Attributes:
        cross: The cross.
        values: The ids, within their fields, of the combinations that have an id of their own, by
            falling count: int32 [combinations, fields of the cross].
        counts: How many of the fitted rows have each of them.
        missing_count: How many rows have none of the fields.
        rare_count: How many rows have id 1.
    """

    cross: Cross
    values: np.ndarray
    counts: np.ndarray
    missing_count: int
    rare_count: int

    @property
    def size(self) -> int:
        """The number of ids, those for missing and rare included."""
        return FIRST_VALUE + len(self.values)


class CrossEncoding:
    """Crosses over the fields of an encoding.

    Example:
        crosses = fit_crosses([Cross(("city", "hour"), 1.0)], encoding, [ids])
        crosses.encode(ids)  # int32 array [rows, crosses] of global ids
    """

    def __init__(self, fields: Sequence[CrossField], encoding: Encoding):
        """Puts the crosses behind the fields in the space of global ids."""
        self.fields = tuple(fields)
        sizes = [field.size for field in self.fields]
        self.offsets = (encoding.size + np.cumsum([0, *sizes])[:-1]).astype(np.int64)
        self.size = sum(sizes)
        if encoding.size + self.size > MOST_IDS:
            raise UserError(
                f"fields and crosses have {encoding.size + self.size:,} ids together, more than "
                f"the {MOST_IDS:,} that there can be; take fewer crosses, or raise their least "
                "count."
            )
        self._codes = [_Code.of(field.cross, encoding) for field in self.fields]
        self._keys, self._ids = self._sorted()

    def encode(self, ids: np.ndarray) -> np.ndarray:
        """The global ids of the crosses, int32 [rows, crosses], of rows of global ids."""
        result = np.empty((len(ids), len(self.fields)), np.int32)
        for index in range(len(self.fields)):
            result[:, index] = self.encode_one(index, ids)
        return result

    def encode_one(self, index: int, ids: np.ndarray) -> np.ndarray:
        """The global ids of one of the crosses, [rows], of rows of global ids."""
        code = self._codes[index]
        keys = code.keys(code.local(ids))
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[place] == keys, self._ids[place], self.offsets[index] + RARE)

    def frequencies(self) -> np.ndarray:
        """The part of the fitted rows in which each id of the crosses occurs."""
        parts = [np.empty(0)]
        for field in self.fields:
            counts = np.concatenate([[field.missing_count, field.rare_count], field.counts])
            parts.append(counts / max(counts.sum(), 1))
        return np.concatenate(parts)

    @functools.cached_property
    def module(self) -> "CrossModule":
        """The TensorFlow face, which all models share."""
        return CrossModule(self._codes, self._keys, self._ids, self.offsets + RARE)

    def to_files(self) -> dict[str, bytes]:
        """The files, by relative path, that `from_files` reads back."""
        files, documents = {}, []
        for index, field in enumerate(self.fields):
            path = f"cross_vocab/{index}.txt"
            lines = np.column_stack([field.counts, field.values]).tolist()
            files[path] = "".join(" ".join(map(str, line)) + "\n" for line in lines).encode()
            documents.append(
                {
                    "name": field.cross.name,
                    "fields": list(field.cross.fields),
                    "score": field.cross.score,
                    "size": field.size,
                    "missing_count": field.missing_count,
                    "rare_count": field.rare_count,
                    "vocabulary": path,
                }
            )
        content = {"version": VERSION, "crosses": documents}
        return files | {CROSS_ENCODING: json.dumps(content, indent=1, ensure_ascii=False).encode()}

    @classmethod
    def from_files(cls, read: Callable[[str], bytes], encoding: Encoding) -> "CrossEncoding":
        """Reads crosses whose files `read` returns by relative path."""
        try:
            document = json.loads(read(CROSS_ENCODING))
            version = document.get("version")
        except (ValueError, AttributeError) as error:
            raise UserError(f"{CROSS_ENCODING}: is damaged ({error}); make it again.") from None
        if version != VERSION:
            raise UserError(
                f"{CROSS_ENCODING}: version {version} is not known to this "
                f"program, which reads version {VERSION}. Make it again."
            )
        return cls([_read_field(item, read) for item in document["crosses"]], encoding)

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys of all combinations of all crosses in rising order, and their global ids."""
        keys, ids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for field, code, offset in zip(self.fields, self._codes, self.offsets, strict=True):
            none = np.full((1, field.cross.order), MISSING)
            keys += [code.keys(none), code.keys(field.values)]
            ids += [[offset + MISSING], offset + FIRST_VALUE + np.arange(len(field.values))]
        keys, ids = np.concatenate(keys), np.concatenate(ids)
        order = np.argsort(keys, kind="stable")
        return keys[order], ids[order]


class CrossModule(tf.Module):
    """The TensorFlow face of a cross encoding, of few operations however many crosses there are."""

    def __init__(
        self, codes: Sequence["_Code"], keys: np.ndarray, ids: np.ndarray, rare: np.ndarray
    ):
        super().__init__(name="crosses")
        most = max((len(code.places) for code in codes), default=1)

        def pad(rows: list[np.ndarray]) -> tf.Tensor:
            """One row a cross; what a cross of fewer fields has too much counts for nothing."""
            padded = np.zeros((len(rows), most), np.int64)
            for target, row in zip(padded, rows, strict=True):
                target[: len(row)] = row
            return tf.constant(padded)

        self._places = pad([code.places for code in codes])
        self._multipliers = pad([code.multipliers for code in codes])
        # The key of global ids is that of local ids but for a number that is always the same.
        shifts = [code.keys(-code.offsets[None]) for code in codes]
        self._shifts = tf.constant(np.concatenate([np.empty(0, np.int64), *shifts]))
        self._rare = tf.constant(rare)
        self._keys = tf.Variable(keys, trainable=False, name="keys")
        self._ids = tf.Variable(ids, trainable=False, name="ids")
        self._last = len(keys) - 1

    def __call__(self, ids: tf.Tensor) -> tf.Tensor:
        """The global ids of the crosses, int64 [rows, crosses], of rows of global ids."""
        parts = tf.gather(tf.cast(ids, tf.int64), self._places, axis=1)
        keys = tf.reduce_sum(parts * self._multipliers, axis=2) + self._shifts
        flat = tf.reshape(keys, [1, -1])
        known = tf.convert_to_tensor(self._keys)
        # What `tf.searchsorted` does, but for many operations on shapes.
        place = tf.raw_ops.LowerBound(sorted_inputs=known[None], values=flat)
        place = tf.reshape(tf.minimum(place, self._last), tf.shape(keys))
        return tf.where(tf.gather(known, place) == keys, tf.gather(self._ids, place), self._rare)


def fit_crosses(
    crosses: Sequence[Cross],
    encoding: Encoding,
    rows: Sequence[np.ndarray],
    min_count: int = MIN_COUNT,
    most: int = MOST_VALUES,
) -> CrossEncoding:
    """Gives ids to the combinations that occur often enough.

    Args:
        crosses: The crosses.
        encoding: The encoding of their fields.
        rows: The rows to count in, as blocks of global ids [rows, fields].
        min_count: How often a combination must occur to get an id of its own.
        most: How many combinations of all crosses together may have one; if there are more, the
            rarest go without.
    """
    check_fields(crosses, [field.name for field in encoding.fields])
    fields = [_count(cross, encoding, rows, min_count) for cross in crosses]
    if sum(len(field.counts) for field in fields) > most:
        counts = np.sort(np.concatenate([field.counts for field in fields]))
        least = int(counts[-most - 1]) + 1
        fields = [_without_rare(field, least) for field in fields]
    return CrossEncoding(fields, encoding)


@dataclass(frozen=True, eq=False)
class _Code:
    """How the ids of a row become the key of its combination.

    Attributes:
        places: Where the fields of the cross stand in a row.
        offsets: What to take from a global id to get the id within the field.
        multipliers: By what to multiply it.
        salt: What tells this cross from others.
    """

    places: np.ndarray
    offsets: np.ndarray
    multipliers: np.ndarray
    salt: np.int64

    @classmethod
    def of(cls, cross: Cross, encoding: Encoding) -> "_Code":
        """The code of a cross; it depends on nothing but the names of its fields."""
        names = [field.name for field in encoding.fields]
        places = np.array([names.index(field) for field in cross.fields])
        hashes = [_hash(f"{index} {cross.name}") for index in range(cross.order + 1)]
        return cls(places, np.array(encoding.offsets)[places], np.array(hashes[1:]) | 1, hashes[0])

    def local(self, ids: np.ndarray) -> np.ndarray:
        """The ids within the fields of the cross, [rows, fields of the cross], of whole rows."""
        return ids[:, self.places] - self.offsets

    def keys(self, local: np.ndarray) -> np.ndarray:
        """The keys, int64 [rows]."""
        return (local.astype(np.int64) * self.multipliers).sum(axis=1) + self.salt


def _count(
    cross: Cross, encoding: Encoding, rows: Sequence[np.ndarray], min_count: int
) -> CrossField:
    code = _Code.of(cross, encoding)
    missing_count = rare_count = 0
    kept = [np.empty((0, cross.order), np.int32)]
    for ids in rows:
        values = code.local(ids).astype(np.int32)
        missing, rare = (values == MISSING).all(axis=1), (values == RARE).any(axis=1)
        missing_count += int(missing.sum())
        rare_count += int(rare.sum())
        kept.append(values[~missing & ~rare])
    values = np.concatenate(kept)
    _, first, counts = np.unique(code.keys(values), return_index=True, return_counts=True)
    values = values[first]
    order = np.lexsort((*values.T[::-1], -counts))
    field = CrossField(cross, values[order], counts[order], missing_count, rare_count)
    return _without_rare(field, min_count)


def _without_rare(field: CrossField, min_count: int) -> CrossField:
    """A cross whose rare combinations have lost their ids."""
    often = field.counts >= min_count
    return dataclasses.replace(
        field,
        values=field.values[often],
        counts=field.counts[often],
        rare_count=field.rare_count + int(field.counts[~often].sum()),
    )


def _hash(text: str) -> np.int64:
    return np.uint64(farmhash.Fingerprint64(text.encode())).astype(np.int64)


def _read_field(document: dict[str, Any], read: Callable[[str], bytes]) -> CrossField:
    cross = Cross(tuple(document["fields"]), document["score"])
    try:
        numbers = np.array(read(document["vocabulary"]).split(), np.int64)
    except ValueError:
        numbers = None
    expected = (document["size"] - FIRST_VALUE) * (cross.order + 1)
    if numbers is None or len(numbers) != expected:
        raise UserError(f"{document['vocabulary']}: is not as it was written; make it again.")
    lines = numbers.reshape(-1, cross.order + 1)
    return CrossField(
        cross,
        lines[:, 1:].astype(np.int32),
        lines[:, 0],
        document["missing_count"],
        document["rare_count"],
    )
