"""`fives search`: searches the useful crosses of a dataset and learns a model with them."""

import argparse
import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

from fives_tf import config
from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.commands.settings import add_setting, given_settings
from fives_tf.quiet import import_tensorflow
from fives_tf.stopping import terminable

if TYPE_CHECKING:
    from fives_tf.search import SearchResult
    from fives_tf.tuning import Trial, Tuning

HELP = "search the useful crosses of a dataset, and learn a model with them"
INTERRUPTED = "; the same command with --resume goes on from here"

_SHOWN = 5  # crosses of each order
_AFTER = {  # shorthands for --after
    "finetune": "the same as --after finetune",
    "from_scratch": "the same as --after from_scratch",
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command: one for each setting of `SearchConfig`, and a few more."""
    # All settings in the usage would hide an error message that follows it.
    parser.usage = "fives search DATASET --run RUN [--resume | --overwrite] [flags]"
    parser.epilog = (
        "A flag counts more than --config, that more than --paper, and that more than the defaults."
    )
    parser.add_argument("dataset", metavar="DATASET", help="the dataset directory")
    parser.add_argument("--run", required=True, metavar="RUN", help="the run directory to write")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a YAML file of settings, named as the flags below; config.yaml of a run is one",
    )
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="go on with a search that was stopped")
    again.add_argument("--overwrite", action="store_true", help="replace the run in --run")
    add_json_flag(parser)
    parser.add_argument(
        "--paper", action="store_true", help="the paper's form of the network and of learning it"
    )
    parser.add_argument(
        "--tune",
        action="store_true",
        help="try several values of order, edge_rate and dim, each combination in a run of its own "
        "below RUN/tune, and search with those of the highest AUC on valid; what is given is not "
        "tried",
    )
    for title, settings in config.groups().items():
        group = parser.add_argument_group(title)
        for setting in settings:
            add_setting(group, setting, _AFTER if setting.name == "after" else {}, config.PAPER)


def run(args: argparse.Namespace) -> None:
    """Searches, and shows the crosses that were found first."""
    settings = read_settings(args)  # a mistake must not wait for TensorFlow
    options = {"paper": args.paper, "resume": args.resume, "overwrite": args.overwrite}
    with terminable():
        import_tensorflow()
        if args.tune:
            from fives_tf.tuning import tune

            tuning = tune(args.dataset, args.run, **options, **settings)
            result = tuning.result
        else:
            from fives_tf.search import search

            tuning, result = None, search(args.dataset, args.run, **options, **settings)
    if not result.is_chief:
        return
    if args.json:
        _print_document(result, tuning)
        return
    if tuning:
        _print_trials(tuning.trials, tuning.best)
    _print_result(result)


def read_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that the flags and the file of --config give, checked."""
    settings = given_settings(args, config.SearchConfig)
    config.SearchConfig.make(args.paper, **settings)
    return settings


def _print_document(result: "SearchResult", tuning: "Tuning | None") -> None:
    from fives_tf.crosses import best_of_orders, to_items

    document = {
        "run": result.run.directory,
        "evaluation": result.evaluation,
        "crosses": to_items(best_of_orders(result.crosses, _SHOWN)),
    }
    if tuning:
        document["trials"] = [
            dataclasses.asdict(trial) | {"best": trial is tuning.best} for trial in tuning.trials
        ]
    print_json(document)


def _print_trials(trials: "list[Trial]", best: "Trial") -> None:
    from fives_tf.tables import print_table

    print_table(
        (*best.settings, "AUC", "log loss", "best"),
        [
            (
                *map(str, trial.settings.values()),
                f"{trial.evaluation['auc']:.5f}",
                f"{trial.evaluation['log_loss']:.5f}",
                "yes" if trial is best else "",
            )
            for trial in trials
        ],
    )


def _print_result(result: "SearchResult") -> None:
    from fives_tf.commands.crosses import print_crosses
    from fives_tf.crosses import best_of_orders

    figures = result.evaluation
    print(f"valid: AUC {figures['auc']:.5f}, log loss {figures['log_loss']:.5f}")
    print_crosses(best_of_orders(result.crosses, _SHOWN))
    directory = shlex.quote(result.run.directory)
    print(f"wrote {directory}; go on with")
    print(f"  fives crosses {directory}")
    if result.run.manifest["fingerprint"]["rows"].get("test"):
        print(f"  fives evaluate {directory} --split test")
    print(f"  fives export {directory} --to exports")
