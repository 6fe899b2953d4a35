"""A training job from the log or the dataset to the served model; the container's entry point.

    python -m launch.train_job --log 'log/*.csv' --schema schema.yaml --run run --export exports

It checks what it was given, preprocesses the log if there is one, searches, and exports the model
if it is told where. It can be started again at any time, with the same arguments: what is finished
is kept, and the search goes on from its last checkpoint. Meanwhile a status file tells how far it
is.

Exit codes:
    0        It is done.
    1        Something unforeseen failed; a restart may help.
    2        A mistake of the user's, told in one message; a restart does not help.
    138      Another worker is gone; a restart of all goes on where they were.
    128 + n  Signal n stopped it; a restart goes on where it was.

On several machines, told by TF_CONFIG, only the first preprocesses and writes the status; the
others wait for the dataset.
"""

import argparse
import glob
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import app
from absl.flags import argparse_flags

from fives_tf import cluster, storage
from fives_tf.cli import SIGNALLED, TRY_AGAIN, USER_ERROR, quiet_libraries
from fives_tf.commands import preprocess as preprocess_command
from fives_tf.commands import search as search_command
from fives_tf.errors import Interrupted, UserError, WorkerLostError
from fives_tf.stopping import terminable

if TYPE_CHECKING:
    from launch.status import Status

_POLL_SECONDS = 1.0


def main() -> None:
    """The program."""
    app.run(run, flags_parser=parse_flags)


def parse_flags(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line; what is no flag of the job is kept in `settings`, for the search."""
    return _parse(_add_flags(argparse_flags.ArgumentParser(**_DESCRIPTION)), argv[1:])


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuses arguments that the job would refuse, as far as that can be told elsewhere."""
    args = _parse(_add_flags(_Parser(**_DESCRIPTION)), arguments)
    _check_flags(args)
    _search_arguments(args)


def run(args: argparse.Namespace) -> int:
    """Does the job; returns its exit code."""
    quiet_libraries()
    try:
        workers = cluster.read(os.environ)
        chief = workers is None or workers.is_chief
        _check_flags(args)
    except UserError as error:
        return _tell(error)
    from launch.status import Status  # late, for --help must not wait for pyarrow

    status = Status(args.status if chief else None, args.run)
    try:
        with terminable():
            _work(args, status, chief)
        status.enter("done")
        return 0
    except UserError as error:
        return _tell(error, status)
    except WorkerLostError as error:
        print(f"train_job: {error}", file=sys.stderr)
        _enter_last(status, "interrupted", str(error))
        return TRY_AGAIN
    except KeyboardInterrupt:
        return _interrupted(status, signal.SIGINT)
    except Interrupted as error:
        return _interrupted(status, error.signal)
    except Exception as error:
        _enter_last(status, "failed", f"{type(error).__name__}: {error}")
        raise


def _work(args: argparse.Namespace, status: "Status", chief: bool) -> None:
    with status.watched():
        status.enter("validating")
        search = _search_arguments(args)
        _validate(args, search, chief)
        if args.log and chief:
            status.enter("preprocessing")
            preprocess_command.run(_preprocess_arguments(args))
        elif args.log:
            _wait_for_dataset(args.dataset, args.wait_seconds)
        status.enter("searching")
        search_command.run(search)
        if chief and (args.export or args.export_light):
            status.enter("exporting")
            _export(args)


def _export(args: argparse.Namespace) -> None:
    """Writes the models as the next versions, unless a start before this one has done so."""
    from fives_tf.run import Run
    from fives_tf.serving.versions import export, find_export

    run = Run.open(args.run)
    for base, light in ((args.export, False), (args.export_light, True)):
        if base:
            done = find_export(run, base, light)
            print((done or export(run, base, light=light, dataset=args.dataset)).path)


def _validate(args: argparse.Namespace, search: argparse.Namespace, chief: bool) -> None:
    """Looks at all that can be wrong before anything takes long."""
    from fives_tf.dataset import Dataset
    from fives_tf.exported import check_base
    from fives_tf.run import check_place
    from fives_tf.schema import Schema
    from pipelines.sources import open_log

    _check_gpus(args.gpus)
    search_command.read_settings(search)
    if chief:
        check_place(args.run)
        for base in filter(None, (args.export, args.export_light)):
            check_base(base)
    if not args.log:
        Dataset.open(args.dataset)
    elif chief:
        open_log(args.log, Schema.load(args.schema))


def _check_flags(args: argparse.Namespace) -> None:
    """Completes the flags that follow from others, and refuses those that do not fit together."""
    if bool(args.log) != bool(args.schema):
        given, missing = ("--log", "--schema") if args.log else ("--schema", "--log")
        raise UserError(f"{missing}: is needed beside {given} to preprocess the log; give both.")
    if not args.log and not args.dataset:
        raise UserError("--dataset: give a dataset, or --log and --schema to make one.")
    if args.wait_seconds < 0:
        raise UserError(f"--wait_seconds: expected from 0. Received: {args.wait_seconds}.")
    if args.gpus < 0:
        raise UserError(f"--gpus: expected from 0. Received: {args.gpus}.")
    places = [storage.absolute(place) for place in (args.export, args.export_light) if place]
    if len(places) > len(set(places)):
        raise UserError(
            "--export_light: expected another directory than that of --export, or a server would "
            f"serve whichever of the two came last. Received: {args.export_light!r}."
        )
    run = args.run.rstrip("/")
    args.dataset = args.dataset or f"{run}-dataset"
    args.status = args.status or f"{run}.status.json"
    for flag, directory in (("--run", args.run), ("--dataset", args.dataset)):
        if storage.holds(directory, args.status):
            raise UserError(
                f"--status: expected a file outside of {directory}, the directory of {flag}, where "
                f"nothing else may be. Received: {args.status!r}."
            )


def _check_gpus(wanted: int) -> None:
    """Counts GPUs without TensorFlow, which takes them all as soon as it looks closely."""
    if not wanted:
        return
    found = len(glob.glob("/dev/nvidia[0-9]*"))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        found = min(found, len([part for part in visible.split(",") if part.strip("- ")]))
    if found < wanted:
        raise UserError(
            f"--gpus: expected {wanted} GPUs. Received: {found} at /dev/nvidia*, as far as "
            f"CUDA_VISIBLE_DEVICES ({visible or 'not set'}) shows them. Ask for a node with GPUs "
            "and the NVIDIA container runtime, or leave --gpus out."
        )


def _wait_for_dataset(directory: str, seconds: float) -> None:
    """Waits until the first worker has made the dataset."""
    from fives_tf.dataset import MANIFEST

    deadline = time.monotonic() + seconds
    while not storage.exists(storage.join(directory, MANIFEST)):
        if time.monotonic() >= deadline:
            raise UserError(
                f"{directory}: is not complete after {seconds:g} seconds; see what the first "
                "worker tells, whether all workers see the same disk, or raise --wait_seconds."
            )
        time.sleep(_POLL_SECONDS)


def _search_arguments(args: argparse.Namespace) -> argparse.Namespace:
    parser = _Parser(prog="fives search", allow_abbrev=False)
    search_command.add_flags(parser)
    return parser.parse_args([args.dataset, "--run", args.run, "--resume", *args.settings])


def _preprocess_arguments(args: argparse.Namespace) -> argparse.Namespace:
    parser = _Parser(prog="fives preprocess", allow_abbrev=False)
    preprocess_command.add_flags(parser)
    parser.set_defaults(rest=[])
    flags = ["--schema", args.schema, "--out", args.dataset, "--resume"]
    return parser.parse_args([*flags, "--", *args.log])


class _Parser(argparse_flags.ArgumentParser):
    """Raises mistakes, so that the status file can tell them."""

    def error(self, message: str) -> None:
        raise UserError(f"{message}; see `{self.prog} --help`.")


_DESCRIPTION = {
    "prog": "python -m launch.train_job",
    "usage": "python -m launch.train_job (--dataset DIR | --log LOG ... --schema FILE) --run RUN "
    "[flags] [settings of `fives search`]",
    "description": "Preprocesses a log if there is one, searches, and exports the model; goes on "
    "where it was if it is started again.",
    "epilog": "Exit codes: 0 done; 2 a mistake of the user's, which a restart does not mend; 138 "
    "another worker is gone, and 128 + n stopped by signal n: a restart goes on; 1 anything else.",
    "allow_abbrev": False,
}


def _add_flags(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--log", nargs="+", metavar="LOG", help="files or quoted patterns")
    parser.add_argument("--schema", metavar="FILE", help="what the columns of the log mean")
    parser.add_argument(
        "--dataset",
        metavar="DIR",
        help="the dataset directory: to read, or with --log to write (default then: RUN-dataset)",
    )
    parser.add_argument("--run", required=True, metavar="RUN", help="the run directory to write")
    parser.add_argument(
        "--export",
        metavar="DIR",
        help="write the model there at last, as the next version for TensorFlow Serving",
    )
    parser.add_argument(
        "--export_light", metavar="DIR", help="the same of the light model, at another place"
    )
    parser.add_argument(
        "--status", metavar="FILE", help="the status file (default: RUN.status.json)"
    )
    parser.add_argument(
        "--gpus",
        type=int,
        default=0,
        metavar="N",
        help="refuse to start with fewer GPUs (default: %(default)s)",
    )
    parser.add_argument(
        "--wait_seconds",
        type=float,
        default=86_400,
        metavar="S",
        help="how long a worker other than the first waits for the dataset (default: %(default)s)",
    )
    return parser


def _parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    args, rest = parser.parse_known_args(list(arguments))
    args.settings = [text for text in rest if text != "--"]
    return args


def _tell(error: UserError, status: "Status | None" = None) -> int:
    print(f"train_job: {error}", file=sys.stderr)
    if status:
        _enter_last(status, "failed", str(error))
    return USER_ERROR


def _interrupted(status: "Status", number: int) -> int:
    print("train_job: interrupted; the same command goes on from here", file=sys.stderr)
    _enter_last(status, "interrupted", None)
    return SIGNALLED + number


def _enter_last(status: "Status", state: str, error: str | None) -> None:
    """Writes how the job ended, if that can be written: the exit code must tell it in any case."""
    try:
        status.enter(state, error)
    except UserError as problem:
        print(f"train_job: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
