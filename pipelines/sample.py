"""A part of a log that is spread over it, without the test rows, to try encodings on.

The train and the valid rows become a Parquet file each. A row's split follows from its place in the
whole log, as when that is preprocessed, so that no test row is ever among them.
"""

import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fives_tf import progress, storage
from fives_tf.errors import UserError
from fives_tf.parsing import Rows
from fives_tf.schema import SPLITS, Format, Label, Schema, SplitRule
from fives_tf.splitting import Splitter
from pipelines.pieces import cut_log
from pipelines.sources import LogFile, Piece, open_log, read_blocks

STRETCHES = 32
USED = ("train", "valid")
_DOCUMENT = "sample.json"
_PIECE_BYTES = 4 << 20
_MOST_PIECES = 65_536
_SHOWN_REJECTS = 5


@dataclass(frozen=True)
class Sample:
    """The rows of a sample; their files are `train.parquet` and `valid.parquet`.

    Attributes:
        directory: Where it is.
        read: How many rows were looked at, those of the test among them.
        rows: How many were taken, by split.
        clicks: How many of those have a click, by split.
        rejected: How many of the rows that were read are bad.
    """

    directory: str
    read: int
    rows: dict[str, int]
    clicks: dict[str, int]
    rejected: int

    @classmethod
    def find(cls, directory: str) -> "Sample | None":
        """The sample in a directory, if it is complete."""
        path = storage.join(directory, _DOCUMENT)
        if not storage.exists(path):
            return None
        return cls(directory, **json.loads(storage.read(path)))

    @property
    def files(self) -> list[str]:
        """The files, to be preprocessed."""
        return [_path(self.directory, split) for split in USED]


def sample_schema(schema: Schema) -> Schema:
    """What describes the sample of a log, given what describes the log."""
    return dataclasses.replace(
        schema,
        format=Format(kind="parquet", quote=None),
        label=Label(schema.label.column),
        drop=(),
        split=SplitRule(
            by="files",
            valid=None,
            test=None,
            seed=schema.split.seed,
            files={split: (f"{split}.parquet",) for split in USED},
        ),
    )


def write_sample(inputs: Iterable[str], schema: Schema, rows: int, directory: str) -> Sample:
    """Takes a sample of a log; refuses one that has not both labels in train and in valid.

    The whole log is looked through once for where its rows begin, and a part of it is read.

    Args:
        inputs: Files or patterns.
        schema: What the log's columns mean.
        rows: How many rows to look at, at most.
        directory: Where to write the sample.
    """
    files = open_log(inputs, schema)
    size = sum(file.size for file in files)
    tally = _Tally()
    with progress.view("sample", 2 * size) as view, contextlib.ExitStack() as stack:
        pieces, total = _cut(files, schema, view)
        splitter, wanted = Splitter(schema.split, total), Stretches(total, rows)
        writers = {split: stack.enter_context(_writer(directory, split, schema)) for split in USED}
        done = size
        for piece, end in zip(pieces, [*(p.first_row for p in pieces[1:]), total], strict=True):
            if not wanted.meet(piece.first_row, end):
                done += piece.size
                continue
            for block in read_blocks(piece, schema, _PIECE_BYTES):
                found = block.rows
                inside = wanted.hold(found.number)
                splits = splitter.assign(found.number, found.keys, piece.file.split)
                tally.add(found, inside, piece.file.path)
                for split, writer in writers.items():
                    chosen = inside & (splits == SPLITS.index(split))
                    if chosen.any():
                        writer.write_batch(_batch(found, chosen, schema))
                        tally.take(split, found.label[chosen])
                done += block.size
                view.update(tally.read, done)
        tally.check(schema)
    sample = Sample(directory, tally.read, tally.rows, tally.clicks, tally.bad)
    document = dataclasses.asdict(sample)
    del document["directory"]  # it may be moved
    storage.write(storage.join(directory, _DOCUMENT), json.dumps(document).encode())
    return sample


class Stretches:
    """Which rows of a log are taken: stretches of equal length, at equal distances.

    Stretches and not single rows, because only what holds a wanted row must be read.
    """

    def __init__(self, total: int, rows: int):
        """Chooses the rows.

        Args:
            total: The number of rows of the log.
            rows: How many are wanted.
        """
        rows = min(rows, total)
        count = min(STRETCHES, rows)
        ends = np.arange(1, count + 1)
        self._starts = (ends - 1) * total // count
        self._ends = self._starts + ends * rows // count - (ends - 1) * rows // count

    def hold(self, number: np.ndarray) -> np.ndarray:
        """Which of some rows, given by their numbers, are taken."""
        return number < self._ends[np.searchsorted(self._starts, number, side="right") - 1]

    def meet(self, first: int, end: int) -> bool:
        """Whether any of the rows from `first` to before `end` is taken."""
        return bool(((self._starts < end) & (self._ends > first)).any())


def _cut(files: list[LogFile], schema: Schema, view: progress.View) -> tuple[list[Piece], int]:
    """The pieces of a log, small ones, and the number of its rows."""
    size = max(_PIECE_BYTES, sum(file.size for file in files) // _MOST_PIECES)
    pieces, total = cut_log(files, schema.format, size, lambda done: view.update(0, done))
    if total == 0:
        raise UserError(f"{', '.join(file.path for file in files)}: no row to read.")
    return pieces, total


@contextlib.contextmanager
def _writer(directory: str, split: str, schema: Schema) -> Iterator[pq.ParquetWriter]:
    fields = [(schema.label.column, pa.int8())]
    fields += [(c.name, pa.float64() if c.numeric else pa.binary()) for c in schema.columns]
    with (
        storage.create(_path(directory, split)) as file,
        pq.ParquetWriter(file, pa.schema(fields)) as writer,
    ):
        yield writer


def _batch(rows: Rows, chosen: np.ndarray, schema: Schema) -> pa.RecordBatch:
    kept = rows.batch.filter(pa.array(chosen))
    columns = {schema.label.column: pa.array(rows.label[chosen].astype(np.int8))}
    for column in schema.columns:
        values = kept.column(column.name)
        columns[column.name] = values if column.numeric else values.dictionary_decode()
    return pa.RecordBatch.from_pydict(columns)


class _Tally:
    """What was met on the way through a log."""

    def __init__(self):
        self.read = self.bad = 0
        self.rows, self.clicks = dict.fromkeys(USED, 0), dict.fromkeys(USED, 0)
        self._good, self._rejects = 0, []

    def add(self, rows: Rows, inside: np.ndarray, path: str) -> None:
        """Counts the rows of a block and those of them that are looked at."""
        self.read += int(inside.sum())
        self._good += len(inside)
        self.bad += len(rows.rejects)
        shown = rows.rejects[: _SHOWN_REJECTS - len(self._rejects)]
        self._rejects += [f"  {path}:{reject.line}: {reject.reason}" for reject in shown]

    def take(self, split: str, label: np.ndarray) -> None:
        """Counts rows that are taken."""
        self.rows[split] += len(label)
        self.clicks[split] += int(label.sum())

    def check(self, schema: Schema) -> None:
        """A regression needs both labels to learn from, and an AUC both to tell apart."""
        if self.bad > self._good:
            raise UserError(
                f"{self.bad:,} of the {self._good + self.bad:,} rows that were read are bad. The "
                "first:\n" + "\n".join(self._rejects) + "\nCorrect the schema."
            )
        label = schema.label
        for split, rows in self.rows.items():
            if rows == 0:
                raise UserError(
                    f"the {split} split has none of the {self.read:,} rows that were read; change "
                    f"`split` in the schema, which is by {schema.split.by}, or read more (--rows)."
                )
            if not 0 < self.clicks[split] < rows:
                raise UserError(
                    f"the {split} split has {self.clicks[split]:,} clicks in the {rows:,} rows of "
                    "it that were read; both rows with and without a click are needed. Look at "
                    f"`label` in the schema, by which {' or '.join(label.positive)} in the column "
                    f"{label.column} is a click, and at `split`, or read more rows (--rows)."
                )


def _path(directory: str, split: str) -> str:
    return storage.join(directory, f"{split}.parquet")
