"""What the programs of this folder share: flags, processes, facts on the machine, results."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fives_tf import storage
from fives_tf.bench.facts import config_values, machine
from fives_tf.bench.given import add_set_flag, read_set_flag
from fives_tf.bench.processes import in_own_process, quiet_libraries
from fives_tf.errors import Interrupted, UserError
from fives_tf.versions import TRAINING, versions

__all__ = [
    "TRAINING",
    "add_set_flag",
    "config_values",
    "in_own_process",
    "machine",
    "read_set_flag",
    "versions",
]

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
    quiet_libraries()
    try:
        run()
    except UserError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except Interrupted as error:
        print(f"{name}: {error}; the same command goes on from there.", file=sys.stderr)
        return 128 + error.signal
    return 0


def add_out_flag(parser: argparse.ArgumentParser) -> None:
    """Adds the flag for the file of results."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON file for the result")


def write_result(result: dict[str, Any], path: Path | None) -> None:
    """Writes the file of results, if one is asked for."""
    if path:
        storage.write(str(path), (json.dumps(result, indent=1) + "\n").encode())
