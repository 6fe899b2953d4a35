"""Progress of a pipeline whose workers run on this machine.

Workers, be they threads or processes, append a line to one file for each block they finish; the
driver adds the lines up and shows them.
"""

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator

from fives_tf import progress


@contextlib.contextmanager
def created(local: bool) -> Iterator[str | None]:
    """The path of a progress file, if the workers run on this machine; removed at the end."""
    if not local:
        yield None
        return
    with tempfile.TemporaryDirectory() as directory:
        yield os.path.join(directory, "progress")


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
def show(path: str | None, label: str, total: int, unit: str = "rows") -> Iterator[None]:
    """Shows the progress file while the block runs: a bar on a terminal, plain lines otherwise.

    Args:
        path: The progress file; what stands in it from before does not count. None if the workers
            run elsewhere and cannot write to a file here: then only the label is shown.
        label: What is being done.
        total: The bytes to do.
        unit: What the counts are.
    """
    if path is None:
        print(f"{label}: running on the workers", file=sys.stderr)
        yield
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with progress.view(label, total, unit) as view:
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
            view.update(rows, total if finished else size)


def _totals(path: str) -> tuple[int, int]:
    try:
        with open(path, "rb") as file:
            lines = [line.split() for line in file.read().splitlines()]
    except FileNotFoundError:
        return 0, 0
    return sum(int(rows) for rows, _ in lines), sum(int(size) for _, size in lines)


def _watch(path: str, view: progress.View, done: threading.Event) -> None:
    while not done.wait(0.2):
        view.update(*_totals(path))
