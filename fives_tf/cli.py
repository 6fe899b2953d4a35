"""The command `fives <verb>`: flags in, one call, a readable result out."""

import argparse
import importlib
import logging
import os
import signal
import sys

from absl import app
from absl import logging as absl_logging
from absl.flags import argparse_flags

from fives_tf import __version__
from fives_tf.errors import Interrupted, UserError, WorkerLostError

VERBS = (
    "synth",
    "schema",
    "preprocess",
    "describe",
    "search",
    "fit",
    "crosses",
    "report",
    "generate",
    "materialize",
    "evaluate",
    "export",
    "predict",
    "launch",
    "bench",
    "doctor",
    "completion",
)
USER_ERROR = 2
TRY_AGAIN = 138  # as if by SIGUSR1, by which Kubeflow knows what is worth another try
SIGNALLED = 128  # a shell adds the number of the signal


def main() -> None:
    """The console script."""
    app.run(_run, flags_parser=parse_flags)


def parse_flags(argv: list[str]) -> argparse.Namespace:
    """Reads the command line; what a verb does not know is kept in `rest` if it takes more."""
    parser = make_parser()
    args, rest = parser.parse_known_args(argv[1:])
    if rest and not getattr(args.command, "TAKES_REST", False):
        parser.error(f"unknown flag {rest[0]}; see `fives {args.verb} --help`")
    args.rest = rest
    return args


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line, with one for each verb within."""
    parser = argparse_flags.ArgumentParser(
        prog="fives",
        allow_abbrev=False,
        description="Finds the useful feature crosses in huge click logs.",
        epilog="The way is `fives schema infer LOG`, `fives preprocess`, `fives search`, `fives "
        "crosses`, `fives export`; or start with `fives synth` if there is no log at hand. `fives "
        "VERB --help` tells the flags of a verb.",
    )
    parser.add_argument("--version", action="version", version=f"fives-tf {__version__}")
    verbs = parser.add_subparsers(title="verbs", dest="verb", metavar="VERB", required=True)
    for name in VERBS:
        command = importlib.import_module(f"fives_tf.commands.{name}")
        verb = verbs.add_parser(
            name,
            help=command.HELP,
            description=_sentence(command.HELP),
            allow_abbrev=False,
        )
        command.add_flags(verb)
        verb.add_argument("--debug", action="store_true", help="show the traceback of an error")
        verb.set_defaults(command=command)
    return parser


def quiet_libraries() -> None:
    """Keeps the chatter of libraries away from the user, unless --verbosity asks for it."""
    if absl_logging.get_verbosity() <= absl_logging.INFO:
        logging.getLogger().setLevel(logging.ERROR)
        absl_logging.set_verbosity(absl_logging.ERROR)
        # Its errors too: those that matter are raised as exceptions.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def _run(args: argparse.Namespace) -> int:
    quiet_libraries()
    try:
        return args.command.run(args) or 0
    except UserError as error:
        if args.debug:
            raise
        print(f"fives {args.verb}: {error}", file=sys.stderr)
        return USER_ERROR
    except WorkerLostError as error:
        if args.debug:
            raise
        print(f"fives {args.verb}: {error}", file=sys.stderr)
        return TRY_AGAIN
    except KeyboardInterrupt:
        return _interrupted(args, signal.SIGINT)
    except Interrupted as error:
        return _interrupted(args, error.signal)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _interrupted(args: argparse.Namespace, number: int) -> int:
    hint = getattr(args.command, "INTERRUPTED", "")
    print(f"fives {args.verb}: interrupted{hint}", file=sys.stderr)
    return SIGNALLED + number


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


if __name__ == "__main__":
    main()
