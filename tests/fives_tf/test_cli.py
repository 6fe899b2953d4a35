"""How a command ends that was interrupted; tests/test_cli.py runs the real commands."""

import signal
import subprocess
import sys

import pytest

# A verb of its own, as no real one can be relied on to be at work when the signal comes.
PROGRAM = """
import signal, sys, types
from fives_tf import cli
from fives_tf.errors import Interrupted
from fives_tf.training.interrupts import Interrupts

def work(args):
    with Interrupts() as interrupts:
        print("ready", flush=True)
        while not interrupts.requested:
            pass
        print("saving", flush=True)
        while args.forever:
            pass
        raise Interrupted(interrupts.requested, "the state is saved")

command = types.SimpleNamespace(
    HELP="work",
    INTERRUPTED="; --resume goes on from here",
    add_flags=lambda parser: parser.add_argument("--forever", action="store_true"),
    run=work,
)
sys.modules["fives_tf.commands.work"] = command
cli.VERBS = ("work",)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told us to ignore it
cli.main()
"""


@pytest.mark.parametrize(
    ("flags", "signals", "code"),
    [
        ([], ["SIGINT"], 130),
        ([], ["SIGTERM"], 143),
        (["--debug"], ["SIGTERM"], 143),
        (["--forever"], ["SIGINT", "SIGINT"], 130),
        (["--forever"], ["SIGTERM", "SIGINT"], 130),
    ],
)
def test_an_interrupted_command_tells_how_to_go_on(flags, signals, code):
    command = [sys.executable, "-c", PROGRAM, "work", *flags]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            for name, told in zip(signals, ("ready\n", "saving\n"), strict=False):
                assert process.stdout.readline() == told
                process.send_signal(signal.Signals[name])
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert errors == "fives work: interrupted; --resume goes on from here\n"
    assert process.returncode == code
