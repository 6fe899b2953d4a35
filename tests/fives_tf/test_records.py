import struct

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from fives_tf.records import frame_examples

MOST = 2**31 - 1
EDGES = [0, 1, *(2**bits + step for bits in (7, 14, 21, 28) for step in (-1, 0)), MOST]


def framed(ids, label):
    """The records and their bytes in a row, as a shard holds them."""
    records = frame_examples(ids, label)
    assert records.type == pa.large_binary()
    records.validate(full=True)
    assert len(records) == len(ids)
    return b"".join(records.to_pylist())


def example(ids, label):
    features = {
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
        "label": tf.train.Feature(float_list=tf.train.FloatList(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def written_by_tensorflow(directory, ids, label):
    path = directory / "tensorflow.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row, click in zip(ids.tolist(), label.tolist(), strict=True):
            writer.write(example(row, click).SerializeToString(deterministic=True))
    return path.read_bytes()


def read_by_tensorflow(directory, content, fields):
    path = directory / "ours.tfrecord"
    path.write_bytes(content)
    features = {
        "ids": tf.io.FixedLenFeature([fields], tf.int64),
        "label": tf.io.FixedLenFeature([], tf.float32),
    }
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    parsed = tf.io.parse_example(records, features)
    return parsed["ids"].numpy(), parsed["label"].numpy()


@st.composite
def rows(draw):
    """Ids of very different sizes, for up to 50 rows of 1 to 200 fields, and clicks."""
    count, fields = draw(st.integers(0, 50)), draw(st.integers(1, 200))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    widest = draw(st.sampled_from([1, 7, 14, 31]))
    bits = random.integers(0, widest + 1, (count, fields))
    ids = np.minimum(random.integers(0, 2**bits, endpoint=True), MOST)
    for edge in draw(st.lists(st.sampled_from(EDGES), max_size=5)) if count else ():
        ids[random.integers(count), random.integers(fields)] = edge
    label = random.integers(0, 2, count)
    return ids.astype(np.int32), label.astype(np.float32)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("records")


@given(rows=rows())
@settings(deadline=None, max_examples=60)
def test_the_bytes_are_those_that_tensorflow_writes(directory, rows):
    assert framed(*rows) == written_by_tensorflow(directory, *rows)


@given(rows=rows().filter(lambda rows: len(rows[0])))
@settings(deadline=None, max_examples=20)
def test_tensorflow_reads_the_records_back(directory, rows):
    ids, label = read_by_tensorflow(directory, framed(*rows), rows[0].shape[1])
    np.testing.assert_array_equal(ids, rows[0])
    np.testing.assert_array_equal(label, rows[1])


@pytest.mark.parametrize("edge", EDGES)
def test_every_size_of_id_is_written_as_tensorflow_writes_it(directory, edge):
    rows = np.array([[edge], [0]], np.int32), np.array([1, 0], np.float32)
    assert framed(*rows) == written_by_tensorflow(directory, *rows)


@pytest.mark.parametrize("fields", [125, 126, 127, 128, 4000])
def test_long_rows_are_written_as_tensorflow_writes_them(directory, fields):
    rows = np.full((2, fields), 127, np.int32), np.array([1, 0], np.float32)
    assert framed(*rows) == written_by_tensorflow(directory, *rows)


def test_more_rows_than_are_laid_out_at_a_time_keep_their_order(directory):
    ids = np.random.default_rng(1).integers(0, 10**6, (4099, 3), np.int32)
    ids[4096:] = 5  # the last part needs fewer bytes an id than the first
    label = (np.arange(len(ids)) % 3 == 0).astype(np.float32)
    content = framed(ids, label)
    assert content == written_by_tensorflow(directory, ids, label)
    read, clicks = read_by_tensorflow(directory, content, 3)
    np.testing.assert_array_equal(read, ids)
    np.testing.assert_array_equal(clicks, label)


def test_rows_taken_from_a_larger_array_are_written_alike():
    ids = np.arange(40, dtype=np.int32).reshape(8, 5)
    label = np.ones(8, np.float32)
    whole = frame_examples(ids, label).to_pylist()
    assert frame_examples(ids[::2], label[::2]).to_pylist() == whole[::2]
    assert frame_examples(np.asfortranarray(ids), label).to_pylist() == whole


def test_no_rows_are_no_bytes():
    assert framed(np.empty((0, 4), np.int32), np.empty(0, np.float32)) == b""


def test_the_length_stands_before_each_record():
    (record,) = frame_examples(np.array([[1, 2]], np.int32), np.ones(1, np.float32)).to_pylist()
    assert struct.unpack("<Q", record[:8]) == (len(record) - 16,)
