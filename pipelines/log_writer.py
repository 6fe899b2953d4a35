"""A log with further columns, as Parquet or CSV by the ending of its name."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from fives_tf import storage
from fives_tf.errors import UserError

ENDINGS = (".parquet", ".csv", ".csv.gz")
_ROW_GROUP_BYTES = 8 << 20


def ending(path: str) -> str:
    """The ending of a file that can be written; refuses any other."""
    for known in ENDINGS:
        if path.endswith(known):
            return known
    raise UserError(f"{path}: expected a name that ends in {', '.join(ENDINGS)}.")


@contextlib.contextmanager
def create(path: str, keep: tuple[str, ...], added: pa.Schema) -> Iterator["LogWriter"]:
    """A new file, which takes its name when the block ends without an error.

    Args:
        path: The file.
        keep: The columns of the log, which come first.
        added: The columns that are added.
    """
    kind = _Parquet if ending(path) == ".parquet" else _Csv
    schema = pa.schema([*(pa.field(name, pa.string()) for name in keep), *added])
    with (
        storage.create(path) as file,
        storage.compressing(file, path.endswith(".gz")) as stream,
        kind(stream, schema) as writer,
    ):
        yield writer


class LogWriter(ABC):
    """A file that is being written."""

    @abstractmethod
    def write(self, kept: dict[str, pa.BinaryArray], added: Sequence[pa.Array]) -> None:
        """Adds rows.

        Args:
            kept: The columns of the log, by name.
            added: Those that are added, null where a row could not be read.
        """

    def __enter__(self) -> "LogWriter":
        return self

    @abstractmethod
    def __exit__(self, *error: object) -> None: ...


class _Csv(LogWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema):
        self._schema = schema
        self._writer = pa_csv.CSVWriter(file, schema)

    def write(self, kept: dict[str, pa.BinaryArray], added: Sequence[pa.Array]) -> None:
        # A view, not a cast: text that is not UTF-8 stays as it is in the log.
        texts = [values.view(pa.string()) for values in kept.values()]
        batch = pa.RecordBatch.from_arrays([*texts, *added], schema=self._schema)
        self._writer.write_batch(batch)

    def __exit__(self, *error: object) -> None:
        self._writer.close()


class _Parquet(LogWriter):
    def __init__(self, file: BinaryIO, schema: pa.Schema):
        self._writer = pq.ParquetWriter(file, schema)
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []

    def write(self, kept: dict[str, pa.BinaryArray], added: Sequence[pa.Array]) -> None:
        texts = [_to_text(values) for values in kept.values()]
        batch = pa.RecordBatch.from_arrays([*texts, *added], schema=self._schema)
        self._waiting.append(batch)
        if sum(batch.nbytes for batch in self._waiting) >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting = []

    def __exit__(self, *error: object) -> None:
        if self._waiting:
            self._flush()
        self._writer.close()


def _to_text(values: pa.BinaryArray) -> pa.StringArray:
    """The values as text, which in Parquet must be UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [v if v is None else v.decode("utf-8", "replace") for v in values.to_pylist()]
        return pa.array(texts, pa.string())
