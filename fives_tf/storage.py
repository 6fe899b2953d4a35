"""Files: the one place that opens, lists, renames and removes them.

A file is written aside and renamed when it is whole, so that a killed program leaves nothing that
looks complete.
"""

import contextlib
import glob
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
    try:
        os.makedirs(directory or ".", exist_ok=True)
        file = open(aside, "wb")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}).") from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
        raise


def write(path: str, content: bytes) -> None:
    """Writes a whole file."""
    with create(path) as file:
        file.write(content)


def remove(path: str) -> None:
    """Removes a file or a directory with all it holds; nothing happens if it is not there."""
    if os.path.isdir(_local(path)):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def remove_asides(directory: str) -> None:
    """Removes what killed programs left half-written below a directory."""
    for path in glob.glob(join(_local(directory), "**", f"*{ASIDE}"), recursive=True):
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
            stat = os.stat(name)
            found.setdefault(name, FileInfo(name, stat.st_size, stat.st_mtime_ns))
    return list(found.values())


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
                f"{self._path}: cannot be decompressed ({error}); is it cut short? Copy it again."
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
