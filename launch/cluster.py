"""TF_CONFIG, which tells TensorFlow the workers of a job, from what a cluster tells each of them.

As a program it derives TF_CONFIG from what Kubernetes or Slurm tell each process, and prints it:

    TF_CONFIG=$(python -m launch.cluster slurm) && export TF_CONFIG

or starts a command with it, in its own place, so that signals reach the command:

    srun python -m launch.cluster slurm -- python -m launch.train_job ...
"""

import argparse
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fives_tf.cluster import VARIABLE
from fives_tf.errors import UserError

PORT = 2222
# Where these come from: `launch.kubernetes` writes all but the first into the pods.
INDEX, JOB, NODES, SERVICE = "JOB_COMPLETION_INDEX", "FIVES_JOB", "FIVES_NODES", "FIVES_SERVICE"
PORT_VARIABLE = "FIVES_PORT"

_MOST_HOSTS = 65_536
# Jobs that share a node need ports of their own; these lie below those that Linux gives away.
_SLURM_PORTS = range(12_000, 32_000)


def tf_config(hosts: Sequence[str], index: int, port: int) -> dict[str, Any]:
    """The value of TF_CONFIG for workers that all listen to the same port."""
    return config_of([f"{host}:{port}" for host in hosts], index)


def config_of(workers: Sequence[str], index: int) -> dict[str, Any]:
    """The value of TF_CONFIG for workers given as `host:port`."""
    return {"cluster": {"worker": list(workers)}, "task": {"type": "worker", "index": index}}


def from_kubernetes(environ: Mapping[str, str]) -> dict[str, Any]:
    """Derives TF_CONFIG in a pod of an Indexed Job, whose pods have the names JOB-INDEX.SERVICE."""
    nodes = _number(environ, NODES, 1)
    index = _number(environ, INDEX, 0)
    if index >= nodes:
        raise UserError(
            f"{INDEX}: expected a number below {NODES}, which is {nodes}. Received: {index}."
        )
    job, service = _text(environ, JOB), _text(environ, SERVICE)
    hosts = [f"{job}-{number}.{service}" for number in range(nodes)]
    return tf_config(hosts, index, _port(environ, PORT))


def from_slurm(environ: Mapping[str, str]) -> dict[str, Any]:
    """Derives TF_CONFIG in a Slurm job of one task a node.

    The port is FIVES_PORT, or else follows from the number of the job.
    """
    hosts = expand_hosts(_text(environ, "SLURM_JOB_NODELIST"))
    index = _slurm_index(environ)
    if index >= len(hosts):
        raise UserError(
            f"SLURM_NODEID: expected a number below {len(hosts)}, the number of nodes in "
            f"SLURM_JOB_NODELIST. Received: {index}."
        )
    job = _number(environ, "SLURM_JOB_ID", 0) if "SLURM_JOB_ID" in environ else 0
    return tf_config(hosts, index, _port(environ, _SLURM_PORTS[job % len(_SLURM_PORTS)]))


def expand_hosts(text: str) -> list[str]:
    """The hosts in a list as Slurm writes it.

    Example:
        expand_hosts("gpu[01-03,07],cpu5")  # gpu01, gpu02, gpu03, gpu07, cpu5
    """
    hosts = []
    for item in re.split(r",(?![^\[]*\])", text.strip()):
        # Names and brackets in turns, of which the latter may be several: rack[1-2]node[01-16].
        parts = re.split(r"\[([^\[\]]*)\]", item)
        if not item or re.search(r"[\[\]\s,]", "".join(parts[::2])):
            raise _unexpected_hosts(text)
        choices = [
            _expand_bracket(part, text) if place % 2 else [part] for place, part in enumerate(parts)
        ]
        if len(hosts) + math.prod(map(len, choices)) > _MOST_HOSTS:
            raise _unexpected_hosts(text)
        hosts += map("".join, itertools.product(*choices))
    return hosts


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints TF_CONFIG, or starts a command with it."""
    parser = argparse.ArgumentParser(
        prog="python -m launch.cluster",
        description="Derives TF_CONFIG from the environment, and prints it or runs a command.",
    )
    parser.add_argument("manager", choices=sorted(_DERIVED), help="who started this process")
    parser.add_argument(
        "arguments", nargs="...", metavar="-- COMMAND", help="a command to start with TF_CONFIG"
    )
    args = parser.parse_args(arguments)
    command = args.arguments[1:] if args.arguments[:1] == ["--"] else args.arguments
    try:
        config = json.dumps(_DERIVED[args.manager](os.environ))
        if command:
            _become(command, config)
    except UserError as error:
        print(f"launch.cluster: {error}", file=sys.stderr)
        return 2
    print(config)
    return 0


_DERIVED = {"kubernetes": from_kubernetes, "slurm": from_slurm}


def _become(command: list[str], config: str) -> None:
    try:
        os.execvpe(command[0], command, {**os.environ, VARIABLE: config})
    except OSError as error:
        raise UserError(f"{command[0]}: cannot be started ({error.strerror}).") from None


def _slurm_index(environ: Mapping[str, str]) -> int:
    given = [name for name in ("SLURM_NODEID", "SLURM_PROCID") if environ.get(name)]
    if not given:
        raise _missing("SLURM_NODEID")
    node, *process = [_number(environ, name, 0) for name in given]
    if process and process != [node]:
        raise UserError(
            f"SLURM_PROCID: expected {node}, as SLURM_NODEID has it, for one task runs on each "
            f"node. Received: {process[0]}. Start the job with --ntasks-per-node=1."
        )
    return node


def _expand_bracket(text: str, whole: str) -> list[str]:
    """The numbers in `01-03,07`, as wide as they are written."""
    numbers: list[str] = []
    for item in text.split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", item)
        if not found:
            raise _unexpected_hosts(whole)
        first, last = found[1], found[2] or found[1]
        if not 0 <= int(last) - int(first) < _MOST_HOSTS:
            raise _unexpected_hosts(whole)
        numbers += [f"{n:0{len(first)}}" for n in range(int(first), int(last) + 1)]
    return numbers


def _text(environ: Mapping[str, str], name: str) -> str:
    if not environ.get(name):
        raise _missing(name)
    return environ[name]


def _number(environ: Mapping[str, str], name: str, least: int) -> int:
    text = _text(environ, name)
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
        raise UserError(f"{name}: expected a whole number from {least}. Received: {text!r}.")
    return int(text)


def _port(environ: Mapping[str, str], default: int) -> int:
    if not environ.get(PORT_VARIABLE):
        return default
    port = _number(environ, PORT_VARIABLE, 1)
    if port > 65_535:
        raise UserError(f"{PORT_VARIABLE}: expected a port, at most 65535. Received: {port}.")
    return port


def _missing(name: str) -> UserError:
    return UserError(
        f"{name}: this environment variable is not set; a process has it if it is started by "
        f"{'`srun` in a Slurm job' if name.startswith('SLURM') else '`fives launch k8s`'}."
    )


def _unexpected_hosts(text: str) -> UserError:
    return UserError(
        f"SLURM_JOB_NODELIST: expected a list of hosts such as gpu[01-03,07],cpu5, at most "
        f"{_MOST_HOSTS:,}. Received: {text!r}."
    )


if __name__ == "__main__":
    sys.exit(main())
