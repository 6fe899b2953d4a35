import json
import time

import numpy as np
import pytest
import tensorflow as tf

from fives_tf.errors import UserError
from fives_tf.training import journal
from fives_tf.training.journal import Journal


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "run"


def summaries(directory, stage):
    """What TensorBoard is given: {(plugin, tag): {step: tensor}}."""
    found = {}
    for path in sorted((directory / "tensorboard" / stage).iterdir()):
        for raw in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(raw)
            for value in event.summary.value:
                series = found.setdefault((value.metadata.plugin_data.plugin_name, value.tag), {})
                series[event.step] = tf.make_ndarray(value.tensor)
    return found


def told(directory):
    return [(record["stage"], record["step"]) for record in journal.read(str(directory))]


def test_a_record_is_a_line_and_its_numbers_are_curves(directory):
    before = round(time.time())
    Journal(str(directory)).write(
        "search", 300, loss=np.float32(0.5), rows=np.int64(7), auc=[0.75, 0.5], best=True, note="x"
    )
    (line,) = (directory / "metrics.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert before <= record.pop("time") <= round(time.time())
    assert record == {
        "stage": "search",
        "step": 300,
        "loss": 0.5,
        "rows": 7,
        "auc": [0.75, 0.5],
        "best": True,
        "note": "x",
    }
    assert list(record)[:2] == ["stage", "step"]
    curves = {"loss": 0.5, "rows": 7, "auc/0": 0.75, "auc/1": 0.5}
    assert summaries(directory, "search") == {
        ("scalars", tag): {300: value} for tag, value in curves.items()
    }


def test_what_is_not_finite_is_null(directory):
    Journal(str(directory)).write("search", 1, auc=float("nan"), layers=np.array([np.inf, 0.5]))
    (record,) = journal.read(str(directory))
    assert record["auc"] is None
    assert record["layers"] == [None, 0.5]
    assert list(summaries(directory, "search")) == [("scalars", "layers/1")]


def test_every_stage_has_curves_of_its_own(directory):
    writer = Journal(str(directory))
    writer.write("search", 1, auc=0.5)
    writer.write("finetune", 1, auc=0.75)
    writer.write("search", 2, auc=0.625)
    assert told(directory) == [("search", 1), ("finetune", 1), ("search", 2)]
    assert summaries(directory, "search") == {("scalars", "auc"): {1: 0.5, 2: 0.625}}
    assert summaries(directory, "finetune") == {("scalars", "auc"): {1: 0.75}}


def test_the_adjacency_tensor_can_be_seen(directory):
    adjacency = np.zeros([2, 3, 3], np.float32)
    adjacency[1, 0, 2] = 1
    Journal(str(directory)).adjacency("search", 5, adjacency, np.float32(0.5))
    shown = summaries(directory, "search")
    assert shown.pop(("scalars", "temperature")) == {5: 0.5}
    assert set(shown) == {
        (plugin, tag)
        for layer in (1, 2)
        for plugin, tag in (("images", f"adjacency/{layer}"), ("histograms", f"strengths/{layer}"))
    }
    left, right, counts = shown["histograms", "strengths/2"][5].T
    assert (left[0], right[-1]) == (0, 1)
    assert (counts[0], counts[-1], counts.sum()) == (8, 1, 9)
    width, height, png = shown["images", "adjacency/2"][5]
    picture = tf.io.decode_png(png).numpy()
    assert (int(width), int(height)) == picture.shape[:2] == (399, 399)
    dark = np.zeros([399, 399], bool)
    dark[:133, 266:] = True
    np.testing.assert_array_equal(picture.sum(axis=2) < 300, dark)
    assert (picture[~dark] == 255).all()


def test_an_adjacency_tensor_gone_wrong_does_not_stop_the_run(directory):
    Journal(str(directory)).adjacency("search", 5, np.full([1, 500, 500], np.nan), 0.02)
    width, height, _ = summaries(directory, "search")["images", "adjacency/1"][5]
    assert (width, height) == (b"500", b"500")


def test_a_resumed_stage_loses_the_steps_after_its_checkpoint(directory):
    former = Journal(str(directory))
    for stage, step in [("search", 1), ("search", 2), ("other", 3), ("search", 3)]:
        former.write(stage, step, auc=0.5)
    metrics = directory / "metrics.jsonl"
    kept = metrics.read_bytes().splitlines(keepends=True)
    with metrics.open("ab") as file:
        file.write(kept[-1][:-1])  # torn: the end of the line is missing
    resumed = Journal(str(directory))
    resumed.rewind("search", 2)
    assert metrics.read_bytes() == b"".join(kept[:3])
    resumed.write("search", 3, auc=0.75)
    assert told(directory) == [("search", 1), ("search", 2), ("other", 3), ("search", 3)]
    assert sorted(path.name for path in directory.iterdir()) == ["metrics.jsonl", "tensorboard"]


@pytest.mark.parametrize("torn", [b'{"stage": "se', b"\x00\x00\x00\n", b'{"stage": "s", "\xc3\n'])
def test_torn_lines_are_not_read_and_go(directory, torn):
    writer = Journal(str(directory))
    writer.write("search", 1, auc=0.5)
    metrics = directory / "metrics.jsonl"
    whole = metrics.read_bytes()
    metrics.write_bytes(whole + torn)
    assert told(directory) == [("search", 1)]
    writer.rewind("search", 1)
    assert metrics.read_bytes() == whole


def test_a_journal_with_nothing_to_remove_is_not_touched(directory):
    writer = Journal(str(directory))
    writer.rewind("search", 0)
    assert journal.read(str(directory)) == []
    assert not directory.exists()
    writer.write("search", 1, auc=0.5)
    before = (directory / "metrics.jsonl").stat().st_ino
    writer.rewind("search", 1)
    assert (directory / "metrics.jsonl").stat().st_ino == before


def test_a_place_that_cannot_be_written_is_the_users_to_mend(directory):
    directory.write_text("a file where the run directory should be")
    with pytest.raises(UserError, match=r"metrics\.jsonl: cannot be written"):
        Journal(str(directory)).write("search", 1, auc=0.5)


def test_snapshots_of_the_adjacency_tensor_are_read_back(directory):
    tensors = np.random.default_rng(0).random([3, 2, 4, 4])
    writer = Journal(str(directory))
    for step, (tensor, temperature) in enumerate(zip(tensors, (1.0, 0.5, 0.02), strict=True)):
        writer.adjacency("search", step, tensor, temperature)
        writer.adjacency("search-1", step, tensor, temperature)
    found = journal.read_snapshots(str(directory), "search")
    assert [(one.step, one.temperature) for one in found] == [(0, 1.0), (1, 0.5), (2, 0.02)]
    for one, tensor in zip(found, tensors, strict=True):
        np.testing.assert_allclose(one.soft, tensor, atol=0.5 / 255 + 1e-12)
    writer.rewind("search", 1)
    assert [one.step for one in journal.read_snapshots(str(directory), "search")] == [0, 1]
    assert len(journal.read_snapshots(str(directory), "search-1")) == 3
    assert journal.read_snapshots(str(directory / "nowhere"), "search") == []
