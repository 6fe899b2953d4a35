"""Counts the combinations of crosses, and gives ids to those that occur often enough.

The counts of parts of the rows can be added up, so that workers count side by side.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fives_tf.cross_encoding import CrossCode, CrossEncoding, CrossField, hash_bucket
from fives_tf.crosses import Cross, check_fields
from fives_tf.encoding import MISSING, RARE, Encoding

MIN_COUNT = 2
MOST_VALUES = 2_000_000
MANY_VALUES = 1_000_000_000


@dataclass(frozen=True, eq=False)
class CrossCounts:
    """How often the combinations of one cross occur in some rows.

    Attributes:
        keys: Their keys, rising; the buckets if the cross is hashed.
        values: Their ids within the fields; None if the cross is hashed.
        counts: How many rows have each.
        missing_count: How many rows have none of the fields.
        rare_count: How many rows have a value that is rare already.
    """

    keys: np.ndarray
    values: np.ndarray | None
    counts: np.ndarray
    missing_count: int = 0
    rare_count: int = 0

    @classmethod
    def of(cls, code: CrossCode, ids: np.ndarray, buckets: int | None) -> "CrossCounts":
        """Counts in rows of global ids."""
        values = code.local(ids).astype(np.int32)
        missing, rare = (values == MISSING).all(axis=1), (values == RARE).any(axis=1)
        values = values[~missing & ~rare]
        keys = code.keys(values)
        if buckets is not None:
            keys, values = hash_bucket(keys, buckets), None
        keys, first, counts = np.unique(keys, return_index=True, return_counts=True)
        values = None if values is None else values[first]
        return cls(keys, values, counts, int(missing.sum()), int(rare.sum()))

    @classmethod
    def sum(cls, parts: "Iterable[CrossCounts]") -> "CrossCounts":
        """The counts of all rows of several parts, of which there is one at least."""
        parts = list(parts)
        keys, first, place = np.unique(
            np.concatenate([part.keys for part in parts]), return_index=True, return_inverse=True
        )
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, place, np.concatenate([part.counts for part in parts]))
        values = None
        if parts[0].values is not None:
            values = np.concatenate([part.values for part in parts])[first]
        missing = sum(part.missing_count for part in parts)
        return cls(keys, values, counts, missing, sum(part.rare_count for part in parts))

    def without_rare(self, min_count: int) -> "CrossCounts":
        """The counts of combinations that occur often enough; the others are rare."""
        if self.values is None:
            return self
        often = self.counts >= min_count
        return CrossCounts(
            self.keys[often],
            self.values[often],
            self.counts[often],
            self.missing_count,
            self.rare_count + int(self.counts[~often].sum()),
        )


class CrossCounter:
    """Counts the combinations of crosses over the fields of an encoding.

    Example:
        counter = CrossCounter(crosses, encoding)
        crosses = counter.fit([counter.count(block) for block in blocks])
    """

    def __init__(
        self,
        crosses: Sequence[Cross],
        encoding: Encoding,
        min_count: int = MIN_COUNT,
        most: int = MOST_VALUES,
        hash_buckets: int | None = None,
    ):
        """Takes crosses and what becomes of their combinations.

        Args:
            crosses: The crosses.
            encoding: The encoding of their fields.
            min_count: How often a combination must occur to get an id of its own.
            most: How many combinations of all crosses together may have one; if there are more, the
                rarest go without.
            hash_buckets: Into how many buckets to hash the combinations of a cross that may have
                more than that; None to hash none.
        """
        check_fields(crosses, [field.name for field in encoding.fields])
        self._crosses, self._encoding = tuple(crosses), encoding
        self.min_count, self._most = min_count, most
        self._codes = [CrossCode.of(cross, encoding) for cross in crosses]
        possible = [possible_values(cross, encoding) for cross in crosses]
        self._buckets = [
            hash_buckets if hash_buckets and values > hash_buckets else None for values in possible
        ]

    def count(self, ids: np.ndarray) -> list[CrossCounts]:
        """The counts of each cross in rows of global ids."""
        return [
            CrossCounts.of(code, ids, buckets)
            for code, buckets in zip(self._codes, self._buckets, strict=True)
        ]

    def fit(self, parts: Iterable[Sequence[CrossCounts]]) -> CrossEncoding:
        """Gives ids to the combinations that occur often enough in all parts together."""
        none = self.count(np.empty((0, len(self._encoding.fields)), np.int32))
        columns = zip(none, *parts, strict=True)
        sums = [CrossCounts.sum(column).without_rare(self.min_count) for column in columns]
        counts = np.concatenate(
            [np.empty(0, int), *(one.counts for one in sums if one.values is not None)]
        )
        if len(counts) > self._most:
            least = int(np.sort(counts)[-self._most - 1]) + 1
            sums = [one.without_rare(least) for one in sums]
        fields = map(_field, self._crosses, self._buckets, sums)
        return CrossEncoding(list(fields), self._encoding)


def fit_crosses(
    crosses: Sequence[Cross],
    encoding: Encoding,
    rows: Sequence[np.ndarray],
    min_count: int = MIN_COUNT,
    most: int = MOST_VALUES,
    hash_buckets: int | None = None,
) -> CrossEncoding:
    """Gives ids to the combinations that occur often enough; see `CrossCounter`.

    Args:
        crosses: The crosses.
        encoding: The encoding of their fields.
        rows: The rows to count in, as blocks of global ids [rows, fields].
        min_count: See `CrossCounter`.
        most: See `CrossCounter`.
        hash_buckets: See `CrossCounter`.
    """
    counter = CrossCounter(crosses, encoding, min_count, most, hash_buckets)
    return counter.fit(map(counter.count, rows))


def possible_values(cross: Cross, encoding: Encoding) -> int:
    """How many combinations of values a cross can have; values that are rare already do not count.

    Args:
        cross: The cross.
        encoding: The encoding of its fields.
    """
    sizes = {field.name: field.size for field in encoding.fields}
    return math.prod(sizes[name] - 1 for name in cross.fields) - 1


def counting_bytes(cross: Cross, encoding: Encoding, rows: int) -> int:
    """About how much memory it takes to count the combinations of a cross, at most.

    Args:
        cross: The cross.
        encoding: The encoding of its fields.
        rows: The number of rows.
    """
    each = 8 + 4 * cross.order + 8  # key, values, count
    return 3 * each * min(possible_values(cross, encoding), rows)  # thrice while counts are added


def _field(cross: Cross, buckets: int | None, sums: CrossCounts) -> CrossField:
    if buckets is None:
        order = np.lexsort((*sums.values.T[::-1], -sums.counts))
        values, counts = sums.values[order], sums.counts[order]
    else:
        values, counts = None, np.zeros(buckets, np.int64)
        counts[sums.keys] = sums.counts
    return CrossField(cross, values, counts, sums.missing_count, sums.rare_count)
