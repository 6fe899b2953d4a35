"""Plots as data, and how matplotlib draws them."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.2, 3.2  # of a panel, in inches
COLUMNS = 3
FEW = 5  # bars whose names have room side by side; else they stand upright
NAMES = 1.8  # the height of names that do, in inches


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
        kind: "bars", each series one pair of height and deviation; "cut_bars", which do not begin
            at 0; "lines"; or "points".
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
    """The files of a plot, by their endings; the same plot gives the same files."""
    import matplotlib

    files = {}
    # A name with dollar signs is no formula.
    with matplotlib.rc_context({"svg.hashsalt": "fives", "text.parse_math": False}):
        figure = make_figure(plot)
        for ending in ("png", "svg"):
            buffer = io.BytesIO()
            stamp = {"Date": None} if ending == "svg" else None
            figure.savefig(buffer, format=ending, dpi=150, metadata=stamp)
            files[ending] = buffer.getvalue()
    return files


def make_figure(plot: Plot) -> "Figure":
    """The plot as matplotlib has it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(plot.panels), COLUMNS)
    rows = math.ceil(len(plot.panels) / columns)
    upright = any(_are_many(panel) for panel in plot.panels) and plot.kind in _BARS
    height = HEIGHT + (NAMES if upright else 0)
    figure = Figure(figsize=(WIDTH * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)  # needs no screen
    figure.suptitle(plot.title)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, plot.panels, strict=False):
        _DRAW[plot.kind](axis, panel)
        axis.set(title=panel.title, xlabel=plot.x, ylabel=plot.y)
    for axis in axes[len(plot.panels) :]:
        axis.set_visible(False)
    return figure


def _are_many(panel: Panel) -> bool:
    return len(panel.series) > FEW


def _bars(axis: Any, panel: Panel) -> None:
    for name, values in panel.series.items():
        for height, deviation in values:
            axis.bar([name], [height], yerr=[deviation], capsize=3, color="#4878a8")
    axis.tick_params(axis="x", labelrotation=90 if _are_many(panel) else 30)


def _cut_bars(axis: Any, panel: Panel) -> None:
    _bars(axis, panel)
    bars = [bar for values in panel.series.values() for bar in values]
    if bars:
        low = min(height - deviation for height, deviation in bars)
        high = max(height + deviation for height, deviation in bars)
        room = max(high - low, 1e-4)
        axis.set_ylim(low - room, high + room / 4)  # from 0 on, all bars would look alike


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


_BARS = ("bars", "cut_bars")
_DRAW = {"bars": _bars, "cut_bars": _cut_bars, "lines": _lines, "points": _points}
