"""Calls functions in processes of their own, one after the other or several at once."""

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from fives_tf.errors import Interrupted, UserError

RESULT, MISTAKE, INTERRUPTED, FAILED = "result", "mistake", "interrupted", "failed"
# How many threads TensorFlow, and what is built with OpenMP, may start.
_THREADS = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


@dataclass(frozen=True)
class Call:
    """A function to call in a process of its own.

    Attributes:
        function: The function, of a module that the new process can import.
        args: Its arguments.
        log: The file that takes all that the process prints; the terminal unless given.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    log: str | None = None


@dataclass(frozen=True)
class Outcome:
    """How a call ended.

    Attributes:
        kind: RESULT, MISTAKE of the user, INTERRUPTED by a signal, or FAILED.
        value: The result, or a message; the signal and a message if it was interrupted.
    """

    kind: str
    value: Any


def in_own_process(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function in a new process, whose memory, with all that was compiled, goes with it.

    Ctrl-C reaches both processes and SIGTERM is handed on, so that a search saves its state; here
    `Interrupted` is raised then, as it would be without the process.
    """
    [(_, outcome)] = in_processes([Call(function, args)])
    if outcome.kind == MISTAKE:
        raise UserError(outcome.value)
    if outcome.kind == FAILED:
        raise RuntimeError(outcome.value)
    return outcome.value


def in_processes(calls: Iterable[Call], jobs: int = 1) -> Iterator[tuple[int, Outcome]]:
    """Calls functions in new processes; the number of a call and its outcome, as they end.

    A signal stops all of them, and raises `Interrupted` when the last one has stopped. If this
    process is killed, they end with it.

    Args:
        calls: What to call.
        jobs: How many run at a time; cores are divided among them.
    """
    left = list(enumerate(calls))[::-1]
    threads = None if jobs == 1 else max(1, (os.cpu_count() or 1) // jobs)
    running: dict[Connection, tuple[int, Call, Any]] = {}
    stopped: list[tuple[int, str]] = []

    def terminate(*_: Any) -> None:
        for _, _, process in running.values():
            process.terminate()

    def stop(number: int, frame: Any) -> None:
        stopped.append((number, "stopped"))
        # Ctrl-C reaches all processes by itself; a second one may have been sent to this one alone.
        if number == signal.SIGTERM or len(stopped) > 1:
            terminate()

    # No SIG_IGN, which the new processes would inherit.
    with _signals({signal.SIGINT: stop, signal.SIGTERM: stop}):
        try:
            while running or (left and not stopped):
                while left and len(running) < jobs and not stopped:
                    number, call = left.pop()
                    receiver, process = _start(call, threads)
                    running[receiver] = (number, call, process)
                if any(number == signal.SIGTERM for number, _ in stopped):
                    terminate()  # also what was just being started when the signal came
                for receiver in wait(list(running)):
                    number, call, process = running.pop(receiver)
                    outcome = _receive(receiver, call, process)
                    if outcome.kind == INTERRUPTED:
                        stopped.append(outcome.value)
                    elif outcome.kind == RESULT or not stopped:
                        yield number, outcome
        finally:
            terminate()  # what is left if the caller gives up
    if stopped:
        raise Interrupted(*stopped[-1])


def perform(call: Call) -> Outcome:
    """Calls a function in this process."""
    try:
        return Outcome(RESULT, call.function(*call.args))
    except UserError as error:
        return Outcome(MISTAKE, str(error))
    except Interrupted as error:
        return Outcome(INTERRUPTED, (error.signal, str(error)))
    except KeyboardInterrupt:
        return Outcome(INTERRUPTED, (signal.SIGINT, "stopped"))
    except Exception as error:
        traceback.print_exc()
        return Outcome(FAILED, f"{call.function.__name__} failed: {type(error).__name__}: {error}")


def quiet_libraries() -> None:
    """Keeps the chatter of libraries away from the user."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for library in (None, "tensorflow"):
        logging.getLogger(library).setLevel(logging.ERROR)


def _start(call: Call, threads: int | None) -> tuple[Connection, Any]:
    # Not forked: a process must not inherit the state of TensorFlow.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, call, threads))
    process.start()
    sender.close()
    return receiver, process


def _receive(receiver: Connection, call: Call, process: Any) -> Outcome:
    try:
        outcome = receiver.recv()
    except (EOFError, OSError):  # it ended before or while it sent
        outcome = None
    process.join()
    if outcome is not None:
        return outcome
    if process.exitcode == -signal.SIGTERM:  # before it could say so
        return Outcome(INTERRUPTED, (signal.SIGTERM, "stopped"))
    return Outcome(FAILED, f"{call.function.__name__} failed with exit code {process.exitcode}")


def _work(sender: Connection, call: Call, threads: int | None) -> None:
    """What runs in the new process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    quiet_libraries()
    if threads:
        os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    if call.log:
        _print_to(call.log)
    sender.send(perform(call))


def _end_with_parent() -> None:
    """Ends this process when the one that waits for it was killed: nobody would take the result."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _print_to(path: str) -> None:
    """Turns standard output and error to a file, also those of native code."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())


@contextlib.contextmanager
def _signals(handlers: dict[signal.Signals, Any]) -> Iterator[None]:
    former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
