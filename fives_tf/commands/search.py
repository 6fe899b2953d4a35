"""`fives search`: searches the useful crosses of a dataset and learns a model with them."""

import argparse
import dataclasses
import shlex
from typing import TYPE_CHECKING, Any

from fives_tf import config
from fives_tf.quiet import import_tensorflow
from fives_tf.stopping import terminable

if TYPE_CHECKING:
    from fives_tf.search import SearchResult
    from fives_tf.tuning import Trial

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
            _add_setting(group, setting)


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
    if tuning:
        _print_trials(tuning.trials, tuning.best)
    _print_result(result)


def read_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that the flags and the file of --config give, checked."""
    settings = config.load_settings(args.config) if args.config else {}
    given = {setting.name: getattr(args, setting.name) for setting in config.settings()}
    settings |= {name: value for name, value in given.items() if value is not None}
    config.SearchConfig.make(args.paper, **settings)
    return settings


def _add_setting(group: Any, setting: dataclasses.Field) -> None:
    """Adds the flag of a setting; its value is None unless it is given."""
    facts = setting.metadata
    options: dict[str, Any] = {"dest": setting.name, "help": _help(setting)}
    flags = [f"--{setting.name}"]
    if facts["kind"] == "flag":
        flags.append(f"--no_{setting.name}")
        options["action"] = _YesOrNo
    elif facts["kind"] == "choice":
        options["choices"] = facts["choices"]
    else:
        options["type"], options["metavar"] = _TYPES[facts["kind"]]
    if setting.name == "after":
        group = group.add_mutually_exclusive_group()
        for name, text in _AFTER.items():
            group.add_argument(
                f"--{name}", dest="after", action="store_const", const=name, help=text
            )
    group.add_argument(*flags, **options)


def _help(setting: dataclasses.Field) -> str:
    """The help of a setting with its default, and the paper's if that differs."""
    defaults = []
    if setting.default not in (None, (), ""):
        defaults.append(f"default: {_text(setting.default)}")
    paper = config.PAPER.get(setting.name, setting.default)
    if paper != setting.default:
        defaults.append(f"--paper: {_text(paper)}")
    text = f"{setting.metadata['help']} ({'; '.join(defaults)})" if defaults else None
    return (text or setting.metadata["help"]).replace("%", "%%")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


class _YesOrNo(argparse.Action):
    """A flag `--name` for yes and `--no_name` for no."""

    def __init__(self, **options: Any):
        super().__init__(nargs=0, **options)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, not option_string.startswith("--no_"))


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _unexpected("a whole number", text) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _unexpected("a number", text) from None


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part)
    except ValueError:
        raise _unexpected("numbers separated by commas", text) from None


def _unexpected(expected: str, text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"expected {expected}. Received: {text!r}.")


_TYPES = {
    "integer": (_integer, "N"),
    "number": (_number, "X"),
    "numbers": (_numbers, "LIST"),
    "text": (str, "TEXT"),
}


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
