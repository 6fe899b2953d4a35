"""Runs programs, and functions of this one, where a crash or a hang does no harm."""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fives_tf.errors import UserError

# The new process finds modules where this one does, and not in the working directory.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from fives_tf.doctor.processes import answer_each
answer_each(*sys.argv[2:])
"""


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes:
        code: Its exit code, negative if a signal killed it; None if it had to be stopped.
        output: What it printed.
        errors: What it printed on standard error.
    """

    code: int | None
    output: str = ""
    errors: str = ""


@dataclass(frozen=True)
class Answer:
    """What a call came to.

    Attributes:
        value: What the function returned.
        problem: Why it did not return; empty if it did.
    """

    value: Any = None
    problem: str = ""


def run(command: Sequence[str], seconds: float) -> Ended:
    """Runs a program, and stops it and all that it started if it takes too long."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # so that what it starts can be stopped with it
    ) as process:
        try:
            output, told = process.communicate(timeout=seconds)
            return Ended(process.returncode, output, told)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, told = process.communicate()
            return Ended(None, output, told)


def call_each(
    function: Callable[[Any], Any], arguments: Sequence[Any], seconds: float
) -> list[Answer]:
    """Calls a function with each argument, in another process; a new one if that was lost.

    Args:
        function: A function of a module; what it takes and returns must be fit for JSON.
        arguments: The arguments, one for each call.
        seconds: How long a process may take.
    """
    name = f"{function.__module__}.{function.__name__}"
    path = json.dumps(sys.path)
    answers: list[Answer] = []
    while len(answers) < len(arguments):
        left = json.dumps(arguments[len(answers) :])
        command = [sys.executable, "-c", _START, path, name, left]
        ended = run(command, seconds)
        lines = [line for line in ended.output.splitlines(keepends=True) if line.endswith("\n")]
        answers += [Answer(**json.loads(line)) for line in lines]
        if len(answers) < len(arguments):
            answers.append(Answer(problem=tell_end(ended.code, seconds)))
    return answers


def answer_each(name: str, arguments: str) -> None:
    """What `call_each` runs in the other process: prints one line for each call, and ends it.

    Args:
        name: The module and the name of a function.
        arguments: The arguments as a JSON list.
    """
    # Libraries may print what they like: only answers reach the one who asked.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, _, function = name.rpartition(".")
    call = getattr(importlib.import_module(module), function)
    for argument in json.loads(arguments):
        try:
            line = {"value": call(argument)}
        except UserError as error:
            line = {"problem": str(error)}
        except (Exception, SystemExit) as error:  # a library may raise what it likes
            line = {"problem": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(line), file=answers, flush=True)
    os._exit(0)  # some libraries crash in the destructors of a program


def tell_end(code: int | None, seconds: float) -> str:
    """How a process ended too early, in words."""
    if code is None:
        return f"no answer within {seconds:g} seconds"
    if code < 0:
        return f"the process was killed by signal {-code} ({signal.strsignal(-code)})"
    return f"exit code {code}"
