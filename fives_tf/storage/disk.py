"""Files on this machine, or on what is mounted there."""

import contextlib
import errno
import fcntl
import glob
import os
import shutil
from collections.abc import Iterator
from typing import BinaryIO

from fives_tf.errors import UserError
from fives_tf.storage.place import ASIDE, FileInfo, Place

_FULL = (errno.ENOSPC, errno.EDQUOT)


class Disk(Place):
    """The file system of this machine."""

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int | None:
        return os.path.getsize(path) if os.path.isfile(path) else None

    def sizes(self, directory: str) -> dict[str, int]:
        paths = glob.glob("**", root_dir=directory, recursive=True, include_hidden=True)
        found = {path: self.size(os.path.join(directory, path)) for path in paths}
        return {path: size for path, size in found.items() if size is not None}

    def open_read(self, path: str) -> BinaryIO:
        try:
            return open(path, "rb")
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}).") from None

    @contextlib.contextmanager
    def create(self, path: str, aside: str) -> Iterator[BinaryIO]:
        with _writing(path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
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
    def create_directory(self, path: str, aside: str, last: str) -> Iterator[str]:
        with _writing(path):
            os.makedirs(aside)
        try:
            yield aside
            self.move(aside, path)
        finally:
            self.remove(aside)

    @contextlib.contextmanager
    def fetched(self, directory: str) -> Iterator[str]:
        yield directory

    def append(self, path: str, content: bytes) -> None:
        with _writing(path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "ab") as file:
                file.write(content)

    def move(self, path: str, target: str) -> None:
        os.replace(path, target)

    def names(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory)) if os.path.isdir(directory) else []

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    def resolved(self, path: str) -> str:
        return os.path.realpath(path)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        with _writing(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = open(path, "wb")
        with file:
            try:
                # The system lets go of it if we are killed.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"{path}: another process is at work here; wait for its end."
                ) from None
            yield

    def remove(self, path: str) -> None:
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def remove_asides(self, directory: str) -> None:
        pattern = os.path.join(glob.escape(directory), "**", f"*{ASIDE}")
        for path in glob.glob(pattern, recursive=True):
            self.remove(path)

    def match(self, pattern: str) -> Iterator[FileInfo]:
        for name in [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern)):
            if os.path.isdir(name):
                raise UserError(f"{name}: is a directory; name its files, such as '{name}/*'.")
            if not _is_unicode(name):
                raise UserError(f"{name!r}: the name is not UTF-8; rename the file.")
            stat = os.stat(name)
            yield FileInfo(name, stat.st_size, stat.st_mtime_ns)


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}).") from None


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
