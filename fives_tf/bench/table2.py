"""Table 2: how well each method predicts."""

from fives_tf.bench import paper, trees
from fives_tf.bench.methods import METHODS
from fives_tf.bench.render import Report, Table, beside
from fives_tf.bench.session import Session, labels
from fives_tf.bench.summary import STARS, bar_plot, seed_tables, summarize, welch_lines

OURS = ("fives", "fives_paper")
ROWS = labels(METHODS) | {key: one.label for key, one in trees.LIBRARIES.items()}
"""The names of the rows in tables."""


def run(session: Session) -> Report:
    """Tunes and runs the methods that are asked for, and those trees among them that can be."""
    methods, libraries = session.asked_for(METHODS), session.asked_for(trees.LIBRARIES)
    trees.tell_obstacles(libraries)
    session.tune(methods)
    names = {row: ROWS[row] for row in (*methods, *libraries)}
    rows = {method: lambda data, method=method: session.cell(method, data) for method in methods}
    runs = session.run(rows)
    runs |= trees.run(session, {library: trees.Row(library) for library in libraries})
    others = [method for method in methods if method not in OURS]
    summary = summarize(runs, dict.fromkeys(OURS, others))
    figures = session.figures(summary)

    def text(name: str, method: str) -> str:
        first = session.data[name][0]
        if (name, method) in figures:
            return beside(figures[name, method], paper.figure(paper.AUC, method, first))
        return (method in trees.LIBRARIES and trees.obstacle(method, first)) or "failed"

    table = Table(
        "Test AUC",
        ("method", *session.data),
        [(label, *(text(name, key) for name in session.data)) for key, label in names.items()],
        "Mean and standard deviation over the runs, in brackets the paper's figure. Stars: better "
        f"than the strongest other method of the paper, {STARS} Trees are from outside of the "
        "paper, and are not tested against.",
    )
    absent = [label for row, label in ROWS.items() if row not in names]
    return Report(
        "FIVES as a predictive model (table 2)",
        {"summary": summary},
        [table, *seed_tables(summary, names, session.data)],
        {"table2": bar_plot("Predictive models", names, runs)},
        welch_lines(summary, names),
        [
            *session.facts(),
            *([f"Not asked for, and not compared with: {', '.join(absent)}."] if absent else []),
        ],
    )
