"""Pass 1: counts the values of the log and fits the encoding.

The test rows are read, so that bad rows are found, but nothing is fitted on them.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from fives_tf import storage
from fives_tf.encoding import (
    HashField,
    VocabularyField,
    field_document,
    is_missing_category,
    is_missing_number,
    missing_numbers,
    to_single,
    vocabulary_files,
)
from fives_tf.errors import UserError
from fives_tf.fitting import (
    NumericSummary,
    bucket_fields,
    count_values,
    frequent_values,
    merge_counts,
    partition,
)
from fives_tf.schema import SPLITS, Column
from fives_tf.splitting import TEST
from pipelines import progress
from pipelines.job import Job
from pipelines.sources import Block, Piece, read_blocks

PARTS = 16
COMPACT_ROWS = 20_000  # loose counts that are kept before they are added up
DISTINCT_PER_ID = 16  # distinct values that are counted for each id that max_vocab allows
LEAST_COUNTED = 1_000_000  # even if max_vocab is small
SHOWN_REJECTS = 5
MERGED_AT_ONCE = 256


def build(pipeline: beam.Pipeline, pieces: list[Piece], job: Job, result_path: str) -> None:
    """Adds pass 1 to a pipeline.

    It writes the vocabularies and the rejected rows into the dataset directory, and at the end a
    JSON file at `result_path` with the totals and a document for each field.
    """
    columns = {column.name: column for column in job.schema.columns}
    most = max(map(_most_distinct, job.schema.columns))
    summaries = (
        pipeline
        | "CreatePieces" >> beam.Create(pieces)
        | "SpreadPieces" >> beam.Reshuffle()
        | "SummarizeBlocks"
        >> beam.ParDo(SummarizeBlocks(job)).with_outputs("values", "numbers", "totals")
    )
    categorical = (
        summaries["values"]
        | "CountValues" >> beam.CombinePerKey(CountValues(most))
        | "DropRareValues" >> beam.Map(_drop_rare, columns)
        | "GatherParts" >> beam.GroupByKey()
        | "WriteVocabulary" >> beam.Map(_fit_categorical, columns, job.staging)
    )
    numeric = (
        summaries["numbers"]
        | "MergeNearbyBlocks" >> beam.GroupByKey()
        | "MergeInOrder" >> beam.Map(_merge_nearby)
        | "MergeAllBlocks" >> beam.GroupByKey()
        | "FitBuckets" >> beam.Map(_fit_numeric, columns)
    )
    totals = summaries["totals"] | "AddTotals" >> beam.CombineGlobally(_add_totals)
    _ = (
        pipeline
        | "CreateResult" >> beam.Create([result_path])
        | "WriteResult"
        >> beam.Map(
            _write_result,
            beam.pvalue.AsSingleton(totals),
            beam.pvalue.AsDict(categorical),
            beam.pvalue.AsDict(numeric),
        )
    )


class SummarizeBlocks(beam.DoFn):
    """Reads a piece and sums up each of its blocks, column by column."""

    def __init__(self, job: Job):
        """See `Job`."""
        self._job = job
        self._rows = beam.metrics.Metrics.counter("fives", "rows_read")

    def process(self, piece: Piece) -> Iterator[Any]:
        """Yields counts of values, summaries of numbers, and totals."""
        job = self._job
        numbers: dict[str, NumericSummary] = {}
        for block in read_blocks(piece, job.schema, job.block_bytes):
            yield from self._summarize(block, numbers)
            self._rows.inc(len(block.rows.label))
            progress.report(job.progress_path, len(block.rows.label), block.size)
        for name, summary in numbers.items():
            key = (name, piece.index // MERGED_AT_ONCE)
            yield beam.pvalue.TaggedOutput("numbers", (key, (piece.index, summary)))

    def _summarize(self, block: Block, numbers: dict[str, NumericSummary]) -> Iterator[Any]:
        """Yields counts of values and totals, and adds up the summaries of numbers."""
        rows, place = block.rows, (block.piece.index, block.index)
        splits = self._job.splitter.assign(rows.number, rows.keys, block.piece.file.split)
        fitted = rows.batch.filter(pa.array(splits != TEST))
        for column in self._job.schema.columns:
            values = fitted.column(column.name)
            if column.numeric:
                single = to_single(values)
                missing = is_missing_number(single, missing_numbers(column.missing))
                parts = [NumericSummary.of(single, missing)]
                if column.name in numbers:
                    parts.insert(0, numbers[column.name])
                numbers[column.name] = NumericSummary.merge(parts)
            else:
                for part, counts in _counts_by_part(values, column):
                    yield beam.pvalue.TaggedOutput("values", ((column.name, part), counts))
        totals: dict[str, Any] = {"rejected": len(rows.rejects)}
        for code, split in enumerate(SPLITS):
            totals[split] = int(np.sum(splits == code))
        if rows.rejects:
            totals["examples"] = [(place, _write_rejects(block, self._job.staging))]
        yield beam.pvalue.TaggedOutput("totals", totals)


class CountValues(beam.CombineFn):
    """Adds up counts of values, a part of a column at a time.

    Of more than `most` distinct values only one more is kept, so that memory is bounded and the
    next step can tell.
    """

    def __init__(self, most: int):
        self._most = most

    def create_accumulator(self) -> list[pa.RecordBatch]:
        """No counts."""
        return []

    def add_input(
        self, accumulator: list[pa.RecordBatch], counts: pa.RecordBatch
    ) -> list[pa.RecordBatch]:
        """Keeps the counts, and adds them up now and then."""
        accumulator.append(counts)
        loose = sum(batch.num_rows for batch in accumulator[1:])
        if loose > max(COMPACT_ROWS, accumulator[0].num_rows):
            return self.compact(accumulator)
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[list[pa.RecordBatch]]
    ) -> list[pa.RecordBatch]:
        """Adds the counts of several workers up."""
        return self.compact([batch for batches in accumulators for batch in batches])

    def compact(self, accumulator: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """Adds up to one batch with each value once."""
        if not accumulator:
            return accumulator
        return [merge_counts(accumulator).slice(0, self._most + 1)]

    def extract_output(self, accumulator: list[pa.RecordBatch]) -> pa.RecordBatch:
        """Each value once with its count."""
        return self.compact(accumulator)[0]


def _most_distinct(column: Column) -> int:
    """How many distinct values a part of a column may have."""
    return max(DISTINCT_PER_ID * (column.max_vocab or 0), LEAST_COUNTED) // PARTS


def _counts_by_part(
    values: pa.DictionaryArray, column: Column
) -> Iterator[tuple[int, pa.RecordBatch]]:
    counts = count_values(values)
    if column.hash_buckets is not None:  # only the missing ones matter
        counts = counts.filter(pa.array(is_missing_category(counts["value"], column.missing)))
        yield 0, counts
        return
    parts = partition(counts["value"], PARTS)
    order = np.argsort(parts, kind="stable")
    counts = counts.take(pa.array(order))
    ends = np.cumsum(np.bincount(parts, minlength=PARTS))
    for part, (start, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if start < end:
            # A copy, because a slice would carry the whole column to the next worker.
            yield part, counts.take(pa.array(np.arange(start, end)))


def _drop_rare(
    counted: tuple[tuple[str, int], pa.RecordBatch], columns: dict[str, Column]
) -> tuple[str, dict[str, Any]]:
    """What a part adds to its column: the frequent values, and sums over the others."""
    (name, _), counts = counted
    column = columns[name]
    if counts.num_rows > _most_distinct(column):
        raise UserError(
            f"column `{name}` has more than {_most_distinct(column) * PARTS:,} distinct values, "
            "too many to count; give it `hash_buckets` in the schema's overrides."
        )
    present = counts.filter(pa.array(~is_missing_category(counts["value"], column.missing)))
    total, used = (int(batch["count"].to_numpy().sum()) for batch in (counts, present))
    return column.name, {
        "missing": total - used,
        "present": used,
        "frequent": frequent_values(present, column.min_count, column.max_vocab or 0),
    }


def _fit_categorical(
    gathered: tuple[str, Iterable[dict[str, Any]]], columns: dict[str, Column], directory: str
) -> tuple[str, dict[str, Any]]:
    """Writes the vocabulary of a column; returns the rows counted and what its field is."""
    name, parts = gathered[0], list(gathered[1])
    column = columns[name]
    missing = sum(part["missing"] for part in parts)
    if column.hash_buckets is not None:
        field = HashField(name, name, column.missing, missing, 0, column.hash_buckets)
        return name, {"counted": None, "fields": [field_document(field)]}
    frequent = merge_counts([part["frequent"] for part in parts])
    frequent = frequent_values(frequent, column.min_count, column.max_vocab)
    counts = frequent["count"].to_numpy()
    rare = sum(part["present"] for part in parts) - int(counts.sum())
    for path, content in vocabulary_files(name, frequent["value"], counts).items():
        storage.write(storage.join(directory, path), content)
    field = VocabularyField(name, name, column.missing, missing, rare, frequent["value"], counts)
    counted = missing + sum(part["present"] for part in parts)
    return name, {"counted": counted, "fields": [field_document(field)]}


def _merge_nearby(gathered: tuple[tuple[str, int], Iterable]) -> tuple[str, tuple]:
    (name, group), parts = gathered
    return name, (group, NumericSummary.merge(_in_order(parts)))


def _fit_numeric(
    gathered: tuple[str, Iterable], columns: dict[str, Column]
) -> tuple[str, dict[str, Any]]:
    name, parts = gathered
    summary = NumericSummary.merge(_in_order(parts))
    counted = summary.missing + summary.total + sum(summary.infinite)
    fields = [field_document(field) for field in bucket_fields(columns[name], summary)]
    return name, {"counted": counted, "fields": fields}


def _in_order(parts: Iterable) -> list[NumericSummary]:
    """The summaries in the order of the log, whichever worker was faster."""
    return [summary for _, summary in sorted(parts, key=lambda part: part[0])]


def _add_totals(totals: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Sums; of the rejected rows, the first few of the log."""
    added: dict[str, Any] = dict.fromkeys((*SPLITS, "rejected"), 0) | {"examples": []}
    for part in totals:
        for key, value in part.items():
            added[key] = added[key] + value
    added["examples"] = sorted(added["examples"])[:SHOWN_REJECTS]
    return added


def _write_rejects(block: Block, directory: str) -> list[dict[str, Any]]:
    """Writes the rejected rows of a block to a file; returns the first few."""
    documents = [
        {"file": block.piece.file.path, "line": r.line, "reason": r.reason, "text": r.text}
        for r in block.rows.rejects
    ]
    name = f"{block.piece.index:05}-{block.index:05}.jsonl"
    lines = "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in documents)
    storage.write(storage.join(directory, "rejected", name), lines.encode())
    return documents[:SHOWN_REJECTS]


def _write_result(
    path: str,
    totals: dict[str, Any],
    categorical: dict[str, dict[str, Any]],
    numeric: dict[str, dict[str, Any]],
) -> None:
    examples = [reject for _, rejects in totals["examples"] for reject in rejects]
    content = {
        **totals,
        "examples": examples[:SHOWN_REJECTS],
        "counted": {name: one["counted"] for name, one in (categorical | numeric).items()},
        "fields": {name: one["fields"] for name, one in (categorical | numeric).items()},
    }
    storage.write(path, json.dumps(content, ensure_ascii=False).encode())
