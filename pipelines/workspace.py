"""A dataset directory while it is being made: who may write there, and what is left of runs.

    dataset.json, encoding.json, train/, ...   the dataset, once it is complete
    work/fives.lock                            marks the directory as ours, and keeps others away
    work/plan.json                             an unfinished run that can be resumed
    work/RUN/                                  what that run has done so far

Everything that a run does is below a name that no other run has, so that workers that outlive a
killed run cannot meddle with the next. At the end its files move to their places, the manifest
last.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fives_tf import storage
from fives_tf.cross_encoding import CROSS_ENCODING, CROSS_VOCABULARY
from fives_tf.dataset import MANIFEST, SCHEMA, WORK, Dataset
from fives_tf.encoding import ENCODING
from fives_tf.errors import UserError
from fives_tf.schema import SPLITS
from pipelines.sources import LogFile

LOCK = "fives.lock"
FILES = (
    ENCODING,
    SCHEMA,
    "vocab",
    "counts",
    CROSS_ENCODING,
    CROSS_VOCABULARY,
    "rejected",
    *SPLITS,
)


@dataclass(frozen=True)
class Workspace:
    """A dataset directory that is being made."""

    directory: str

    @property
    def work(self) -> str:
        """Where everything is kept until the dataset is complete."""
        return storage.join(self.directory, WORK)

    @property
    def plan(self) -> str:
        """The file that says what the unfinished run is doing."""
        return storage.join(self.work, "plan.json")

    @property
    def manifest(self) -> str:
        """The file that makes the dataset complete."""
        return storage.join(self.directory, MANIFEST)

    def check_place(self, files: list[LogFile]) -> None:
        """Refuses a directory with anything in it that is not ours."""
        for file in files:
            if storage.holds(self.directory, file.path):
                raise UserError(
                    f"{self.directory}: holds the log {file.path}; choose another directory."
                )
        if storage.exists(self.directory) and not storage.is_directory(self.directory):
            raise UserError(f"{self.directory}: is a file; choose another directory.")
        work, manifest = storage.names(self.work), storage.exists(self.manifest)
        ours = LOCK in work or (not work and manifest and self._is_dataset())
        if storage.names(self.directory) and not ours:
            raise UserError(
                f"{self.directory}: is not empty, and holds no dataset; choose another directory."
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs away, and removes the work in the end if nobody needs it any more."""
        with storage.lock(storage.join(self.work, LOCK)):
            try:
                yield
            finally:
                if storage.exists(self.manifest) or not storage.exists(self.plan):
                    storage.remove(self.work)
                    if not storage.names(self.directory):
                        storage.remove(self.directory)

    def is_complete(self, fingerprint: dict[str, Any], resume: bool, overwrite: bool) -> bool:
        """Whether there is nothing to do; refuses what the user did not ask to touch.

        Args:
            fingerprint: What the dataset depends on, by the words for it in an error.
            resume: Whether to go on with an unfinished run.
            overwrite: Whether to replace what is there.
        """
        if overwrite:
            self.clear()
            return False
        if storage.exists(self.manifest):
            if resume and Dataset.open(self.directory).manifest["fingerprint"] == fingerprint:
                return True
            raise UserError(
                f"{self.directory}: holds a complete dataset; choose another directory, or give "
                "--overwrite to replace it."
            )
        if not storage.exists(self.plan):
            self.clear()  # a run may have been killed while it cleared the directory
            return False
        if not resume:
            raise UserError(
                f"{self.directory}: holds an unfinished run. Give --resume to go on with it, or "
                "--overwrite to start again."
            )
        before = json.loads(storage.read(self.plan))["fingerprint"]
        changed = [key for key in fingerprint if fingerprint[key] != before.get(key)]
        if changed:
            raise UserError(
                f"{self.directory}: cannot be resumed: the {' and the '.join(changed)} changed "
                "since the run began. Give --overwrite to start again."
            )
        storage.remove_asides(self.work)
        return False

    def publish(self, staging: str, manifest: bytes) -> None:
        """Moves the files of the dataset to their places, and writes the manifest last."""
        for name in storage.names(staging):
            target = storage.join(self.directory, name)
            if storage.is_directory(target):  # of a run that was killed in this very loop
                storage.remove(target)
            storage.move(storage.join(staging, name), target)
        storage.write(self.manifest, manifest)

    def _is_dataset(self) -> bool:
        try:
            return "fingerprint" in json.loads(storage.read(self.manifest))
        except (ValueError, TypeError):
            return False

    def clear(self) -> None:
        """Removes a dataset and what is left of runs; first what makes either look usable."""
        storage.remove(self.manifest)
        storage.remove(self.plan)
        for name in FILES:
            storage.remove(storage.join(self.directory, name))
        for name in storage.names(self.work):
            if name != LOCK:
                storage.remove(storage.join(self.work, name))
