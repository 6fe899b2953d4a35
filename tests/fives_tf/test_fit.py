"""`fives fit`: light models with crosses and without, their runs, and what other commands do."""

import functools
import itertools
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import fives_tf
from fives_tf.config import MODELS, FitConfig, settings
from fives_tf.crosses import Cross, to_json
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.fit import CANDIDATES
from fives_tf.light import Light
from fives_tf.models import build
from fives_tf.models.autofis import MOST_FIRST_GATE
from fives_tf.models.build import BIAS_RATE, BUILDERS, FTRL_BETA
from fives_tf.restore import load_models
from fives_tf.run import Run
from fives_tf.training import crossing
from fives_tf.training.batches import Batches, Source
from fives_tf.training.metrics import log_loss
from pipelines.add_crosses import add_crosses

from .test_resume import metrics, saved_step, stop

PLANTED = ("C1", "C2")
SHORT = {"batch": 64, "lr_epochs": 2, "epochs": 2, "xla": False}
FLAGS = ["--batch=64", "--lr_epochs=2", "--epochs=2", "--no_xla"]


@pytest.fixture(scope="module")
def dataset(small_dataset) -> Dataset:
    return Dataset.open(str(small_dataset))


@pytest.fixture(scope="module")
def pairs(dataset, tmp_path_factory) -> Path:
    """A file of all crosses of order 2, the planted one last."""
    fields = dataset.encoding.fields
    names = [
        (one.name, two.name)
        for one, two in itertools.combinations(fields, 2)
        if one.column != two.column
    ]
    names.sort(key=lambda cross: cross == PLANTED)
    path = tmp_path_factory.mktemp("pairs") / "crosses.json"
    path.write_bytes(to_json(Cross(cross, 0.5) for cross in names))
    return path


@pytest.fixture(scope="module", autouse=True)
def few_stages():
    """Numbers of crosses that a small log has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossing, "COUNTS", (1, 3))
        yield


@pytest.fixture(scope="module")
def fitted(small_dataset, pairs, tmp_path_factory):
    """Gives a fit of a model with the best cross."""
    directory = tmp_path_factory.mktemp("fitted")

    @functools.cache
    def fit(model):
        run = directory / model
        return fives_tf.fit(small_dataset, run, model=model, crosses=pairs, top=1, **SHORT)

    return fit


def light(directory: Path, dataset: Dataset) -> Light:
    return Light.load(str(directory / "light"), dataset.encoding)


def ftrl_slowly(source: Source, rate: float, l1: float, l2: float):
    """Weights and bias of a logistic regression after an epoch, id by id."""
    batches = Batches(source, ["train"], 64, 0)
    size = source.dataset.encoding.size
    z, n, w = np.zeros(size), np.zeros(size), np.zeros(size)
    clicks = source.dataset.split("train").clicks / source.dataset.split("train").rows
    bias, momentum, velocity = np.log(clicks / (1 - clicks)), 0.0, 0.0
    for step, (ids, label) in enumerate(batches.stream().take(batches.steps)):
        ids, label = ids.numpy(), label.numpy().astype(float)
        error = 1 / (1 + np.exp(-(w[ids].sum(axis=1) + bias))) - label
        gradient = np.zeros(size)
        for row, one in zip(ids, error, strict=True):
            gradient[row] += one / len(ids)
        for i in np.unique(ids):
            sigma = (np.sqrt(n[i] + gradient[i] ** 2) - np.sqrt(n[i])) / rate
            z[i] += gradient[i] - sigma * w[i]
            n[i] += gradient[i] ** 2
            curvature = (FTRL_BETA / len(ids) + np.sqrt(n[i])) / rate + l2 * batches.steps
            w[i] = -np.sign(z[i]) * max(abs(z[i]) - l1 * batches.steps, 0) / curvature
        momentum = 0.9 * momentum + 0.1 * error.mean()
        velocity = 0.999 * velocity + 0.001 * error.mean() ** 2
        falling = BIAS_RATE * (1 + np.cos(np.pi * step / batches.steps)) / 2
        correction = np.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1))
        bias -= falling * correction * momentum / (np.sqrt(velocity) + 1e-7)
    return w, bias


def test_a_regression_is_learned_by_ftrl(dataset, tmp_path):
    given = {"l1": 1e-3, "l2": 1e-3, "rate": 0.2}
    how = {"optimizer": "ftrl", "batch": 64, "lr_epochs": 1, "refit": False}
    fives_tf.fit(dataset, tmp_path / "run", **how, **given)
    found = light(tmp_path / "run", dataset)
    weights, bias = ftrl_slowly(Source(dataset), **given)
    np.testing.assert_allclose(found.weights, weights, atol=2e-5)
    assert found.bias == pytest.approx(bias, abs=1e-5)
    seen = weights != 0
    assert 0.1 < seen.mean() < 0.9, "L1 leaves some weights at 0, and not all"


def least_loss(ids: np.ndarray, label: np.ndarray, size: int, l2: float) -> np.ndarray:
    """Weights and bias of the least mean loss with a penalty, by Newton's method."""
    rows = np.zeros((len(ids), size + 1))
    np.put_along_axis(rows, ids, 1.0, axis=1)
    rows[:, -1] = 1
    weights, penalty = np.zeros(size + 1), np.append(np.full(size, l2), 1e-9)
    for _ in range(10):
        probability = 1 / (1 + np.exp(-rows @ weights))
        gradient = rows.T @ (probability - label) / len(rows) + penalty * weights
        spread = rows * (probability * (1 - probability))[:, None]
        weights -= np.linalg.solve(rows.T @ spread / len(rows) + np.diag(penalty), gradient)
    return weights


@pytest.mark.parametrize(("batch", "epochs"), [(32, 6), (64, 24)])
@pytest.mark.parametrize("optimizer", [{}, {"optimizer": "ftrl", "rate": 0.2}])
def test_its_penalty_is_what_it_is_said_to_be(batch, epochs, optimizer, dataset, tmp_path):
    """Whatever the batch and the epochs are, it ends about where that penalty leads."""
    l2, rows = 2e-3, Source(dataset).arrays("train")
    fives_tf.fit(
        dataset, tmp_path / "run", batch=batch, lr_epochs=epochs, l2=l2, refit=False, **optimizer
    )
    found = light(tmp_path / "run", dataset)
    weights = np.append(found.weights, found.bias)
    away = [
        np.linalg.norm(weights - least_loss(*rows, dataset.encoding.size, factor * l2))
        for factor in (1, 0.25, 4)
    ]
    assert away[0] == min(away)
    assert away[0] < 0.5 * min(away[1:])


def test_the_planted_cross_is_found_and_helps(dataset, pairs, tmp_path):
    with_crosses = fives_tf.fit(dataset, tmp_path / "crosses", crosses=pairs, lr_epochs=4, batch=64)
    without = fives_tf.fit(dataset, tmp_path / "none", lr_epochs=4, batch=64)
    assert with_crosses.crosses[0].fields == PLANTED
    assert with_crosses.crosses[0].gain > 0
    assert without.crosses == []
    losses = [one.evaluation["log_loss"] for one in (with_crosses, without)]
    assert losses[0] < losses[1]
    stages = {line["stage"] for line in metrics(tmp_path / "crosses")}
    assert stages == {"part-lr", "crosses-1", "crosses-3", "crosses", "refit-crosses"}
    assert {line["stage"] for line in metrics(tmp_path / "none")} == {"lr", "refit-lr"}


def test_of_crosses_that_tell_the_same_one_is_used(dataset, tmp_path):
    given = [Cross(PLANTED, 1.0), Cross(("C3", "C4"), 0.9), Cross(PLANTED[::-1], 0.8)]
    result = fives_tf.fit(dataset, tmp_path / "run", crosses=given, top=3, lr_epochs=1, batch=64)
    found = {cross.fields: cross.gain for cross in result.crosses}
    assert found.keys() == {PLANTED, ("C3", "C4")}
    assert None not in found.values()


def test_the_last_model_learned_from_valid_too(dataset, tmp_path):
    runs = {
        refit: fives_tf.fit(dataset, tmp_path / f"{refit}", refit=refit, l2=1e-3, **SHORT)
        for refit in (False, True)
    }
    assert runs[False].evaluation == runs[True].evaluation
    ids, label = Source(dataset).arrays("valid")
    losses = {}
    for refit, result in runs.items():
        [model] = load_models(result.run, dataset)
        losses[refit] = log_loss(label, model.probability(model.call(ids)).numpy())
    assert losses[False] == pytest.approx(runs[False].evaluation["log_loss"], rel=1e-5)
    assert losses[True] < losses[False]


@pytest.mark.parametrize("model", MODELS)
def test_a_fit_is_evaluated_exported_and_predicted_with(
    model, fitted, dataset, small_log, cli, tmp_path
):
    run, result = fitted(model).run.directory, fitted(model)
    assert [cross.fields for cross in result.crosses] == [PLANTED]
    assert Run.open(run).kind == "fit"
    [restored] = load_models(result.run, dataset)
    splits = {name: Source(dataset).arrays(name) for name in dataset.splits}
    chances = {
        n: restored.probability(restored.call(ids)).numpy() for n, (ids, _) in splits.items()
    }
    told = json.loads(cli("evaluate", run, "--json").stdout)
    assert told["log_loss"] == pytest.approx(log_loss(splits["test"][1], chances["test"]), rel=1e-5)
    assert "AUC of layer" not in cli("evaluate", run).stdout

    exported = cli("export", run, "--to", tmp_path / "exports")
    assert exported.returncode == 0, exported.stderr
    card = json.loads((tmp_path / "exports/1/assets.extra/model_card.json").read_text())
    assert card["model"] == ("light" if model == "lr" else model)
    assert card["learned_on"] == ["train", "valid"]
    assert [cross["fields"] for cross in card["crosses"]] == [list(PLANTED)]
    out = tmp_path / "scores.parquet"
    scored = cli("predict", tmp_path / "exports", "--input", small_log / "log.csv", "--output", out)
    assert scored.returncode == 0, scored.stderr
    found = np.sort(pq.read_table(out)["probability"].to_numpy())
    np.testing.assert_allclose(found, np.sort(np.concatenate(list(chances.values()))), atol=1e-5)


@pytest.mark.parametrize("model", ["lr", "dnn"])
def test_crosses_of_a_dataset_are_fields(model, dataset, small_log, cli, tmp_path):
    crosses = [Cross(PLANTED, 1.0), Cross(("C3", "C4"), 0.5)]
    made = add_crosses(dataset, crosses, str(tmp_path / "made"))
    longer = SHORT | {"lr_epochs": 8}  # until the regression has learned of crosses
    result = fives_tf.fit(made, tmp_path / "run", model=model, **longer)
    assert [cross.name for cross in result.crosses] == ["C1 x C2", "C3 x C4"]
    [restored] = load_models(result.run, made)
    splits = [Source(made).arrays(name) for name in made.splits]
    chances = [restored.probability(restored.call(ids)).numpy() for ids, _ in splits]
    plain = fives_tf.fit(dataset, tmp_path / "plain", model=model, **longer)
    assert result.evaluation["log_loss"] < plain.evaluation["log_loss"]
    told = json.loads(cli("evaluate", tmp_path / "run", "--json").stdout)
    assert told["log_loss"] == pytest.approx(log_loss(splits[-1][1], chances[-1]), rel=1e-5)

    assert cli("export", tmp_path / "run", "--to", tmp_path / "exports").returncode == 0
    out = tmp_path / "scores.parquet"
    scored = cli("predict", tmp_path / "exports", "--input", small_log / "log.csv", "--output", out)
    assert scored.returncode == 0, scored.stderr
    found = np.sort(pq.read_table(out)["probability"].to_numpy())
    np.testing.assert_allclose(found, np.sort(np.concatenate(chances)), atol=1e-5)
    with pytest.raises(UserError, match="has crosses among its fields already"):
        fives_tf.fit(made, tmp_path / "twice", crosses=crosses, **SHORT)


def test_commands_that_are_for_searches_say_what_a_fit_has(fitted, cli, tmp_path):
    run = fitted("dnn").run.directory
    assert "C1 x C2" in cli("crosses", run).stdout
    assert "C1 x C2" in cli("crosses", run, "--rank=gain").stdout
    for flags in (["--edges"], ["--thresholds=0.5"]):
        refused = cli("crosses", run, *flags)
        assert refused.returncode == 2
        assert "is a fit, which has no adjacency tensor" in refused.stderr
    refused = cli("export", run, "--to", tmp_path / "exports", "--light")
    assert refused.returncode == 2
    assert "is a fit of dnn, and has no light model" in refused.stderr
    done = cli("export", fitted("lr").run.directory, "--to", tmp_path / "exports", "--light")
    assert done.returncode == 0, done.stderr


def test_the_crosses_of_a_fit_can_be_given_to_another_one(fitted, dataset, tmp_path):
    given = fitted("lr").run.directory
    result = fives_tf.fit(dataset, tmp_path / "run", crosses=given, top=5, **SHORT)
    assert [cross.fields for cross in result.crosses] == [PLANTED]


def test_crosses_can_stay_in_the_order_in_which_they_are_given(
    dataset, pairs, tmp_path, monkeypatch
):
    given = [tuple(cross["fields"]) for cross in json.loads(pairs.read_bytes())["crosses"]]
    run = tmp_path / "top"
    first = fives_tf.fit(dataset, run, crosses=pairs, rank="given", top=2, **SHORT)
    assert [cross.fields for cross in first.crosses] == given[:2]
    best = fives_tf.fit(dataset, tmp_path / "best", crosses=pairs, rank="given", **SHORT)
    assert [cross.fields for cross in best.crosses] == given[: len(best.crosses)]
    stages = {line["stage"] for line in metrics(tmp_path / "best")}
    assert {"lr", "crosses-1", "crosses-3"} <= stages
    monkeypatch.setattr(crossing, "COUNTS", (len(given),))
    monkeypatch.setattr(crossing, "SHORT_LIST", 2)
    every = fives_tf.fit(dataset, tmp_path / "every", crosses=pairs, rank="given", **SHORT)
    assert f"crosses-{len(given)}" in {line["stage"] for line in metrics(tmp_path / "every")}
    assert len(every.crosses) in (0, len(given)), "what is ranked already is not cut short"
    assert not list(tmp_path.glob("*/checkpoints/ranking*"))


def test_autofis_learns_with_the_pairs_that_its_search_kept(dataset, pairs, tmp_path, monkeypatch):
    # A short search closes no gate unless it pulls harder.
    monkeypatch.setattr(build, "MOST_FIRST_GATE", 1.04 * MOST_FIRST_GATE)
    result = fives_tf.fit(dataset, tmp_path / "run", model="autofis", crosses=pairs, top=1, **SHORT)
    stages = [line["stage"] for line in metrics(tmp_path / "run")]
    assert list(dict.fromkeys(stages))[-3:] == ["search", "fit", "refit"]
    [model] = load_models(result.run, dataset)
    kept = model.kept.numpy()
    assert len(kept) == 7 * 6 / 2, "six fields and a cross"
    place = tf.train.latest_checkpoint(f"{result.run.directory}/checkpoints/search/last")
    [name] = [name for name, _ in tf.train.list_variables(place) if name.startswith("model/gates")]
    np.testing.assert_array_equal(kept, tf.train.load_variable(place, name) != 0)
    assert 0 < kept.sum() < len(kept)


def test_every_model_has_a_builder():
    assert tuple(BUILDERS) == MODELS


def test_the_docs_list_the_settings_in_order():
    page = Path(__file__).parents[2] / "docs" / "fit.md"
    table = page.read_text().partition("## Settings")[2]
    names = re.findall(r"^\| `([a-z_0-9]+)` \|", table, re.MULTILINE)
    assert names == ["version", *(setting.name for setting in settings(FitConfig))]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--l1=-1"], "`l1`: expected from 0 to 1e+09. Received: -1.0."),
        (["--l2=nan"], "`l2`: expected from 0 to 1e+09. Received: nan."),
        (["--rate=0"], "`rate`: expected from 1e-09 to 1e+09. Received: 0.0."),
        (["--model=forest"], "argument --model: invalid choice: 'forest'"),
        (["--l1=0.1", "--model=dnn"], "`l1`: is for a logistic regression that FTRL learns"),
        (["--l1=0.1", "--optimizer=lazy_adam"], "`l1`: is for a logistic regression that FTRL"),
        (["--top=3"], "`top`: is for crosses, and none are given; --crosses names them."),
        (["--crosses=nowhere.json"], "nowhere.json: cannot be read (No such file or directory)."),
    ],
)
def test_a_mistake_meets_one_clear_error(flags, message, cli, small_dataset, tmp_path):
    refused = cli("fit", small_dataset, "--run", tmp_path / "run", *flags)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "run").exists()


def test_a_model_that_is_not_known_is_refused_in_python_too():
    with pytest.raises(UserError, match="`model`: expected one of lr, dnn, .* Received: 'forest'"):
        FitConfig(model="forest")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (to_json([Cross(("C1", "D2"), 0.5)]), "needs the field `D2`, which the dataset does not"),
        (b'{"version": 9}', "version 9 is not known"),
        (b"[]", "is no list of crosses, or damaged"),
        (to_json([]), "has no crosses"),
    ],
)
def test_a_file_of_other_crosses_is_named(content, message, cli, small_dataset, tmp_path):
    path = tmp_path / "other.json"
    path.write_bytes(content)
    refused = cli("fit", small_dataset, "--run", tmp_path / "run", "--crosses", path)
    assert refused.returncode == 2
    assert f"{path}: " in refused.stderr
    assert message in refused.stderr


def test_a_dataset_of_another_version_is_refused(cli, tmp_path):
    (tmp_path / "dataset.json").write_text('{"version": 9}')
    refused = cli("fit", tmp_path, "--run", tmp_path / "run")
    assert refused.returncode == 2
    assert "version 9 is not known" in refused.stderr


def test_a_run_is_neither_replaced_nor_mixed_up(fitted, dataset, pairs, cli, small_dataset):
    run = fitted("lr").run.directory
    flags = ["fit", small_dataset, "--run", run, *FLAGS, "--top=1", "--crosses"]
    assert "holds a fit; --resume goes on" in cli(*flags, pairs).stderr
    assert "was begun with `rate` = None" in cli(*flags, pairs, "--resume", "--rate=0.5").stderr
    assert "was begun with other crosses" in cli(*flags, run, "--resume").stderr
    assert cli(*flags, pairs, "--resume").returncode == 0, "it is complete"
    assert Path(run, "checkpoints", CANDIDATES).read_bytes() == pairs.read_bytes()
    refused = cli("search", small_dataset, "--run", run, "--resume")
    assert refused.returncode == 2
    assert "holds a fit; choose another directory" in refused.stderr


@pytest.mark.parametrize(("model", "stage"), [("lr", "refit-crosses"), ("dnn", "fit")])
def test_a_fit_that_is_killed_goes_on_and_ends_with_the_same_numbers(
    model, stage, small_dataset, pairs, dataset, tmp_path
):
    given = SHORT | {"batch": 16, "evaluate_rows": 640, "checkpoint_seconds": 0}
    whole, run = tmp_path / "whole", tmp_path / "run"
    command = [sys.executable, "-m", "fives_tf.cli", "fit", str(small_dataset), f"--run={run}"]
    command += [f"--model={model}", f"--crosses={pairs}", "--top=1", "--no_xla", "--batch=16"]
    command += ["--lr_epochs=2", "--epochs=2", "--evaluate_rows=640", "--checkpoint_seconds=0"]
    stop(command, run, stage, signal.SIGKILL)
    for place in (whole, run):
        fives_tf.fit(
            dataset, place, model=model, crosses=pairs, top=1, resume=place == run, **given
        )
        if place == whole:
            assert 0 < saved_step(run, stage) < saved_step(whole, stage), "it was killed half-way"
    assert_same(run, whole, dataset, exactly=True)
    assert metrics(run) == metrics(whole)


@pytest.mark.parametrize("model", ["lr", "dnn", "autofis"])  # others: models/test_replicas.py
def test_two_devices_learn_what_one_does(model, small_dataset, pairs, dataset, tmp_path):
    processes = []
    for count in (1, 2):
        command = [sys.executable, "-m", "fives_tf.cli", "fit", str(small_dataset)]
        command += [f"--run={tmp_path / str(count)}", f"--model={model}", f"--crosses={pairs}"]
        command += ["--top=1", "--l2=1e-4", f"--devices=cpu:{count}", *FLAGS]
        if model == "lr":
            command += ["--optimizer=ftrl", "--l1=1e-4"]
        processes.append(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        )
    for process in processes:
        _, told = process.communicate(timeout=300)
        assert process.returncode == 0, told
    assert "MirroredStrategy on 2 devices" in told
    assert_same(tmp_path / "2", tmp_path / "1", dataset, exactly=False)


def assert_same(run: Path, expected: Path, dataset: Dataset, exactly: bool) -> None:
    """What two fits predict is the same, bit for bit or but for the order of sums."""
    ids, _ = Source(dataset).arrays("test")
    [found], [wanted] = (load_models(Run.open(str(place)), dataset) for place in (run, expected))
    np.testing.assert_allclose(
        found.call(ids), wanted.call(ids), rtol=0, atol=0 if exactly else 1e-4
    )
    for name in ("evaluation", "model"):
        one, other = (
            json.loads((place / "run.json").read_text())[name] for place in (run, expected)
        )
        if exactly or name == "model":
            assert one == other
        else:
            assert one["log_loss"] == pytest.approx(other["log_loss"], abs=1e-5)
