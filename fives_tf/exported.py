"""A model that `fives export` wrote: which version, and what the columns of its logs mean.

Apart from `fives_tf.predictor`, so that a user's mistake is told before TensorFlow is loaded.
"""

import os
from dataclasses import dataclass

from fives_tf import storage
from fives_tf.errors import UserError
from fives_tf.schema import Schema

MODEL = "saved_model.pb"
SCHEMA = "assets.extra/schema.yaml"


@dataclass(frozen=True)
class Export:
    """One version of an exported model.

    Attributes:
        path: The directory of the SavedModel.
        schema: What the columns of its logs mean.
    """

    path: str
    schema: Schema

    @classmethod
    def open(cls, directory: str) -> "Export":
        """Finds a version and reads its schema.

        Args:
            directory: A version directory, or the one above; then the latest version is taken.
        """
        path = _find_version(directory.rstrip("/") or directory)
        place = storage.join(path, SCHEMA)
        if not storage.exists(place):
            raise UserError(
                f"{path}: is a SavedModel without {SCHEMA}, which tells how a log is read; give "
                "one that `fives export` wrote."
            )
        return cls(path, Schema.load(place))


def versions(directory: str) -> list[int]:
    """The versions below a directory, the latest last; only integers are versions."""
    return sorted(
        int(name)
        for name in storage.names(directory)
        if name.isascii() and name.isdigit() and str(int(name)) == name
        if storage.exists(storage.join(directory, name, MODEL))
    )


def check_base(base: str, version: int | None = None) -> None:
    """Refuses a directory in which a version cannot be written."""
    if storage.exists(base) and not storage.is_directory(base):
        raise UserError(f"{base}: is a file; choose a directory for the versions.")
    if storage.exists(storage.join(base, MODEL)):
        raise UserError(
            f"{base}: is a version itself; name the directory above it, which holds the versions."
        )
    if version is not None and version < 1:
        raise UserError(f"--version: expected at least 1. Received: {version}.")
    if version is not None and storage.exists(storage.join(base, str(version))):
        raise UserError(
            f"{base}: version {version} is there already, and a server may be serving it; leave "
            f"--version out for the next one, {next_version(base)}."
        )


def next_version(base: str) -> int:
    """The number above all versions below a directory."""
    taken = [int(name) for name in storage.names(base) if name.isascii() and name.isdigit()]
    return max(taken, default=0) + 1


def _find_version(directory: str) -> str:
    if storage.exists(storage.join(directory, MODEL)):
        return directory
    found = versions(directory)
    if found:
        return storage.join(directory, str(found[-1]))
    if storage.exists(directory):
        raise UserError(
            f"{directory}: holds no SavedModel; give a version that `fives export` wrote, or the "
            "directory of its versions."
        )
    others = ", ".join(map(str, versions(os.path.dirname(directory) or ".")))
    remedy = f"the versions beside it are {others}." if others else "check the path."
    raise UserError(f"{directory}: no such exported model; {remedy}")
