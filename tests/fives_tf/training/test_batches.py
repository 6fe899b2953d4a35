import gzip
import itertools

import numpy as np
import pytest
import tensorflow as tf

from fives_tf.dataset import Dataset, manifest_json
from fives_tf.errors import UserError
from fives_tf.records import frame_examples
from fives_tf.training.batches import Batches, CorruptShard, Source
from fives_tf.training.strategy import Place

FIELDS = 3
SIZES = {"train": [30, 17, 1, 52], "valid": [11, 9], "test": [6]}
MODES = pytest.mark.parametrize("memory", [2 << 30, 0], ids=["held", "streamed"])


def write_dataset(directory, sizes=None, compression=""):
    """A dataset whose rows are told apart by their first id, from 0 on through all splits."""
    splits, first = {}, 0
    for split, parts in (sizes or SIZES).items():
        (directory / split).mkdir()
        splits[split] = []
        for number, rows in enumerate(parts):
            ids, label = make_rows(np.arange(first, first + rows))
            content = b"".join(frame_examples(ids, label).to_pylist())
            content = gzip.compress(content) if compression else content
            name = f"{split}/part-{number}.tfrecord"
            (directory / name).write_bytes(content)
            clicks = int(label.sum())
            shard = {"file": name, "rows": rows, "clicks": clicks, "bytes": len(content)}
            splits[split].append(shard)
            first += rows
    (directory / "dataset.json").write_bytes(manifest_json(["a", "b", "c"], splits, compression))
    return Dataset.open(str(directory))


def make_rows(numbers):
    ids = np.stack([numbers, 1000 + numbers * 7, 100_000 + numbers * 11], axis=1).astype(np.int32)
    return ids, (numbers % 3 == 0).astype(np.float32)


def spoil(directory, file, record):
    """Flips a bit of a record; the shard keeps its size."""
    path = directory / file
    content = bytearray(path.read_bytes())
    at = 0
    for _ in range(record - 1):
        at += 16 + int.from_bytes(content[at : at + 8], "little")
    content[at + 12 + 20] ^= 1
    path.write_bytes(bytes(content))


def take(batches, count, step=0):
    """The first batches of a stream; checks that the ids and the label of a row stay together."""
    taken = []
    for ids, label in itertools.islice(batches.stream(step).as_numpy_iterator(), count):
        np.testing.assert_array_equal(ids, make_rows(ids[:, 0])[0])
        np.testing.assert_array_equal(label, make_rows(ids[:, 0])[1])
        taken.append(ids[:, 0])
    return np.stack(taken)


@MODES
def test_an_epoch_holds_every_row_once(tmp_path, memory):
    source = Source(write_dataset(tmp_path), memory=memory)
    batches = Batches(source, ["train"], batch=20, seed=1, buffer=40)
    assert (batches.rows, batches.batch, batches.steps) == (100, 20, 5)
    first, second = take(batches, 10).reshape(2, 100)
    assert sorted(first) == sorted(second) == list(range(100))
    assert list(first) != list(second)
    assert list(first) != list(range(100))


@MODES
def test_rows_that_fill_no_batch_are_left_out_others_each_epoch(tmp_path, memory):
    source = Source(write_dataset(tmp_path, {"train": [100]}), memory=memory)
    batches = Batches(source, ["train"], batch=7, seed=1, buffer=21)
    assert batches.steps == 14
    epochs = take(batches, 3 * 14).reshape(3, 98)
    assert all(len(set(epoch)) == 98 for epoch in epochs)
    assert len({frozenset(epoch) for epoch in epochs}) > 1


@MODES
@pytest.mark.parametrize("step", [1, 3, 4, 12, 14, 33])
def test_a_stream_begins_at_any_step(tmp_path, memory, step):
    source = Source(write_dataset(tmp_path), memory=memory)
    batches = Batches(source, ["train"], batch=7, seed=1, buffer=21)  # 14 steps, 3 a window
    np.testing.assert_array_equal(take(batches, 30, step), take(batches, step + 30)[step:])


def test_a_stream_of_many_shards_begins_at_any_step(tmp_path):
    sizes = [65, 1, 200, 64, 0, 130, 3, 90, 70, 128, 10]  # more than are open, some with two turns
    source = Source(write_dataset(tmp_path, {"train": sizes}), memory=0)
    batches = Batches(source, ["train"], batch=16, seed=1, buffer=70)
    whole = take(batches, 3 * batches.steps)
    for epoch in whole.reshape(3, -1):
        assert len(set(epoch)) == batches.steps * 16
    for step in (5, 30, batches.steps, batches.steps + 25):
        rest = take(batches, len(whole) - step, step)
        np.testing.assert_array_equal(rest, whole[step:])


@MODES
def test_the_order_follows_from_the_seed(tmp_path, memory):
    dataset = write_dataset(tmp_path)
    one, same, other = (
        take(Batches(Source(dataset, memory=memory), ["train"], 10, seed), 15) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@MODES
def test_several_splits_act_as_one_set_of_rows(tmp_path, memory):
    source = Source(write_dataset(tmp_path), memory=memory)
    batches = Batches(source, ["train", "valid"], batch=40, seed=1)
    epoch = take(batches, 3)
    assert batches.rows == source.rows(["train", "valid"]) == 120
    assert sorted(epoch.ravel()) == list(range(120))
    assert (epoch >= 100).any(axis=1).sum() > 1  # the rows of valid are spread


@MODES
def test_a_batch_is_no_larger_than_the_rows(tmp_path, memory):
    batches = Batches(Source(write_dataset(tmp_path), memory=memory), ["valid"], 1024, seed=1)
    assert (batches.batch, batches.steps) == (20, 1)
    assert [sorted(batch) for batch in take(batches, 2)] == [list(range(100, 120))] * 2


@MODES
def test_shapes_are_static(tmp_path, memory):
    source = Source(write_dataset(tmp_path), memory=memory)
    ids = tf.TensorSpec([7, FIELDS], tf.int32)
    label = tf.TensorSpec([7], tf.float32)
    assert Batches(source, ["train"], 7, seed=1).stream().element_spec == (ids, label)
    rows = tf.TensorSpec([1], tf.int32)
    assert source.once(["train"], 7).element_spec == (ids, label, rows)


@MODES
@pytest.mark.parametrize("splits", [["test"], ["train", "valid"]])
def test_once_gives_every_row_once_in_order(tmp_path, memory, splits):
    source = Source(write_dataset(tmp_path), memory=memory)
    first = {"test": 120, "train": 0}[splits[0]]
    batches = list(source.once(splits, 32).as_numpy_iterator())
    assert [len(label) for _, label, _ in batches] == [32] * len(batches)
    real = np.concatenate([ids[:rows] for ids, _, (rows,) in batches])
    label = np.concatenate([label[:rows] for _, label, (rows,) in batches])
    expected = make_rows(np.arange(first, first + source.rows(splits)))
    np.testing.assert_array_equal(real, expected[0])
    np.testing.assert_array_equal(label, expected[1])
    assert not any(ids[rows:].any() or label[rows:].any() for ids, label, (rows,) in batches)


@MODES
def test_arrays_hold_the_first_rows_in_order(tmp_path, memory):
    source = Source(write_dataset(tmp_path), memory=memory)
    for limit, rows in ((None, 20), (15, 15), (99, 20), (0, 0)):
        ids, label = source.arrays("valid", limit)
        expected = make_rows(np.arange(100, 100 + rows))
        np.testing.assert_array_equal(ids, expected[0], strict=True)
        np.testing.assert_array_equal(label, expected[1], strict=True)


@MODES
def test_an_empty_split_is_read_but_not_trained_on(tmp_path, memory):
    source = Source(write_dataset(tmp_path, {"train": [4], "valid": [0]}), memory=memory)
    assert list(source.once(["valid"], 2)) == []
    assert source.arrays("valid")[0].shape == (0, FIELDS)
    assert sorted(take(Batches(source, ["train", "valid"], 4, seed=1), 1)[0]) == [0, 1, 2, 3]
    with pytest.raises(UserError, match="there is no row in valid"):
        Batches(source, ["valid"], 2, seed=1)


@MODES
def test_a_source_may_hold_other_rows_as_its_splits(tmp_path, memory):
    source = Source(write_dataset(tmp_path), memory=memory)
    numbers = {"train": np.array([7, 3, 5]), "valid": np.array([110])}
    part = source.holding({split: make_rows(own) for split, own in numbers.items()})
    assert (part.held, part.rows(["train", "valid"])) == (True, 4)
    assert sorted(take(Batches(part, ["train"], 3, seed=1), 1)[0]) == [3, 5, 7]
    [(ids, _, (rows,))] = part.once(["train", "valid"], 8).as_numpy_iterator()
    assert ids[:rows, 0].tolist() == [7, 3, 5, 110]
    assert (source.held, source.rows(["train"])) == (memory > 0, 100)
    assert len(source.arrays("train")[1]) == 100


@MODES
def test_a_part_of_train_can_stand_for_valid(tmp_path, memory):
    sizes = SIZES | {"train": [30, 17, 1, 22, 20, 10]}
    whole = Source(write_dataset(tmp_path, sizes), memory)
    part = whole.within_train()
    assert part.held == whole.held
    numbers = {split: part.arrays(split)[0][:, 0] for split in ("train", "valid")}
    assert [len(one) for one in numbers.values()] == ([80, 20] if whole.held else [60, 40])
    assert sorted(np.concatenate(list(numbers.values()))) == list(range(100))
    for split, own in numbers.items():
        np.testing.assert_array_equal(part.arrays(split)[1], make_rows(own)[1])
        assert part.rows([split]) == len(own)
        once = [ids[: rows[0], 0] for ids, _, rows in part.once([split], 8).as_numpy_iterator()]
        np.testing.assert_array_equal(np.concatenate(once), own)
        batches = Batches(part, [split], 10, seed=1)
        assert set(take(batches, batches.steps).ravel()) == set(own)
    rows = [whole.rows([split]) for split in ("train", "valid")]
    assert rows == [100, 20], "the whole stays as it is"


@MODES
def test_too_few_rows_or_shards_cannot_be_divided(tmp_path, memory):
    sizes = SIZES | {"train": [4] if memory else [10] * 4}
    assert Source(write_dataset(tmp_path, sizes), memory).within_train() is None


def test_rows_are_held_in_memory_if_they_fit(tmp_path):
    dataset = write_dataset(tmp_path)
    size = 126 * (FIELDS + 1) * 4
    assert Source(dataset).held
    assert Source(dataset, memory=size).held
    assert not Source(dataset, memory=size - 1).held


@MODES
def test_compressed_shards_are_read(tmp_path, memory):
    source = Source(write_dataset(tmp_path, compression="GZIP"), memory=memory)
    batches = Batches(source, ["train"], batch=20, seed=1, buffer=40)
    assert sorted(take(batches, 5).ravel()) == list(range(100))
    np.testing.assert_array_equal(take(batches, 5, 3), take(batches, 8)[3:])


CORRUPT = r"train/part-1.tfrecord: record 5 is corrupt.*--skip_corrupt leaves the shard out"


def consume_arrays(source):
    source.arrays("train")


def consume_stream(source):
    with source.reading():
        take(Batches(source, ["train"], batch=20, seed=1), 5)


def consume_once(source):
    with source.reading():
        list(source.once(["train", "valid"], 32))


def consume_in_a_function(source):
    @tf.function
    def train(iterator):
        total = tf.constant(0)
        for _ in tf.range(5):
            ids, _ = next(iterator)
            total += tf.reduce_sum(ids)
        return total

    with source.reading():
        train(iter(Batches(source, ["valid", "train"], batch=20, seed=1).stream()))


@MODES
@pytest.mark.parametrize(
    "consume", [consume_arrays, consume_stream, consume_once, consume_in_a_function]
)
def test_a_corrupt_record_is_named(tmp_path, memory, consume):
    source = Source(write_dataset(tmp_path), memory=memory)
    spoil(tmp_path, "train/part-1.tfrecord", record=5)
    with pytest.raises(UserError, match=CORRUPT):
        consume(source)


@MODES
def test_a_record_of_another_form_is_named(tmp_path, memory):
    source = Source(write_dataset(tmp_path), memory=memory)
    shard = tmp_path / "train/part-1.tfrecord"
    records = frame_examples(*make_rows(np.arange(17))).to_pylist()
    records[4] = frame_examples(np.ones([1, 2], np.int32), np.ones(1, np.float32))[0].as_py()
    shard.write_bytes(b"".join(records))
    with pytest.raises(UserError, match=CORRUPT):
        consume_stream(source)


@MODES
@pytest.mark.parametrize(("rows", "record"), [(12, 13), (20, 18)])
def test_a_shard_with_fewer_or_more_rows_than_were_written_is_named(tmp_path, memory, rows, record):
    source = Source(write_dataset(tmp_path), memory=memory)
    shard = tmp_path / "train/part-1.tfrecord"
    shard.write_bytes(b"".join(frame_examples(*make_rows(np.arange(rows))).to_pylist()))
    with pytest.raises(UserError, match=f"part-1.tfrecord: record {record} is corrupt"):
        consume_stream(source)


@MODES
def test_corrupt_shards_are_left_out_if_asked_for(tmp_path, memory):
    dataset = write_dataset(tmp_path)
    spoil(tmp_path, "train/part-1.tfrecord", record=5)
    spoil(tmp_path, "valid/part-0.tfrecord", record=11)
    source = Source(dataset, memory=memory, skip_corrupt=True)
    assert source.skipped == (
        CorruptShard("train/part-1.tfrecord", record=5, rows=17),
        CorruptShard("valid/part-0.tfrecord", record=11, rows=11),
    )
    assert source.rows(["train", "valid"]) == 83 + 9
    expected = [*range(30), *range(47, 100), *range(111, 120)]
    assert sorted(take(Batches(source, ["train", "valid"], 92, seed=1), 1)[0]) == expected
    np.testing.assert_array_equal(source.arrays("valid")[0][:, 0], range(111, 120))


def test_nothing_is_left_out_of_a_sound_dataset(tmp_path):
    source = Source(write_dataset(tmp_path), skip_corrupt=True)
    assert source.skipped == ()
    assert source.rows(["train", "valid", "test"]) == 126


def test_an_error_that_does_not_come_from_the_shards_is_raised_as_it_is(tmp_path):
    source = Source(write_dataset(tmp_path))
    with pytest.raises(tf.errors.InvalidArgumentError, match="elsewhere"):
        with source.reading():
            raise tf.errors.InvalidArgumentError(None, None, "elsewhere")


def places(workers, local):
    return [Place(worker, workers, workers * local) for worker in range(workers)]


@MODES
@pytest.mark.parametrize(("workers", "local"), [(1, 2), (1, 3), (2, 1), (3, 1), (2, 2)])
def test_replicas_divide_the_batches_of_one_device_among_them(tmp_path, memory, workers, local):
    # Too uneven shards to be dealt out.
    source = Source(write_dataset(tmp_path, {"train": [90, 3, 2]}), memory=memory)
    alone = Batches(source, ["train"], batch=12, seed=1, buffer=24)
    parts = []
    for place in places(workers, local):
        batches = Batches(source, ["train"], batch=12, seed=1, buffer=24, place=place)
        assert (batches.batch, batches.steps) == (12, 7)
        parts.append(take(batches, 20 * local, step=5).reshape(20, -1))
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), take(alone, 20, step=5))


def test_workers_read_shards_of_their_own_if_there_are_enough(tmp_path):
    sizes = [20, 19, 21, 20, 20, 20]
    source = Source(write_dataset(tmp_path, {"train": sizes}), memory=0)
    seen = []
    for place in places(2, 2):
        batches = Batches(source, ["train"], batch=16, seed=1, buffer=24, place=place)
        assert batches.steps == 59 // 8
        epochs = take(batches, 3 * 2 * batches.steps)
        assert epochs.shape[1] == 4
        for epoch in epochs.reshape(3, -1):
            assert len(set(epoch)) == 56, "each row at most once"
        seen.append(set(epochs.ravel()))
        rest = take(batches, 10, step=9)
        np.testing.assert_array_equal(rest, epochs[18:28])
    assert not seen[0] & seen[1]


def test_a_batch_is_a_multiple_of_the_replicas(tmp_path):
    source = Source(write_dataset(tmp_path))
    batches = Batches(source, ["valid"], 1024, seed=1, place=Place(0, 1, 3))
    assert (batches.batch, batches.steps) == (18, 1)
    with pytest.raises(UserError, match="6 rows cannot be divided among 7 replicas"):
        Batches(source, ["test"], 1024, seed=1, place=Place(0, 1, 7))


@MODES
@pytest.mark.parametrize(("workers", "local"), [(1, 2), (2, 1), (3, 2), (7, 1)])
def test_workers_evaluate_every_row_once_in_equally_many_batches(tmp_path, memory, workers, local):
    source = Source(write_dataset(tmp_path), memory=memory)
    found, steps = [], set()
    for place in places(workers, local):
        batches = list(source.once(["train", "valid"], 8, place).as_numpy_iterator())
        steps.add(len(batches))
        for ids, label, (rows,) in batches:
            assert (len(ids), len(label)) == (8, 8)
            found += ids[:rows, 0].tolist()
    assert sorted(found) == list(range(120))
    assert len(steps) == 1
    assert steps.pop() % local == 0
