"""Table 3: what the crosses of each generator add to a logistic regression."""

import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from fives_tf.bench import paper, trees
from fives_tf.bench.cells import Cell, Result
from fives_tf.bench.data import Data
from fives_tf.bench.learn import draw, generate, search
from fives_tf.bench.render import Report, Table, beside
from fives_tf.bench.session import Session
from fives_tf.bench.summary import (
    STARS,
    Runs,
    Summary,
    bar_plot,
    seed_tables,
    summarize,
    welch_lines,
)

COUNT = 100  # crosses of a generator, of which as many are used as are best
LABELS = {
    "lr": "LR",
    "random": "Random+LR",
    "cmi": "CMI+LR",
    "autocross": "AutoCross+LR",
    "fives_score": "FIVES+LR, by score alone",
    "fives_gain": "FIVES+LR",
}
OURS = ("fives_score", "fives_gain")
OTHERS = ("lr", "random", "cmi", "autocross")
CROSSED = "lightgbm_fives"  # the one of the rows from outside that has crosses
OUTSIDE = {key: one.label for key, one in trees.LIBRARIES.items()} | {
    CROSSED: "LightGBM with FIVES crosses"
}
_ORDER = 3  # of AutoCross; CMI has pairs, as in the paper


@dataclass(frozen=True)
class _List:
    """Crosses, and the cell that they come from."""

    cell: Cell
    crosses: list[Result]


def run(session: Session) -> Report:
    """Generates crosses in each way, fits regressions with them, and trees beside them."""
    trees.tell_obstacles(trees.LIBRARIES)
    session.tune(("fives", "lr"))
    searches = gather(session, "search", lambda data: session.cell("fives", data))
    makers: dict[str, Callable[[Data], Cell | None]] = {
        "random": lambda data: _draw(data, searches),
        "cmi": lambda data: _generate(data, "cmi", 2),
        "autocross": lambda data: _generate(data, "autocross", min(_ORDER, data.columns)),
    }
    lists = {name: gather(session, name, make) for name, make in makers.items()}
    lists |= {"fives_score": searches, "fives_gain": searches}
    rows: dict[str, Callable[[Data], Cell | None]] = {"lr": lambda data: session.cell("lr", data)}
    for name, found in lists.items():
        rank = "gain" if name == "fives_gain" else "given"
        rows[name] = lambda data, found=found, rank=rank: crossed_cell(session, data, found, rank)
    runs = session.run(rows)
    chosen = gather(session, "run", rows["fives_gain"])
    crossed = {key: (one.cell, one.crosses) for key, one in chosen.items()}
    outside = {library: trees.Row(library) for library in trees.LIBRARIES}
    runs |= trees.run(session, outside | {CROSSED: trees.Row("lightgbm", crossed)})
    summary = summarize(runs, dict.fromkeys(OURS, OTHERS))
    for one in summary:
        if one["method"] not in OUTSIDE:
            one |= improvement(runs, one["dataset"], one["method"])
    return Report(
        "FIVES as a feature generator (table 3)",
        {"summary": summary},
        [*_tables(session, summary), *seed_tables(summary, LABELS | OUTSIDE, session.data)],
        {"table3": bar_plot("Crosses beside a logistic regression", LABELS | OUTSIDE, runs)},
        welch_lines(summary, LABELS),
        session.facts(),
    )


def improvement(runs: Runs, name: str, row: str) -> Result:
    """By how many per cent the mean AUC is higher than that of LR, over the seeds of both.

    Args:
        runs: The runs.
        name: The data set.
        row: The row.
    """
    ours, base = runs[row][name], runs["lr"][name]
    seeds = ours.keys() & base.keys()
    if not seeds:
        return {}
    auc, lr = (statistics.mean(one[seed]["test"]["auc"] for seed in seeds) for one in (ours, base))
    return {"improvement": 100 * (auc - lr) / lr, "improvement_runs": len(seeds)}


def gather(
    session: Session, stage: str, make: Callable[[Data], Cell | None]
) -> dict[tuple[str, int], _List]:
    """The crosses of cells, by data set and seed; those of cells that failed are missing."""
    every = [data for group in session.data.values() for data in group]
    cells = {(data.name, data.seed): make(data) for data in every}
    found = session.store.fill(stage, [cell for cell in cells.values() if cell])
    return {
        key: _List(cell, found[cell.name]["crosses"])
        for key, cell in cells.items()
        if cell and cell.name in found
    }


def crossed_cell(
    session: Session, data: Data, lists: dict[tuple[str, int], _List], rank: str
) -> Cell | None:
    """A regression with as many of the crosses as are best; None without a list.

    Args:
        session: The session.
        data: The data.
        lists: The crosses of each data set and seed.
        rank: "gain" to rank them by their gain, "given" to take them as the generator ranks them.
    """
    one = lists.get((data.name, data.seed))
    if one is None:
        return None
    crosses = one.crosses
    if rank == "given" and one.cell.perform is search:  # which gives them by rising order
        crosses = sorted(crosses, key=lambda cross: -cross["score"])
    return session.cell("lr", data, {"rank": rank}, one.cell, crosses)


def _draw(data: Data, searches: dict[tuple[str, int], _List]) -> Cell | None:
    """As many crosses of each order as FIVES has."""
    one = searches.get((data.name, data.seed))
    if one is None:
        return None
    counts = Counter(str(len(cross["fields"])) for cross in one.crosses)
    return Cell(data, "random", draw, {"counts": dict(sorted(counts.items()))})


def _generate(data: Data, method: str, order: int) -> Cell:
    arguments = {"method": method, "count": COUNT, "order": order}
    return Cell(data, method, generate, arguments)


def _tables(session: Session, summary: Summary) -> list[Table]:
    found = {(one["dataset"], one["method"]): one for one in summary}
    figures = session.figures(summary)
    header = ("method", *session.data)

    def auc(name: str, method: str) -> str:
        if (name, method) in figures:
            return figures[name, method]
        first = session.data[name][0]
        library = "lightgbm" if method == CROSSED else method
        return (method in OUTSIDE and trees.obstacle(library, first)) or "failed"

    def text(name: str, method: str) -> str:
        one = found.get((name, method), {})
        if "improvement" not in one:
            return "failed"
        figure = f"{one['improvement']:+.2f}{session.missing(name, one['improvement_runs'])}"
        return beside(figure, paper.figure(paper.IMPROVEMENT, method, session.data[name][0]), 2)

    def average(method: str) -> str:
        every = [found.get((name, method), {}).get("improvement") for name in session.data]
        return "failed" if None in every else f"{statistics.mean(every):+.2f}"

    return [
        Table(
            "Test AUC",
            header,
            [
                (label, *(auc(name, key) for name in session.data))
                for key, label in (LABELS | OUTSIDE).items()
            ],
            "Mean and standard deviation over the runs. Stars: better than the strongest of LR and "
            f"the other generators, {STARS} Trees learn from the raw columns, in the last row from "
            "the crosses that FIVES+LR chose as well; they are from outside of the paper, and are "
            "not tested against.",
        ),
        Table(
            "Improvement over LR in %",
            (*header, "average"),
            [
                (label, *(text(name, key) for name in session.data), average(key))
                for key, label in LABELS.items()
                if key != "lr"
            ],
            "Of the mean AUC, over the seeds with which neither failed; in brackets the paper's "
            "figure.",
        ),
    ]
