"""Crosses as fields of their own: combinations of ids -> ids.

The ids of a cross: 0 if all of its fields are missing, 1 if the combination is rare or unseen or if
one of its values is rare already, from 2 on the combinations by falling count. A hashed cross has
no vocabulary: from 2 on stand so many buckets, and 1 is only for values that are rare already.
Global ids go on where those of the encoding end.

A combination is known by its key, a number of 64 bits that is the sum of the fields' ids, each
multiplied by an odd number of its own. Two combinations of one key would be taken for the same; of
ten million, that has a chance of about one in ten thousand to happen at all.

This module is the NumPy face and needs no TensorFlow; `CrossEncoding.module` is the other one.
"""

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import farmhash
import numpy as np

from fives_tf.crosses import Cross
from fives_tf.encoding import FIRST_VALUE, MISSING, MOST_IDS, RARE, Encoding
from fives_tf.errors import UserError

if TYPE_CHECKING:
    from fives_tf.cross_encoding_tf import CrossModule

VERSION = 2
CROSS_ENCODING = "cross_encoding.json"
CROSS_VOCABULARY = "cross_vocab"
KNOWN, HASHED = "vocabulary", "hash"  # kinds of crosses, as of fields
# How a key is mixed before it is hashed: shifts and a factor.
MIX = (32, 0x2545F4914F6CDD1D, 29)


@dataclass(frozen=True, eq=False)
class CrossField:
    """One cross as a field.

    Attributes:
        cross: The cross.
        values: The ids, within their fields, of the combinations that have an id of their own, by
            falling count: int32 [combinations, fields of the cross]. None if they are hashed.
        counts: How many of the fitted rows have each id from 2 on.
        missing_count: How many rows have none of the fields.
        rare_count: How many rows have id 1.
    """

    cross: Cross
    values: np.ndarray | None
    counts: np.ndarray
    missing_count: int
    rare_count: int

    @property
    def size(self) -> int:
        """The number of ids, those for missing and rare included."""
        return FIRST_VALUE + len(self.counts)

    @property
    def is_hashed(self) -> bool:
        """Whether combinations get their ids by a hash."""
        return self.values is None


@dataclass(frozen=True, eq=False)
class CrossCode:
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
    def of(cls, cross: Cross, encoding: Encoding) -> "CrossCode":
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


def hash_bucket(keys: np.ndarray, buckets: int) -> np.ndarray:
    """The bucket of each key."""
    first, factor, last = MIX
    mixed = (keys ^ (keys >> first)) * factor
    return (mixed ^ (mixed >> last)) % buckets


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
        self.codes = [CrossCode.of(field.cross, encoding) for field in self.fields]
        self.keys, self.ids = self._sorted()

    def encode(self, ids: np.ndarray) -> np.ndarray:
        """The global ids of the crosses, int32 [rows, crosses], of rows of global ids."""
        result = np.empty((len(ids), len(self.fields)), np.int32)
        for index in range(len(self.fields)):
            result[:, index] = self.encode_one(index, ids)
        return result

    def encode_one(self, index: int, ids: np.ndarray) -> np.ndarray:
        """The global ids of one of the crosses, [rows], of rows of global ids."""
        field, code, offset = self.fields[index], self.codes[index], self.offsets[index]
        local = code.local(ids)
        keys = code.keys(local)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        other = offset + RARE
        if field.is_hashed:
            hashed = offset + FIRST_VALUE + hash_bucket(keys, len(field.counts))
            other = np.where((local == RARE).any(axis=1), other, hashed)
        return np.where(self.keys[place] == keys, self.ids[place], other)

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
        from fives_tf.cross_encoding_tf import CrossModule

        return CrossModule(self)

    def to_files(self) -> dict[str, bytes]:
        """The files, by relative path, that `from_files` reads back."""
        files, documents = {}, []
        for index, field in enumerate(self.fields):
            path = f"{CROSS_VOCABULARY}/{index}.txt"
            columns = [field.counts] if field.is_hashed else [field.counts, field.values]
            lines = np.column_stack(columns).tolist()
            files[path] = "".join(" ".join(map(str, line)) + "\n" for line in lines).encode()
            documents.append(
                {
                    "name": field.cross.name,
                    "fields": list(field.cross.fields),
                    "score": field.cross.score,
                    "gain": field.cross.gain,
                    "kind": HASHED if field.is_hashed else KNOWN,
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
        """The keys of all known combinations in rising order, and their global ids."""
        keys, ids = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for field, code, offset in zip(self.fields, self.codes, self.offsets, strict=True):
            none = np.full((1, field.cross.order), MISSING)
            keys.append(code.keys(none))
            ids.append([offset + MISSING])
            if not field.is_hashed:
                keys.append(code.keys(field.values))
                ids.append(offset + FIRST_VALUE + np.arange(len(field.values)))
        keys, ids = np.concatenate(keys), np.concatenate(ids)
        order = np.argsort(keys, kind="stable")
        return keys[order], ids[order]


def _hash(text: str) -> np.int64:
    return np.uint64(farmhash.Fingerprint64(text.encode())).astype(np.int64)


def _read_field(document: dict[str, Any], read: Callable[[str], bytes]) -> CrossField:
    cross = Cross(tuple(document["fields"]), document["score"], gain=document["gain"])
    hashed = document["kind"] == HASHED
    columns = 1 + (0 if hashed else cross.order)
    try:
        numbers = np.array(read(document["vocabulary"]).split(), np.int64)
    except ValueError:
        numbers = None
    if numbers is None or len(numbers) != (document["size"] - FIRST_VALUE) * columns:
        raise UserError(f"{document['vocabulary']}: is not as it was written; make it again.")
    lines = numbers.reshape(-1, columns)
    return CrossField(
        cross,
        None if hashed else lines[:, 1:].astype(np.int32),
        lines[:, 0],
        document["missing_count"],
        document["rare_count"],
    )
