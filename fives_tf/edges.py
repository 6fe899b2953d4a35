"""What the entries of an adjacency tensor indicate, and whether it is useful."""

from collections.abc import Sequence

import numpy as np

from fives_tf.crosses import Cross, with_auc
from fives_tf.training.metrics import mean_ranks

Entry = tuple[int, int, int]
"""The layer, from 0 on, the start and the end of an edge."""


def indicated(strength: np.ndarray, columns: Sequence[str]) -> list[tuple[Entry, tuple[int, ...]]]:
    """The entries of an adjacency tensor that may be edges, and the fields of what each indicates.

    An entry of layer 1 indicates the pair of its fields. From layer 2 on it adds its field to what
    the strongest edges of the layers before it have joined at its node.

    Args:
        strength: The edges' strengths, [layers, fields, fields].
        columns: The column that each field is made from.
    """
    found = []
    for start in range(len(columns)):
        members = [start]
        for layer, row in enumerate(strength[:, start]):
            taken = {columns[place] for place in members}
            ends = [end for end, other in enumerate(columns) if other not in taken]
            found += [((layer, start, end), tuple(sorted((*members, end)))) for end in ends]
            if not ends:
                break
            members.append(max(ends, key=lambda end, row=row: row[end]))
    return sorted(found)


def indicated_crosses(
    entries: Sequence[tuple[Entry, tuple[int, ...]]],
    fields: Sequence[str],
    train: tuple[np.ndarray, np.ndarray],
    valid: tuple[np.ndarray, np.ndarray],
) -> list[Cross]:
    """For each entry the cross that it indicates, with the AUC that it has alone.

    Args:
        entries: What `indicated` gives, or a part of it.
        fields: The names of the fields.
        train: See `fives_tf.crosses.with_auc`.
        valid: See `fives_tf.crosses.with_auc`.
    """
    distinct = sorted({members for _, members in entries})
    crosses = [Cross(tuple(fields[place] for place in members), 0.0) for members in distinct]
    judged = dict(zip(distinct, with_auc(crosses, fields, train, valid), strict=True))
    return [judged[members] for _, members in entries]


def correlations(one: Sequence[float], other: Sequence[float]) -> dict[str, float | None]:
    """Pearson's and Spearman's correlation; None where all values are the same."""
    if min(len(set(one)), len(set(other))) < 2:
        return {"pearson": None, "spearman": None}
    ranks = mean_ranks(np.asarray(one)), mean_ranks(np.asarray(other))
    return {
        "pearson": float(np.corrcoef(one, other)[0, 1]),
        "spearman": float(np.corrcoef(*ranks)[0, 1]),
    }
