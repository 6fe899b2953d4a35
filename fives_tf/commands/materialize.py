"""`fives materialize`: writes crosses as columns of a log, or as fields of a dataset."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from fives_tf import storage
from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.cross_files import check_crosses, named_dataset, read_crosses
from fives_tf.errors import UserError

if TYPE_CHECKING:
    from fives_tf.cross_encoding import CrossEncoding
    from fives_tf.crosses import Cross
    from fives_tf.dataset import Dataset

HELP = "write crosses as further columns of a log, or as further fields of a dataset"
TAKES_REST = True  # flags for Beam
INTERRUPTED = "; nothing was written, or the same command with --resume goes on from here"

_TOP = 10  # crosses of a run that are taken unless said
_GIBIBYTE = 1 << 30


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.epilog = (
        "If --out is a file, it gets the rows of the log with their columns, as text, and one more "
        "column for each cross. If it is a directory, it becomes a dataset with the crosses as "
        "further fields: of the dataset that was searched, or of a log that is preprocessed by the "
        "same schema first. Every other flag goes to Beam, such as --runner=FlinkRunner; with a "
        "runner, a log is written as a directory of parts."
    )
    parser.add_argument(
        "crosses", metavar="CROSSES", help="a run directory, or a file such as its crosses.json"
    )
    parser.add_argument(
        "--out",
        required=True,
        metavar="OUT",
        help="a file: .parquet, .csv or .csv.gz; or the directory of a dataset",
    )
    parser.add_argument(
        "--input",
        nargs="+",
        action="extend",
        metavar="LOG",
        help="files or quoted patterns of the log that the crosses are added to",
    )
    parser.add_argument(
        "--dataset",
        metavar="DIR",
        help="the dataset whose fields the crosses are made of; of a run it is known",
    )
    parser.add_argument(
        "--top",
        type=int,
        metavar="N",
        help=f"how many crosses to take; default: {_TOP} of a run, by gain, all of a file, in its "
        "order",
    )
    parser.add_argument(
        "--values",
        choices=("text", "ids"),
        default="text",
        help="for a log: the values of a cross as text, as `fives crosses --format=sql` computes "
        "them, or the ids that a dataset has: 0 missing, 1 rare, from 2 on by falling count "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--min_count",
        type=int,
        default=2,
        metavar="N",
        help="how often a combination must occur to get an id of its own (default: %(default)s)",
    )
    parser.add_argument(
        "--hash_buckets",
        type=int,
        metavar="N",
        help="hash the combinations of a cross that can have more than N of them into N ids",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with an unfinished dataset")
    again.add_argument("--overwrite", action="store_true", help="replace what is at --out")
    parser.add_argument(
        "--max_bad_fraction",
        type=float,
        default=0.001,
        metavar="PART",
        help="fail if more than this part of the rows of a log is bad; bad rows keep their place "
        "and get no crosses (default: %(default)s)",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the crosses and says where they are."""
    if not 0 <= args.max_bad_fraction <= 1:
        raise UserError("--max_bad_fraction: expected a part between 0 and 1.")
    for flag in ("top", "min_count", "hash_buckets"):
        value = getattr(args, flag)
        if value is not None and value < 1:
            raise UserError(f"--{flag}: expected at least 1. Received: {value}.")
    from pipelines.log_writer import ENDINGS

    is_log = args.out.endswith(ENDINGS)
    if not is_log and args.input and "." in os.path.basename(args.out):
        raise UserError(
            f"--out: {args.out} is no name of a log, which ends in {', '.join(ENDINGS)}, nor that "
            "of a dataset directory, which has no ending."
        )
    if is_log and not args.input:
        raise UserError("--input: name the log that the crosses are added to.")
    if is_log and args.resume:
        raise UserError("--resume: is for a dataset; a log is written anew with --overwrite.")
    if not is_log and args.values != "text":
        raise UserError("--values: is for a log; a dataset has ids in any case.")
    crosses, dataset = _open(args)
    if args.values == "ids" or not is_log:
        _warn_of_many(crosses, dataset, args.hash_buckets)
    (_write_log if is_log else _write_dataset)(args, crosses, dataset)


def _open(args: argparse.Namespace) -> "tuple[list[Cross], Dataset]":
    """The crosses, and the dataset whose fields they are made of."""
    if storage.is_directory(args.crosses):
        from fives_tf.restore import ranked_crosses
        from fives_tf.run import Run

        opened = Run.open(args.crosses)
        dataset = opened.dataset(args.dataset)
        crosses = ranked_crosses(opened, dataset)[: args.top or _TOP]
    else:
        crosses = read_crosses(args.crosses)[: args.top]
        dataset = named_dataset(args.dataset)
    check_crosses(crosses, args.crosses, dataset)
    return crosses, dataset


def _warn_of_many(crosses: "list[Cross]", dataset: "Dataset", hash_buckets: int | None) -> None:
    """Says what it costs to count the combinations of crosses that may have very many."""
    from fives_tf.cross_fitting import MANY_VALUES, counting_bytes, possible_values

    rows = sum(dataset.split(name).rows for name in ("train", "valid"))
    encoding = dataset.encoding
    for cross in crosses:
        possible = possible_values(cross, encoding)
        cost = counting_bytes(cross, encoding, rows) / _GIBIBYTE
        if hash_buckets is None and (possible >= MANY_VALUES or cost >= 1):
            print(
                f"warning: the cross `{cross.name}` can have {possible:,} values; to count those "
                f"that {rows:,} rows have takes up to {cost:.1f} GiB of memory. "
                "--hash_buckets=1000000 would do without.",
                file=sys.stderr,
            )


def _write_log(args: argparse.Namespace, crosses: "list[Cross]", dataset: "Dataset") -> None:
    from fives_tf.crosses import to_items
    from pipelines import count_crosses, cross_log, rowwise, runner, submission

    named = submission.named(args.rest, "materialize", [args.dataset, *args.input, args.out])

    def fit() -> "CrossEncoding":
        rules = {"min_count": args.min_count, "hash_buckets": args.hash_buckets}
        beam = named or runner.pipeline_options([])
        return count_crosses.fit_on_dataset(dataset, crosses, beam, args.out, **rules)

    options = rowwise.Options(
        max_bad_fraction=args.max_bad_fraction, overwrite=args.overwrite, beam=named
    )
    tally = cross_log.write_cross_log(
        args.input, args.out, dataset, crosses, options, fit if args.values == "ids" else None
    )
    if args.json:
        counts = {"rows": tally.rows, "bad": tally.bad, "rejects": tally.rejects}
        print_json({"out": args.out, **counts, "crosses": to_items(crosses)})
        return
    print(f"wrote {args.out}: {tally.rows:,} rows, {len(crosses)} crosses")
    if tally.bad:
        print(f"{tally.bad:,} rows are bad and have no crosses; the first:")
        print("\n".join(f"  {reject}" for reject in tally.rejects))


def _write_dataset(args: argparse.Namespace, crosses: "list[Cross]", dataset: "Dataset") -> None:
    from fives_tf.crosses import to_items
    from fives_tf.describe import describe_splits
    from pipelines import preprocess, runner, submission
    from pipelines.add_crosses import Options, add_crosses, make_room

    beam = runner.pipeline_options(args.rest)
    submission.prepare(beam, [args.dataset, *(args.input or []), args.out])
    again = {"resume": args.resume, "overwrite": args.overwrite, "beam": beam}
    source = dataset
    if args.input:
        make_room(args.out, args.overwrite)
        fields = preprocess.Options(max_bad_fraction=args.max_bad_fraction, **again)
        plain = f"{args.out.rstrip('/')}.fields"
        source = preprocess.preprocess(args.input, dataset.schema, plain, fields)
    options = Options(min_count=args.min_count, hash_buckets=args.hash_buckets, **again)
    made = add_crosses(source, crosses, args.out, options)
    if args.input:
        storage.remove(source.directory)
    if args.json:
        splits = describe_splits(made)
        print_json({"out": args.out, "splits": splits, "crosses": to_items(crosses)})
        return
    rows = ", ".join(f"{split.rows:,} {name}" for name, split in made.splits.items())
    print(f"wrote {args.out}: {rows} rows, {len(crosses)} crosses among the fields")
    print(f"learn from it with `fives fit {args.out} --run RUN --model lr`")
