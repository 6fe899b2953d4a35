"""What the ways to submit a job share."""

import shutil
import subprocess
from collections.abc import Sequence

from fives_tf.errors import UserError


def submit(command: Sequence[str], content: str, remedy: str) -> None:
    """Hands a rendered job to a program on its standard input.

    Args:
        command: The program and its flags.
        content: What it is to read.
        remedy: What to do if it refuses, beside reading what it told.
    """
    if shutil.which(command[0]) is None:
        raise UserError(
            f"{command[0]}: is not installed here, or not on the PATH; install it, or give "
            "--dry_run to print the job and submit it elsewhere."
        )
    done = subprocess.run(command, input=content, text=True, check=False)
    if done.returncode:
        raise UserError(
            f"{' '.join(command)}: failed with exit code {done.returncode}; see above what it "
            f"told, and {remedy}."
        )


def with_gpus(arguments: Sequence[str], gpus: int) -> list[str]:
    """The arguments of the job, which looks for its GPUs before it starts, if it asked for any."""
    return [*(["--gpus", str(gpus)] if gpus else []), *arguments]


def check_least(flag: str, value: int, least: int) -> None:
    """Refuses a number that is too small."""
    if value < least:
        raise UserError(f"{flag}: expected a whole number from {least}. Received: {value}.")
