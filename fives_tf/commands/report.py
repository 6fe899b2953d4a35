"""`fives report`: one page that tells what a search found."""

import argparse
import os

from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.errors import UserError
from fives_tf.quiet import start_xla

HELP = "write a page that shows what a search found, how sure that is, and what it is worth"
INTERRUPTED = "; the same command goes on with what it has learned so far"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.add_argument("run", metavar="RUN", help="the run directory of a search")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="where to write the page, a file that ends in .html; what it shows is written beside "
        "it as .json (default: RUN/report.html). RUN must be writable in any case",
    )
    parser.add_argument("--dataset", metavar="DIR", help="where the dataset is now, if it moved")
    parser.add_argument(
        "--skip_corrupt", action="store_true", help="leave out shards that hold a corrupt record"
    )
    parser.add_argument(
        "--title", metavar="TEXT", help="what the page is called (default: by the dataset)"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the report and tells where."""
    from fives_tf import storage
    from fives_tf.run import LOCK, Run

    page = args.out or storage.join(args.run, "report.html")
    stem, ending = os.path.splitext(page)
    if ending != ".html":
        raise UserError(f"--out: expected a file that ends in .html. Received: {args.out}.")
    data = f"{stem}.json"
    Run.open(args.run).adjacency  # noqa: B018  refuses a fit, before anything is computed
    with storage.lock(storage.join(args.run, LOCK)):
        opened = Run.open(args.run)
        dataset = opened.dataset(args.dataset)
        start_xla()  # late: a mistake in the flags must not wait for it
        import json

        from fives_tf.report.data import build
        from fives_tf.report.page import render

        report = build(opened, dataset, args.title, args.skip_corrupt)
        text = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False)
        # Paths may hold bytes that no encoding has; as escapes JSON can have them.
        storage.write(data, text.encode("utf-8", "backslashreplace"))
        storage.write(page, render(report).encode())
    if args.json:
        print_json({"page": page, "data": data})
    else:
        print(f"report: {page}")
