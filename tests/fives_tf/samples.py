"""The first rows of the real logs, raw and clean, with an encoding fitted to them."""

import csv
import functools
import gzip
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fives_tf.crosses import Cross
from fives_tf.encoding import (
    Encoding,
    Field,
    HashField,
    VocabularyField,
    is_missing_category,
    is_missing_number,
    missing_numbers,
    to_single,
)
from fives_tf.fitting import NumericSummary, bucket_fields, count_values, frequent_values
from fives_tf.parsing import parse_text
from fives_tf.schema import Column, Schema

SCHEMAS = Path(__file__).parents[2] / "fives_tf" / "bench" / "schemas"
LOGS = {
    "employee": "employee/train.csv.gz",
    "bank": "bank/bank-additional-full.csv.gz",
    "adult": "adult/adult.data.gz",
    "credit": "credit/cs-training.csv.gz",
    "criteo": "criteo/criteo_kaggle_0p3pct.tsv.gz",
    "avazu": "avazu/avazu_kaggle_small.csv.gz",
}
ROWS = 2000
MOST_EDGES = 200  # of the fields that are crossed, or the statements get long


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a log.

    Attributes:
        schema: The schema of the log.
        raw: The columns of the features as text, as they stand in the file.
        batch: The clean columns.
        encoding: An encoding that was fitted to them.
    """

    schema: Schema
    raw: pa.Table
    batch: pa.RecordBatch
    encoding: Encoding

    def crosses(self) -> list[Cross]:
        """Crosses of the orders 2 and 3, each field in one of them."""
        names = [
            field.name
            for field in self.encoding.fields
            if len(getattr(field, "edges", ())) <= MOST_EDGES
        ]
        names = iter(np.random.default_rng(0).permutation(names).tolist())
        groups = (tuple(itertools.islice(names, order)) for order in itertools.cycle((2, 3)))
        groups = itertools.takewhile(len, groups)
        return [Cross(group, 1.0) for group in groups if len(group) > 1]


@functools.cache
def read(name: str, data_directory: Path) -> Sample:
    """The sample of a log, or a skipped test if the log is not there."""
    path = data_directory / LOGS[name]
    if not path.exists():
        pytest.skip(f"{path} is not there")
    schema = Schema.load(SCHEMAS / f"{name}.yaml")
    form = schema.format
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        lines = list(itertools.islice(file, ROWS + form.header))
    quoting = csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE
    header, *rows = csv.reader(lines, delimiter=form.delimiter, quotechar='"', quoting=quoting)
    if not form.header:
        header, rows = form.columns, [header, *rows]
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    raw = pa.table({column.name: list(columns[column.name]) for column in schema.columns})
    text = "".join(lines[form.header :]).encode()
    batch = parse_text(text, tuple(header), schema, 0, 1).batch
    fields = (field for c in schema.columns for field in fit(c, batch.column(c.name)))
    return Sample(schema, raw, batch, Encoding(tuple(fields), batch.num_rows))


def fit(column: Column, values: pa.Array) -> tuple[Field, ...]:
    """The fields of a clean column."""
    if column.numeric:
        numbers = to_single(values)
        missing = is_missing_number(numbers, missing_numbers(column.missing))
        return bucket_fields(column, NumericSummary.of(numbers, missing))
    if column.hash_buckets:
        return (HashField(column.name, column.name, column.missing, 0, 0, column.hash_buckets),)
    counts = count_values(values)
    counts = counts.filter(pa.array(~is_missing_category(counts["value"], column.missing)))
    often = frequent_values(counts, column.min_count, column.max_vocab)
    known = often["value"], often["count"].to_numpy()
    return (VocabularyField(column.name, column.name, column.missing, 0, 0, *known),)
