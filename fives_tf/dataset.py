"""The dataset directory: manifest, shards, and the input that training reads from them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fives_tf import __version__, storage
from fives_tf.cross_encoding import CROSS_ENCODING, CrossEncoding
from fives_tf.encoding import Encoding
from fives_tf.errors import UserError, nearest
from fives_tf.schema import Schema

VERSION = 1
MANIFEST = "dataset.json"
SCHEMA = "schema.yaml"
WORK = "work"
_REMOTE_BUFFER = 8 << 20  # bytes; each is a request to the store


@dataclass(frozen=True)
class Shard:
    """A TFRecord file of a split."""

    file: str
    rows: int
    clicks: int
    bytes: int


@dataclass(frozen=True)
class Split:
    """The shards of train, valid or test."""

    name: str
    shards: tuple[Shard, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(shard.rows for shard in self.shards)

    @property
    def clicks(self) -> int:
        """The number of rows with a click."""
        return sum(shard.clicks for shard in self.shards)


class Dataset:
    """A complete dataset directory.

    Example:
        dataset = Dataset.open("dataset")
        for ids, label in dataset.read("train", batch=1024):
            ...
    """

    def __init__(self, directory: str, manifest: dict[str, Any]):
        """Takes a directory and what its `dataset.json` says."""
        self.directory = directory
        self.manifest = manifest
        self.splits = {
            name: Split(name, tuple(Shard(**shard) for shard in part["shards"]))
            for name, part in manifest["splits"].items()
        }

    @classmethod
    def open(cls, directory: str) -> "Dataset":
        """Opens a directory that `fives preprocess` completed; refuses any other."""
        path = storage.join(directory, MANIFEST)
        if not storage.exists(path):
            raise UserError(_refusal(directory))
        try:
            manifest = json.loads(storage.read(path))
        except ValueError as error:
            raise UserError(
                f"{path}: is damaged ({error}); preprocess the log again with --overwrite."
            ) from None
        if manifest.get("version") != VERSION:
            raise UserError(
                f"{path}: version {manifest.get('version')} is not known to this program, which "
                f"reads version {VERSION}. Preprocess the log again."
            )
        dataset = cls(directory, manifest)
        dataset._check_shards()
        return dataset

    @property
    def encoding(self) -> Encoding:
        """The encoding that the ids come from."""
        return Encoding.load(self.directory)

    @property
    def crosses(self) -> CrossEncoding | None:
        """The crosses whose ids follow those of the fields in each row; None if there are none."""
        if not storage.exists(storage.join(self.directory, CROSS_ENCODING)):
            return None
        return CrossEncoding.from_files(
            lambda name: storage.read(storage.join(self.directory, name)), self.encoding
        )

    @property
    def schema(self) -> Schema:
        """The schema that the log was read with."""
        path = storage.join(self.directory, SCHEMA)
        return Schema.parse(storage.read(path).decode(), path)

    def split(self, name: str) -> Split:
        """A split by its name."""
        if name not in self.splits:
            raise UserError(
                f"{self.directory}: has no split `{name}`{nearest(name, self.splits)} "
                f"Its splits: {', '.join(self.splits)}."
            )
        return self.splits[name]

    def path(self, shard: Shard) -> str:
        """Where a shard lies."""
        return storage.join(self.directory, shard.file)

    def _check_shards(self) -> None:
        """Refuses a dataset with shards that are gone or cut off."""
        sizes = storage.sizes(self.directory)
        for split in self.splits.values():
            for shard in split.shards:
                if sizes.get(shard.file) != shard.bytes:
                    raise UserError(
                        f"{self.path(shard)}: is missing or not as it was written "
                        f"({shard.bytes:,} bytes); copy it again, or preprocess the log again with "
                        "--overwrite."
                    )

    def read(self, split: str, batch: int) -> Any:
        """A `tf.data.Dataset` of (ids int64 [batch, fields], label float32 [batch]).

        The records come in the order of the shards, which is random already.
        """
        import tensorflow as tf

        files = [self.path(shard) for shard in self.split(split).shards]
        return self.records(files).batch(batch).map(self.parse).prefetch(tf.data.AUTOTUNE)

    def blocks(self, shard: Shard, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The ids, int64 [rows, fields], and labels of a shard, so many rows at a time."""
        import tensorflow as tf

        path = self.path(shard)
        try:
            yield from self.records(path).batch(rows).map(self.parse).as_numpy_iterator()
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            raise UserError(
                f"{path}: has a corrupt record ({error.message.splitlines()[0]}); copy the shard "
                "again, or preprocess the log again with --overwrite."
            ) from None

    def records(self, files: Any) -> Any:
        """A `tf.data.Dataset` of the serialized records of one or more shards, in order.

        Args:
            files: A path, or a list or a string tensor of paths.
        """
        import tensorflow as tf

        storage.for_tensorflow(self.directory)
        buffer = _REMOTE_BUFFER if storage.is_remote(self.directory) else None
        return tf.data.TFRecordDataset(files, self.manifest["compression"], buffer)

    def parse(self, records: Any) -> tuple[Any, Any]:
        """The ids, int64 [batch, fields], and labels, float32 [batch], of serialized records."""
        import tensorflow as tf

        features = {
            "ids": tf.io.FixedLenFeature([len(self.manifest["fields"])], tf.int64),
            "label": tf.io.FixedLenFeature([], tf.float32),
        }
        parsed = tf.io.parse_example(records, features)
        return parsed["ids"], parsed["label"]


def manifest_json(
    fields: list[str], shards: dict[str, list[dict[str, Any]]], compression: str, **more: Any
) -> bytes:
    """The content of `dataset.json`."""
    splits = {
        name: {
            "rows": sum(shard["rows"] for shard in part),
            "clicks": sum(shard["clicks"] for shard in part),
            "shards": part,
        }
        for name, part in shards.items()
    }
    content = {
        "version": VERSION,
        "written_by": f"fives-tf {__version__}",
        "compression": compression,
        "fields": fields,
        "splits": splits,
        **more,
    }
    return json.dumps(content, indent=1, ensure_ascii=False).encode()


def _refusal(directory: str) -> str:
    if not storage.exists(directory):
        return f"{directory}: no such directory; make it with `fives preprocess`."
    if storage.exists(storage.join(directory, WORK)):
        return (
            f"{directory}: the dataset is unfinished. Run the same `fives preprocess` or "
            "`fives materialize` with --resume to go on, or with --overwrite to start again."
        )
    return f"{directory}: is no dataset directory, there is no {MANIFEST}."
