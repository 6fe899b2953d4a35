"""Progress of a pipeline whose workers run on this machine.

Workers, be they threads or processes, append a line to one file for each block they finish; the
driver adds the lines up and shows them.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 10.0


def report(path: str | None, rows: int, size: int) -> None:
    """Adds a finished block to the progress file; called by workers."""
    if path is None:
        return
    line = f"{rows} {size}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line)  # short appends are not torn
    finally:
        os.close(file)


@contextlib.contextmanager
def show(path: str, label: str, total: int, unit: str = "rows") -> Iterator[None]:
    """Shows the progress file while the block runs: a bar on a terminal, plain lines otherwise.

    Args:
        path: The progress file; what stands in it from before does not count.
        label: What is being done.
        total: The bytes to do.
        unit: What the counts are.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with _own_stderr() as stream:
        view = (_Bar if stream.isatty() else _Lines)(label, total, unit, stream)
        done = threading.Event()
        watcher = threading.Thread(target=_watch, args=(path, view, done), daemon=True)
        watcher.start()
        finished = False
        try:
            yield
            finished = True
        finally:
            done.set()
            watcher.join()
            rows, size = _totals(path)
            view.close(rows, total if finished else size)


@contextlib.contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """Standard error, which stays the user's while the runner turns that of the workers away."""
    if sys.stderr is not sys.__stderr__:
        yield sys.stderr
        return
    with open(os.dup(2), "w", encoding=sys.stderr.encoding) as stream:
        yield stream


def _totals(path: str) -> tuple[int, int]:
    try:
        with open(path, "rb") as file:
            lines = [line.split() for line in file.read().splitlines()]
    except FileNotFoundError:
        return 0, 0
    return sum(int(rows) for rows, _ in lines), sum(int(size) for _, size in lines)


def _watch(path: str, view: "_Bar | _Lines", done: threading.Event) -> None:
    while not done.wait(0.2):
        view.update(*_totals(path))


class _Bar:
    def __init__(self, label: str, total: int, unit: str, stream: TextIO):
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[count]}"),
            TimeRemainingColumn(),
            console=Console(file=stream),
        )
        self._unit = unit
        self._task = self._progress.add_task(label, total=max(total, 1), count="")
        self._start = time.monotonic()
        self._progress.start()

    def update(self, rows: int, size: int) -> None:
        count = _count(rows, self._start, self._unit)
        self._progress.update(self._task, completed=size, count=count)

    def close(self, rows: int, size: int) -> None:
        self.update(rows, size)
        self._progress.stop()


class _Lines:
    def __init__(self, label: str, total: int, unit: str, stream: TextIO):
        self._stream = stream
        self._label, self._total, self._unit = label, max(total, 1), unit
        self._start = self._shown = time.monotonic()

    def update(self, rows: int, size: int) -> None:
        if time.monotonic() - self._shown >= PLAIN_SECONDS and size:
            elapsed = time.monotonic() - self._start
            left = elapsed * (self._total / size - 1)
            self._print(rows, size, f", {max(left, 0):.0f} s left")

    def close(self, rows: int, size: int) -> None:
        self._print(rows, size, f" in {time.monotonic() - self._start:.1f} s")

    def _print(self, rows: int, size: int, rest: str) -> None:
        self._shown = time.monotonic()
        share = min(size / self._total, 1)
        count = _count(rows, self._start, self._unit)
        print(f"{self._label}: {share:.0%}, {count}{rest}", file=self._stream, flush=True)


def _count(rows: int, start: float, unit: str) -> str:
    rate = rows / max(time.monotonic() - start, 1e-9)
    return f"{rows:,} {unit}, {rate:,.0f} {unit}/s"
