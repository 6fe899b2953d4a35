import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from fives_tf.training.interrupts import Interrupts

# The loops are busy: between a look at the flag and a call that waits, a signal could be missed.
LOOP = """
import signal, sys
from fives_tf.training.interrupts import Interrupts
impatient, handler = sys.argv[1] == "impatient", getattr(signal, sys.argv[2])
signal.signal(signal.SIGINT, handler)
with Interrupts() as interrupts:
    print("ready", flush=True)
    while not interrupts.requested:
        pass
    print(interrupts.requested.name, flush=True)
    while impatient:
        pass
print("stopped", flush=True)
sys.stdin.read()
"""


@contextmanager
def loop(user="patient", handler="default_int_handler"):
    """A loop in a process of its own; `handler` is what SIGINT meets when the loop begins."""
    process = subprocess.Popen(
        [sys.executable, "-c", LOOP, user, handler],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_the_first_signal_lets_the_loop_stop_by_itself(name):
    with loop() as process:
        process.send_signal(signal.Signals[name])
        told, errors = process.communicate(timeout=60)
        assert (told, errors) == (f"{name}\nstopped\n", "")
        assert process.returncode == 0


@pytest.mark.parametrize("first", ["SIGTERM", "SIGINT"])
def test_another_sigint_stops_at_once(first):
    with loop("impatient") as process:
        process.send_signal(signal.Signals[first])
        assert process.stdout.readline() == f"{first}\n"
        process.send_signal(signal.SIGTERM)  # changes nothing
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=60)
        assert told == ""
        assert errors.endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_after_the_loop_signals_do_what_they_did_before(name):
    with loop() as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "SIGTERM\n"
        assert process.stdout.readline() == "stopped\n"
        process.send_signal(signal.Signals[name])
        assert process.wait(timeout=60) == -signal.Signals[name]


def test_what_is_ignored_stays_ignored():
    with loop(handler="SIG_IGN") as process:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "SIGTERM\n"


def test_the_former_handlers_come_back_even_after_an_error():
    former = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(ZeroDivisionError), Interrupts():
        assert signal.getsignal(signal.SIGTERM) != former[0]
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == former


def test_outside_of_the_main_thread_nothing_happens():
    def handler_within():
        with Interrupts() as interrupts:
            return signal.getsignal(signal.SIGTERM), interrupts.requested

    former = signal.getsignal(signal.SIGTERM)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(handler_within).result() == (former, None)
