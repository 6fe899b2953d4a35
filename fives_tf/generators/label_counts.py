"""Counts rows and clicks of the combinations of crosses.

The counts of parts of the rows can be added up, so that workers count side by side.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fives_tf.encoding import Encoding
from fives_tf.frequency import frequencies
from fives_tf.generators.places import Places

MOST_CELLS = 4_000_000
_MOST_KEYS = 1 << 61  # so that a key and a label together stay within 64 bits
_DENSE = 4  # keys for each row up to which a table of all of them is faster than to sort


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """How often the combinations of one cross occur in some rows, and how often with a click.

    Attributes:
        keys: The numbers of the combinations, rising.
        rows: How many rows have each.
        clicks: How many of these have a click.
    """

    keys: np.ndarray
    rows: np.ndarray
    clicks: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, label: np.ndarray, size: int) -> "LabelCounts":
        """Counts in rows.

        Args:
            keys: The key of each row, int64, from 0 on.
            label: 1 for a click, 0 for none.
            size: What all keys are below.
        """
        both = 2 * keys + (label == 1)
        if size <= _DENSE * len(keys):
            table = np.bincount(both, minlength=2 * size).reshape(size, 2)
            rows = table.sum(axis=1)
            found = np.flatnonzero(rows)
            return cls(found, rows[found], table[found, 1])
        both.sort()
        ordered = both >> 1
        first = np.flatnonzero(np.diff(ordered, prepend=-1))
        rows = np.diff(first, append=len(ordered))
        return cls(ordered[first], rows, np.add.reduceat(both & 1, first))

    @classmethod
    def sum(cls, parts: "Iterable[LabelCounts]") -> "LabelCounts":
        """The counts of all rows of several parts, of which there is one at least."""
        parts = list(parts)
        keys, place = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
        sums = []
        for numbers in ([part.rows for part in parts], [part.clicks for part in parts]):
            total = np.zeros(len(keys), np.int64)
            np.add.at(total, place, np.concatenate(numbers))
            sums.append(total)
        return cls(keys, *sums)


class LabelCounter:
    """Counts the combinations of crosses over the fields of an encoding.

    A combination is known by its key, which is its number among all that the cross can have. Where
    a cross can have more than `MOST_CELLS` combinations, and there are that many rows too, the
    rarest values of its larger fields are taken for one, so that it cannot any more.

    Example:
        counter = LabelCounter([(0, 3), (1, 2)], encoding, len(ids))
        first, second = counter.count(ids, label)
    """

    def __init__(
        self,
        crosses: Sequence[Places],
        encoding: Encoding,
        rows: int,
        most: int = MOST_CELLS,
    ):
        """Takes crosses.

        Args:
            crosses: The places of the fields of each.
            encoding: The encoding of their fields.
            rows: The number of all rows together.
            most: How many combinations a cross may have.
        """
        self._crosses, self._rows = tuple(crosses), rows
        sizes = [field.size for field in encoding.fields]
        most = most if rows > most else _MOST_KEYS
        self.shapes = [_limits([sizes[place] for place in cross], most) for cross in crosses]
        self._ranks = _ranks(encoding)

    def cells(self, index: int) -> int:
        """How many combinations a cross has at most."""
        return min(math.prod(self.shapes[index]), self._rows)

    def count(self, ids: np.ndarray, label: np.ndarray) -> Iterator[LabelCounts]:
        """The counts of each cross in rows of global ids, one after the other."""
        columns = {
            place: self._ranks[ids[:, place]]
            for place in sorted({place for cross in self._crosses for place in cross})
        }
        for cross, shape in zip(self._crosses, self.shapes, strict=True):
            keys = np.zeros(len(ids), np.int64)
            for place, limit in zip(cross, shape, strict=True):
                keys = keys * limit + np.minimum(columns[place], limit - 1)
            yield LabelCounts.of(keys, label, math.prod(shape))


def _ranks(encoding: Encoding) -> np.ndarray:
    """The rank of each global id within its field, the most frequent first, int32 [ids]."""
    frequency, ranks = frequencies(encoding), np.empty(encoding.size, np.int32)
    for field, offset in zip(encoding.fields, encoding.offsets, strict=True):
        own = slice(offset, offset + field.size)
        order = np.argsort(-frequency[own], kind="stable")
        ranks[own][order] = np.arange(field.size)
    return ranks


def _limits(sizes: Sequence[int], most: int) -> tuple[int, ...]:
    """How many values each field may have so that the cross has no more combinations than `most`.

    All have the same limit, as high as can be; small fields do not reach it.
    """
    low, high = 1, max(sizes)
    while low < high:
        middle = (low + high + 1) // 2
        fits = math.prod(min(size, middle) for size in sizes) <= most
        low, high = (middle, high) if fits else (low, middle - 1)
    return tuple(min(size, low) for size in sizes)
