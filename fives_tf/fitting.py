"""What a field's encoding is computed from: mergeable summaries of a column, free of Beam."""

from dataclasses import dataclass

import datasketches
import farmhash
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fives_tf.arrow import single_batch
from fives_tf.encoding import FIRST_VALUE, RARE, BucketField, flush
from fives_tf.schema import Column, Discretize

EXACT_VALUES = 2048
SKETCH_SIZE = 1000
SKETCHED_AT_ONCE = 1_000_000
# Large, because the values of a column can take more than 2 GiB together.
COUNT_SCHEMA = pa.schema([("value", pa.large_binary()), ("count", pa.int64())])


def count_values(values: pa.DictionaryArray) -> pa.RecordBatch:
    """How often each value of a clean categorical column occurs."""
    counts = np.bincount(values.indices.to_numpy(), minlength=len(values.dictionary))
    occurs = counts > 0  # a filtered column keeps the dictionary of the whole one
    return pa.RecordBatch.from_arrays(
        [
            pc.cast(values.dictionary.filter(pa.array(occurs)), pa.large_binary()),
            pa.array(counts[occurs], pa.int64()),
        ],
        schema=COUNT_SCHEMA,
    )


def merge_counts(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The sum of several counts, each value once."""
    table = pa.Table.from_batches(batches, COUNT_SCHEMA)
    summed = table.group_by("value", use_threads=False).aggregate([("count", "sum")])
    summed = summed.rename_columns({"count_sum": "count"}).select(COUNT_SCHEMA.names)
    return single_batch(summed.cast(COUNT_SCHEMA))


def frequent_values(counts: pa.RecordBatch, min_count: int, max_vocab: int) -> pa.RecordBatch:
    """The values that get an id of their own, by falling count and then by their bytes."""
    broken = pc.or_(
        pc.match_substring(counts["value"], "\n"), pc.match_substring(counts["value"], "\r")
    )
    often = pc.greater_equal(counts["count"], min_count)
    kept = counts.filter(pc.and_not(often, broken))
    order = pc.sort_indices(
        pa.Table.from_batches([kept]), [("count", "descending"), ("value", "ascending")]
    )
    return kept.take(order[:max_vocab])


def partition(values: pa.Array, parts: int) -> np.ndarray:
    """A part for each value that depends on its bytes alone, so that parts can be counted apart."""
    hashes = map(farmhash.Fingerprint64, values.to_pylist())
    return (np.fromiter(hashes, np.uint64, len(values)) % np.uint64(parts)).astype(np.int64)


@dataclass(frozen=True)
class NumericSummary:
    """The distribution of a numeric column in bounded memory.

    Exact while there are at most EXACT_VALUES distinct values, a DataSketches t-digest beyond.
    t-digest and not KLL, because KLL draws random numbers: merged in the same order, t-digests
    give the same edges on every run.

    Attributes:
        missing: The number of missing values.
        values: The distinct finite values in rising order, while exact.
        counts: How often each of them occurs.
        infinite: The number of values -inf and +inf.
        integral: Whether all of the finite values are whole numbers.
        sketch: The serialized t-digest of the finite values, beyond.
    """

    missing: int
    values: np.ndarray
    counts: np.ndarray
    infinite: tuple[int, int]
    integral: bool
    sketch: bytes | None = None

    @classmethod
    def of(cls, numbers: np.ndarray, missing: np.ndarray) -> "NumericSummary":
        """Summarizes float32 numbers but the missing ones and infinities."""
        finite = numbers[np.isfinite(numbers) & ~missing] + np.float32(0)  # -0 becomes 0
        values, counts = np.unique(finite, return_counts=True)
        integral = bool((values == np.rint(values)).all())
        infinite = tuple(int((numbers[~missing] == sign).sum()) for sign in (-np.inf, np.inf))
        summary = cls(int(missing.sum()), values, counts.astype(np.int64), infinite, integral)
        return summary if len(values) <= EXACT_VALUES else cls.merge([summary])

    @classmethod
    def merge(cls, parts: list["NumericSummary"]) -> "NumericSummary":
        """The summary of all parts; sketches depend on the order of the parts."""
        missing = sum(part.missing for part in parts)
        integral = all(part.integral for part in parts)
        infinite = tuple(sum(part.infinite[side] for part in parts) for side in (0, 1))
        if all(part.sketch is None for part in parts):
            every = np.concatenate([part.values for part in parts])
            values, place = np.unique(every, return_inverse=True)
            counts = np.bincount(place, np.concatenate([part.counts for part in parts]))
            if len(values) <= EXACT_VALUES:
                return cls(missing, values, counts.astype(np.int64), infinite, integral)
        merged = datasketches.tdigest_double(SKETCH_SIZE)
        for part in parts:
            merged.merge(part._digest())
        empty = np.empty(0, np.float32)
        return cls(missing, empty, empty.astype(np.int64), infinite, integral, merged.serialize())

    @property
    def total(self) -> int:
        """The number of finite values."""
        return int(self._digest().get_total_weight() if self.sketch else self.counts.sum())

    def range(self) -> tuple[float, float]:
        """The least and the greatest value; only if there is any."""
        if self.sketch:
            digest = self._digest()
            return digest.get_min_value(), digest.get_max_value()
        return float(self.values[0]), float(self.values[-1])

    def quantiles(self, ranks: np.ndarray) -> np.ndarray:
        """The values at the given ranks between 0 and 1; only if there is any value."""
        if self.sketch:
            digest = self._digest()
            return np.array([digest.get_quantile(rank) for rank in ranks], np.float32)
        reached = np.cumsum(self.counts)
        # Rounded, because 29 / 100 * 100 is less than 29.
        at = np.searchsorted(reached, np.round(ranks * reached[-1], 6), side="right")
        return self.values[np.minimum(at, len(self.values) - 1)]

    def bucket_counts(self, edges: np.ndarray) -> np.ndarray:
        """How many values fall between the edges; an estimate beyond EXACT_VALUES."""
        counts = self._finite_counts(edges)
        counts[[0, -1]] += self.infinite if len(counts) > 1 else sum(self.infinite)
        return counts

    def _finite_counts(self, edges: np.ndarray) -> np.ndarray:
        if self.sketch:
            digest = self._digest()
            # The rank of a value that occurs often is that of its middle, so ask just below it.
            exact = edges.astype(np.float64)  # half of a large number needs it
            places = np.ceil(exact) - 0.5 if self.integral else np.nextafter(exact, -np.inf)
            below = np.array([0.0, *(digest.get_rank(float(place)) for place in places), 1.0])
            return np.rint(np.diff(below) * digest.get_total_weight()).astype(np.int64)
        bucket = np.searchsorted(edges, self.values, side="right")
        return np.bincount(bucket, self.counts, minlength=len(edges) + 1).astype(np.int64)

    def _digest(self) -> datasketches.tdigest_double:
        if self.sketch:
            return datasketches.tdigest_double.deserialize(self.sketch)
        digest = datasketches.tdigest_double(SKETCH_SIZE)
        reached = np.cumsum(self.counts)
        for start in range(0, self.total, SKETCHED_AT_ONCE):
            place = np.arange(start, min(start + SKETCHED_AT_ONCE, self.total))
            at = np.searchsorted(reached, place, side="right")
            digest.update(self.values[at].astype(np.float64))
        return digest


def bucket_fields(column: Column, summary: NumericSummary) -> tuple[BucketField, ...]:
    """One field a granularity of a numeric column.

    A bucket for each value is for a column that repeats its values; beyond EXACT_VALUES of them
    there is no such field.
    """
    assert column.discretize is not None
    every_edges = [
        bucket_edges(column.discretize, buckets, summary)
        for buckets in column.discretize.buckets or (0,)
    ]
    if column.discretize.values and summary.sketch is None:
        every_edges.append(np.unique(flush(summary.values))[1:])
    fields = []
    for name, edges in zip(column.field_names(), every_edges, strict=False):
        counts = summary.bucket_counts(edges)
        often = counts >= column.min_count
        ids = np.where(often, np.cumsum(often) - 1 + FIRST_VALUE, RARE)
        fields.append(
            BucketField(
                name=name,
                column=column.name,
                missing=column.missing,
                missing_count=summary.missing,
                rare_count=int(counts[~often].sum()),
                edges=edges,
                ids=ids,
                counts=counts[often],
            )
        )
    return tuple(fields)


def bucket_edges(discretize: Discretize, buckets: int, summary: NumericSummary) -> np.ndarray:
    """The inner edges of the buckets, rising, in single precision."""
    if discretize.kind == "edges":
        return np.unique(flush(np.array(discretize.edges, np.float32)))
    if summary.total == 0:
        return np.empty(0, np.float32)
    low, high = summary.range()
    inner = np.arange(1, buckets) / buckets
    if discretize.kind == "quantile":
        edges = summary.quantiles(inner)
        if summary.integral:  # the same buckets, without those that no whole number falls into
            edges = np.ceil(edges)
    elif discretize.kind == "width":
        edges = low + inner * (high - low)
    else:
        low, high = _signed_log(np.array([low, high]))
        scaled = low + inner * (high - low)
        edges = np.sign(scaled) * np.expm1(np.abs(scaled))
    edges = np.unique(flush(edges.astype(np.float32)))
    return edges[(edges > np.float32(summary.range()[0])) & np.isfinite(edges)]


def _signed_log(numbers: np.ndarray) -> np.ndarray:
    return np.sign(numbers) * np.log1p(np.abs(numbers))
