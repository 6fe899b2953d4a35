"""What the programs of this folder share: flags, processes, facts on the machine, results."""

import argparse
import contextlib
import json
import logging
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml

from fives_tf import storage
from fives_tf.config import SearchConfig, read_settings
from fives_tf.errors import Interrupted, UserError

TRAINING = ("fives-tf", "tensorflow", "keras", "numpy")
"""The packages whose versions matter to what a training gives."""

FIVES = (sys.executable, "-m", "fives_tf.cli")
# The bare CSV parser: what merely turns the text of a log into columns.
PARSE = (
    sys.executable,
    "-c",
    "import sys, pyarrow.csv as csv; print(csv.read_csv(sys.argv[1]).num_rows)",
)
CRITEO_LIKE = {"fields": 39, "numeric": 13}


def criteo_like(directory: Path, **config: int) -> tuple[Path, Path]:
    """Generates a log of 13 numeric and 26 categorical columns; its path and that of its schema.

    Args:
        directory: Where they go.
        **config: Further flags of `fives synth`.
    """
    flags = [f"--{key}={value}" for key, value in (CRITEO_LIKE | config).items()]
    subprocess.run([*FIVES, "synth", *flags, f"--out={directory}"], check=True)
    return directory / "log.csv", directory / "schema.yaml"


def timed(command: list[str]) -> dict[str, float]:
    """Runs a command: its seconds from start to end, and the peak memory of its largest process."""
    program = (
        "import json, resource, subprocess, sys, time\n"
        "start = time.perf_counter()\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=sys.stderr)\n"
        "seconds = time.perf_counter() - start\n"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024\n"
        "print(json.dumps({'seconds': round(seconds, 3), 'mebibytes': round(peak)}))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, *command], check=True, stdout=subprocess.PIPE
    )
    return json.loads(run.stdout)


def command_line(name: str, run: Callable[[], Any]) -> int:
    """Runs a program; a user's mistake and a signal end it with a message and an exit code."""
    _quiet_libraries()
    try:
        run()
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except Interrupted as error:
        print(f"{name}: {error}; the same command goes on from there.", file=sys.stderr)
        return 128 + error.signal
    return 0


def in_own_process(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function in a new process, whose memory, with all that was compiled, goes with it.

    Ctrl-C reaches both processes and SIGTERM is handed on, so that a search saves its state; here
    `Interrupted` is raised then, as it would be without the process.
    """
    # Not forked: a process must not inherit the state of TensorFlow.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(sender, function, args))
    process.start()
    sender.close()
    with _signals({signal.SIGINT: signal.SIG_IGN, signal.SIGTERM: lambda *_: process.terminate()}):
        try:
            kind, value = receiver.recv()
        except EOFError:
            kind, value = "died", None
        process.join()
    if kind == "mistake":
        raise UserError(value)
    if kind == "interrupted":
        raise Interrupted(*value)
    if kind == "died":
        raise RuntimeError(f"{function.__name__} failed with exit code {process.exitcode}")
    return value


def add_out_flag(parser: argparse.ArgumentParser) -> None:
    """Adds the flag for the file of results."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON file for the result")


def add_set_flag(parser: argparse.ArgumentParser) -> None:
    """Adds the flag for settings of the search that differ from the default."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the search, as in config.yaml; may be repeated",
    )


def read_set_flag(texts: list[str], reserved: tuple[str, ...] = ("seed",)) -> dict[str, Any]:
    """The settings that `--set` gave; those that the program itself decides are refused."""
    for text in texts:
        if "=" not in text:
            raise UserError(f"--set: expected NAME=VALUE. Received: {text}.")
    lines = (": ".join(text.split("=", 1)) for text in texts)
    settings = read_settings("\n".join(lines) or "{}", "--set")
    for name in reserved:
        if name in settings:
            raise UserError(f"--set: `{name}` is decided by this program; leave it out.")
    return settings


def config_values(config: SearchConfig) -> dict[str, Any]:
    """The settings as `config.yaml` has them, but for the seed, which results state elsewhere."""
    values = yaml.safe_load(config.to_yaml())
    return {name: value for name, value in values.items() if name != "seed"}


def machine() -> dict[str, Any]:
    """What is worth knowing of the machine, and does not tell whose it is."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gibibytes": round(memory / 2**30, 1),
        "python": platform.python_version(),
    }


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """The versions of installed packages."""
    return {package: version(package) for package in packages}


def write_result(result: dict[str, Any], path: Path | None) -> None:
    """Writes the file of results, if one is asked for."""
    if path:
        storage.write(str(path), (json.dumps(result, indent=1) + "\n").encode())


def _call(sender: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """What runs in the new process."""
    _quiet_libraries()
    try:
        sender.send(("result", function(*args)))
    except UserError as error:
        sender.send(("mistake", str(error)))
    except Interrupted as error:
        sender.send(("interrupted", (error.signal, str(error))))


@contextlib.contextmanager
def _signals(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _quiet_libraries() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for library in (None, "tensorflow"):
        logging.getLogger(library).setLevel(logging.ERROR)
