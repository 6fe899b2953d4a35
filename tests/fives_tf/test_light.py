"""The light model: a planted cross is found and helps, and a fit goes on where it was stopped."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from fives_tf import search
from fives_tf.cross_encoding import CROSS_ENCODING
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.light import MANIFEST, STAGES, WEIGHTS, Light
from fives_tf.restore import light_model
from fives_tf.run import LIGHT, Run
from fives_tf.schema import Schema
from fives_tf.synth import SynthConfig, generate
from fives_tf.training import crossing
from fives_tf.training.crossing import PART, RANKING
from fives_tf.training.metrics import log_loss
from pipelines.preprocess import preprocess

PLANTED = ("C1", "C2")


@pytest.fixture(scope="module", autouse=True)
def few_stages():
    """Numbers of crosses that a small log has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossing, "COUNTS", (1, 3))
        yield


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Dataset:
    directory = tmp_path_factory.mktemp("planted")
    planted = " x ".join(PLANTED)
    config = SynthConfig(rows=10_000, fields=5, numeric=1, plant=(planted,), max_values=8)
    generate(config, directory / "log")
    schema = Schema.load(directory / "log" / "schema.yaml")
    return preprocess([str(directory / "log" / "log.csv")], schema, str(directory / "dataset"))


@pytest.fixture(scope="module")
def searched(dataset, tmp_path_factory) -> Run:
    """A run whose last models learned from train only, as the figures on valid are to be."""
    return search(
        dataset,
        tmp_path_factory.mktemp("light") / "run",
        dim=4,
        batch=128,
        lr_epochs=4,
        search_epochs=1,
        epochs=1,
        form="table",
        refit=False,
        xla=False,
        checkpoint_seconds=0,
    ).run


@pytest.fixture(scope="module")
def whole(dataset, searched) -> Light:
    return light_model(searched, dataset)


@pytest.fixture
def again(searched, tmp_path) -> Run:
    """The same run without a light model."""
    shutil.copytree(searched.directory, tmp_path / "run", ignore=shutil.ignore_patterns(LIGHT))
    return Run.open(str(tmp_path / "run"))


def predict(model: Light, ids: np.ndarray) -> np.ndarray:
    every = np.concatenate([ids, model.crosses.encode(ids)], axis=1)
    return 1 / (1 + np.exp(-(model.weights[every].sum(axis=1) + model.bias)))


def valid(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    [(ids, label)] = dataset.read("valid", 10_000)
    return ids.numpy(), label.numpy()


def assert_same(found: Light, expected: Light) -> None:
    np.testing.assert_array_equal(found.weights, expected.weights)
    assert found.bias == expected.bias
    assert found.evaluation == expected.evaluation
    assert found.crosses.to_files() == expected.crosses.to_files()


class StopError(Exception):
    pass


def stop_at(monkeypatch, name: str, call: int) -> None:
    """Makes a function of the module fail at a call."""
    calls = record(monkeypatch, name)
    recording = getattr(crossing, name)

    def stopping(*arguments):
        if len(calls) == call - 1:
            raise StopError
        return recording(*arguments)

    monkeypatch.setattr(crossing, name, stopping)


def record(monkeypatch, name: str) -> list[tuple]:
    """The calls of a function of the module from now on."""
    function, calls = getattr(crossing, name), []

    def recording(*arguments):
        calls.append(arguments)
        return function(*arguments)

    monkeypatch.setattr(crossing, name, recording)
    return calls


def test_the_planted_cross_is_chosen_and_helps(dataset, searched, whole, monkeypatch, tmp_path):
    assert PLANTED in {field.cross.fields for field in whole.crosses.fields}
    # The best one of all, not merely one of many.
    assert whole.crosses.fields[0].cross.fields == PLANTED

    alone = Run(str(tmp_path / "alone"), searched.manifest)
    shutil.copytree(searched.directory, alone.directory, ignore=shutil.ignore_patterns(LIGHT))
    monkeypatch.setattr(crossing, "COUNTS", ())
    without = light_model(alone, dataset)
    assert without.crosses.fields == ()
    ids, label = valid(dataset)
    losses = [log_loss(label, predict(model, ids)) for model in (whole, without)]
    assert losses[0] < losses[1] - 0.01
    # The figures are those of the models themselves.
    for model, loss in zip((whole, without), losses, strict=True):
        assert model.evaluation["log_loss"] == pytest.approx(loss, abs=1e-5)


def test_it_is_learned_once_and_read_back_as_it_was(dataset, searched, whole, monkeypatch):
    stop_at(monkeypatch, "fit_regression", 1)
    assert_same(light_model(searched, dataset), whole)
    directory = Path(searched.directory, LIGHT)
    assert not (directory / STAGES).exists()
    assert_same(Light.load(str(directory), dataset.encoding), whole)


@pytest.mark.parametrize(
    ("name", "call", "kept"),
    [
        ("held_out_gain", 5, [PART]),
        ("fit_regression", 3, ["crosses-1", PART, *(RANKING.format(PART, n) for n in (0, 1))]),
    ],
)
def test_a_fit_that_is_stopped_goes_on(
    name, call, kept, dataset, again, whole, monkeypatch, capsys
):
    with monkeypatch.context() as patch:
        stop_at(patch, name, call)
        with pytest.raises(StopError):
            light_model(again, dataset)
    directory = Path(again.directory, LIGHT)
    checkpoints = directory / STAGES / "checkpoints"
    assert sorted(path.name for path in checkpoints.iterdir()) == kept
    assert Light.load(str(directory), dataset.encoding) is None

    fits = record(monkeypatch, "fit_regression")
    capsys.readouterr()
    assert_same(light_model(again, dataset), whole)
    told = capsys.readouterr().err.splitlines()
    learned = [line for line in told if re.match(r"(part-lr|crosses(-\d)?): 100%", line)]
    done = [name for name in kept if not name.startswith("ranking")]
    assert len(learned) == len(fits) - len(done), "what was done is not done again"
    assert not (directory / STAGES).exists()
    assert any(line.startswith("rank: ") for line in told) == (done == kept)


def test_what_has_no_manifest_does_not_count(dataset, again, whole):
    directory = Path(again.directory, LIGHT)
    whole.save(str(directory))
    (directory / MANIFEST).unlink()
    (directory / "weights.npz").write_bytes(b"half-written")
    assert_same(light_model(again, dataset), whole)


def test_a_later_version_is_refused(dataset, again, whole):
    directory = Path(again.directory, LIGHT)
    whole.save(str(directory))
    (directory / MANIFEST).write_text(json.dumps({"version": 9}))
    with pytest.raises(UserError, match="version 9 is not known"):
        light_model(again, dataset)


@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS, CROSS_ENCODING, "cross_vocab/0.txt"])
def test_a_damaged_file_is_named(name, dataset, again, whole):
    directory = Path(again.directory, LIGHT)
    whole.save(str(directory))
    (directory / name).write_bytes(b"{letters")
    with pytest.raises(UserError, match=rf"{name}: is (damaged|not as it was written)"):
        light_model(again, dataset)


def test_another_process_at_work_is_respected(dataset, again):
    from fives_tf import storage

    with storage.lock(str(Path(again.directory, "lock"))):
        with pytest.raises(UserError, match="another process is at work"):
            light_model(again, dataset)


def test_a_refit_also_learns_from_valid(dataset, again, whole):
    """Its crosses are counted in both splits; its figures are from before."""
    config = Path(again.directory, "config.yaml")
    config.write_text(config.read_text().replace("refit: false", "refit: true"))
    refitted = light_model(again, dataset)
    rows = {split: dataset.split(split).rows for split in ("train", "valid")}
    for model, expected in ((whole, rows["train"]), (refitted, sum(rows.values()))):
        field = model.crosses.fields[0]
        assert field.missing_count + field.rare_count + field.counts.sum() == expected
    assert refitted.evaluation == whole.evaluation
    assert not np.array_equal(refitted.weights, whole.weights)
