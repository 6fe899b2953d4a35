"""The fields of the data: what is in them, what each tells alone, and how they drift."""

from typing import Any

import numpy as np

from fives_tf.crosses import single_feature_auc
from fives_tf.dataset import Dataset
from fives_tf.describe import describe
from fives_tf.encoding import FIRST_VALUE, BucketField, Field
from fives_tf.report.names import value_name
from fives_tf.report.numbers import rounded

Arrays = tuple[np.ndarray, np.ndarray]
"""Global ids, [rows, fields], and labels, [rows]."""

_VALUES = 8  # of a field, the most frequent first
_EDGES = 100  # of buckets
_GROUPS = 20  # of ids that drift is measured on; rarer ones are one group
_LEAST = 1e-4  # part of the rows that a group counts as at least


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

    Above 0.1 there is some drift, above 0.25 a lot, by the rule of thumb of credit scoring. The ids
    that are most frequent before count each for itself, all others together; else chance alone
    would look like drift where there are many ids.

    Args:
        before: Ids.
        after: Ids of other rows.
    """
    values, counts = np.unique(before, return_counts=True)
    frequent = np.sort(values[np.argsort(-counts, kind="stable")[:_GROUPS]])
    one, other = (_shares(ids, frequent) for ids in (before, after))
    return float(np.sum((one - other) * np.log(one / other)))


def _shares(ids: np.ndarray, frequent: np.ndarray) -> np.ndarray:
    """The parts of the rows that have each of the ids, and any other."""
    place = np.minimum(np.searchsorted(frequent, ids), len(frequent) - 1)
    groups = np.where(frequent[place] == ids, place, len(frequent))
    shares = np.bincount(groups, minlength=len(frequent) + 1) / max(len(ids), 1)
    return np.maximum(shares, _LEAST)


def _values(field: Field, ids: np.ndarray) -> list[dict[str, Any]]:
    counts = np.bincount(ids, minlength=FIRST_VALUE)
    order = np.argsort(-counts, kind="stable")[:_VALUES]
    return [
        {"value": value_name(field, int(one)), "share": float(counts[one] / max(len(ids), 1))}
        for one in order[counts[order] > 0]
    ]


def _edges(field: Field) -> list[float] | None:
    if not isinstance(field, BucketField):
        return None
    edges = [float(str(edge)) for edge in field.edges]  # the shortest decimals
    if len(edges) > _EDGES:
        places = np.linspace(0, len(edges) - 1, _EDGES).round().astype(int)
        edges = [edges[place] for place in places]
    return [edge for edge in edges if np.isfinite(edge)]
