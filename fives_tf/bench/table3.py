"""Table 3: what the crosses of each generator add to a logistic regression."""

import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from fives_tf.bench import paper
from fives_tf.bench.cells import Cell, Result
from fives_tf.bench.data import Data
from fives_tf.bench.learn import draw, generate, search
from fives_tf.bench.render import Report, Table, beside
from fives_tf.bench.session import Session, on_test, summarize
from fives_tf.bench.statistics import Spread

COUNT = 100  # crosses of a generator, of which as many are used as are best on valid
LABELS = {
    "lr": "LR",
    "random": "Random+LR",
    "cmi": "CMI+LR",
    "autocross": "AutoCross+LR",
    "fives_score": "FIVES+LR, by score alone",
    "fives_gain": "FIVES+LR",
}
OURS = ("fives_score", "fives_gain")
_ORDER = 3  # of AutoCross; CMI has pairs, as in the paper


@dataclass(frozen=True)
class _List:
    """Crosses, and the cell that they come from."""

    cell: Cell
    crosses: list[Result]


def run(session: Session) -> Report:
    """Generates crosses in each way, and fits regressions with them."""
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
    summary = summarize(runs, OURS)
    for one in summary:
        base = on_test(runs["lr"][one["dataset"]])
        if base:
            lr = statistics.mean(base)
            one["improvement"] = 100 * (one["auc"]["mean"] - lr) / lr
    return Report(
        "FIVES as a feature generator (table 3)", {"summary": summary}, _tables(session, summary)
    )


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
    """A regression with as many of the crosses as are best on valid; None without a list.

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


def _tables(session: Session, summary: list[Result]) -> list[Table]:
    found = {(one["dataset"], one["method"]): one for one in summary}
    header = ("method", *session.data)

    def auc(name: str, method: str) -> str:
        one = found.get((name, method))
        return f"{Spread(**one['auc'])}{one.get('stars', '')}" if one else "failed"

    def improvement(name: str, method: str) -> str:
        one = found.get((name, method), {})
        if "improvement" not in one:
            return "failed"
        return beside(f"{one['improvement']:+.2f}", paper.IMPROVEMENT.get(method, {}).get(name), 2)

    def average(method: str) -> str:
        every = [found.get((name, method), {}).get("improvement") for name in session.data]
        return "failed" if None in every else f"{statistics.mean(every):+.2f}"

    stars = (
        "Stars: better than the strongest of LR and the other generators, by Welch's t-test, "
        "\\*\\* p < 0.01, \\* p < 0.05."
    )
    return [
        Table(
            "Test AUC",
            header,
            [(label, *(auc(name, key) for name in session.data)) for key, label in LABELS.items()],
            f"Mean and standard deviation over the runs. {stars}",
        ),
        Table(
            "Improvement over LR in %",
            (*header, "average"),
            [
                (label, *(improvement(name, key) for name in session.data), average(key))
                for key, label in LABELS.items()
                if key != "lr"
            ],
            "Of the mean AUC, in brackets the paper's figure.",
        ),
    ]
