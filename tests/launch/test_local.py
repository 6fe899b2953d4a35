"""Several processes on this machine, with real ones."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fives_tf.errors import UserError
from launch.local import launch

CONFIG = "import os; print(os.environ['TF_CONFIG'])"
INDEX = "import json, os, sys, time; index = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"
# Tells when it is ready to be stopped; the second worker waits for nothing.
STUBBORN = INDEX + (
    "import signal\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)\n"
)
OBEDIENT = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)\n"
)


def program(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def start(*flags: str, code: str) -> subprocess.Popen:
    """The command in a process of its own, so that it can be sent signals."""
    command = [sys.executable, "-m", "fives_tf.cli", "launch", "local", *flags, "--"]
    pipe = subprocess.PIPE
    return subprocess.Popen([*command, *program(code)], stdout=pipe, stderr=pipe, text=True)


def test_each_worker_gets_its_place_in_one_cluster(capfd):
    assert launch(program(CONFIG), workers=3) == 0
    lines = capfd.readouterr().out.splitlines()
    configs = {}
    for line in lines:
        name, _, text = line.partition(" | ")
        configs[name] = json.loads(text)
    assert set(configs) == {"worker 0", "worker 1", "worker 2"}
    [addresses] = {tuple(config["cluster"]["worker"]) for config in configs.values()}
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    for index in range(3):
        assert configs[f"worker {index}"]["task"] == {"type": "worker", "index": index}


def test_both_streams_are_kept_apart(capfd):
    code = "import sys; print('one'); print('two', file=sys.stderr); print('no newline', end='')"
    assert launch(program(code), workers=1) == 0
    told = capfd.readouterr()
    assert told.out == "worker 0 | one\nworker 0 | no newline\n"
    assert told.err == "worker 0 | two\n"


def test_a_worker_that_only_tells_of_a_lost_one_does_not_hide_its_exit_code(tmp_path, capfd):
    ready = tmp_path / "ready"
    code = INDEX + (
        "import pathlib, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"ready = pathlib.Path({str(ready)!r})\n"
        "if index: ready.touch(); time.sleep(2); sys.exit(3)\n"
        "while not ready.exists(): time.sleep(0.01)\n"
        "sys.exit(138)\n"
    )
    assert launch(program(code), workers=2) == 3
    assert "worker 0 failed with exit code 138" in capfd.readouterr().err


def test_a_worker_that_fails_ends_the_others(capfd):
    code = INDEX + "sys.exit(3) if index == 1 else time.sleep(600)"
    assert launch(program(code), workers=3) == 3
    assert capfd.readouterr().err == (
        "fives launch: worker 1 failed with exit code 3; the others are stopped\n"
    )


def test_a_worker_that_ignores_sigterm_is_killed(capfd):
    code = STUBBORN.replace("time.sleep(600)", "os.abort() if index == 0 else time.sleep(600)")
    assert launch(program(code), workers=2, grace_seconds=0.5) == 128 + signal.SIGABRT
    assert "worker 0 failed with signal 6" in capfd.readouterr().err


def test_what_a_worker_left_behind_ends_with_it(capfd):
    code = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid)"
    assert launch(program(code), workers=1) == 0
    pid = int(capfd.readouterr().out.partition(" | ")[2])
    deadline = time.monotonic() + 10
    while _runs(pid):
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_passed_on_to_all(number):
    code = (
        "import signal, sys, time\n"
        "def stop(number, frame):\n"
        "    print('saved', number, flush=True)\n"
        "    sys.exit(128 + number)\n"
        "signal.signal(signal.SIGINT, stop)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    process = start("--workers=2", code=code)
    assert [process.stdout.readline()[-6:] for _ in range(2)] == ["ready\n", "ready\n"]
    process.send_signal(number)
    told, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert sorted(told.splitlines()) == [f"worker {i} | saved {number}" for i in range(2)]
    assert errors == "fives launch: interrupted\n"


def test_a_signal_that_workers_ignore_kills_them_in_the_end():
    process = start("--workers=2", "--grace_seconds=0.5", code=STUBBORN)
    assert [process.stdout.readline()[-6:] for _ in range(2)] == ["ready\n", "ready\n"]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def test_workers_that_end_well_in_spite_of_a_signal_are_no_failure():
    process = start("--workers=1", code=OBEDIENT)
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_signal_is_noted_though_it_wakes_nobody():
    """As one that comes just before the wait for events does; here another thread gets it."""
    code = (
        "import signal, sys, threading\n"
        "from launch.local import launch\n"
        "class Told:\n"
        "    def write(self, line):\n"
        "        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)\n"
        "    def flush(self):\n"
        "        pass\n"
        "sys.stdout = Told()\n"
        f"sys.exit(launch({program(OBEDIENT)!r}, workers=1))\n"
    )
    assert subprocess.run(program(code), timeout=60).returncode == 0


def test_a_reader_that_has_seen_enough_does_not_stop_the_workers():
    process = start("--workers=1", code="for i in range(100_000): print('x' * 20)")
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    process.stderr.close()


def test_a_command_that_is_not_there_is_told():
    with pytest.raises(UserError, match="no-such-command: cannot be started"):
        launch(["no-such-command"], workers=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND: expected what each worker is to run"),
        (["--workers=0", "--", "true"], "--workers: expected a number from 1. Received: 0."),
        (["--grace_seconds=nan", "--", "true"], "--grace_seconds: expected from 0."),
    ],
)
def test_a_mistake_in_the_flags_gets_one_message(arguments, message, cli):
    done = cli("launch", "local", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def _runs(pid: int) -> bool:
    """Whether a process runs; one that has ended may not be reaped yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
