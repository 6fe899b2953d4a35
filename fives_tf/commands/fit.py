"""`fives fit`: fits a light model to a dataset, with crosses or without."""

import argparse
import shlex
from typing import TYPE_CHECKING

from fives_tf import config
from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.commands.settings import add_setting, given_settings
from fives_tf.quiet import import_tensorflow
from fives_tf.stopping import terminable

if TYPE_CHECKING:
    from fives_tf.fit import FitResult

HELP = "fit a light model, such as a logistic regression, to a dataset and its crosses"
INTERRUPTED = "; the same command with --resume goes on from here"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command: one for each setting of `FitConfig`, and a few more."""
    parser.usage = (
        "fives fit DATASET --run RUN [--model NAME] [--crosses RUN|FILE] "
        "[--resume | --overwrite] [flags]"
    )
    parser.epilog = (
        "A flag counts more than --config, and that more than the defaults. `fives evaluate`, "
        "`fives export` and `fives predict` take the run as they take that of a search."
    )
    parser.add_argument("dataset", metavar="DATASET", help="the dataset directory")
    parser.add_argument("--run", required=True, metavar="RUN", help="the run directory to write")
    parser.add_argument(
        "--crosses",
        metavar="RUN|FILE",
        help="the run directory of a search, or a crosses.json: its crosses may be fields of the "
        "model (default: no crosses)",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a YAML file of settings, named as the flags below; config.yaml of a fit is one",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with a fit that was stopped")
    again.add_argument("--overwrite", action="store_true", help="replace the run in --run")
    add_json_flag(parser)
    for title, settings in config.groups(config.FitConfig).items():
        group = parser.add_argument_group(title)
        for setting in settings:
            add_setting(group, setting)


def run(args: argparse.Namespace) -> None:
    """Fits, and shows how good the model is on valid."""
    settings = given_settings(args, config.FitConfig)
    checked = config.FitConfig(**settings)  # a mistake must not wait for TensorFlow
    with terminable():
        import_tensorflow()
        from fives_tf.fit import fit

        result = fit(
            args.dataset,
            args.run,
            checked,
            crosses=args.crosses,
            resume=args.resume,
            overwrite=args.overwrite,
        )
    if result.is_chief:
        (_print_document if args.json else _print_result)(result)


def _print_document(result: "FitResult") -> None:
    from fives_tf.crosses import to_items

    print_json(
        {
            "run": result.run.directory,
            "model": result.config.model,
            "evaluation": result.evaluation,
            "crosses": to_items(result.crosses),
        }
    )


def _print_result(result: "FitResult") -> None:
    figures, count = result.evaluation, len(result.crosses)
    print(f"valid: AUC {figures['auc']:.5f}, log loss {figures['log_loss']:.5f}")
    print(f"{result.config.model} with {count} {'cross' if count == 1 else 'crosses'}")
    directory = shlex.quote(result.run.directory)
    print(f"wrote {directory}; go on with")
    if count:
        print(f"  fives crosses {directory}")
    if result.run.manifest["fingerprint"]["rows"].get("test"):
        print(f"  fives evaluate {directory} --split test")
    print(f"  fives export {directory} --to exports")
