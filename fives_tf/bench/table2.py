"""Table 2: how well each method predicts."""

from fives_tf.bench import paper, trees
from fives_tf.bench.data import Data
from fives_tf.bench.facts import EXTRA, is_installed
from fives_tf.bench.methods import METHODS
from fives_tf.bench.render import Report, Table, beside
from fives_tf.bench.session import Session, labels, summarize
from fives_tf.bench.statistics import Spread

OURS = ("fives", "fives_paper")


def run(session: Session) -> Report:
    """Tunes and runs all methods, and the trees that are installed."""
    session.tune(METHODS)
    names = labels(METHODS) | {key: one.label for key, one in trees.LIBRARIES.items()}
    rows = {method: lambda data, method=method: session.cell(method, data) for method in METHODS}
    absent = {}
    for library in trees.LIBRARIES:
        if not is_installed(library):
            absent[library] = f"not installed: {EXTRA}"
            continue
        rows[library] = lambda data, library=library: _tree_cell(library, data)
    runs = session.run(rows)
    summary = summarize(runs, OURS, trees.LIBRARIES)
    found = {(one["dataset"], one["method"]): one for one in summary}
    lines = []

    def text(name: str, method: str) -> str:
        one = found.get((name, method))
        if method in absent:
            return absent[method]
        if one is None:
            return "no log" if _lacks_log(session, name, method) else "failed"
        figure = f"{Spread(**one['auc'])}{one.get('stars', '')}"
        return beside(figure, paper.AUC.get(method, {}).get(name))

    for one in summary:
        if "against" in one:
            p = "not tested" if one["p"] is None else f"p = {one['p']:.2g}"
            lines.append(
                f"{one['dataset']}: {names[one['method']]} against "
                f"{names[one['against']]}, the strongest other: {p}"
            )
    table = Table(
        "Test AUC",
        ("method", *session.data),
        [(label, *(text(name, key) for name in session.data)) for key, label in names.items()],
        "Mean and standard deviation over the runs, in brackets the paper's figure. Stars: better "
        "than the strongest other method of the paper, by Welch's t-test, \\*\\* p < 0.01, \\* p < "
        "0.05. Trees are from outside of the paper, and are not tested against.",
    )
    return Report("FIVES as a predictive model (table 2)", {"summary": summary}, [table], {}, lines)


def _tree_cell(library: str, data: Data) -> object:
    return trees.tree_cell(library, data) if trees.has_log(data) else None


def _lacks_log(session: Session, name: str, method: str) -> bool:
    return method in trees.LIBRARIES and not trees.has_log(session.data[name][0])
