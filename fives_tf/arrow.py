"""Small helpers for Arrow."""

import pyarrow as pa


def single_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch."""
    batches = table.combine_chunks().to_batches()
    if not batches:
        empty = [pa.array([], kind) for kind in table.schema.types]
        return pa.RecordBatch.from_arrays(empty, schema=table.schema)
    (batch,) = batches
    return batch
