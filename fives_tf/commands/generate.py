"""`fives generate`: chooses crosses by other ways than FIVES."""

import argparse
import shlex

from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.errors import UserError
from fives_tf.generators import METHODS
from fives_tf.quiet import import_tensorflow
from fives_tf.stopping import terminable

HELP = "choose crosses by other ways than FIVES: at random, by mutual information, by AutoCross"
TAKES_REST = True  # flags for Beam
INTERRUPTED = "; nothing was written"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.usage = (
        "fives generate DATASET --method random|cmi|autocross --out FILE [--count N] [--order N] "
        "[--seed N] [--overwrite] [flags for Beam]"
    )
    parser.epilog = (
        "The file has the form of crosses.json, so that `fives fit DATASET --crosses FILE` and "
        "`fives materialize FILE --dataset DATASET` take it. With --method cmi every other flag "
        "goes to Beam, such as --runner=FlinkRunner; without one, rows that fit in --memory are "
        "counted there, and others by Beam in this process."
    )
    parser.add_argument("dataset", metavar="DATASET", help="the dataset directory")
    parser.add_argument(
        "--method",
        required=True,
        choices=METHODS,
        help="random: each cross with the same chance; cmi: by conditional mutual information, "
        "what a cross tells of the clicks beyond its parts; autocross: one after the other, each "
        "time the one that lowers the log loss of a logistic regression most",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="the file to write")
    parser.add_argument(
        "--count",
        type=int,
        default=20,
        metavar="N",
        help="how many crosses of each order; of autocross, how many in all, and fewer if no more "
        "help (default: %(default)s)",
    )
    parser.add_argument(
        "--order", type=int, default=2, metavar="N", help="highest order (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="decides what random draws and how autocross shuffles (default: %(default)s)",
    )
    parser.add_argument(
        "--memory",
        type=int,
        default=2 << 30,
        metavar="BYTES",
        help="up to how many bytes all rows are held in memory (default: %(default)s)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace what is at --out")
    add_json_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Chooses, writes and shows crosses."""
    from fives_tf import storage
    from fives_tf.crosses import to_items, to_json
    from fives_tf.tables import print_table

    if storage.is_directory(args.out):
        raise UserError(f"{args.out}: is a directory; name a file, such as crosses.json.")
    if storage.exists(args.out) and not args.overwrite:
        raise UserError(f"{args.out}: exists; choose another name, or give --overwrite.")
    with terminable():
        import_tensorflow()
        from fives_tf.generators import generate

        crosses = generate(
            args.dataset,
            args.method,
            count=args.count,
            order=args.order,
            seed=args.seed,
            memory=args.memory,
            beam=_beam(args),
            beside=args.out,
        )
        if not crosses:
            raise UserError(
                f"{args.dataset}: no cross lowers the log loss of a logistic regression on the "
                "train rows that decide; nothing was written."
            )
        storage.write(args.out, to_json(crosses))
    if args.json:
        print_json({"out": args.out, "method": args.method, "crosses": to_items(crosses)})
        return
    print_table(
        ("cross", "order", "score"),
        [(cross.name, str(cross.order), f"{cross.score:.7f}") for cross in crosses],
    )
    dataset, out = shlex.quote(args.dataset), shlex.quote(args.out)
    print(f"wrote {out}; go on with")
    print(f"  fives fit {dataset} --run RUN --crosses {out}")


def _beam(args: argparse.Namespace) -> object:
    """Beam's options, if there are any."""
    if not args.rest:
        return None
    from pipelines import submission

    return submission.named(args.rest, "generate", [args.dataset, args.out])
