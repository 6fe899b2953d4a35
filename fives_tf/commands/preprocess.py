"""`fives preprocess`: turns a raw log into a dataset directory."""

import argparse

from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.errors import UserError

HELP = "turn a raw click log into a dataset directory of discretized TFRecords"
TAKES_REST = True  # flags for Beam
INTERRUPTED = "; the same command with --resume goes on from here"

_SPLITS = ("train", "valid", "test")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.epilog = (
        "Every other flag goes to Beam, such as --runner=FlinkRunner --flink_master=HOST:PORT; add "
        "--shared_paths if local paths are the same on every worker, as on an NFS mount. Without "
        "--runner the pipeline runs in this process and needs no network."
    )
    parser.add_argument("log", nargs="+", metavar="LOG", help="files or quoted patterns")
    parser.add_argument("--schema", required=True, metavar="FILE", help="what the columns mean")
    parser.add_argument("--out", required=True, metavar="DIR", help="the dataset directory")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with an unfinished run")
    again.add_argument("--overwrite", action="store_true", help="replace what is in --out")
    parser.add_argument(
        "--shards",
        default="",
        metavar="N",
        help="number of files: of train, the others in proportion (16), or of each split "
        "(train=16,valid=2,test=2); default: one for 200,000 rows, at least 4",
    )
    parser.add_argument("--gzip", action="store_true", help="compress the TFRecords")
    parser.add_argument(
        "--max_bad_fraction",
        type=float,
        default=0.001,
        metavar="PART",
        help="fail if more than this part of the rows is bad (default: %(default)s)",
    )
    parser.add_argument(
        "--piece_bytes",
        type=int,
        metavar="N",
        help="size of the pieces that workers read at a time; default: by the size of the log, "
        "from 16 to 256 MiB",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="workers of the in-process runner; default: one a processor core",
    )
    parser.add_argument(
        "--worker_kind",
        choices=("threads", "processes"),
        default="threads",
        help="what those workers are (default: %(default)s)",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Preprocesses the log and says where the dataset is."""
    shards = _read_shards(args.shards)
    if not 0 <= args.max_bad_fraction <= 1:
        raise UserError("--max_bad_fraction: expected a part between 0 and 1.")
    if args.workers < 0:
        raise UserError("--workers: expected a number from 1 on, or 0 for one a processor core.")
    if args.piece_bytes is not None and args.piece_bytes < 1:
        raise UserError("--piece_bytes: expected at least 1.")
    from fives_tf.describe import describe_splits
    from fives_tf.schema import Schema
    from pipelines import runner, submission
    from pipelines.preprocess import Options, preprocess

    beam = runner.pipeline_options(args.rest, args.workers, args.worker_kind)
    submission.prepare(beam, [*args.log, args.out])
    options = Options(
        shards=shards,
        gzip=args.gzip,
        piece_bytes=args.piece_bytes,
        max_bad_fraction=args.max_bad_fraction,
        resume=args.resume,
        overwrite=args.overwrite,
        beam=beam,
    )
    dataset = preprocess(args.log, Schema.load(args.schema), args.out, options)
    if args.json:
        rejected = dataset.manifest["rejected"]
        print_json({"out": args.out, "splits": describe_splits(dataset), "rejected": rejected})
        return
    rows = ", ".join(f"{split.rows:,} {name}" for name, split in dataset.splits.items())
    print(f"wrote {args.out}: {rows} rows")
    if dataset.manifest["rejected"]:
        print(f"set aside {dataset.manifest['rejected']:,} bad rows in {args.out}/rejected")
    print(f"look at it with `fives describe {args.out}`")


def _read_shards(text: str) -> dict[str, int]:
    """Reads `16` or `train=16,valid=2,test=2`."""
    shards: dict[str, int] = {}
    for item in filter(None, text.split(",")):
        name, _, number = item.rpartition("=")
        name = name or "train"
        if name not in _SPLITS or not number.isdigit() or int(number) < 1:
            raise UserError(
                "--shards: expected a number or a list such as train=16,valid=2,test=2. "
                f"Received: {text!r}."
            )
        shards[name] = int(number)
    return shards
