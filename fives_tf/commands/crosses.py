"""`fives crosses`: lists the crosses that a search found, or those of a file."""

import argparse
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from fives_tf import storage
from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.cross_files import check_crosses, named_dataset, read_crosses
from fives_tf.errors import UserError

if TYPE_CHECKING:
    from fives_tf.crosses import Cross
    from fives_tf.dataset import Dataset
    from fives_tf.run import Run

HELP = "list the crosses of a search or of a file, as a table, as JSON or as SQL"


@dataclasses.dataclass(frozen=True)
class _List:
    """Crosses, and how to find out more of their fields.

    Attributes:
        crosses: The crosses that the flags ask for, those to list first in front.
        columns: Gives the column that each field is made from.
        dataset: Opens the dataset.
        digits: How many of a score tell the crosses apart: those of `fives generate` may be small.
    """

    crosses: "list[Cross]"
    columns: Callable[[], dict[str, str]]
    dataset: "Callable[[], Dataset]"
    digits: int = 4


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.add_argument(
        "crosses",
        metavar="RUN|FILE",
        help="the run directory; or a crosses.json, such as `fives generate` writes, whose fields "
        "SQL and --truth look up in --dataset",
    )
    parser.add_argument(
        "--top",
        type=int,
        default=20,
        metavar="N",
        help="how many crosses of each order, of the 1,000 that a run keeps; with --rank=gain, how "
        "many in all (default: %(default)s)",
    )
    parser.add_argument(
        "--rank",
        choices=("score", "gain"),
        default="score",
        help="by FIVES' score, each order for itself, or in the order of a FILE; or by how much a "
        "cross adds to a logistic regression on held-out rows, which is known of the short list, "
        "60 of each order, and puts all orders in one row (default: %(default)s)",
    )
    parser.add_argument("--order", type=int, metavar="N", help="only crosses of this order")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format",
        choices=("table", "json", "sql"),
        default="table",
        help="a table, the form of crosses.json, or a SELECT that adds the crosses to the table "
        "`log` (default: %(default)s)",
    )
    add_json_flag(form)
    parser.add_argument(
        "--dialect",
        choices=("ansi", "bigquery", "spark", "hive"),
        help="the SQL of which system; ansi is for DuckDB, PostgreSQL and Trino (default: ansi)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--edges",
        action="store_true",
        help="only crosses whose edges all count, by the thresholds of the search",
    )
    which.add_argument(
        "--thresholds",
        metavar="LIST",
        help="only crosses whose edges all have at least these strengths in the soft adjacency "
        "tensor: one number for all layers, or one for each, such as 0.6,0.7",
    )
    parser.add_argument(
        "--truth",
        metavar="FILE",
        help="the truth.json of a synthetic log: mark its crosses in the table, and tell at which "
        "rank each was found; in JSON as `planted`",
    )
    parser.add_argument(
        "--dataset",
        metavar="DIR",
        help="where the dataset is now, if it moved, for SQL and gains; or that of a FILE",
    )


def run(args: argparse.Namespace) -> None:
    """Prints the crosses."""
    from fives_tf.crosses import best_of_orders

    if args.top < 1:
        raise UserError(f"--top: expected at least 1. Received: {args.top}.")
    form = "json" if args.json else args.format
    if args.truth and form == "sql":
        raise UserError("--truth: marks crosses in a table or in JSON; leave --format out.")
    if args.dialect and form != "sql":
        raise UserError("--dialect: is for SQL; add --format sql.")
    found = (_of_file if _is_file(args.crosses) else _of_run)(args)
    crosses = found.crosses
    best = crosses[: args.top] if args.rank == "gain" else best_of_orders(crosses, args.top)
    if form == "json":
        _print_document(found, best, args.truth)
    elif form == "sql":
        from fives_tf.sql import select

        dataset = found.dataset()
        trim = dataset.schema.format.trim
        print(select(best, dataset.encoding, trim=trim, dialect=args.dialect or "ansi"))
    elif args.truth:
        _print_with_truth(found, best, args.truth)
    else:
        print_crosses(best, digits=found.digits)


def print_crosses(
    crosses: "list[Cross]", planted: list[bool] | None = None, digits: int = 4
) -> None:
    """Prints crosses as a table, scores with so many digits; those that are planted with a mark."""
    from fives_tf.tables import print_table

    header = ("cross", "order", "score", "AUC", "gain", *(() if planted is None else ("planted",)))
    marks = [()] * len(crosses) if planted is None else [("yes" if p else "",) for p in planted]
    print_table(
        header,
        [
            (
                cross.name,
                str(cross.order),
                f"{cross.score:.{digits}f}",
                "" if cross.auc is None else f"{cross.auc:.4f}",
                "" if cross.gain is None else f"{cross.gain:.6f}",
                *mark,
            )
            for cross, mark in zip(crosses, marks, strict=True)
        ],
    )


def _is_file(path: str) -> bool:
    return not storage.is_directory(path) and (path.endswith(".json") or storage.exists(path))


def _of_file(args: argparse.Namespace) -> _List:
    """The crosses of a file, in its order."""
    from fives_tf.crosses import by_gain

    for flag in ("edges", "thresholds"):
        if getattr(args, flag) not in (None, False):
            raise UserError(f"--{flag}: is for the run of a search; {args.crosses} has no edges.")
    crosses = read_crosses(args.crosses)
    orders = sorted({cross.order for cross in crosses})
    if args.order not in (None, *orders):
        known = ", ".join(map(str, orders))
        raise UserError(
            f"--order: {args.crosses} has crosses of the orders {known}. Received: {args.order}."
        )
    if args.rank == "gain":
        crosses = by_gain(crosses)
        if not crosses:
            raise UserError(
                f"--rank: no cross of {args.crosses} has a gain; `fives fit --crosses "
                f"{args.crosses}` finds them out, and `fives crosses` of its run lists them."
            )

    def dataset() -> "Dataset":
        opened = named_dataset(args.dataset)
        check_crosses(crosses, args.crosses, opened)
        return opened

    return _List(
        [cross for cross in crosses if args.order in (None, cross.order)],
        lambda: {field.name: field.column for field in dataset().encoding.fields},
        dataset,
        digits=7,
    )


def _of_run(args: argparse.Namespace) -> _List:
    """The crosses of a run, by score each order for itself, or by gain."""
    from fives_tf.run import Run

    opened = Run.open(args.crosses)

    def columns() -> dict[str, str]:
        adjacency = opened.adjacency
        return dict(zip(adjacency.fields.tolist(), adjacency.columns.tolist(), strict=True))

    return _List(_select(opened, args), columns, lambda: opened.dataset(args.dataset))


def _select(opened: "Run", args: argparse.Namespace) -> "list[Cross]":
    """The crosses that the flags ask for, the best first, by score each order for itself."""
    from fives_tf.crosses import by_gain

    order = _highest_order(opened)
    if args.order is not None and not 2 <= args.order <= order:
        raise UserError(
            f"--order: the run has crosses of the orders 2 to {order}. Received: {args.order}."
        )
    if args.rank == "gain":
        from fives_tf.restore import ranked_crosses

        ranked_crosses(opened, opened.dataset(args.dataset) if args.dataset else None)
    if args.thresholds is not None:
        crosses = opened.edge_crosses(_read_thresholds(args.thresholds, order - 1))
    else:
        crosses = opened.edge_crosses() if args.edges else opened.crosses
    crosses = by_gain(crosses) if args.rank == "gain" else crosses
    return [cross for cross in crosses if args.order in (None, cross.order)]


def _highest_order(opened: "Run") -> int:
    """The highest order that the crosses of a run may have."""
    from fives_tf.run import SEARCH

    if opened.kind == SEARCH:
        return opened.config.order
    return max((cross.order for cross in opened.crosses), default=2)


def _read_thresholds(text: str, layers: int) -> list[float]:
    try:
        thresholds = [float(part) for part in text.split(",")]
    except ValueError:
        thresholds = []
    if len(thresholds) == 1:
        thresholds *= layers
    if len(thresholds) != layers:
        raise UserError(
            f"--thresholds: expected one number, or {layers} of them separated by commas, one for "
            f"each layer above layer 0. Received: {text!r}."
        )
    return thresholds


def _print_document(found: _List, best: "list[Cross]", truth: str | None) -> None:
    """Prints what crosses.json has, and where the planted ones are, if there is a truth."""
    from fives_tf.crosses import to_document
    from fives_tf.truth import find_planted, read_truth

    document = to_document(best)
    if truth:
        planted = find_planted(read_truth(truth), found.crosses, found.columns())
        document["planted"] = [
            {"name": one.name, "order": one.order, **dataclasses.asdict(one)} for one in planted
        ]
    print_json(document)


def _print_with_truth(found: _List, best: "list[Cross]", truth: str) -> None:
    from fives_tf.truth import find_planted, is_planted, read_truth

    planted, columns = read_truth(truth), found.columns()
    print_crosses(best, [is_planted(cross, planted, columns) for cross in best], found.digits)
    for one in find_planted(planted, found.crosses, columns):
        where = f"rank {one.rank:,}" if one.rank else "not"
        print(f"planted {one.name}: {where} among {one.among:,} crosses of order {one.order}")
