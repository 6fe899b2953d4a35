"""Which rows go to train, valid and test, and in which order: a function of the row alone.

Nothing here depends on how the log is cut into pieces or on which worker reads them, so the same
log gives the same splits and the same shards everywhere.
"""

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass

import farmhash
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fives_tf.errors import UserError
from fives_tf.schema import SPLITS, Schema, SplitRule

TRAIN, VALID, TEST = range(3)


@dataclass(frozen=True)
class Splitter:
    """Deals the rows of a log out to the splits.

    Attributes:
        split: What the schema says.
        total: The number of rows of the log.
    """

    split: SplitRule
    total: int

    def assign(
        self, number: np.ndarray, keys: Mapping[str, pa.DictionaryArray], file_split: str
    ) -> np.ndarray:
        """The split of each row as 0 train, 1 valid, 2 test.

        Args:
            number: The rows' numbers within the log.
            keys: The columns that the split reads, as categories.
            file_split: The split of the file they come from, for a split by files.
        """
        split = self.split
        chance = _fraction(shuffle_key(number, split.seed))
        if split.by == "random":
            return _by_fraction(chance, split.valid, split.test)
        if split.by == "hash":
            column = keys[split.key]
            seed = str(split.seed).encode() + b":"
            hashes = [
                farmhash.Fingerprint64(seed + value) for value in column.dictionary.to_pylist()
            ]
            chances = _fraction(_mix(np.array(hashes, np.uint64)))
            key_chance = chances[column.indices.to_numpy()]
            return _by_fraction(key_chance, split.valid, split.test)
        if split.by == "position":
            return self._by_position(number, chance)
        if split.by == "time":
            return self._by_time(keys[split.column])
        if file_split == "train" and split.valid is not None:
            return _by_fraction(chance, split.valid, 0.0)
        return np.full(len(number), SPLITS.index(file_split), np.uint8)

    def _by_position(self, number: np.ndarray, chance: np.ndarray) -> np.ndarray:
        first_test = self.total - round(self.split.test * self.total)
        if self.split.valid_rows == "random":
            share = self.split.valid / (1 - self.split.test)
            codes = _by_fraction(chance, share, 0.0)
        else:
            first_valid = first_test - round(self.split.valid * self.total)
            codes = np.where(number >= first_valid, VALID, TRAIN).astype(np.uint8)
        codes[number >= first_test] = TEST
        return codes

    def _by_time(self, times: pa.DictionaryArray) -> np.ndarray:
        values = times.dictionary_decode()
        codes = np.zeros(len(values), np.uint8)
        for bound in filter(None, (self.split.valid_from, self.split.test_from)):
            if self.split.times_are_numbers():
                reached = pc.greater_equal(pc.cast(values, pa.float64()), float(bound))
            else:  # dates in ISO order sort as text
                reached = pc.greater_equal(values, bound.encode())
            codes += reached.to_numpy(zero_copy_only=False)
        return codes


def file_split(schema: Schema, path: str) -> str:
    """The split that a file belongs to, for a split by files; else train."""
    if schema.split.by != "files":
        return "train"
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    for split, patterns in schema.split.files.items():
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            return split
    raise UserError(
        f"{path}: matches no pattern of the schema's split.files "
        f"({', '.join(p for ps in schema.split.files.values() for p in ps)}); add one for it."
    )


def shuffle_key(number: np.ndarray, seed: int) -> np.ndarray:
    """A 64-bit key for each row, unique and without any order that the log has."""
    start = np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    return _mix(_mix(number.astype(np.uint64) + start))


def shard_of(key: np.ndarray, shards: int) -> np.ndarray:
    """The shard of each row; independent of the split that the same key chose."""
    return (_mix(key ^ np.uint64(0xD1B54A32D192ED03)) % np.uint64(shards)).astype(np.int64)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64: a bijection of 64-bit numbers that scatters them well."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _fraction(key: np.ndarray) -> np.ndarray:
    return (key >> np.uint64(11)).astype(np.float64) / 2**53


def _by_fraction(chance: np.ndarray, valid: float, test: float) -> np.ndarray:
    codes = np.full(len(chance), TRAIN, np.uint8)
    codes[chance < valid + test] = VALID
    codes[chance < test] = TEST
    return codes
