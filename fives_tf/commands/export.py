"""`fives export`: writes the model of a run as a SavedModel that TensorFlow Serving takes."""

import argparse
import os

from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.quiet import start_xla

HELP = "write the model of a run as a SavedModel for TensorFlow Serving"
INTERRUPTED = "; no version was written, the same command starts again"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.add_argument("run", metavar="RUN", help="the run directory")
    parser.add_argument(
        "--to",
        required=True,
        metavar="DIR",
        help="the directory of the versions, the base path of TensorFlow Serving; a server that "
        "polls it sees the new version when it is whole",
    )
    parser.add_argument(
        "--version",
        type=int,
        metavar="N",
        help="the number of the version (default: the next free one)",
    )
    parser.add_argument(
        "--light",
        action="store_true",
        help="export the light model: a logistic regression on fields and crosses, which answers "
        "faster; it is learned now, once for a run",
    )
    parser.add_argument("--dataset", metavar="DIR", help="where the dataset is now, if it moved")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Exports and tells what was written."""
    from fives_tf.exported import check_base
    from fives_tf.run import Run

    check_base(args.to, args.version)
    opened = Run.open(args.run)
    opened.dataset(args.dataset)
    start_xla()  # late: a mistake in the flags must not wait for it
    from fives_tf.serving.versions import export

    written = export(opened, args.to, version=args.version, light=args.light, dataset=args.dataset)
    if args.json:
        version = int(os.path.basename(written.path))
        print_json({"run": args.run, "path": written.path, "version": version})
    else:
        print(written.path)
