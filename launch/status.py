"""The status file of a job: how far it is, for whoever watches it from outside."""

import contextlib
import glob
import json
import os
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from fives_tf import storage
from fives_tf.errors import UserError

STATES = (
    "validating",
    "preprocessing",
    "searching",
    "exporting",
    "done",
    "failed",
    "interrupted",
)
_SECONDS = 5.0  # between two writings while nothing else happens
_TAIL_BYTES = 1 << 16  # more than a line of metrics has
_METRICS = ("metrics.jsonl", "tune/*/metrics.jsonl")  # of the run, and of what --tune tries


class Status:
    """Keeps a status file up to date; nothing is written if there is no path.

    The file is replaced as a whole, so that a reader never sees half of it.

    Example:
        status = Status("status.json", "run")
        with status.watched():
            status.enter("searching")
            ...
        status.enter("done")
    """

    def __init__(self, path: str | None, run: str):
        """Takes the file to write and the run directory, whose metrics it shows."""
        self._path, self._run = path, run
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {
            "state": None,
            "stage": None,
            "step": None,
            "metrics": None,
            "error": None,
            "started": _now(),
            "updated": None,
        }

    def enter(self, state: str, error: str | None = None) -> None:
        """Writes that the job is in another state, and why if it failed."""
        assert state in STATES, state
        with self._lock:
            self._values |= {"state": state, "error": error}
            self._write()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Writes the file now and then while the block works, with the last metrics of the run."""
        end = threading.Event()
        thread = threading.Thread(target=self._watch, args=(end,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def _watch(self, end: threading.Event) -> None:
        told = False
        while not end.wait(_SECONDS):
            try:
                with self._lock:
                    self._write()
            except UserError as error:  # a full disk, say; the work itself may well go on
                if not told:
                    print(f"status: {error}", file=sys.stderr)
                told = True

    def _write(self) -> None:
        if self._path is None:
            return
        if self._values["state"] not in ("validating", "preprocessing"):
            metrics = last_metrics(self._run)
            if metrics:
                self._values |= {"stage": metrics.get("stage"), "step": metrics.get("step")}
                self._values["metrics"] = metrics
        self._values["updated"] = _now()
        content = json.dumps(self._values, indent=1, ensure_ascii=False)
        storage.write(self._path, content.encode())


def last_metrics(run: str) -> dict[str, Any] | None:
    """The last whole line of the metrics that were written last; None if there is none."""
    files = [path for name in _METRICS for path in glob.glob(storage.join(glob.escape(run), name))]
    try:
        newest = max(files, key=os.path.getmtime, default=None)
        return _last_line(newest) if newest else None
    except OSError:  # replaced or removed meanwhile
        return None


def _last_line(path: str) -> dict[str, Any] | None:
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - _TAIL_BYTES, 0))
        lines = file.read().splitlines(keepends=True)
    for line in reversed(lines):
        if line.endswith(b"\n"):
            with contextlib.suppress(ValueError):
                return json.loads(line)
    return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
