"""A dataset directory from rows that are in memory already, without Beam.

The same log and schema give the same files as `pipelines.preprocess` with one shard a split; for a
few hundred rows Beam would take longer to start than all the rest.
"""

import numpy as np
import pyarrow as pa

from fives_tf import storage
from fives_tf.dataset import MANIFEST, SCHEMA, Dataset, manifest_json
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
from fives_tf.errors import UserError
from fives_tf.fitting import NumericSummary, bucket_fields, count_values, frequent_values
from fives_tf.parsing import Rows, parse_batch
from fives_tf.records import frame_examples
from fives_tf.schema import SPLITS, Column, Schema
from fives_tf.splitting import TEST, Splitter, shuffle_key


def write_dataset(batch: pa.RecordBatch, schema: Schema, directory: str) -> Dataset:
    """Turns rows into a dataset directory.

    Args:
        batch: The rows of a log, with all columns that the schema uses.
        schema: What they mean.
        directory: The directory to write.
    """
    rows = read_rows(batch, schema)
    splits = Splitter(schema.split, len(rows.number)).assign(rows.number, rows.keys, SPLITS[0])
    encoding = fit_encoding(rows.batch.filter(pa.array(splits != TEST)), schema)
    ids, key = encoding.encode(rows.batch), shuffle_key(rows.number, schema.split.seed)
    shards = {}
    for code, split in enumerate(SPLITS):
        chosen = np.flatnonzero(splits == code)
        chosen = chosen[np.argsort(key[chosen], kind="stable")]
        if len(chosen):
            shards[split] = [_write_shard(split, ids[chosen], rows.label[chosen], directory)]
    for name, content in encoding.to_files().items():
        storage.write(storage.join(directory, name), content)
    storage.write(storage.join(directory, SCHEMA), schema.to_yaml().encode())
    manifest = manifest_json(
        fields=[field.name for field in encoding.fields],
        shards=shards,
        compression="",
        rejected=0,
        inputs=[],
        fingerprint={},
    )
    storage.write(storage.join(directory, MANIFEST), manifest)
    return Dataset.open(directory)


def read_rows(batch: pa.RecordBatch, schema: Schema) -> Rows:
    """The clean rows; refuses a value that the schema does not allow."""
    rows = parse_batch(batch, schema, 0, 0)
    for reject in rows.rejects[:1]:
        raise UserError(f"row {reject.line}: {reject.reason}; correct it.")
    return rows


def fit_encoding(batch: pa.RecordBatch, schema: Schema) -> Encoding:
    """The encoding of clean rows."""
    fields: list[Field] = []
    for column in schema.columns:
        values = batch.column(column.name)
        if column.numeric:
            single = to_single(values)
            missing = is_missing_number(single, missing_numbers(column.missing))
            fields += bucket_fields(column, NumericSummary.of(single, missing))
        else:
            fields.append(_categorical_field(column, values))
    return Encoding(tuple(fields), batch.num_rows)


def _categorical_field(column: Column, values: pa.DictionaryArray) -> Field:
    counts = count_values(values)
    missing = is_missing_category(counts["value"], column.missing)
    missing_count = int(counts["count"].to_numpy()[missing].sum())
    known = (column.name, column.name, column.missing, missing_count)
    if column.hash_buckets is not None:
        return HashField(*known, 0, column.hash_buckets)
    present = counts.filter(pa.array(~missing))
    frequent = frequent_values(present, column.min_count, column.max_vocab)
    often = frequent["count"].to_numpy()
    rare_count = int(present["count"].to_numpy().sum() - often.sum())
    return VocabularyField(*known, rare_count, frequent["value"], often)


def _write_shard(
    split: str, ids: np.ndarray, label: np.ndarray, directory: str
) -> dict[str, str | int]:
    """Writes a split as one shard; what the manifest says of it."""
    file = f"{split}/part-00000-of-00001.tfrecord"
    _, _, content = frame_examples(ids, label).buffers()
    storage.write(storage.join(directory, file), content)
    clicks = int(label.sum(dtype=np.float64))
    return {"file": file, "rows": len(label), "clicks": clicks, "bytes": len(content)}
