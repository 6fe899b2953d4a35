"""Figures 5 and 6: whether the edges that were found are useful."""

from collections.abc import Callable

from fives_tf.bench.cells import Cell, Result
from fives_tf.bench.data import Data
from fives_tf.bench.learn import edge_figures
from fives_tf.bench.plots import Panel, Plot
from fives_tf.bench.render import Report, Table
from fives_tf.bench.session import Session
from fives_tf.bench.summary import STARS, bar_plot, seed_tables, summarize, welch_lines
from fives_tf.edges import correlations

METHOD = "fives_paper"
LABELS = {"random": "Random", "scratch": "LFS", "fives": "FIVES", "finetune": "FT"}
_TESTS = {"fives": ("random", "scratch", "finetune"), "scratch": ("random",)}
AXES = {"soft": "A", "strength": "A before re-scaling"}
# What follows the search has its rates, which fall, and stops when valid tells to; as in the
# search, the network learns from train alone. So Random and LFS differ by their edges only.
_AFTER = {
    "rate": 5e-3,
    "embedding_rate": 5e-3,
    "l2": 1e-4,
    "dropout": 0.3,
    "refit": False,
}


def run(session: Session) -> Report:
    """Compares edges with what their crosses tell alone, and networks with them and with others."""
    session.tune((METHOD,))
    variants = {
        "random": {"after": "from_scratch", "random_adjacency": True, **_AFTER},
        "scratch": {"after": "from_scratch", **_AFTER},
        "fives": {},
        "finetune": {"after": "finetune", **_AFTER},
    }

    def make(settings: Result) -> Callable[[Data], Cell]:
        return lambda data: session.cell(METHOD, data, settings)

    runs = session.run({row: make(settings) for row, settings in variants.items()})
    summary = summarize(runs, _TESTS)
    points = _points(session, make(variants["fives"]))
    related = [
        {"dataset": name, "layer": layer, "of": axis, **correlations(*_axes(group, axis))}
        for name, every in points.items()
        for layer, group in _layers(every).items()
        for axis in AXES
    ]
    texts = session.figures(summary)
    tables = [
        Table(
            "Correlation of the entries of A with the AUC of the cross that they indicate",
            ("data set", "layer", "entries of", "Pearson", "Spearman"),
            [
                (
                    one["dataset"],
                    str(one["layer"]),
                    AXES[one["of"]],
                    _number(one["pearson"]),
                    _number(one["spearman"]),
                )
                for one in related
            ],
            "Of the first seed. The AUC is that of the cross alone on valid, by the click rates of "
            "its values in train.",
        ),
        Table(
            "Test AUC",
            ("network", *session.data),
            [
                (label, *(texts.get((name, row), "failed") for name in session.data))
                for row, label in LABELS.items()
            ],
            "Mean and standard deviation over the runs. Random: as many edges at random. LFS: "
            "learned from scratch with the edges found. FIVES: as the search left it. FT: "
            "fine-tuned from there. Stars: FIVES is better than the strongest of the others, or "
            f"LFS than Random, {STARS}",
        ),
    ]
    plots = {"usefulness-networks": bar_plot("Networks with edges of several kinds", LABELS, runs)}
    if points:
        plots["usefulness-edges"] = _scatter(points)
    figures = {"summary": summary, "correlations": related}
    return Report(
        "Usefulness of the crosses (figures 5 and 6)",
        figures,
        [*tables, *seed_tables(summary, LABELS, session.data)],
        plots,
        welch_lines(summary, LABELS),
        session.facts(),
    )


def _points(session: Session, make: Callable[[Data], Cell]) -> dict[str, list[Result]]:
    """The entries of A and the AUCs of what they indicate, of the first seed."""
    searches = {name: make(first) for name, (first, *_) in session.data.items()}
    found = session.store.fill("search", searches.values())
    cells = {
        name: Cell(
            session.data[name][0],
            "edges",
            edge_figures,
            {"search": cell.name},
            found[cell.name]["adjacency"],
        )
        for name, cell in searches.items()
        if cell.name in found
    }
    judged = session.store.fill("edges", cells.values())
    return {
        name: [one for one in judged[cell.name]["points"] if one["auc"] is not None]
        for name, cell in cells.items()
        if cell.name in judged
    }


def _layers(points: list[Result]) -> dict[int, list[Result]]:
    layers = sorted({one["layer"] for one in points})
    return {layer: [one for one in points if one["layer"] == layer] for layer in layers}


def _axes(points: list[Result], axis: str) -> tuple[list[float], list[float]]:
    return [one[axis] for one in points], [one["auc"] for one in points]


def _scatter(points: dict[str, list[Result]]) -> Plot:
    panels = [
        Panel(
            name,
            {
                f"layer {layer}": list(zip(*_axes(group, "soft"), strict=True))
                for layer, group in _layers(every).items()
            },
        )
        for name, every in points.items()
    ]
    return Plot("points", "Edges and the crosses that they indicate", "A", "AUC", panels)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
