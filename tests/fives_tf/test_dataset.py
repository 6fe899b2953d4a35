import json

import numpy as np
import pytest

from fives_tf.dataset import Dataset, manifest_json
from fives_tf.errors import UserError
from fives_tf.records import frame_examples


def write_dataset(directory, **changes):
    """A dataset of two shards with two fields, by hand."""
    ids = np.arange(12, dtype=np.int32).reshape(6, 2)
    label = np.array([1, 0, 0, 1, 0, 0], np.float32)
    shards = []
    for number, rows in enumerate((slice(0, 4), slice(4, 6))):
        name = f"train/part-{number}.tfrecord"
        (directory / "train").mkdir(exist_ok=True)
        content = b"".join(frame_examples(ids[rows], label[rows]).to_pylist())
        (directory / name).write_bytes(content)
        clicks = int(label[rows].sum())
        size = len(content)
        shards.append({"file": name, "rows": len(ids[rows]), "clicks": clicks, "bytes": size})
    manifest = json.loads(manifest_json(["a", "b"], {"train": shards}, "", rejected=0))
    (directory / "dataset.json").write_text(json.dumps(manifest | changes))
    return ids, label


def test_batches_hold_the_records_in_order(tmp_path):
    ids, label = write_dataset(tmp_path)
    batches = list(Dataset.open(str(tmp_path)).read("train", batch=4).as_numpy_iterator())
    assert [len(batch[1]) for batch in batches] == [4, 2]
    np.testing.assert_array_equal(np.concatenate([b[0] for b in batches]), ids)
    np.testing.assert_array_equal(np.concatenate([b[1] for b in batches]), label)


def test_splits_know_their_rows_and_clicks(tmp_path):
    write_dataset(tmp_path)
    split = Dataset.open(str(tmp_path)).split("train")
    assert (split.rows, split.clicks, len(split.shards)) == (6, 2, 2)


def test_a_split_that_is_not_there_is_one_clear_error(tmp_path):
    write_dataset(tmp_path)
    with pytest.raises(UserError, match=r"has no split `trian`; did you mean `train`\?"):
        Dataset.open(str(tmp_path)).split("trian")


def test_another_version_is_refused(tmp_path):
    write_dataset(tmp_path, version=99)
    with pytest.raises(UserError, match="version 99 is not known"):
        Dataset.open(str(tmp_path))


def test_a_damaged_manifest_is_refused(tmp_path):
    write_dataset(tmp_path)
    (tmp_path / "dataset.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        Dataset.open(str(tmp_path))


def test_any_other_directory_is_refused(tmp_path):
    with pytest.raises(UserError, match="is no dataset directory"):
        Dataset.open(str(tmp_path))
    with pytest.raises(UserError, match="no such directory"):
        Dataset.open(str(tmp_path / "nothing"))


def test_a_shard_that_is_gone_or_cut_off_is_noticed(tmp_path):
    write_dataset(tmp_path)
    shard = tmp_path / "train/part-1.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(UserError, match="part-1.tfrecord: is missing or not as it was written"):
        Dataset.open(str(tmp_path))
    shard.unlink()
    with pytest.raises(UserError, match="part-1.tfrecord: is missing or not as it was written"):
        Dataset.open(str(tmp_path))
