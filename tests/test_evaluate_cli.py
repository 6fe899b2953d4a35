"""`fives evaluate` on a run of a small dataset."""

import json

import numpy as np
import pytest

from fives_tf.dataset import Dataset
from fives_tf.evaluate import evaluate
from fives_tf.restore import load_models
from fives_tf.run import Run
from fives_tf.training.metrics import auc, log_loss
from tests.searching import FLAGS, table


def test_the_figures_are_those_of_the_predictions(searched, small_dataset, cli):
    run, dataset = Run.open(str(searched[0])), Dataset.open(str(small_dataset))
    [model] = load_models(run, dataset)
    batches = list(dataset.read("test", batch=100))
    label = np.concatenate([label for _, label in batches])
    logits = np.concatenate([model.call(np.int32(ids)) for ids, _ in batches])
    prediction = model.probability(logits).numpy()

    shown = json.loads(cli("evaluate", searched[0], "--split=test", "--json").stdout)
    assert shown["split"] == "test"
    assert shown["members"] == 1
    assert shown["rows"] == len(label) == dataset.split("test").rows
    assert shown["clicks"] == label.sum() == dataset.split("test").clicks
    assert shown["auc"] == pytest.approx(auc(label, prediction), abs=1e-6)
    assert shown["log_loss"] == pytest.approx(log_loss(label, prediction), abs=1e-6)
    assert shown["output_auc"] == pytest.approx(
        [auc(label, column) for column in logits.T], abs=1e-6
    )
    assert shown["mean_prediction"] == pytest.approx(prediction.mean(), abs=1e-6)
    assert shown["click_rate"] == pytest.approx(label.mean())
    assert shown == evaluate(run, "test").to_json()

    rows = dict(table(cli("evaluate", searched[0]).stdout))
    assert rows["AUC"] == f"{shown['auc']:.5f}"
    assert rows["AUC of layer 2"] == f"{shown['output_auc'][2]:.5f}"
    assert rows["models averaged"] == "1"


def test_several_members_are_averaged(small_dataset, cli, tmp_path):
    flags = [*FLAGS, "--members=2", "--no_refit", "--search_epochs=1", "--order=2"]
    done = cli("search", small_dataset, "--run", tmp_path / "run", *flags)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "run/run.json").read_text())["evaluation"]
    shown = cli("evaluate", tmp_path / "run", "--split=valid", "--json")
    shown = json.loads(shown.stdout)
    assert shown["members"] == 2
    assert {name: shown[name] for name in figures} == figures


def test_a_split_that_was_learned_from_is_told(searched, cli):
    told = "the search has learned from this split"
    assert told in cli("evaluate", searched[0], "--split=valid").stdout
    assert told not in cli("evaluate", searched[0]).stdout


def test_a_mistake_gets_one_message(searched, dataset_copy, cli):
    done = cli("evaluate", searched[0], "--split=tset")
    assert done.returncode == 2
    assert "has no split `tset`; did you mean `test`?" in done.stderr
    manifest = json.loads((dataset_copy / "dataset.json").read_text())
    manifest["fingerprint"]["inputs"] = "other rows"
    (dataset_copy / "dataset.json").write_text(json.dumps(manifest))
    done = cli("evaluate", searched[0], "--dataset", dataset_copy)
    assert done.returncode == 2
    assert "is not the dataset that" in done.stderr
    assert "--dataset" in done.stderr
