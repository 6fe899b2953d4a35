"""The adjacency tensor as a report shows it, and whether its entries tell useful crosses."""

from typing import Any

import numpy as np

from fives_tf import progress
from fives_tf.edges import correlations, indicated, indicated_crosses
from fives_tf.report.fields import Arrays
from fives_tf.report.numbers import rounded
from fives_tf.run import Adjacency

MOST_FIELDS = 100
MOST_POINTS = 2000
_AT_A_TIME = 100
_AXES = ("soft", "strength")


def adjacency_part(adjacency: Adjacency) -> dict[str, Any]:
    """The tensor, of the fields with the strongest edges if there are too many."""
    shown = _strongest_fields(adjacency.strength)
    grid = np.ix_(shown, shown)
    tensors = zip(adjacency.strength, adjacency.soft, adjacency.binary, strict=True)
    return {
        "fields": adjacency.fields[shown].tolist(),
        "columns": adjacency.columns[shown].tolist(),
        "left_out": len(adjacency.fields) - len(shown),
        "thresholds": rounded(adjacency.thresholds),
        "temperature": rounded(float(adjacency.temperature)),
        "layers": [
            {
                "strength": rounded(strength[grid]),
                "totals": rounded(strength[shown].sum(axis=1)),
                "soft": rounded(soft[grid], 4),
                "edges": binary[grid].astype(int).tolist(),
            }
            for strength, soft, binary in tensors
        ],
    }


def scatter(adjacency: Adjacency, train: Arrays, valid: Arrays) -> dict[str, Any]:
    """The entries of the tensor, some at random if there are many, and the AUC of their crosses.

    Args:
        adjacency: The tensor.
        train: Rows that click rates are taken from.
        valid: Rows that AUCs are measured on.
    """
    fields = adjacency.fields.tolist()
    every = entries = indicated(adjacency.strength, adjacency.columns.tolist())
    if len(every) > MOST_POINTS:
        drawn = np.random.default_rng(0).choice(len(every), MOST_POINTS, replace=False)
        entries = [every[place] for place in np.sort(drawn)]
    crosses = []
    with progress.view("edges", len(entries), unit="edges") as view:
        for start in range(0, len(entries), _AT_A_TIME):
            some = entries[start : start + _AT_A_TIME]
            crosses += indicated_crosses(some, fields, train, valid)
            view.update(len(crosses))
    points = [
        rounded(
            {
                "layer": layer + 1,
                "start": fields[start],
                "end": fields[end],
                "cross": cross.name,
                "soft": float(adjacency.soft[layer, start, end]),
                "strength": float(adjacency.strength[layer, start, end]),
                "auc": cross.auc,
            },
            4,
        )
        for ((layer, start, end), _), cross in zip(entries, crosses, strict=True)
        if cross.auc is not None
    ]
    related = []
    for layer in sorted({point["layer"] for point in points}):
        own = [point for point in points if point["layer"] == layer]
        for axis in _AXES:
            found = correlations([one[axis] for one in own], [one["auc"] for one in own])
            related.append({"layer": layer, "of": axis, **rounded(found)})
    return {"points": points, "of": len(every), "correlations": related}


def _strongest_fields(strength: np.ndarray) -> np.ndarray:
    """The places of the fields that are shown, in order."""
    best = np.maximum(strength.max(axis=(0, 2)), strength.max(axis=(0, 1)))
    return np.sort(np.argsort(-best, kind="stable")[:MOST_FIELDS])
