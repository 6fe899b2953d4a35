"""The fields of the data: what is in them, what each tells alone, and how they drift."""

from typing import Any

import numpy as np

from fives_tf.crosses import single_feature_auc
from fives_tf.dataset import Dataset
from fives_tf.describe import describe
from fives_tf.encoding import BucketField, Field
from fives_tf.report.names import value_name
from fives_tf.report.numbers import rounded

Arrays = tuple[np.ndarray, np.ndarray]
"""Global ids, [rows, fields], and labels, [rows]."""

_VALUES = 8  # of a field, the most frequent first
_EDGES = 100  # of buckets
_GROUPS = 20  # of ids that drift is measured on, at most; rarer ones are one group
_ROWS_A_GROUP = 50


def judge(
    dataset: Dataset, train: Arrays, valid: Arrays, later: np.ndarray | None
) -> list[dict[str, Any]]:
    """What a report says of each field.

    Args:
        dataset: The dataset.
        train: Rows that click rates are taken from.
        valid: Rows that the AUC of a field alone is measured on.
        later: The ids of rows that are compared with those of train; None if there are none.
    """
    encoding = dataset.encoding
    found = []
    for place, (field, known) in enumerate(
        zip(encoding.fields, describe(dataset)["fields"], strict=True)
    ):
        own = [place]
        found.append(
            rounded(
                {
                    "name": field.name,
                    "column": field.column,
                    "kind": field.kind,
                    "ids": field.size,
                    "missing": known["missing"],
                    "rare": known["rare"],
                    "auc": single_feature_auc(
                        train[0][:, own], train[1], valid[0][:, own], valid[1]
                    ),
                    "values": _values(field, train[0][:, place] - encoding.offsets[place]),
                    "bucket_edges": _edges(field),
                    "drift": None if later is None else drift(train[0][:, place], later[:, place]),
                }
            )
        )
    return found


def drift(before: np.ndarray, after: np.ndarray) -> float:
    """The population stability index of two samples of ids: 0 if their shares are the same.

    Above 0.1 there is some drift, above 0.25 a lot, by the rule of thumb of credit scoring. What
    chance alone would show of so few rows is taken off. The ids that are most frequent count each
    for itself, all others together.

    Args:
        before: Ids.
        after: Ids of other rows.
    """
    values, counts = np.unique(np.concatenate([before, after]), return_counts=True)
    most = min(_GROUPS, 1 + min(len(before), len(after)) // _ROWS_A_GROUP)
    frequent = np.sort(values[np.argsort(-counts, kind="stable")[:most]])
    one, other = (_counts(ids, frequent) for ids in (before, after))
    there = one + other > 0
    shares = [(part[there] + 0.5) / (part.sum() + 0.5 * there.sum()) for part in (one, other)]
    index = np.sum((shares[0] - shares[1]) * np.log(shares[0] / shares[1]))
    by_chance = (there.sum() - 1) * (1 / max(one.sum(), 1) + 1 / max(other.sum(), 1))
    return float(max(index - by_chance, 0.0))


def _counts(ids: np.ndarray, frequent: np.ndarray) -> np.ndarray:
    """How many rows have each of the ids, and any other."""
    place = np.minimum(np.searchsorted(frequent, ids), len(frequent) - 1)
    groups = np.where(frequent[place] == ids, place, len(frequent))
    return np.bincount(groups, minlength=len(frequent) + 1)


def _values(field: Field, ids: np.ndarray) -> list[dict[str, Any]]:
    found, counts = np.unique(ids, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_VALUES]
    return [
        {"value": value_name(field, int(found[one])), "share": float(counts[one] / len(ids))}
        for one in order
    ]


def _edges(field: Field) -> list[float] | None:
    if not isinstance(field, BucketField):
        return None
    edges = [float(str(edge)) for edge in field.edges]  # the shortest decimals
    if len(edges) > _EDGES:
        places = np.linspace(0, len(edges) - 1, _EDGES).round().astype(int)
        edges = [edges[place] for place in places]
    return [edge for edge in edges if np.isfinite(edge)]
