"""Progress of long work: a bar on a terminal, plain lines otherwise, both on standard error."""

import contextlib
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_SECONDS = 10.0


@contextlib.contextmanager
def view(
    label: str, total: int, unit: str = "rows", start: int = 0, hidden: bool = False
) -> Iterator["View"]:
    """Shows work while the block does it, and at the end how far it came.

    Args:
        label: What is being done.
        total: All that there is to do.
        unit: What the counts are.
        start: What a resumed run finds done; it is part of the total, but not of the rate.
        hidden: Whether to show nothing after all, as another process shows the same.
    """
    if hidden:
        yield _Nothing(total, unit, start)
        return
    with _own_stderr() as stream:
        shown = (_Bar if stream.isatty() else _Lines)(label, total, unit, start, stream)
        try:
            yield shown
        finally:
            shown.close()


class View(ABC):
    """What is shown of the work; made by `view`."""

    def __init__(self, total: int, unit: str, start: int):
        self._total, self._unit, self._start = max(total, 1), unit, start
        self._count = self._done = start
        self._suffix = ""
        self._began = time.monotonic()

    def update(self, count: int, done: int | None = None, suffix: str | None = None) -> None:
        """Tells how far the work is.

        Args:
            count: The units done, with those before the start.
            done: What is done of the total if that is not told in units, but in bytes, say.
            suffix: A text to show behind the numbers from now on, such as "auc 0.7634".
        """
        self._count, self._done = count, count if done is None else done
        if suffix is not None:
            self._suffix = suffix
        self._show()

    @abstractmethod
    def close(self) -> None:
        """Shows the end; called by `view`."""

    @abstractmethod
    def _show(self) -> None:
        """Shows what was told last, if it is time."""

    def _elapsed(self) -> float:
        return max(time.monotonic() - self._began, 1e-9)

    def _numbers(self, rest: str = "") -> str:
        rate = (self._count - self._start) / self._elapsed()
        numbers = f"{self._count:,} {self._unit}, {rate:,.0f} {self._unit}/s{rest}"
        return f"{numbers}, {self._suffix}" if self._suffix else numbers


class _Bar(View):
    def __init__(self, label: str, total: int, unit: str, start: int, stream: TextIO):
        super().__init__(total, unit, start)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[numbers]}", markup=False),
            TimeRemainingColumn(),
            console=Console(file=stream),
        )
        self._task = self._progress.add_task(
            label, total=self._total, completed=start, numbers=self._numbers()
        )
        self._progress.start()

    def close(self) -> None:
        self._show()
        self._progress.stop()

    def _show(self) -> None:
        self._progress.update(self._task, completed=self._done, numbers=self._numbers())


class _Lines(View):
    def __init__(self, label: str, total: int, unit: str, start: int, stream: TextIO):
        super().__init__(total, unit, start)
        self._label, self._stream = label, stream
        self._shown = self._began

    def close(self) -> None:
        self._print(f" in {self._elapsed():.1f} s")

    def _show(self) -> None:
        new = self._done - self._start
        if time.monotonic() - self._shown >= PLAIN_SECONDS and new > 0:
            left = self._elapsed() * (self._total - self._done) / new
            self._print(f", {max(left, 0):.0f} s left")

    def _print(self, rest: str) -> None:
        self._shown = time.monotonic()
        share = min(self._done / self._total, 1)
        print(f"{self._label}: {share:.0%}, {self._numbers(rest)}", file=self._stream, flush=True)


class _Nothing(View):
    def close(self) -> None:
        pass

    def _show(self) -> None:
        pass


@contextlib.contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """Standard error, which stays the user's while Beam turns that of its workers away."""
    if sys.stderr is not sys.__stderr__:
        yield sys.stderr
        return
    with open(os.dup(2), "w", encoding=sys.stderr.encoding) as stream:
        yield stream
