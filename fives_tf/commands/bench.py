"""`fives bench`: reproduces the tables and figures of the paper."""

import argparse
import json
import os
from pathlib import Path

from fives_tf import storage
from fives_tf.bench.given import add_set_flag, read_set_flag
from fives_tf.bench.sources import SOURCES, add_data_flag
from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.config import FitConfig, SearchConfig
from fives_tf.quiet import import_tensorflow
from fives_tf.stopping import terminable

HELP = "reproduce the tables and figures of the paper, on public data or on a dataset of your own"
INTERRUPTED = "; the same command goes on from here"

FAILED = 1  # some cells are missing
RESERVED = (
    *("seed", "model", "members"),
    # What the rows of an experiment differ by.
    *("top", "rank", "dependencies", "rescaling", "random_adjacency", "after"),
)
MOST_JOBS = 4  # each has a TensorFlow of its own in memory


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.usage = (
        "fives bench EXPERIMENT [--datasets NAME|DIR,...] [--data DIR] [--work DIR] [--out DIR] "
        "[--methods NAME,...] [--quick] [--runs N] [--jobs N]"
    )
    parser.epilog = (
        "Each finished run stays in --work, and experiments share them; a command that was "
        "stopped goes on where it stood. After a change to the program, choose another --work."
    )
    parser.add_argument(
        "experiment",
        metavar="EXPERIMENT",
        help="table2: how well each method predicts; table3: what the crosses of each generator "
        "add to a logistic regression; ablation: FIVES without its parts; usefulness: whether the "
        "edges it finds are useful; efficiency: how fast the networks learn, and how long an "
        "epoch takes",
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("bench"),
        metavar="DIR",
        help="where what is computed stays (default: %(default)s)",
    )
    parser.add_argument(
        "--datasets",
        default=",".join(SOURCES),
        metavar="NAME|DIR,...",
        help="public data sets by name, or dataset directories (default: %(default)s)",
    )
    add_data_flag(parser)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where results go (default: results in --work)"
    )
    parser.add_argument(
        "--methods",
        metavar="NAME,...",
        help="the methods of table2 to compare, such as fives,dnn,lightgbm (default: all)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="tune nothing, and run each method twice"
    )
    parser.add_argument(
        "--runs",
        type=int,
        metavar="N",
        help="runs of each method, with the seeds from 0 on (default: 10; with --quick: 2)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(os.cpu_count() or 1, MOST_JOBS),
        metavar="N",
        help="how many runs are done at a time, each with its part of the cores "
        f"(default: the number of cores, at most {MOST_JOBS})",
    )
    parser.add_argument(
        "--keep_runs", action="store_true", help="keep the run directories of finished runs"
    )
    add_set_flag(parser)
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Runs an experiment, writes its results and prints the tables."""
    # A mistake must not wait for TensorFlow.
    given = read_set_flag(args.set, RESERVED, (FitConfig, SearchConfig))
    with terminable():
        import_tensorflow()
        from fives_tf.bench import experiments
        from fives_tf.bench.render import show

        runs = experiments.QUICK_RUNS if args.quick else experiments.RUNS
        out = args.out or args.work / "results"
        report, failures = experiments.run(
            experiments.Options(
                experiment=args.experiment,
                datasets=args.datasets.split(","),
                data=args.data,
                work=args.work,
                out=out,
                quick=args.quick,
                runs=runs if args.runs is None else args.runs,
                jobs=args.jobs,
                keep_runs=args.keep_runs,
                given=given,
                methods=() if args.methods is None else tuple(args.methods.split(",")),
            )
        )
    if args.json:
        print_json(json.loads(storage.read(f"{out / args.experiment}.json")))
    else:
        show(report)
        print(f"wrote {out / args.experiment}.json, .md and {len(report.plots)} plots")
        for name, message in failures.items():
            print(f"{name}: FAILED: {message}")
    return FAILED if failures else 0
