"""How the search went: learning curves, the way of the adjacency tensor, durations."""

from typing import Any

import numpy as np

from fives_tf.report.numbers import rounded
from fives_tf.run import Adjacency, Run
from fives_tf.training import journal

_KEYS = ("step", "epoch", "loss", "edge_loss", "auc", "log_loss", "output_auc")
_QUANTILES = (5, 25, 50, 75, 95)
_RISEN, _FALLEN = 16, 8  # edges of all layers together whose courses are told
_POINTS = 200  # of a curve, at most
_STAGE = "search"


def curves(run: Run) -> list[dict[str, Any]]:
    """The figures of each stage on the way, in the order of the stages."""
    stages: dict[str, list[dict[str, Any]]] = {}
    for record in journal.read(run.directory):
        point = {key: record[key] for key in _KEYS if key in record}
        stages.setdefault(record["stage"], []).append(rounded(point))
    return [
        {"stage": stage, "points": [points[place] for place in _some(len(points))]}
        for stage, points in stages.items()
    ]


def durations(run: Run) -> list[dict[str, Any]]:
    """The seconds that each stage worked, without the time that a run was stopped."""
    stages: dict[str, float] = {}
    for record in journal.read(run.directory):
        seconds = record.get("seconds")
        if seconds is not None:  # which older runs did not tell
            stages[record["stage"]] = stages.get(record["stage"], 0.0) + seconds
    return [{"stage": stage, "seconds": round(taken, 1)} for stage, taken in stages.items()]


def history(run: Run, adjacency: Adjacency) -> dict[str, Any] | None:
    """How edges and temperature moved; None if the run did not keep that.

    Args:
        run: A search.
        adjacency: Its adjacency tensor.
    """
    snapshots = journal.read_snapshots(run.directory, _STAGE)
    snapshots = [snapshots[place] for place in _some(len(snapshots))]
    if not snapshots:
        return None
    epochs = {
        record["step"]: record.get("epoch")
        for record in journal.read(run.directory)
        if record["stage"] == _STAGE
    }
    soft = np.stack([snapshot.soft for snapshot in snapshots])
    may_be = adjacency.columns[:, None] != adjacency.columns[None, :]
    layers = []
    for layer, threshold in enumerate(adjacency.thresholds.tolist()):
        entries = soft[:, layer, may_be]
        quantiles = np.percentile(entries, _QUANTILES, axis=1).T
        edges = (entries >= threshold).sum(axis=1)
        edges[-1] = adjacency.binary[layer, may_be].sum()  # exact, where a snapshot has 256 levels
        layers.append({"quantiles": rounded(quantiles, 4), "edges": edges.tolist()})
    return {
        "steps": [snapshot.step for snapshot in snapshots],
        "epochs": [epochs.get(snapshot.step) for snapshot in snapshots],
        "temperature": rounded([snapshot.temperature for snapshot in snapshots]),
        "layers": layers,
        "courses": _courses(soft, adjacency, may_be),
    }


def _courses(soft: np.ndarray, adjacency: Adjacency, may_be: np.ndarray) -> list[dict[str, Any]]:
    """The courses of the edges of each layer that ended strongest, and of those that fell most."""
    fields, layers = adjacency.fields.tolist(), soft.shape[1]
    courses = []
    for layer in range(layers):
        own = soft[:, layer]
        risen = _first(adjacency.strength[layer], may_be, _RISEN // layers)
        fallen = _first(own.max(axis=0) - own[-1], may_be, _FALLEN // layers)
        courses += [
            {
                "layer": layer + 1,
                "start": fields[start],
                "end": fields[end],
                "soft": rounded(own[:, start, end], 3),
            }
            for start, end in dict.fromkeys([*risen, *fallen])
        ]
    return courses


def _first(values: np.ndarray, may_be: np.ndarray, count: int) -> list[tuple[int, int]]:
    """The places of the greatest values among those that may be edges."""
    places = np.argwhere(may_be)
    order = np.argsort(-values[may_be], kind="stable")[:count]
    return [(int(start), int(end)) for start, end in places[order]]


def _some(count: int) -> list[int]:
    """Places from first to last, evenly spread where there are too many."""
    if count <= _POINTS:
        return list(range(count))
    return np.linspace(0, count - 1, _POINTS).round().astype(int).tolist()
