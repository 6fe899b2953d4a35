"""The input of the training loop: shuffled batches without end, and every row once to evaluate.

The order of the rows follows from the seed and the number of the epoch alone, so that training that
was stopped goes on at any step with the very batches that it would have seen.
"""

import contextlib
import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from fives_tf import storage
from fives_tf.dataset import Dataset, Shard
from fives_tf.errors import UserError
from fives_tf.training.strategy import Place

MEMORY = 2 << 30
BUFFER = 65_536
_HOST = "CPU:0"  # where tf.data runs; the memory of a GPU is for the model
_NUMBER = 4  # bytes of an id, and of a label
_BLOCK = 4096  # records that are parsed at a time where no batch is asked for
_OPEN = 8  # shards that are read in turns
_EVEN = 0.95  # of its share of rows that each worker must have, for shards to be dealt out
_PARTS = 5  # of train, one of which is set apart
_TURN = 64  # records of a shard at its turn; one by one would take longer
# What a damaged shard raises: a wrong checksum, a record of another form, a wrong number of them.
_DAMAGE = (
    tf.errors.DataLossError,
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
)

Rows = tuple[tf.Tensor, tf.Tensor]
"""Ids, int32 [rows, fields], and labels, float32 [rows]."""


@dataclass(frozen=True)
class CorruptShard:
    """A shard that cannot be read to its end.

    Attributes:
        file: Its path within the dataset directory.
        record: Its first corrupt record, counted from 1.
        rows: The rows it was written with.
    """

    file: str
    record: int
    rows: int


class Source:
    """The rows of a dataset, held in memory if they fit and streamed from the shards if not.

    Attributes:
        dataset: The dataset.
        fields: The number of ids in a row.
        held: Whether the rows are held in memory.
        skipped: The shards that are left out because they are corrupt.
    """

    def __init__(self, dataset: Dataset, memory: int = MEMORY, skip_corrupt: bool = False):
        """Reads no row yet, unless it must look for corrupt shards.

        Args:
            dataset: The dataset.
            memory: The most bytes that the rows of all splits may take to be held in memory. While
                a split is read, it takes twice its bytes.
            skip_corrupt: Whether to look through all shards and to leave corrupt ones out.
        """
        self.dataset = dataset
        self.fields = len(dataset.manifest["fields"])
        self.skipped: tuple[CorruptShard, ...] = ()
        self._shards_of: dict[str, list[Shard]] = {}  # of splits that are not the dataset's
        if skip_corrupt:
            self.skipped = self._find_corrupt()
        self._held: dict[str, Rows] = {}
        self.held = self.rows(list(dataset.splits)) * (self.fields + 1) * _NUMBER <= memory

    def holding(self, rows: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> "Source":
        """A source of the same dataset that holds these rows, ids and labels, as its splits."""
        source = copy.copy(self)
        with tf.device(_HOST):
            source._held = {split: tuple(map(tf.constant, own)) for split, own in rows.items()}
        source.held = True
        return source

    def within_train(self) -> "Source | None":
        """A source for which a fifth of train is valid, and the rest of it is train.

        If rows are streamed, it is every fifth shard. None if there are fewer than five.
        """
        shards = self.shards(["train"])
        if (self.rows(["train"]) if self.held else len(shards)) < _PARTS:
            return None
        if self.held:
            ids, label = self.arrays("train")
            apart = np.arange(len(label)) % _PARTS == 0
            own = {"train": ~apart, "valid": apart}
            return self.holding({split: (ids[rows], label[rows]) for split, rows in own.items()})
        source = copy.copy(self)
        source._shards_of = {"train": shards[:], "valid": shards[::_PARTS]}
        del source._shards_of["train"][::_PARTS]
        return source

    def rows(self, splits: Sequence[str]) -> int:
        """The number of rows of some splits together."""
        return sum(
            len(self._held[split][1]) if split in self._held else _rows(self.shards([split]))
            for split in splits
        )

    def files(self, shards: Sequence[Shard]) -> tf.Tensor:
        """The paths of shards."""
        return tf.constant([self.dataset.path(shard) for shard in shards], tf.string)

    def deal(self, splits: Sequence[str], workers: int) -> list[list[Shard]]:
        """Deals the shards of some splits out to workers, about equally many rows to each."""
        hands: list[list[Shard]] = [[] for _ in range(workers)]
        for shard in sorted(self.shards(splits), key=lambda shard: -shard.rows):
            min(hands, key=_rows).append(shard)
        return hands

    def arrays(self, split: str, limit: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The ids, int32 [rows, fields], and labels, float32 [rows], in the order of the shards.

        Args:
            split: The name of the split.
            limit: How many rows to give at most, the first ones; all if None.
        """
        ids, label = self._load(split) if self.held else self._read(split, limit)
        return np.asarray(ids)[:limit], np.asarray(label)[:limit]  # views, not copies

    def once(
        self, splits: Sequence[str], batch: int, place: Place | None = None
    ) -> tf.data.Dataset:
        """Every row of some splits once, in the order of the shards, to evaluate on.

        Gives (ids int32 [batch, fields], label float32 [batch], rows int32 [1]). All batches have
        the same shape, so that XLA compiles once: the last is filled up with zeros, and `rows` says
        how many of its rows, the first ones, are real.

        Args:
            splits: The names of the splits.
            batch: The rows of a batch.
            place: Whose part of the rows to give, one batch for each of its replicas in turn; this
                process's unless set. All workers get equally many batches, the last ones without
                any real row.
        """
        place = place or Place.here()
        hands = self.deal(splits, place.workers)
        most = max(map(_rows, hands))
        if self.held:
            rows, gather = self.rows(splits), self.gather(splits)
            first, last = (rows * (place.worker + side) // place.workers for side in (0, 1))
            most = -(-rows // place.workers)
            batches = tf.data.Dataset.range(first, last, batch).map(
                lambda start: gather(tf.range(start, tf.minimum(start + batch, last)))
            )
        else:
            shards = self.shards(splits) if place.workers == 1 else hands[place.worker]
            batches = self._records(shards).batch(batch).map(self.parse)

        def fill(ids: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            rows = tf.shape(label)[0]
            ids = tf.pad(ids, [[0, batch - rows], [0, 0]])
            label = tf.pad(label, [[0, batch - rows]])
            return tf.reshape(ids, [batch, self.fields]), tf.reshape(label, [batch]), rows[None]

        steps = -(-most // (batch * place.local))
        nothing = (tf.zeros([0, self.fields], tf.int32), tf.zeros([0]))
        batches = batches.concatenate(tf.data.Dataset.from_tensors(nothing).repeat())
        return _tuned(batches.take(steps * place.local).map(fill))

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Wraps what consumes the rows: a corrupt record becomes an error that names its place.

        TensorFlow names neither the shard nor the record, so all shards are looked through. An
        error that does not come from them is raised as it is.
        """
        try:
            yield
        except _DAMAGE:
            corrupt = self._find_corrupt()
            if not corrupt:
                raise
            path = storage.join(self.dataset.directory, corrupt[0].file)
            raise UserError(
                f"{path}: record {corrupt[0].record:,} is corrupt; copy the shard again, or "
                "preprocess the log again with --overwrite. --skip_corrupt leaves the shard out."
            ) from None

    def gather(self, splits: Sequence[str]) -> Callable[[tf.Tensor], Rows]:
        """Makes a function that takes rows of held splits by number, counted through all of them.

        It chooses between the splits row by row; to join them would hold them in memory twice.
        """
        first, *more = [self._load(split) for split in splits if self.rows([split])] or [
            self._load(splits[0])
        ]

        def take(part: Rows, numbers: tf.Tensor) -> Rows:
            numbers = tf.clip_by_value(numbers, 0, len(part[1]) - 1)
            return tf.gather(part[0], numbers), tf.gather(part[1], numbers)

        def gather(numbers: tf.Tensor) -> Rows:
            ids, label = take(first, numbers)
            start = len(first[1])
            for part in more:
                part_ids, part_label = take(part, numbers - start)
                ids = tf.where(numbers[:, None] < start, ids, part_ids)
                label = tf.where(numbers < start, label, part_label)
                start += len(part[1])
            return ids, label

        return gather

    def parse(self, records: tf.Tensor) -> Rows:
        """The rows that serialized records hold."""
        ids, label = self.dataset.parse(records)
        return tf.cast(ids, tf.int32), label

    def shards(self, splits: Sequence[str]) -> list[Shard]:
        """The shards of some splits, in order, without those that are left out."""
        skipped = {shard.file for shard in self.skipped}
        shards = [
            shard
            for split in splits
            for shard in self._shards_of.get(split, self.dataset.split(split).shards)
        ]
        return [shard for shard in shards if shard.file not in skipped]

    def _records(self, shards: Sequence[Shard]) -> tf.data.Dataset:
        records = self.dataset.records(self.files(shards))
        return records.apply(tf.data.experimental.assert_cardinality(_rows(shards)))

    def _load(self, split: str) -> Rows:
        """A split that is held in memory, read when it is first asked for."""
        if split not in self._held:
            self._held[split] = self._read(split)
        return self._held[split]

    def _read(self, split: str, limit: int | None = None) -> Rows:
        records = self._records(self.shards([split]))
        if limit is not None:
            records = records.take(limit)
        blocks = records.batch(_BLOCK).map(self.parse)
        with tf.device(_HOST):
            ids, label = [tf.zeros([0, self.fields], tf.int32)], [tf.zeros([0])]
            with self.reading():
                for rows in _tuned(blocks):
                    ids.append(rows[0])
                    label.append(rows[1])
            return tf.concat(ids, axis=0), tf.concat(label, axis=0)

    def _find_corrupt(self) -> tuple[CorruptShard, ...]:
        shards = self.shards(list(self.dataset.splits))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return tuple(shard for shard in pool.map(self._check, shards) if shard)

    def _check(self, shard: Shard) -> CorruptShard | None:
        """Reads a shard to its end, or to its first corrupt record."""
        records = self.dataset.records(self.dataset.path(shard))
        good = 0

        def is_sound(size: int) -> bool:
            nonlocal good
            try:
                for _, label in _tuned(records.skip(good).batch(size).map(self.parse)):
                    good += len(label)
            except _DAMAGE:
                return False
            return good == shard.rows

        # The block with the corrupt record is read once more, record by record.
        if is_sound(_BLOCK) or is_sound(1):
            return None
        return CorruptShard(shard.file, min(good, shard.rows) + 1, shard.rows)


class Batches:
    """Shuffled batches of some splits, which act as one set of rows.

    In an epoch, each row occurs at most once; the rows that do not fill a batch are left out, other
    ones in each epoch.

    Attributes:
        rows: The number of rows.
        batch: The rows of a batch: as many as asked for, if there are that many, and as can be
            divided among the replicas.
        steps: The batches of an epoch.
    """

    def __init__(
        self,
        source: Source,
        splits: Sequence[str],
        batch: int,
        seed: int,
        buffer: int = BUFFER,
        place: Place | None = None,
    ):
        """Reads no row yet.

        Args:
            source: Where the rows come from.
            splits: The names of the splits.
            batch: The rows of a batch.
            seed: What the order of the rows follows from.
            buffer: How many rows are shuffled at a time if they are streamed. It matters little,
                as the rows of a shard were shuffled when it was written.
            place: Whose part of each batch the stream gives; this process's unless set.
        """
        place = place or Place.here()
        self.rows = source.rows(splits)
        if not self.rows:
            raise UserError(
                f"{source.dataset.directory}: there is no row in {' and '.join(splits)} to "
                "train on; preprocess the log again, with a larger share for it."
            )
        self.batch = min(batch, self.rows) // place.replicas * place.replicas
        if not self.batch:
            raise UserError(
                f"`batch`: {min(batch, self.rows)} rows cannot be divided among {place.replicas} "
                "replicas; use fewer devices."
            )
        self.steps = self.rows // self.batch
        self._source = source
        self._splits = splits
        self._seed = tf.constant([seed, 0], tf.int64)
        self._buffer = buffer
        self._place = place
        self._deal()

    def stream(self, step: int = 0) -> tf.data.Dataset:
        """Batches without end: ids int32 [batch, fields] and label float32 [batch].

        Each replica of this process gets its part of a batch, one after the other.

        Args:
            step: The step of training, counted from 0 through all epochs, whose batch is the first.
        """
        return _tuned(self._stream_held(step) if self._source.held else self._stream_shards(step))

    def _deal(self) -> None:
        """Decides which shards this worker reads.

        If there are enough shards, each worker reads its own and makes its part of a batch of them.
        If not, or if rows are held in memory, each reads all and takes its part of each batch.
        """
        place, source = self._place, self._source
        self._shards, self._dealt = source.shards(self._splits), False
        self._read, self._read_batch = self.rows, self.batch
        hands = source.deal(self._splits, place.workers)
        least = min(map(_rows, hands))
        if source.held or place.workers == 1 or least * place.workers < _EVEN * self.rows:
            return
        self._shards, self._dealt = hands[place.worker], True
        self._read_batch = self.batch // place.workers
        self.steps = least // self._read_batch
        self._read = self.steps * self._read_batch

    def _divide(self, batches: tf.data.Dataset) -> tf.data.Dataset:
        """The parts of batches that the replicas of this process take, one after the other."""
        place, size = self._place, self.batch // self._place.replicas
        if place.replicas == 1:
            return batches
        first = 0 if self._dealt else place.worker * place.local

        def parts(tensor: tf.Tensor) -> tf.Tensor:
            every = tf.reshape(tensor, [-1, size, *tensor.shape[1:]])
            return every[first : first + place.local]

        return batches.map(lambda *batch: tuple(map(parts, batch))).unbatch()

    def _stream_held(self, step: int) -> tf.data.Dataset:
        epoch, skipped = divmod(step, self.steps)

        def shuffle(epoch: tf.Tensor) -> tf.Tensor:
            numbers = _shuffle(tf.range(self.rows), _fold(self._seed, epoch))
            return tf.reshape(numbers[: self.steps * self.batch], [self.steps, self.batch])

        numbers = tf.data.Dataset.counter(epoch).map(shuffle).unbatch().skip(skipped)
        gather = self._source.gather(self._splits)
        return self._divide(numbers.map(lambda one: (one,))).map(gather)

    def _stream_shards(self, step: int) -> tf.data.Dataset:
        """Shuffles shards, reads several in turns, and shuffles windows of parsed rows.

        That takes two thirds of the time of `Dataset.shuffle`, which moves records one by one.
        """
        source, files = self._source, self._source.files(self._shards)
        batch = self._read_batch
        window = max(1, self._buffer // batch)
        first_epoch, skipped = divmod(step, self.steps)
        first_window, skipped = divmod(skipped, window)

        def windows(epoch: tf.Tensor) -> tf.data.Dataset:
            seed = _fold(self._seed, epoch)
            first = tf.where(epoch == first_epoch, tf.constant(first_window, tf.int64), 0)
            unread = first * window * batch
            shards = tf.data.Dataset.from_tensor_slices(_shuffle(files, seed))
            # TensorFlow skips records ten times as fast as it reads them.
            records = shards.interleave(
                source.dataset.records, cycle_length=_OPEN, block_length=_TURN
            ).skip(unread)
            left = self._read - unread
            if self._read < _rows(self._shards):
                records = records.take(left)
            records = records.apply(tf.data.experimental.assert_cardinality(left))
            blocks = records.batch(_BLOCK).map(source.parse)
            numbered = blocks.rebatch(window * batch).enumerate(first)
            return numbered.map(lambda number, rows: shuffle(rows, _fold(seed, number)))

        def shuffle(rows: Rows, seed: tf.Tensor) -> Rows:
            ids, label = rows
            batches = tf.size(label) // batch
            order = _shuffle(tf.range(tf.size(label)), seed)[: batches * batch]
            return (
                tf.reshape(tf.gather(ids, order), [batches, batch, source.fields]),
                tf.reshape(tf.gather(label, order), [batches, batch]),
            )

        epochs = tf.data.Dataset.counter(first_epoch)
        return self._divide(epochs.flat_map(windows).prefetch(1).unbatch().skip(skipped))


def _rows(shards: Sequence[Shard]) -> int:
    return sum(shard.rows for shard in shards)


def _fold(seed: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(seed, number)


def _shuffle(values: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    # `index_shuffle` needs no memory for the order, but repeats much of it from epoch to epoch.
    return tf.random.experimental.stateless_shuffle(values, seed)


def _tuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Prepares batches ahead, in the same order each time, and does without what costs more."""
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False  # it watches each record, for a quarter of the time
    options.experimental_optimization.apply_default_optimizations = False  # copies held rows
    return dataset.prefetch(2).with_options(options)
