"""`fives doctor`: tells what this machine has and lacks, task by task."""

import argparse
from typing import TYPE_CHECKING

from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.errors import UserError

if TYPE_CHECKING:
    from fives_tf.doctor.finding import Task

HELP = "tell what this machine has and lacks for each task"

MISSING = 1  # the exit code if something is


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command."""
    parser.epilog = (
        "The exit code is 0 if all is there that searching, fitting and predicting need, and, with "
        "--storage, if the store can be used; else 1. Credentials are never shown."
    )
    parser.add_argument(
        "--storage",
        metavar="URL",
        help="try to list, write, read and remove a small file at a store, such as "
        "s3://bucket/directory",
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> int:
    """Looks at the machine and prints what was found."""
    from fives_tf import storage
    from fives_tf.doctor import examine

    if args.storage and not storage.is_remote(args.storage):
        raise UserError(
            "--storage: expected the URL of a store, such as s3://bucket/directory. "
            f"Received: {args.storage!r}."
        )
    tasks = examine(args.storage)
    ok = all(task.ok for task in tasks if task.required)
    if args.json:
        print_json({"ok": ok, "tasks": [task.to_json() for task in tasks]})
    else:
        _print_tasks(tasks)
    return 0 if ok else MISSING


def _print_tasks(tasks: "list[Task]") -> None:
    from fives_tf.tables import print_table

    for task in tasks:
        print(task.name)
        print_table(
            ("what", "state", "found", "needed for; how to get it"),
            [
                (one.what, one.state, one.found, "; ".join(filter(None, (one.use, one.remedy))))
                for one in task.findings
            ],
        )
    for task in tasks:
        names = {state: ", ".join(task.names(state)) for state in ("missing", "warning")}
        told = [f"{state}: {text}" for state, text in names.items() if text]
        print(f"{task.name}: {'; '.join(told) or 'all is there'}")
