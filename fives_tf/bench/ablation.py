"""Figures 3 and 4: what the dependencies between layers and the re-scaling contribute."""

from collections.abc import Callable

from fives_tf.bench.cells import Cell
from fives_tf.bench.data import Data
from fives_tf.bench.render import Report, Table
from fives_tf.bench.session import Session
from fives_tf.bench.summary import STARS, bar_plot, seed_tables, summarize, welch_lines
from fives_tf.bench.table3 import crossed_cell, gather

METHOD = "fives_paper"
LABELS = {
    "fives": "FIVES",
    "no_dependencies": "FIVES without dependencies",
    "no_rescaling": "FIVES without re-scaling",
    "fives_lr": "FIVES+LR",
    "no_rescaling_lr": "FIVES+LR without re-scaling",
}
_TESTS = {"fives": ("no_dependencies", "no_rescaling"), "fives_lr": ("no_rescaling_lr",)}
_FIGURES = {
    "dependencies": ("Dependencies between adjacency matrices", ("fives", "no_dependencies")),
    "rescaling": (
        "Re-scaling of A",
        ("fives", "fives_lr", "no_rescaling", "no_rescaling_lr"),
    ),
}


def run(session: Session) -> Report:
    """Runs the paper's form whole and without its parts, and regressions with its crosses."""
    session.tune((METHOD, "lr"))
    variants = {
        "fives": {},
        "no_dependencies": {"dependencies": False},
        "no_rescaling": {"rescaling": False},
    }

    def make(settings: dict[str, bool]) -> Callable[[Data], Cell]:
        return lambda data: session.cell(METHOD, data, settings)

    runs = session.run({row: make(settings) for row, settings in variants.items()})
    lists = {
        f"{row}_lr": gather(session, "search", make(variants[row]))
        for row in ("fives", "no_rescaling")
    }
    runs |= session.run(
        {
            row: lambda data, found=found: crossed_cell(session, data, found, "given")
            for row, found in lists.items()
        }
    )
    summary = summarize(runs, _TESTS)
    figures = session.figures(summary)
    table = Table(
        "Test AUC",
        ("form", *session.data),
        [
            (label, *(figures.get((name, row), "failed") for name in session.data))
            for row, label in LABELS.items()
        ],
        "Mean and standard deviation over the runs; FIVES in the paper's form. FIVES+LR takes the "
        "crosses by their score alone, as many as are best on valid. Stars: better than the "
        f"strongest of the same without a part, {STARS}",
    )
    plots = {
        f"ablation-{name}": bar_plot(title, {row: LABELS[row] for row in rows}, runs)
        for name, (title, rows) in _FIGURES.items()
    }
    return Report(
        "Contributions of the components (figures 3 and 4)",
        {"summary": summary},
        [table, *seed_tables(summary, LABELS, session.data)],
        plots,
        welch_lines(summary, LABELS),
        session.facts(),
    )
