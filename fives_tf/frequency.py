"""How often each id occurs, and which ids are so rare that they had better share an embedding."""

import numpy as np

from fives_tf.encoding import FIRST_VALUE, MISSING, RARE, BucketField, Encoding, Field, HashField


def frequencies(encoding: Encoding) -> np.ndarray:
    """The part of the fitted rows in which each global id occurs, float64 [ids].

    The buckets of a hashed field were not counted; they are taken to be equally frequent.
    """
    return np.concatenate([_counts(field, encoding.rows) for field in encoding.fields]) / max(
        encoding.rows, 1
    )


def coarse_rows(encoding: Encoding, min_count: int, buckets: int) -> np.ndarray:
    """The row of the embedding for each global id: rows are numbered from 0, without gaps.

    A cross of rare values is rarer still, so crosses are learned on coarser values than single
    fields: categories below `min_count` share the row of the rare ones, and neighbouring buckets of
    a number are merged until about `buckets` are left, each with its share of the values.

    Args:
        encoding: The fitted encoding.
        min_count: The least number of occurrences that earns a category or merged buckets a row.
        buckets: About how many rows a numeric field gets; 0 leaves its buckets as they are.
    """
    rows, start = [], 0
    for field in encoding.fields:
        counts = _counts(field, encoding.rows)
        if isinstance(field, BucketField) and not buckets:
            local = np.arange(len(counts))
        elif isinstance(field, BucketField):
            local = _merge_buckets(field, counts, min_count, buckets)
        else:
            local = np.where(counts >= min_count, np.arange(len(counts)), RARE)
            local[MISSING] = MISSING
        local = np.unique(local, return_inverse=True)[1]
        rows.append(local + start)
        start += int(local.max()) + 1
    return np.concatenate(rows).astype(np.int32)


def _counts(field: Field, rows: int) -> np.ndarray:
    special = [field.missing_count, field.rare_count]
    if isinstance(field, HashField):
        rest = (rows - field.missing_count) / field.buckets
        return np.concatenate([special, np.full(field.buckets, rest)])
    return np.concatenate([special, field.counts]).astype(np.float64)


def _merge_buckets(
    field: BucketField, counts: np.ndarray, min_count: int, buckets: int
) -> np.ndarray:
    """Merges neighbours, in the order of the values, until each group holds its share of them.

    The share is that of what the groups before have left over. So a value that most rows have takes
    one group, and the others are divided among the values of the few.
    """
    local = np.arange(len(counts))
    ordered = field.ids[field.ids >= FIRST_VALUE]
    left, group, held, share = counts[ordered].sum(), FIRST_VALUE, 0.0, 0.0
    for identity in ordered.tolist():
        if held >= share:
            left -= held
            group, held = identity, 0.0
            share = max(left / max(buckets, 1), min_count)
            buckets -= 1
        local[identity] = group
        held += counts[identity]
    return local
