"""Files: the one place that opens, lists, renames and removes them.

A path is one of this machine, or that of a store, such as `s3://bucket/directory`. A file is
written aside and renamed when it is whole, so that a killed program leaves nothing that looks
complete.
"""

import contextlib
import gzip
import os
import uuid
from collections.abc import Iterable
from typing import BinaryIO

from fives_tf.errors import UserError
from fives_tf.storage.disk import Disk
from fives_tf.storage.place import ASIDE, FileInfo, Place
from fives_tf.storage.settings import teach_tensorflow

__all__ = ["ASIDE", "FileInfo"]

_CODECS = {".gz": "gzip", ".zst": "zstd"}
_DISK = Disk()


def join(directory: str, *names: str) -> str:
    """The path of a file below a directory."""
    return os.path.join(directory, *names)


def is_remote(path: str) -> bool:
    """Whether a path is that of a store."""
    return "://" in path


def for_tensorflow(path: str) -> str:
    """A path that is handed to TensorFlow, which learns to reach stores if need be."""
    if is_remote(path) and not path.startswith("gs://"):  # which it knows by itself
        teach_tensorflow()
    return path


def exists(path: str) -> bool:
    """Whether there is a file or directory."""
    return _place(path).exists(path)


def is_directory(path: str) -> bool:
    """Whether there is a directory."""
    return _place(path).is_directory(path)


def size(path: str) -> int | None:
    """The size of a file in bytes; None if there is none."""
    return _place(path).size(path)


def sizes(directory: str) -> dict[str, int]:
    """The sizes in bytes of all files below a directory, by their paths from there."""
    return _place(directory).sizes(directory)


def read(path: str) -> bytes:
    """The content of a file."""
    with open_read(path) as file:
        return file.read()


def open_read(path: str) -> BinaryIO:
    """A file opened for reading at any place."""
    return _place(path).open_read(path)


def create(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    """A new file that takes its name when the block ends without an error."""
    return _place(path).create(path, _aside(path))


def create_directory(path: str, last: str) -> contextlib.AbstractContextManager[str]:
    """A directory of this machine whose files are at `path` when the block ends without an error.

    Args:
        path: Where there is nothing yet.
        last: The file without which the others mean nothing; at a store, where a directory cannot
            come into being at once, it is the last to come.
    """
    return _place(path).create_directory(path, _aside(path), last)


def fetched(directory: str) -> contextlib.AbstractContextManager[str]:
    """A directory as one of this machine: itself, or for the length of the block a copy."""
    return _place(directory).fetched(directory)


def write(path: str, content: bytes) -> None:
    """Writes a whole file."""
    with create(path) as file:
        file.write(content)


def append(path: str, content: bytes) -> None:
    """Adds to a file, which is made if there is none; at a store it is written anew."""
    _place(path).append(path, content)


def move(path: str, target: str) -> None:
    """Moves a file or a directory to a place where there is none, or a file onto a file."""
    _place(path).move(path, target)


def names(directory: str) -> list[str]:
    """The names of what is in a directory; none if it is not there."""
    return _place(directory).names(directory)


def absolute(path: str) -> str:
    """The path that means the same from every working directory."""
    return _place(path).absolute(path)


def holds(directory: str, path: str) -> bool:
    """Whether a file lies below a directory."""
    return _resolved(path).startswith(join(_resolved(directory), ""))


def same(path: str, other: str) -> bool:
    """Whether two paths lead to the same place."""
    return _resolved(path) == _resolved(other)


def lock(path: str) -> contextlib.AbstractContextManager[None]:
    """Holds a lock file that no other process has, until the block ends or we are killed."""
    return _place(path).lock(path)


def remove(path: str) -> None:
    """Removes a file or a directory with all it holds; nothing happens if it is not there.

    What another process writes meanwhile may stay, so nothing may be trusted by its name alone.
    """
    _place(path).remove(path)


def remove_asides(directory: str) -> None:
    """Removes what killed programs left half-written below a directory."""
    _place(directory).remove_asides(directory)


def find(patterns: Iterable[str]) -> list[FileInfo]:
    """The files that the patterns match, pattern by pattern, each file once, sorted by name."""
    found: dict[str, FileInfo] = {}
    for pattern in patterns:
        matches = list(_place(pattern).match(pattern))
        if not matches:
            raise UserError(f"{pattern}: no such file; check the path or the pattern.")
        for info in matches:
            found.setdefault(_resolved(info.path), info)
    return list(found.values())


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
        import pyarrow as pa  # not for those who ask for help only

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


def _place(path: str) -> Place:
    if not is_remote(path):
        return _DISK
    from fives_tf.storage.remote import remote  # what few need

    return remote(path)


def _aside(path: str) -> str:
    return f"{path.rstrip('/')}.{uuid.uuid4().hex}{ASIDE}"


def _resolved(path: str) -> str:
    return _place(path).resolved(path)
