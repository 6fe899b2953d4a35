"""Each program of `benchmarks/` runs from end to end on a tiny setting; nothing is measured."""

import dataclasses
import gzip
import importlib
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from fives_tf.config import SearchConfig
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.training.batches import Source

ROOT = Path(__file__).parents[2]
TINY = {"lr_epochs": 2, "search_epochs": 1, "epochs": 1, "batch": 512, "dim": 2, "xla": "false"}
SET = [f"--set={name}={value}" for name, value in TINY.items()]


@pytest.fixture
def program(monkeypatch):
    """Imports a program as one that lies in the folder of the running script."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


@pytest.fixture
def one_process(program, monkeypatch):
    """Does in this process, which has TensorFlow loaded, what else has one of its own."""
    monkeypatch.setattr(
        program("harness"), "in_own_process", lambda function, *args: function(*args)
    )


def written(path: Path) -> dict:
    """A file of results, which tells nothing of where it was made."""
    text = path.read_text()
    assert str(path.parent) not in text
    result = json.loads(text)
    assert result["machine"]["cores"] > 0
    assert result["versions"]["tensorflow"]
    return result


@pytest.mark.usefixtures("one_process")
def test_planted_searches_each_log_once(program, tmp_path, capsys):
    planted = program("planted")
    out, work = tmp_path / "out.json", tmp_path / "work"
    flags = ["--logs=1", "--rows=1500", f"--work={work}", f"--out={out}", *SET]
    planted.run(flags)
    result = written(out)
    assert len(result["logs"][0]["pair_ranks"]) == 3
    assert 0 < result["logs"][0]["lr_auc"] < 1
    assert result["config"]["dim"] == 2
    assert "seed" not in result["config"]
    assert capsys.readouterr().out.count("reached") == 3
    manifest = work / "log-0" / "run" / "run.json"
    before = manifest.stat().st_mtime_ns
    planted.run(flags)
    assert manifest.stat().st_mtime_ns == before
    assert written(out) == result
    with pytest.raises(UserError, match="another log"):
        planted.run([*flags, "--rows=1000"])


def test_planted_ranks_a_cross_among_those_of_its_order(program):
    planted = program("planted")
    crosses = [Cross(("a", "b"), 0.9), Cross(("b", "c"), 0.8), Cross(("a", "b", "c"), 0.7)]
    assert planted.rank(("c", "b"), crosses) == 2
    assert planted.rank(("a", "b", "c"), crosses) == 1
    assert planted.rank(("a", "c"), crosses) is None


@pytest.mark.parametrize(("good", "reached"), [(9, [True, True, False]), (7, [False] * 3)])
def test_planted_judges_by_the_share_of_logs(program, good, reached):
    planted = program("planted")
    found = planted.Found(0, (1, 2, 10), 10, 0.8, 0.7, 0.9, 1.0)
    missed = planted.Found(0, (1, 2, 11), None, 0.7, 0.7, 0.9, 1.0)
    criteria = planted.judge([found] * good + [missed] * (10 - good))
    assert [criterion["reached"] for criterion in criteria] == reached


@pytest.mark.usefixtures("one_process")
def test_quality_reads_the_test_split_once(program, data_directory, tmp_path, capsys, monkeypatch):
    quality = program("quality")
    once, read = Source.once, []
    monkeypatch.setattr(
        Source, "once", lambda self, splits, batch: read.append(splits) or once(self, splits, batch)
    )
    out, work = tmp_path / "out.json", tmp_path / "work"
    flags = [f"--data={data_directory}", f"--work={work}", f"--out={out}", "--seeds=0", *SET]
    flags += ["--datasets=employee", "--members=2"]
    quality.run(flags)
    assert read.count(["test"]) == 2  # the default form and the paper's
    assert read[-1] == ["test"]
    assert "employee, one model, 1 seeds" in capsys.readouterr().out
    result = written(out)
    default, paper = result["cells"]
    assert set(default["test"]) == {"one", "members", "lr", "light"}
    assert set(paper["test"]) == {"one", "members"}
    assert default["test"]["one"] != default["test"]["members"]
    assert paper["test"]["one"] == paper["test"]["members"]
    assert result["configs"][default["config"]]["members"] == 2
    assert not result["configs"][paper["config"]]["first_order"]
    quality.run(flags)
    assert len(read) == read.index(["test"], read.index(["test"]) + 1) + 1
    assert written(out) == result
    with pytest.raises(UserError, match="another `dim`"):
        quality.run([flag.replace("dim=2", "dim=3") for flag in flags])


@pytest.mark.usefixtures("one_process")
def test_fit_speed_measures_each_optimizer_and_rival(program, tmp_path, capsys):
    fit_speed, out = program("fit_speed"), tmp_path / "out.json"
    fit_speed.run(["--size=200", "--batch=16", "--rows=800", "--steps=30", f"--out={out}"])
    measured = {found["name"]: found for found in written(out)["measured"]}
    assert tuple(measured) == fit_speed.NAMES
    assert all(found["rows_per_second"] > 0 for found in measured.values())
    assert measured["ftrl"]["ftrl_ratio"] == measured["ftrl"]["ftrl_cpu_ratio"] == 1
    assert capsys.readouterr().out.count("reached") == 1


@pytest.mark.usefixtures("one_process")
def test_search_speed_measures_each_form_and_rival(program, tmp_path, capsys):
    search_speed = program("search_speed")
    out = tmp_path / "out.json"
    flags = ["--fields=3", "--dim=2", "--batch=16", "--rows=200", "--steps=3", f"--out={out}"]
    search_speed.run(["--sizes=60", *flags])
    measured = {found["name"]: found for found in written(out)["measured"]}
    assert list(measured) == ["paper", "default", "keras", "dnn", "gemm"]
    assert all(found["rows_per_second"] > 0 for found in measured.values())
    assert measured["paper"]["paper_ratio"] == 1
    assert capsys.readouterr().out.count("reached") == 6


def test_search_speed_measures_rivals_where_they_tell_something(program, monkeypatch):
    search_speed, done = program("search_speed"), []

    def remember(function, task):
        done.append((task.name, task.size))
        return {}

    monkeypatch.setattr(program("harness"), "in_own_process", remember)
    for size in search_speed.SIZES:
        search_speed.measure_size(size, search_speed.SIZES, 1, search_speed.Shape(), "absent")
    rivals = [(name, size) for name, size in done if name not in ("write", "paper", "default")]
    assert rivals == [("keras", 10_000), *((name, 10**6) for name in ("keras", "dnn", "gemm"))]
    assert [size for name, size in done if name == "paper"] == list(search_speed.SIZES)


def test_search_speed_writes_a_dataset_in_a_process_of_its_own(program, tmp_path):
    search_speed = program("search_speed")
    shape = search_speed.Shape(fields=3, rows=400)
    task = search_speed.Task("write", 60, 1, shape, str(tmp_path))
    program("harness").in_own_process(search_speed.write_dataset, task)
    dataset = Dataset.open(str(tmp_path))
    assert dataset.encoding.size == 60
    assert (dataset.split("train").rows, dataset.split("valid").rows) == (400, 40)
    encoding = dataset.encoding
    [(ids, _)] = dataset.read("train", batch=400).as_numpy_iterator()
    for field, part in zip(encoding.fields, (ids - encoding.offsets).T, strict=True):
        np.testing.assert_array_equal(np.bincount(part, minlength=20)[2:], field.counts)


@pytest.fixture
def scaling_task(program, tmp_path):
    """A task of two replicas on a dataset of 60 ids."""
    shape = program("search_speed").Shape(fields=3, dim=2, batch=16, rows=200)
    task = program("scaling").Task("sparse", 60, 2, shape, str(tmp_path), replicas=2)
    program("search_speed").write_dataset(task)
    return task


# Of the network and H, in bytes: transform, readout, bias, two layers of edges.
SHARED = 4 * (3 * 2 * 2 + 3 * 3 * 2 + 3 + 2 * 3 * 3)
# Row number and two values for each id of a replica's eight rows.
SLICES = 4 * (1 + 2) * 3 * 8


@pytest.mark.parametrize(
    ("exchange", "handed"),
    [("sparse", (SLICES, SHARED)), ("dense", (0, SHARED + 4 * 2 * 60))],
)
def test_scaling_counts_what_a_replica_hands_over(program, scaling_task, exchange, handed):
    task = dataclasses.replace(scaling_task, name=exchange)
    found = program("harness").in_own_process(program("scaling").measure, task)
    assert (found["slice_bytes"], found["tensor_bytes"]) == handed
    assert found["rows_per_second"] > 0


def test_scaling_counts_what_workers_send(program, scaling_task):
    scaling = program("scaling")
    if not scaling.NETWORK.exists():
        pytest.skip("this system does not tell what its network carries")
    task = dataclasses.replace(scaling_task, replicas=1, workers=2)
    found = program("harness").in_own_process(scaling.measure_workers, task)
    assert found["wire_bytes"] >= 2 * (SLICES + SHARED)


def test_scaling_judges_and_extrapolates_by_bytes(program, tmp_path, capsys, monkeypatch):
    scaling, out = program("scaling"), tmp_path / "out.json"
    table, slices, shared = 64_000_000, 2_700_000, 60_000

    def measured(function, task):
        """Two workers who send almost all of the table, though it is sparse."""
        if function is not scaling.measure and function is not scaling.measure_workers:
            return None
        found = {"rows_per_second": 1000 // task.replicas, "step_milliseconds": 30.0}
        if task.workers > 1:
            return found | {"wire_bytes": table if task.name == "dense" else table - 1}
        if task.replicas == 1:
            return found | {"slice_bytes": 0, "tensor_bytes": 0, "update_milliseconds": 10.0}
        if task.name == "dense":
            return found | {"slice_bytes": 0, "tensor_bytes": table + shared}
        return found | {"slice_bytes": slices // task.replicas, "tensor_bytes": shared}

    monkeypatch.setattr(program("harness"), "in_own_process", measured)
    monkeypatch.setattr(scaling, "NETWORK", tmp_path)
    scaling.run([f"--out={out}"])
    result = written(out)
    assert [criterion["reached"] for criterion in result["criteria"]] == [True, True, False]
    assert capsys.readouterr().out.count("NOT reached") == 1
    assert result["measured"][4]["one_replica_ratio"] == 0.25
    assert result["config"]["dim"] == 16
    sparse, dense, large = result["model"][:3]  # four GPUs, NVLink, the batch that was measured
    assert sparse["sent_bytes"] == 0.75 * (slices + 2 * shared)
    assert dense["sent_bytes"] == 0.75 * 2 * (table + shared)
    assert large["sent_bytes"] == 0.75 * 2 * (1000 * table + shared)
    waiting = 7 * 0.05
    assert sparse["step_milliseconds"] == pytest.approx(2 / 4 + 1 + waiting, abs=0.02)
    several = result["model"][3]
    assert several["batch"] == 4096
    assert several["step_milliseconds"] == pytest.approx(2 + 4 + waiting, abs=0.05)


def test_scaling_refuses_what_it_cannot_compare_or_divide(program):
    scaling = program("scaling")
    for flag, message in (("--replicas=2,4", "expected 1"), ("--batch=1023", "divided by 2")):
        with pytest.raises(UserError, match=message):
            scaling.run([flag])


@pytest.fixture
def small_criteo(program, tmp_path, monkeypatch):
    """A directory of data whose Criteo log has few rows."""
    random = np.random.default_rng(0)
    rows = [
        [str(random.integers(2)), *map(str, random.integers(9, size=13)), *"abc" * 8, "", "é"]
        for _ in range(1200)
    ]
    for row in rows:
        row[14:18] = random.choice(["x", "y", ""], size=4)
    path = tmp_path / "data" / "criteo" / "log.tsv.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress("".join("\t".join(row) + "\n" for row in rows).encode()))
    protocol = program("fives_tf.bench.protocol")
    source = protocol.Source(("criteo/log.tsv.gz",), len(rows), 240)
    monkeypatch.setitem(protocol.SOURCES, "criteo", source)
    return tmp_path / "data"


@pytest.mark.slow
@pytest.mark.usefixtures("one_process")
def test_serving_measures_each_model_and_signature(
    program, small_criteo, tmp_path, capsys, monkeypatch
):
    serving = program("serving")
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc to compile the program that measures")
    monkeypatch.setattr(serving, "SETTINGS", ((1e-3, 1e-3, 0.0, 0.0, 1), (1e-2, 1e-3, 0.0, 0.5, 1)))
    out, work = tmp_path / "out.json", tmp_path / "work"
    flags = [f"--data={small_criteo}", f"--work={work}", f"--out={out}", *SET]
    serving.run([*flags, "--batches=1,3", "--turns=2", "--runs=5"])
    result = written(out)
    measured = [(one["model"], one["signature"], one["batch"]) for one in result["measured"]]
    assert measured == [
        (model, signature, batch)
        for signature in ("serving_default", "examples", "ids")
        for batch in (1, 3)
        for model in ("fives", "light", "dnn")
    ]
    assert all(0 < one["p50_milliseconds"] <= one["p99_milliseconds"] for one in result["measured"])
    assert all(one["rows_per_second"] > 0 for one in result["measured"])
    assert all(0 < result["test"][model]["auc"] < 1 for model in serving.MODELS)
    tried = [setting["valid_auc"] for setting in result["dnn"]["tried"]]
    assert tried[result["dnn"]["chosen"]] == max(tried) == result["valid_auc"]["dnn"]
    assert capsys.readouterr().out.count("reached") == 3
    trained = {path: path.stat().st_mtime_ns for path in work.rglob("*.index")}
    serving.run([*flags, "--batches=1", "--turns=1", "--runs=1"])
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*.index")} == trained
    assert written(out)["test"] == result["test"]


@pytest.mark.usefixtures("one_process")
def test_serving_sends_the_same_rows_to_every_signature(program, small_criteo, tmp_path):
    """What the requests of a model's signatures hold is scored alike."""
    models, protocol = program("serving_models"), program("fives_tf.bench.protocol")
    dataset = protocol.prepare("criteo", 0, small_criteo, tmp_path / "work")
    rival = models._Rival(
        dataset,
        SearchConfig.make(xla=False, batch=512).resolve(100),
        str(tmp_path / "work"),
        2,
        models.Setting(1e-3, 1e-3, 0.0, 0.0, 1),
    )
    path = str(tmp_path / "exports" / "dnn" / "1")
    models._export_dnn(rival._build(1), dataset, path)
    rows = models.test_rows(dataset.directory, str(small_criteo))
    assert rows.batch.num_rows == 240
    names = ("serving_default", "examples", "ids")
    models.write_requests(
        rows, dataset.directory, str(tmp_path / "exports"), str(tmp_path), names, [7]
    )
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        tf.compat.v1.saved_model.load(session, ["serve"], path)
        scores = [
            session.run(*read_request((tmp_path / f"dnn-{name}-7").read_bytes())) for name in names
        ]
    assert scores[0].shape == (7,)
    assert len(set(scores[0].tolist())) > 1
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], rtol=1e-6)


def read_request(content):
    """What to fetch and what to feed, by name, from a file that `latency.c` reads."""
    file = io.BytesIO(content)

    def numbers(count):
        return np.frombuffer(file.read(4 * count), np.int32).tolist()

    def text():
        return file.read(*numbers(1))

    fetch, feeds = text().decode(), {}
    for _ in range(*numbers(1)):
        name = text().decode()
        kind, dimensions = numbers(2)
        shape, dtype = numbers(dimensions), tf.dtypes.as_dtype(kind)
        count = int(np.prod(shape))
        if dtype == tf.string:
            values = np.array([text() for _ in range(count)], object)
        else:
            values = np.frombuffer(file.read(dtype.size * count), dtype.as_numpy_dtype)
        feeds[name] = values.reshape(shape)
    assert not file.read()
    return fetch, feeds


def test_serving_judges_the_light_model_by_one_row(program):
    serving = program("serving")
    measured = [
        {"model": model, "signature": signature, "batch": batch, "p50_milliseconds": p50 * batch}
        for signature, light in (("serving_default", 0.5), ("examples", 0.51))
        for batch in (1, 32)
        for model, p50 in (("fives", 2.0), ("light", light), ("dnn", 1.0))
    ]
    assert [criterion["reached"] for criterion in serving.judge(measured)] == [True, False]
    figures = serving.summarize(np.array([[1.0, 1.0, 4.0]]), 32)
    assert figures["p50_milliseconds"] == 1
    assert figures["rows_per_second"] == 16_000


def test_serving_says_which_data_it_misses(program, tmp_path):
    with pytest.raises(UserError, match="set FIVES_DATA"):
        program("serving").run([f"--data={tmp_path}", f"--work={tmp_path}"])


def test_what_stops_an_own_process_is_told(program):
    harness = program("harness")
    with pytest.raises(UserError, match="NAME=VALUE"):
        harness.in_own_process(harness.read_set_flag, ["dim"])
    with pytest.raises(RuntimeError, match="_exit failed with exit code 3"):
        harness.in_own_process(os._exit, 3)


def test_settings_that_a_program_decides_are_refused(program):
    harness = program("harness")
    assert harness.read_set_flag(["dim=4", "thresholds=[0.5, 0.4]"]) == {
        "dim": 4,
        "thresholds": (0.5, 0.4),
    }
    assert harness.read_set_flag([]) == {}
    for texts, message in ((["seed=1"], "decided"), (["dim"], "NAME=VALUE"), (["dmi=4"], "dim")):
        with pytest.raises(UserError, match=message):
            harness.read_set_flag(texts)
