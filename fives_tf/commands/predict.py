"""`fives predict`: scores a whole log with an exported model."""

import argparse
import csv
import dataclasses

from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.errors import UserError
from fives_tf.scored_log import ROWS_AT_ONCE, Scoring

HELP = "score a whole log with an exported model"
TAKES_REST = True  # flags for Beam
INTERRUPTED = "; nothing was written"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.epilog = (
        "Every other flag goes to Beam and needs --runner, such as --runner=FlinkRunner. Beam's "
        "workers write a directory by the name of FILE, with one part-00000-of-00012 for each "
        "piece of the log, in its order, and _SUCCESS when it is whole. Without --runner the log "
        "is scored in this process, into one file."
    )
    parser.add_argument(
        "export",
        metavar="EXPORT",
        help="a version that `fives export` wrote, or the directory above",
    )
    parser.add_argument(
        "--input",
        required=True,
        nargs="+",
        action="extend",
        metavar="LOG",
        help="files or quoted patterns, laid out as the log that was preprocessed; the label and "
        "columns that are no features may be absent, and other columns may be there",
    )
    parser.add_argument(
        "--output",
        required=True,
        metavar="FILE",
        help="the predictions: .parquet, .csv or .csv.gz",
    )
    parser.add_argument(
        "--keep",
        default="",
        metavar="COLUMNS",
        help="columns to write before the probability, as they are read from the log, separated "
        "by commas",
    )
    parser.add_argument(
        "--allow_missing_columns",
        action="store_true",
        help="take a feature whose column is absent as missing in all rows",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is at --output")
    parser.add_argument(
        "--batch",
        type=int,
        default=ROWS_AT_ONCE,
        metavar="N",
        help="rows that go through the model at a time (default: %(default)s)",
    )
    parser.add_argument(
        "--max_bad_fraction",
        type=float,
        default=0.001,
        metavar="PART",
        help="fail if more than this part of the rows is bad; bad rows keep their place and get no "
        "probability (default: %(default)s)",
    )
    parser.add_argument(
        "--piece_bytes",
        type=int,
        metavar="N",
        help="size of the pieces that are read at a time; default: 4 MiB, with a runner by the "
        "size of the log, from 32 to 256 MiB",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Scores the log and prints what it amounts to."""
    if not 0 <= args.max_bad_fraction <= 1:
        raise UserError("--max_bad_fraction: expected a part between 0 and 1.")
    for flag in ("batch", "piece_bytes"):
        value = getattr(args, flag)
        if value is not None and value < 1:
            raise UserError(f"--{flag}: expected at least 1.")
    from fives_tf.exported import Export
    from pipelines.predict import Options, predict

    keep = tuple(dict.fromkeys(name for row in csv.reader([args.keep]) for name in row))
    options = Options(
        scoring=Scoring(keep, args.allow_missing_columns),
        rows_at_once=args.batch,
        piece_bytes=args.piece_bytes,
        max_bad_fraction=args.max_bad_fraction,
        overwrite=args.overwrite,
        beam=_beam_options(args),
    )
    export = Export.open(args.export)
    summary = predict(export, args.input, args.output, options)
    if args.json:
        figures = dataclasses.asdict(summary)
        print_json({"output": args.output, "export": export.path, **figures})
        return
    mean = (
        f", mean probability {summary.mean_probability:.5f}" if summary.bad < summary.rows else ""
    )
    print(f"wrote {args.output}: {summary.rows:,} rows{mean}, by {export.path}")
    if summary.auc is not None:
        print(
            f"AUC {summary.auc:.5f}, log loss {summary.log_loss:.5f} on the {summary.labelled:,} "
            "rows with a label; rows that the model learned from flatter it"
        )
    elif summary.labelled:
        print(f"no AUC: {summary.labelled:,} rows with a label are too many to hold")
    if summary.bad:
        print(f"{summary.bad:,} rows are bad and have no probability; the first:")
        print("\n".join(f"  {reject}" for reject in summary.rejects))


def _beam_options(args: argparse.Namespace) -> object | None:
    if not args.rest:  # and then the user need not wait for Beam to load
        return None
    from pipelines import submission

    return submission.named(args.rest, "predict", [args.export, *args.input, args.output])
