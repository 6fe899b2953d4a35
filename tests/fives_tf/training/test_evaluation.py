import math

import numpy as np
import pytest

from fives_tf.dataset import Dataset, manifest_json
from fives_tf.models.fives import FivesForm, FivesModel
from fives_tf.models.lr import LogisticRegression
from fives_tf.records import frame_examples
from fives_tf.training import evaluation
from fives_tf.training.batches import Source
from fives_tf.training.evaluation import Evaluator, judge
from fives_tf.training.optimizers import make_optimizer

VALUES = 50  # of a field; so many that no row occurs twice, as rounding may tell equal rows apart
IDS = 3 * VALUES
SIZES = {"train": [10], "valid": [9, 12], "test": [7]}
MODES = pytest.mark.parametrize("memory", [2 << 30, 0], ids=["held", "streamed"])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """So that a split has several batches, the last one filled up with rows that do not count."""
    monkeypatch.setattr(evaluation, "BATCH", 8)


def write_dataset(directory):
    random = np.random.default_rng(0)
    splits, rows = {}, {}
    for split, parts in SIZES.items():
        (directory / split).mkdir()
        splits[split], rows[split] = [], []
        for number, size in enumerate(parts):
            ids = random.integers(VALUES, size=(size, 3)) + VALUES * np.arange(3)
            label = random.integers(2, size=size).astype(np.float32)
            content = b"".join(frame_examples(ids.astype(np.int32), label).to_pylist())
            name = f"{split}/part-{number}.tfrecord"
            (directory / name).write_bytes(content)
            clicks = int(label.sum())
            splits[split].append(
                {"file": name, "rows": size, "clicks": clicks, "bytes": len(content)}
            )
            rows[split].append((ids, label))
    (directory / "dataset.json").write_bytes(manifest_json(["a", "b", "c"], splits, ""))
    joined = {
        split: tuple(np.concatenate(part) for part in zip(*parts, strict=True))
        for split, parts in rows.items()
    }
    return Dataset.open(str(directory)), joined


def make_model(seed):
    optimizer = make_optimizer("sgd", 0.1)
    model = LogisticRegression(np.full(IDS, 1 / VALUES), [0.0, 0.0], 8, 0.3, optimizer)
    model.table.values.assign(np.random.default_rng(seed).normal(size=(IDS, 2)))
    model.choose(1)
    return model


def predict(model, ids):
    """The logits, [rows, outputs], and the probability of each row."""
    weights, bias = model.table.values.numpy(), model.bias.numpy()
    logits = np.array([[sum(weights[i, o] for i in row) + bias[o] for o in (0, 1)] for row in ids])
    return logits, 1 / (1 + np.exp(-logits[:, 1]))


def auc_slowly(label, score):
    """All pairs of a click and a row without one."""
    pairs = [(a, b) for a in score[label == 1] for b in score[label == 0]]
    return np.mean([(a > b) + (a == b) / 2 for a, b in pairs])


def log_loss_slowly(label, probability):
    return -np.mean([math.log(p if y else 1 - p) for y, p in zip(label, probability, strict=True)])


@MODES
@pytest.mark.parametrize("splits", [["valid"], ["train", "valid", "test"]], ids=len)
def test_every_row_counts_once(tmp_path, memory, splits):
    dataset, rows = write_dataset(tmp_path)
    model = make_model(seed=1)
    evaluator = Evaluator(Source(dataset, memory=memory), splits)
    ids, label = (np.concatenate(part) for part in zip(*(rows[s] for s in splits), strict=True))
    logits, probability = predict(model, ids)
    found_label, (found_logits,) = evaluator.logits(model)
    np.testing.assert_array_equal(found_label, label)
    np.testing.assert_allclose(found_logits, logits, rtol=1e-4, atol=1e-6)
    found = evaluator.evaluate(model)
    assert found.rows == len(label)
    assert found.auc == pytest.approx(auc_slowly(label, probability))
    assert found.log_loss == pytest.approx(log_loss_slowly(label, probability), rel=1e-5)
    expected = [auc_slowly(label, column) for column in logits.T]
    assert found.output_auc == pytest.approx(expected)
    assert found.auc == found.output_auc[1]


def test_several_models_predict_the_mean_of_their_probabilities(tmp_path):
    dataset, rows = write_dataset(tmp_path)
    models = [make_model(seed) for seed in (1, 2, 3)]
    ids, label = rows["valid"]
    logits, probability = zip(*(predict(model, ids) for model in models), strict=True)
    mean = np.mean(probability, axis=0)
    found = Evaluator(Source(dataset), ["valid"]).evaluate(*models)
    assert found.rows == len(label)
    assert found.auc == pytest.approx(auc_slowly(label, mean))
    assert found.log_loss == pytest.approx(log_loss_slowly(label, mean), rel=1e-5)
    expected = [auc_slowly(label, column) for column in np.mean(logits, axis=0).T]
    assert found.output_auc == pytest.approx(expected)
    alone = Evaluator(Source(dataset), ["valid"]).evaluate(models[0])
    assert alone.log_loss != pytest.approx(found.log_loss, rel=1e-3)


def test_evaluation_changes_nothing_in_a_model_that_is_searching(tmp_path):
    dataset, _ = write_dataset(tmp_path)
    names = ("embedding", "network", "edges", "first_order")
    optimizers = {name: make_optimizer("sgd", 0.1) for name in names}
    form = FivesForm(order=2, dim=2, dropout=0.5)
    model = FivesModel(form, list("abc"), np.full(IDS, 0.25), 8, optimizers, steps=4, jit=False)
    before = [variable.numpy() for variable in model.variables]
    evaluator = Evaluator(Source(dataset), ["valid"])
    first, second = evaluator.evaluate(model), evaluator.evaluate(model)
    assert first == second
    assert len(before) >= 7
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value, err_msg=variable.path)


def test_figures_are_named_in_json():
    label = np.array([1, 0, 1, 0])
    logits = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0], [-1.0, 3.0]])
    found = judge(label, np.array([0.9, 0.1, 0.8, 0.2]), logits)
    assert found.to_json() == {
        "rows": 4,
        "auc": 1.0,
        "log_loss": pytest.approx(-(math.log(0.9) * 2 + math.log(0.8) * 2) / 4),
        "output_auc": [0.75, 0.25],
    }
