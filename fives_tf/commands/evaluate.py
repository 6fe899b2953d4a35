"""`fives evaluate`: judges the model of a run on a split."""

import argparse

from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.quiet import start_xla

HELP = "tell how well the model of a run predicts a split of its dataset"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.add_argument("run", metavar="RUN", help="the run directory")
    parser.add_argument(
        "--split", default="test", metavar="NAME", help="the split (default: %(default)s)"
    )
    parser.add_argument("--dataset", metavar="DIR", help="where the dataset is now, if it moved")
    parser.add_argument(
        "--skip_corrupt", action="store_true", help="leave out shards that hold a corrupt record"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Evaluates and prints the figures."""
    from fives_tf.run import Run

    opened = Run.open(args.run)
    dataset = opened.dataset(args.dataset)
    start_xla()  # late: a mistake in the flags must not wait for it
    from fives_tf.evaluate import evaluate
    from fives_tf.tables import print_table

    report = evaluate(opened, args.split, dataset, args.skip_corrupt)
    if args.json:
        print_json(report.to_json())
        return
    figures = report.evaluation
    layers = [(f"AUC of layer {k}", f"{auc:.5f}") for k, auc in enumerate(figures.output_auc)]
    if len(layers) == 1:  # a fit, whose only output is the prediction
        layers = []
    print_table(
        ("figure", report.split),
        [
            ("rows", f"{figures.rows:,}"),
            ("clicks", f"{report.clicks:,}"),
            ("AUC", f"{figures.auc:.5f}"),
            ("log loss", f"{figures.log_loss:.5f}"),
            *layers,
            ("click rate", f"{report.click_rate:.5f}"),
            ("mean prediction", f"{report.mean_prediction:.5f}"),
            ("models averaged", f"{report.members}"),
        ],
    )
    if args.split != "test":
        print(f"the {opened.kind} has learned from this split; --split test tells of new rows")
