"""Files at object stores and on HDFS, by pyarrow."""

import contextlib
import fnmatch
import functools
import glob
import io
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import fs

from fives_tf.errors import UserError
from fives_tf.storage.lease import Lease
from fives_tf.storage.place import ASIDE, FileInfo, Place
from fives_tf.storage.settings import ATTEMPTS, S3Settings

SCHEMES = ("s3", "gs", "hdfs")
_PROBE = "fives-probe"  # a directory that nobody has
_PROBE_ATTEMPTS = 3  # so that a mistake is told within seconds
_PATIENCE, _HASTE = timedelta(minutes=2), timedelta(seconds=10)
_AT_ONCE = 16  # files that are copied at the same time
_CHUNK = 8 << 20  # bytes that are written by one request
_BUFFER = 1 << 20  # and read, at least
_LONGEST_PAUSE = 10.0  # seconds


@dataclass(frozen=True)
class Store:
    """What a user is told of a store.

    Attributes:
        name: Its name.
        address: What says where it is.
        credentials: What says who the user is.
    """

    name: str
    address: str
    credentials: str

    def mistake(self, error: OSError) -> str | None:
        """What a user can do about an error; None if it is one of the store itself."""
        for pattern, reason in _REASONS.items():
            if re.search(pattern, str(error), re.IGNORECASE):
                return reason.format(**vars(self))
        return None

    def explain(self, error: OSError) -> str:
        """What went wrong, and what to do about it."""
        return self.mistake(error) or f"{self.name} fails ({str(error).splitlines()[0]})"


# What errors of the libraries have in them, and what a user is told; the first that fits.
_REASONS = {
    "network_connection|curlcode|resolve|timeout|retry policy": "{name} cannot be reached; check "
    "{address}, and the network",
    "libjvm|libhdfs|class ?path": "HDFS needs Java and Hadoop on every machine; set JAVA_HOME and "
    "HADOOP_HOME, and CLASSPATH to what `hadoop classpath --glob` prints",
    "access_?key_?id|signature|token|credential": "the credentials are not those of {name}; check "
    "{credentials}",
    "access_?denied|forbidden|status 403|permission": "no permission at {name}; ask for the right "
    "to list, read, write and delete there",
}
_GOOGLE = Store("Google Cloud Storage", "the name of the bucket", "GOOGLE_APPLICATION_CREDENTIALS")


def remote(path: str) -> "Remote":
    """The store that a path such as `s3://bucket/log.csv` is at."""
    scheme, _, rest = path.partition("://")
    if scheme not in SCHEMES:
        known = ", ".join(f"{one}://" for one in SCHEMES)
        raise UserError(
            f"{path}: {scheme}:// is not known; give a path of this machine, or one at {known}."
        )
    authority = rest.split("/")[0]
    if not authority and scheme != "hdfs":
        raise UserError(f"{path}: expected a bucket, as in {scheme}://bucket/directory.")
    return _connect(scheme, authority)


@functools.cache
def _connect(scheme: str, authority: str) -> "Remote":
    """A store, once it has answered; a mistake of the user is told without long repetition."""
    prefix, store = f"{scheme}://", _GOOGLE
    if scheme == "s3":
        settings = S3Settings.read(os.environ)
        os.environ.update(settings.for_both())
        store = Store(
            settings.endpoint or f"Amazon S3 in {settings.region}",
            "AWS_ENDPOINT_URL and AWS_REGION",
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        )
        patient = fs.S3FileSystem(**settings.for_arrow(ATTEMPTS))
        hasty = fs.S3FileSystem(**settings.for_arrow(_PROBE_ATTEMPTS))
    elif scheme == "gs":
        patient = fs.GcsFileSystem(retry_time_limit=_PATIENCE)
        hasty = fs.GcsFileSystem(retry_time_limit=_HASTE)
    else:
        prefix = f"hdfs://{authority}"
        store = Store(prefix, "its name and port", "HADOOP_USER_NAME")
        with _telling(prefix, store):
            patient = hasty = fs.FileSystem.from_uri(f"{prefix}/")[0]
    root = f"{scheme}://{authority}"
    with _telling(root, store):
        try:
            found = _has_root(hasty, root[len(prefix) :])
        except OSError as error:
            if store.mistake(error):
                raise
            found = _has_root(patient, root[len(prefix) :])  # it is there, but busy
    if not found:
        raise UserError(f"{root}: there is no such bucket; check its name, or create it.")
    return Remote(prefix, patient, store)


def _has_root(system: fs.FileSystem, root: str) -> bool:
    # To list says why, if it is refused.
    system.get_file_info(fs.FileSelector(f"{root}/{_PROBE}", allow_not_found=True))
    return _is_there(system.get_file_info(root or "/"))


class Remote(Place):
    """Files at a store.

    Attributes:
        prefix: What the paths of the file system do not have.
    """

    def __init__(self, prefix: str, system: fs.FileSystem, store: Store):
        """Takes a file system.

        Args:
            prefix: What its paths do not have.
            system: The file system.
            store: What users are told of it.
        """
        self.prefix, self._system, self._store = prefix, system, store

    def exists(self, path: str) -> bool:
        return _is_there(self._info(path))

    def is_directory(self, path: str) -> bool:
        return self._info(path).type == fs.FileType.Directory

    def size(self, path: str) -> int | None:
        return self._info(path).size

    def sizes(self, directory: str) -> dict[str, int]:
        start = len(self._key(directory)) + 1
        return {info.path[start:]: info.size for info in self._files(directory)}

    def open_read(self, path: str) -> BinaryIO:
        try:
            with _telling(path, self._store):
                file = self._system.open_input_file(self._key(path))
        except FileNotFoundError:
            raise UserError(f"{path}: cannot be read (there is no such file).") from None
        return io.BufferedReader(_Reader(path, file, self._store), _BUFFER)

    @contextlib.contextmanager
    def create(self, path: str, aside: str) -> Iterator[BinaryIO]:
        # A store takes what was written so far for the whole, so until then it has another name.
        with _telling(path, self._store):
            file = self._system.open_output_stream(self._key(aside), buffer_size=_CHUNK)
        try:
            try:
                yield file
            finally:
                with _telling(path, self._store):
                    file.close()
            self.move(aside, path)
        except BaseException:
            with contextlib.suppress(OSError, UserError):
                self.remove(aside)
            raise

    @contextlib.contextmanager
    def create_directory(self, path: str, aside: str, last: str) -> Iterator[str]:
        with tempfile.TemporaryDirectory() as directory:
            yield directory
            found = glob.glob("**", root_dir=directory, recursive=True, include_hidden=True)
            names = [one for one in found if os.path.isfile(os.path.join(directory, one))]
            _at_once(
                lambda name: self._upload(os.path.join(directory, name), f"{path}/{name}"),
                [name for name in names if name != last],
            )
            self._upload(os.path.join(directory, last), f"{path}/{last}")

    @contextlib.contextmanager
    def fetched(self, directory: str) -> Iterator[str]:
        with tempfile.TemporaryDirectory() as copy:
            _at_once(
                lambda name: self._download(f"{directory}/{name}", os.path.join(copy, name)),
                list(self.sizes(directory)),
            )
            yield copy

    def append(self, path: str, content: bytes) -> None:
        before = b""
        if self.exists(path):
            with self.open_read(path) as file:
                before = file.read()
        self._write(path, before + content)

    def move(self, path: str, target: str) -> None:
        key, target_key = self._key(path), self._key(target)
        with _telling(path, self._store):
            if not self.is_directory(path):
                self._system.move(key, target_key)
                return
            paths = [info.path for info in self._files(path)]
            _at_once(lambda one: self._system.move(one, target_key + one[len(key) :]), paths)
            self.remove(path)

    def names(self, directory: str) -> list[str]:
        return sorted(info.base_name for info in self._list(directory))

    def absolute(self, path: str) -> str:
        return path

    def resolved(self, path: str) -> str:
        return self.prefix + self._key(path)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        def read() -> bytes | None:
            if not self.exists(path):
                return None
            with contextlib.suppress(UserError), self.open_read(path) as file:
                return file.read()

        lease = Lease(
            path, read, lambda content: self._write(path, content), lambda: self.remove(path)
        )
        with lease.held():
            yield

    def remove(self, path: str) -> None:
        kind = self._info(path).type
        with _telling(path, self._store), contextlib.suppress(FileNotFoundError):
            if kind == fs.FileType.Directory:
                self._system.delete_dir(self._key(path))
            elif kind == fs.FileType.File:
                self._system.delete_file(self._key(path))

    def remove_asides(self, directory: str) -> None:
        for name in self.sizes(directory):
            if any(part.endswith(ASIDE) for part in name.split("/")):
                self.remove(f"{directory.rstrip('/')}/{name}")

    def match(self, pattern: str) -> Iterator[FileInfo]:
        info = self._info(pattern)
        found = [info] if _is_there(info) else self._glob("", self._key(pattern).split("/"))
        for one in sorted(found, key=lambda info: info.path):
            path = self.prefix + one.path
            if one.type == fs.FileType.Directory:
                raise UserError(f"{path}: is a directory; name its files, such as '{path}/*'.")
            yield FileInfo(path, one.size, one.mtime_ns)

    def _info(self, path: str) -> fs.FileInfo:
        with _telling(path, self._store):
            return self._system.get_file_info(self._key(path))

    def _list(self, directory: str, recursive: bool = False) -> list[fs.FileInfo]:
        where = fs.FileSelector(self._key(directory), allow_not_found=True, recursive=recursive)
        with _telling(directory, self._store):
            return self._system.get_file_info(where)

    def _files(self, directory: str) -> list[fs.FileInfo]:
        """All files below a directory."""
        every = self._list(directory, recursive=True)
        return [info for info in every if info.type == fs.FileType.File]

    def _glob(self, directory: str, parts: list[str]) -> Iterator[fs.FileInfo]:
        """What is matched by the parts of a pattern below a directory, as `glob` does."""
        fixed = next((n for n, part in enumerate(parts) if glob.has_magic(part)), len(parts))
        directory = "/".join([*([directory] if directory else []), *parts[:fixed]])
        if fixed == len(parts):
            yield from filter(_is_there, [self._info(self.prefix + directory)])
            return
        pattern, *rest = parts[fixed:]
        for info in self._list(self.prefix + directory):
            hidden = info.base_name.startswith(".") and not pattern.startswith(".")
            if hidden or not fnmatch.fnmatchcase(info.base_name, pattern):
                continue
            if not rest:
                yield info
            elif info.type == fs.FileType.Directory:
                yield from self._glob(info.path, rest)

    def _write(self, path: str, content: bytes) -> None:
        """Replaces a file by a single request, so that it needs no other name meanwhile."""
        with _telling(path, self._store):
            with self._system.open_output_stream(self._key(path)) as file:
                file.write(content)

    def _upload(self, source: str, path: str) -> None:
        with _telling(path, self._store), open(source, "rb") as file:
            with self._system.open_output_stream(self._key(path)) as target:
                shutil.copyfileobj(file, target, _CHUNK)

    def _download(self, path: str, target: str) -> None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with self.open_read(path) as file, open(target, "wb") as copy:
            shutil.copyfileobj(file, copy, _CHUNK)

    def _key(self, path: str) -> str:
        """The path as the file system has it."""
        return re.sub("/+", "/", path[len(self.prefix) :]).rstrip("/") or "/"


class _Reader(io.RawIOBase):
    """Reads a file at a store, and tries again.

    pyarrow does so too, but gives up at once if a short read is answered by an error.
    """

    def __init__(self, path: str, file: pa.NativeFile, store: Store):
        self._path, self._file, self._store = path, file, store
        self._size, self._position = file.size(), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._position)
        if wanted <= 0:
            return 0
        content = self._read(wanted)
        buffer[: len(content)] = content
        self._position += len(content)
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _read(self, wanted: int) -> bytes:
        for attempt in range(1, ATTEMPTS):
            try:
                return self._file.read_at(wanted, self._position)
            except OSError:
                time.sleep(random.uniform(0, min(0.1 * 2**attempt, _LONGEST_PAUSE)))
        with _telling(self._path, self._store):
            return self._file.read_at(wanted, self._position)


def _is_there(info: fs.FileInfo) -> bool:
    return info.type != fs.FileType.NotFound


def _at_once(work: Callable[[str], None], names: list[str]) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(work, names):
            pass


@contextlib.contextmanager
def _telling(path: str, store: Store) -> Iterator[None]:
    """Turns the errors of a store into those of a user; a file that is not there is no error."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path}: {store.explain(error)}.") from None
