"""Files: the one place that opens, lists, renames and removes them.

A file is written aside and renamed when it is whole, so that a killed program leaves nothing that
looks complete.
"""

import contextlib
import errno
import fcntl
import glob
import gzip
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from fives_tf.errors import UserError

ASIDE = ".aside"  # last in a name, so that no pattern for finished files matches
_CODECS = {".gz": "gzip", ".zst": "zstd"}
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class FileInfo:
    """A file that exists."""

    path: str
    size: int
    modified: int  # nanoseconds since 1970


def join(directory: str, *names: str) -> str:
    """The path of a file below a directory."""
    return os.path.join(directory, *names)


def exists(path: str) -> bool:
    """Whether there is a file or directory."""
    return os.path.exists(_local(path))


def is_directory(path: str) -> bool:
    """Whether there is a directory."""
    return os.path.isdir(_local(path))


def size(path: str) -> int | None:
    """The size of a file in bytes; None if there is none."""
    return os.path.getsize(path) if os.path.isfile(_local(path)) else None


def read(path: str) -> bytes:
    """The content of a file."""
    with open_read(path) as file:
        return file.read()


def open_read(path: str) -> BinaryIO:
    """A file opened for reading at any place."""
    try:
        return open(_local(path), "rb")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None


@contextlib.contextmanager
def create(path: str) -> Iterator[BinaryIO]:
    """A new file that takes its name when the block ends without an error."""
    directory, name = os.path.split(_local(path))
    aside = os.path.join(directory, f"{name}.{uuid.uuid4().hex}{ASIDE}")
    with _writing(path):
        os.makedirs(directory or ".", exist_ok=True)
        file = open(aside, "wb")
    try:
        with file:
            try:
                yield file
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                raise UserError(f"{path}: cannot be written ({error.strerror}).") from None
            with _writing(path):
                file.flush()
                os.fsync(file.fileno())
        with _writing(path):
            os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}).") from None


def write(path: str, content: bytes) -> None:
    """Writes a whole file."""
    with create(path) as file:
        file.write(content)


def move(path: str, target: str) -> None:
    """Moves a file or a directory to a place where there is none, or a file onto a file."""
    os.replace(_local(path), target)


def names(directory: str) -> list[str]:
    """The names of what is in a directory; none if it is not there."""
    return sorted(os.listdir(directory)) if os.path.isdir(_local(directory)) else []


def holds(directory: str, path: str) -> bool:
    """Whether a file lies below a directory."""
    root = os.path.join(os.path.realpath(_local(directory)), "")
    return os.path.realpath(_local(path)).startswith(root)


def same(path: str, other: str) -> bool:
    """Whether two paths lead to the same place."""
    return os.path.realpath(_local(path)) == os.path.realpath(_local(other))


@contextlib.contextmanager
def lock(path: str) -> Iterator[None]:
    """Holds a lock file that no other process has; the system lets go of it if we are killed."""
    with _writing(path):
        os.makedirs(os.path.dirname(_local(path)), exist_ok=True)
        file = open(path, "wb")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{path}: another process is at work here; wait for its end.") from None
        yield


def remove(path: str) -> None:
    """Removes a file or a directory with all it holds; nothing happens if it is not there.

    What another process writes meanwhile may stay, so nothing may be trusted by its name alone.
    """
    if os.path.isdir(_local(path)):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def remove_asides(directory: str) -> None:
    """Removes what killed programs left half-written below a directory."""
    for path in glob.glob(join(glob.escape(_local(directory)), "**", f"*{ASIDE}"), recursive=True):
        remove(path)


def find(patterns: Iterable[str]) -> list[FileInfo]:
    """The files that the patterns match, pattern by pattern, each file once, sorted by name."""
    found: dict[str, FileInfo] = {}
    for pattern in patterns:
        names = [pattern] if os.path.exists(_local(pattern)) else sorted(glob.glob(pattern))
        if not names:
            raise UserError(f"{pattern}: no such file; check the path or the pattern.")
        for name in names:
            if os.path.isdir(name):
                raise UserError(f"{name}: is a directory; name its files, such as '{name}/*'.")
            if not _is_unicode(name):
                raise UserError(f"{name!r}: the name is not UTF-8; rename the file.")
            stat = os.stat(name)
            info = FileInfo(name, stat.st_size, stat.st_mtime_ns)
            found.setdefault(os.path.realpath(name), info)
    return list(found.values())


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def compressing(file: BinaryIO, compress: bool) -> contextlib.AbstractContextManager[BinaryIO]:
    """What to write to so that a file is compressed, if it is to be; the same bytes at any time."""
    if not compress:
        return contextlib.nullcontext(file)
    return gzip.GzipFile(fileobj=file, mode="wb", compresslevel=4, mtime=0, filename="")


def codec(path: str) -> str | None:
    """The compression that the ending of a file tells, or None."""
    return next((codec for ending, codec in _CODECS.items() if path.endswith(ending)), None)


class Decompressed:
    """A compressed file read as a stream."""

    def __init__(self, path: str):
        """Opens a file whose ending tells its compression."""
        self._path = path
        self._file = open_read(path)
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._file, "r"), codec(path))

    def __enter__(self) -> "Decompressed":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; none at the end."""
        try:
            return self._stream.read(size)
        except OSError as error:
            raise UserError(
                f"{self._path}: cannot be decompressed ({error}); is it "
                "whole, and compressed as its ending says?"
            ) from None

    def position(self) -> int:
        """How many compressed bytes were taken."""
        return self._file.tell()


def _local(path: str) -> str:
    if "://" in path:
        scheme = path.split("://")[0]
        raise UserError(
            f"{path}: files at {scheme}:// cannot be reached by this version; copy them to a disk "
            "that is mounted on this machine and give the local path."
        )
    return path
