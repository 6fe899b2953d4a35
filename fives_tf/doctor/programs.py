"""Other programs: whether they are on the PATH, and whether they run."""

import re
import shutil
from dataclasses import dataclass

from fives_tf.doctor.finding import MISSING, OK, Finding
from fives_tf.doctor.processes import Ended, run, tell_end

SECONDS = 10.0


@dataclass(frozen=True)
class Program:
    """A program, and how it tells that it works.

    Attributes:
        name: What users call it.
        command: What makes it tell.
        version: What the version stands in, as a regular expression with one group.
        use: What it is needed for.
        remedy: How to get it.
        shows_path: Whether to tell where it is.
    """

    name: str
    command: tuple[str, ...]
    version: str
    use: str
    remedy: str
    shows_path: bool = True


def look(program: Program) -> Finding:
    """Runs a program."""
    path = shutil.which(program.command[0])
    if path is None:
        found = f"{program.command[0]} is not on the PATH"
        return Finding(program.name, MISSING, found, program.use, program.remedy)
    try:
        ended = run([path, *program.command[1:]], SECONDS)
    except OSError as error:  # a file for another kind of machine, say
        ended = Ended(code=1, errors=str(error))
    told = re.search(program.version, ended.output) or re.search(program.version, ended.errors)
    if ended.code != 0 or told is None:
        found = f"`{' '.join(program.command)}`: {_why(ended)}"
        return Finding(program.name, MISSING, found, program.use, program.remedy)
    found = f"{told[1]}, {path}" if program.shows_path else told[1]
    return Finding(program.name, OK, found, program.use)


def _why(ended: Ended) -> str:
    """The first line that a program told of its failure, or how it ended."""
    if ended.code == 0:
        return "tells no version"
    lines = [line.strip() for line in ended.errors.splitlines() if line.strip()]
    if ended.code is None or not lines:
        return tell_end(ended.code, SECONDS)
    return lines[0]
