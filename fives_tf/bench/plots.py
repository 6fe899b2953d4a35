"""Plots as data, and how matplotlib draws them."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 4.2, 3.2  # of a panel, in inches
COLUMNS = 3


@dataclass(frozen=True)
class Panel:
    """One panel of a plot.

    Attributes:
        title: What it is about.
        series: What is drawn, by its name: heights with their deviations, or points.
    """

    title: str
    series: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Plot:
    """A plot of one panel or more.

    Attributes:
        kind: "bars", each series one pair of height and deviation; "lines"; or "points".
        title: What it shows.
        x: What the horizontal axis has; nothing for bars.
        y: What the vertical axis has.
        panels: Its panels.
    """

    kind: str
    title: str
    x: str
    y: str
    panels: Sequence[Panel]


def draw(plot: Plot) -> dict[str, bytes]:
    """The files of a plot, by their endings."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(plot.panels), COLUMNS)
    rows = math.ceil(len(plot.panels) / columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * rows), layout="constrained")
    FigureCanvasAgg(figure)  # needs no screen
    figure.suptitle(plot.title)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, plot.panels, strict=False):
        _DRAW[plot.kind](axis, panel)
        axis.set(title=panel.title, xlabel=plot.x, ylabel=plot.y)
    for axis in axes[len(plot.panels) :]:
        axis.set_visible(False)
    files = {}
    for ending in ("png", "svg"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=ending, dpi=150)
        files[ending] = buffer.getvalue()
    return files


def _bars(axis: Any, panel: Panel) -> None:
    bars = [(name, *values[0]) for name, values in panel.series.items() if values]
    if not bars:
        return
    names, heights, deviations = zip(*bars, strict=True)
    axis.bar(names, heights, yerr=deviations, capsize=3, color="#4878a8")
    low = min(h - d for h, d in zip(heights, deviations, strict=True))
    high = max(h + d for h, d in zip(heights, deviations, strict=True))
    room = max(high - low, 1e-4)
    axis.set_ylim(low - room, high + room / 4)  # from 0 on, all bars would look alike
    axis.tick_params(axis="x", labelrotation=30)


def _lines(axis: Any, panel: Panel) -> None:
    for name, points in panel.series.items():
        if points:
            axis.plot(*zip(*points, strict=True), marker=".", label=name)
            axis.legend(fontsize="small")


def _points(axis: Any, panel: Panel) -> None:
    for name, points in panel.series.items():
        if points:
            axis.scatter(*zip(*points, strict=True), s=6, alpha=0.5, label=name)
            axis.legend(fontsize="small")


_DRAW = {"bars": _bars, "lines": _lines, "points": _points}
