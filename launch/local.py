"""Several workers on this machine: processes that find each other by TF_CONFIG on loopback."""

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from fives_tf.cli import TRY_AGAIN
from fives_tf.errors import Interrupted, UserError
from launch import cluster

GRACE_SECONDS = 30.0
_HOST = "127.0.0.1"
# Seconds. A signal that comes just before the wait does not end it, and is noted after it.
_LONGEST_WAIT = 1.0
_PIPES_SECONDS = 5.0  # for the last lines of a worker that has ended
_SIGNALLED = 128


@dataclass(frozen=True)
class _Signal:
    """A signal that this process received."""

    number: int


@dataclass(frozen=True)
class _End:
    """The end of a worker, which is not reaped yet, so that its number is nobody else's."""

    index: int


def launch(command: Sequence[str], workers: int, grace_seconds: float = GRACE_SECONDS) -> int:
    """Runs a command in several processes, each with a TF_CONFIG of its own.

    What they tell comes out with `worker 0 | ` before each line. If one fails, the others are
    ended; SIGINT and SIGTERM are passed on to all.

    Args:
        command: The command and its arguments.
        workers: The number of processes.
        grace_seconds: How long a process may go on after it was told to stop; then it is killed.

    Returns:
        0, or the exit code of the worker that failed first, 128 + n if signal n ended it.
    """
    events: queue.SimpleQueue = queue.SimpleQueue()  # a signal handler may put things in it
    with _passed_on(events), _Workers(command, workers, events) as group:
        return _watch(group, events, grace_seconds)


def _watch(group: "_Workers", events: queue.SimpleQueue, grace_seconds: float) -> int:
    """Waits for the end of all workers; its reasons come as events."""
    failure = 0
    received: int | None = None
    deadline: float | None = None
    while group.running:
        left = _LONGEST_WAIT if deadline is None else max(deadline - time.monotonic(), 0)
        try:
            event = events.get(timeout=min(left, _LONGEST_WAIT))
        except queue.Empty:
            if left == 0:
                group.send(signal.SIGKILL)
                deadline = None
            continue
        if isinstance(event, _Signal):
            received = event.number
            group.send(received)
        else:
            code = group.reap(event.index)
            if failure == TRY_AGAIN and code:
                failure = code  # it only told of this one
            if not code or failure:
                continue
            failure = code
            if received is not None:
                continue
            if group.running:
                print(_told(event.index, code, "the others are stopped"), file=sys.stderr)
                group.send(signal.SIGTERM)
            else:
                print(_told(event.index, code, "the others have ended"), file=sys.stderr)
        deadline = deadline or time.monotonic() + grace_seconds
    if failure and received is not None:
        raise Interrupted(received, "the workers were stopped")
    return failure


class _Workers:
    """The processes, each the head of a group, so that what they start ends with them."""

    def __init__(self, command: Sequence[str], count: int, events: queue.SimpleQueue):
        self._command, self._count, self._events = list(command), count, events
        self.running: dict[int, subprocess.Popen] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def __enter__(self) -> "_Workers":
        addresses = [f"{_HOST}:{port}" for port in free_ports(self._count)]
        try:
            for index in range(self._count):
                self._start(index, json.dumps(cluster.config_of(addresses, index)))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.send(signal.SIGKILL)
        for index in list(self.running):
            self.reap(index)
        for thread in self._threads:
            thread.join(_PIPES_SECONDS)

    def send(self, number: int) -> None:
        """Sends a signal to all that run."""
        for process in self.running.values():
            os.killpg(process.pid, number)

    def reap(self, index: int) -> int:
        """Takes note of the end of a worker, and ends what it left behind; its exit code."""
        process = self.running.pop(index)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        return _SIGNALLED - code if code < 0 else code

    def _start(self, index: int, config: str) -> None:
        try:
            process = subprocess.Popen(
                self._command,
                env={**os.environ, cluster.VARIABLE: config},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                # Else a terminal would send Ctrl-C to the workers too, and they would get it twice.
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(
                f"{self._command[0]}: cannot be started ({error.strerror}); check the command "
                "after `--`."
            ) from None
        self.running[index] = process
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            self._thread(self._pump, index, source, target)
        self._thread(self._wait, index, process.pid)

    def _thread(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _pump(self, index: int, source: TextIO, target: TextIO) -> None:
        """Copies the lines of a worker; if nobody reads them any more, it still takes them."""
        with source:
            for line in source:
                with self._lock, contextlib.suppress(BrokenPipeError):
                    target.write(f"worker {index} | {line.rstrip()}\n")
                    target.flush()

    def _wait(self, index: int, pid: int) -> None:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self._events.put(_End(index))


@contextlib.contextmanager
def _passed_on(events: queue.SimpleQueue) -> Iterator[None]:
    """Turns SIGINT and SIGTERM into events."""

    def note(number: int, frame: Any) -> None:
        events.put(_Signal(number))

    numbers = (signal.SIGINT, signal.SIGTERM)
    former = {number: signal.signal(number, note) for number in numbers}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def free_ports(count: int) -> list[int]:
    """Ports that are free now: another program may take one before the workers do."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((_HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def _told(index: int, code: int, others: str) -> str:
    signalled = code > _SIGNALLED and code != TRY_AGAIN
    reason = f"signal {code - _SIGNALLED}" if signalled else f"exit code {code}"
    return f"fives launch: worker {index} failed with {reason}; {others}"
