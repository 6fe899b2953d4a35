"""The machine itself: Python, processor, memory, disk."""

import contextlib
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from fives_tf.doctor.finding import MISSING, OK, WARNING, Finding

PYTHON = (3, 11)
LAST_WITH_IO = (3, 12)  # of tensorflow-io, and so of TensorFlow 2.16
LITTLE_MEMORY = 2 << 30  # bytes; TensorFlow and Beam take half of it before there are any rows
LITTLE_SPACE = 1 << 30
_CGROUP = Path("/sys/fs/cgroup")


def python() -> Finding:
    """The Python that runs this program."""
    version = sys.version_info[:2]
    goes_with = (
        "TensorFlow 2.16 and tensorflow-io go with it"
        if version <= LAST_WITH_IO
        else "the newest TensorFlow goes with it, without tensorflow-io"
    )
    found = f"{platform.python_version()}, {sys.executable}"
    if version < PYTHON:
        return Finding("Python", MISSING, found, "everything", "install Python 3.11 or 3.12")
    return Finding("Python", OK, f"{found}; {goes_with}", "everything")


def processor(cgroup: Path = _CGROUP) -> Finding:
    """The cores that this process may use.

    Args:
        cgroup: Where a container's limits are told.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = f"{cores} {'core' if cores == 1 else 'cores'}"
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and int(quota) < cores * int(period):
        found += f", limited to the time of {int(quota) / int(period):g}"
    return Finding("processor", OK, found, "all work is spread over the cores")


def memory(cgroup: Path = _CGROUP) -> Finding:
    """The memory that this process may use.

    Args:
        cgroup: Where a container's limits are told.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = _available() or total
    found = f"{_gibibytes(total)}, {_gibibytes(free)} of it available"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        text, taken = _read(cgroup / limit), _read(cgroup / used)
        if text.isdigit() and int(text) < total:
            left = max(int(text) - int(taken or 0), 0)
            found += f"; the container's limit is {_gibibytes(int(text))}, {_gibibytes(left)} left"
            free = min(free, left)
    use = "rows are read in pieces; the vocabulary and, if they fit, the rows of a dataset stay"
    if free < LITTLE_MEMORY:
        remedy = f"less than {_gibibytes(LITTLE_MEMORY)} may not suffice; end other programs"
        return Finding("memory", WARNING, found, use, remedy)
    return Finding("memory", OK, found, use)


def working_directory() -> Finding:
    """Whether results can be written where the user is."""
    use = "results with relative paths"
    remedy = "write elsewhere: --out, --run and the like take other paths"
    try:
        return _directory("working directory", os.getcwd(), use, remedy, WARNING)
    except FileNotFoundError:
        return Finding("working directory", WARNING, "was removed", use, "change to another one")


def temporary_directory() -> Finding:
    """Whether there is a place for temporary files."""
    use, remedy = "temporary files of Beam and of this program", "set TMPDIR to a place with space"
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError:
        found = "there is none that can be written"
        return Finding("temporary directory", MISSING, found, use, remedy)
    return _directory("temporary directory", place, use, remedy, MISSING)


def _directory(what: str, path: str, use: str, remedy: str, state: str) -> Finding:
    """Writes to a directory; `state` is what it means if that fails."""
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"fives")
        free = shutil.disk_usage(path).free
    except OSError as error:
        return Finding(what, state, f"{path}: cannot be written ({error.strerror})", use, remedy)
    found = f"{path}: can be written, {_gibibytes(free)} free"
    if free < LITTLE_SPACE:
        return Finding(what, WARNING, found, use, f"make space, or {remedy}")
    return Finding(what, OK, found, use)


def _available() -> int | None:
    """The bytes that programs can still get, where the system tells."""
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text().strip()
    return ""


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
