"""What can be done with files, wherever they lie."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

ASIDE = ".aside"  # last in a name, so that no pattern for finished files matches


@dataclass(frozen=True)
class FileInfo:
    """A file that exists."""

    path: str
    size: int
    modified: int  # nanoseconds since 1970


class Place(ABC):
    """A disk or a store; its methods do what the functions of the same names in `storage` say."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""

    @abstractmethod
    def is_directory(self, path: str) -> bool:
        """Whether there is a directory."""

    @abstractmethod
    def size(self, path: str) -> int | None:
        """The size of a file in bytes; None if there is none."""

    @abstractmethod
    def sizes(self, directory: str) -> dict[str, int]:
        """The sizes of all files below a directory, by their paths from there."""

    @abstractmethod
    def open_read(self, path: str) -> BinaryIO:
        """A file opened for reading at any place."""

    @abstractmethod
    def create(self, path: str, aside: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """A new file `aside` that takes its name when the block ends without an error."""

    @abstractmethod
    def create_directory(
        self, path: str, aside: str, last: str
    ) -> contextlib.AbstractContextManager[str]:
        """A directory on the disk whose files are at `path` when the block ends."""

    @abstractmethod
    def fetched(self, directory: str) -> contextlib.AbstractContextManager[str]:
        """A directory as one of this machine."""

    @abstractmethod
    def append(self, path: str, content: bytes) -> None:
        """Adds to a file."""

    @abstractmethod
    def move(self, path: str, target: str) -> None:
        """Moves a file or a directory."""

    @abstractmethod
    def names(self, directory: str) -> list[str]:
        """The names of what is in a directory."""

    @abstractmethod
    def absolute(self, path: str) -> str:
        """The path that means the same from everywhere."""

    @abstractmethod
    def resolved(self, path: str) -> str:
        """The path that all paths to one place have in common."""

    @abstractmethod
    def lock(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Holds a lock file that no other process has."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file or a directory with all it holds."""

    @abstractmethod
    def remove_asides(self, directory: str) -> None:
        """Removes what killed programs left half-written below a directory."""

    @abstractmethod
    def match(self, pattern: str) -> Iterator[FileInfo]:
        """The files that a pattern matches, sorted by name; refuses a directory."""
