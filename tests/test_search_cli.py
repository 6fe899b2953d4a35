"""`fives search`, `fives crosses` and `fives evaluate` on a small dataset."""

import dataclasses
import importlib
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import fives_tf
from fives_tf import sql, storage
from fives_tf.config import SearchConfig, groups, settings
from fives_tf.crosses import best_of_orders, by_gain, from_json
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.evaluate import evaluate
from fives_tf.restore import load_models
from fives_tf.run import CROSS_IDS, FILES, LOCK, Run
from fives_tf.schema import Schema
from fives_tf.training import journal
from fives_tf.training.crossing import SHORT_LIST
from fives_tf.training.metrics import auc, log_loss
from fives_tf.tuning import trial_name

FAST = {"dim": 4, "search_epochs": 2, "epochs": 1, "patience": 1, "xla": False}
FLAGS = ["--dim=4", "--search_epochs=2", "--epochs=1", "--patience=1", "--no_xla"]
# One stage only.
SHORT = ["--no_first_order", "--search_epochs=1", "--after=nothing", "--order=2", "--no_xla"]


@pytest.fixture(scope="module")
def searched(fives, small_dataset, tmp_path_factory):
    """A run that the command made in a process of its own, and what it told."""
    directory = tmp_path_factory.mktemp("searched") / "run"
    done = fives("search", small_dataset, "--run", directory, *FLAGS)
    assert done.returncode == 0, done.stderr
    return directory, done


@pytest.fixture
def dataset_copy(small_dataset, tmp_path):
    """A dataset that a test may spoil."""
    return shutil.copytree(small_dataset, tmp_path / "dataset")


def refused(done: subprocess.CompletedProcess, *words: str) -> None:
    """Asserts that a mistake got one message, with these words in it."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("fives search:") == 1
    for word in words:
        assert word in done.stderr


def table(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.split("\n\n")[0].splitlines()]


# No crosses at all are the best ones on so small a log.
TRIED = {
    *("part-lr", "crosses-10", "crosses-30"),
    *("from_scratch-table", "search-graph", "from_scratch-graph"),
}
COUNTS = ("no crosses", "10 crosses", "30 crosses")
CHOICES = ("without weights for crosses", "the graph alone", "the mean of the best 2")


def stages(run: Run) -> set[str]:
    """The stages that a run went through; what was chosen on valid decides on the last ones."""
    forms = run.manifest["forms"]
    table = {"refit-lr"} if "table" in forms else set()
    refits = {f"refit-{number}" for number in range(len(forms))}
    return {"lr", "search", *TRIED, "refit-crosses", *table, *refits}


class TestSearch:
    def test_it_tells_the_figures_the_best_crosses_and_how_to_go_on(self, searched):
        directory, done = searched
        run = Run.open(str(directory))
        figures, *rows = done.stdout.splitlines()
        assert figures == (
            f"valid: AUC {run.manifest['evaluation']['auc']:.5f}, "
            f"log loss {run.manifest['evaluation']['log_loss']:.5f}"
        )
        shown = [line.split("\t")[0] for line in rows[1:11]]
        assert shown == [cross.name for cross in best_of_orders(run.crosses, 5)]
        assert f"  fives crosses {directory}" in rows
        assert f"  fives evaluate {directory} --split test" in rows
        where, *lines = done.stderr.splitlines()
        assert where == "one device, CPU:0: TensorFlow sees no GPU"
        told = [line.partition(":")[0] for line in lines]
        assert set(told) == {*stages(run), "rank", *COUNTS, *CHOICES}, "libraries are silent"
        for choices, rows in ((COUNTS, "a part of train"), (CHOICES, "valid")):
            for choice in choices:
                assert re.search(rf"^{choice}: log loss 0\.\d{{5}} on {rows}$", done.stderr, re.M)

    def test_the_run_directory_holds_what_is_documented(self, searched):
        directory, _ = searched
        names = {path.name for path in directory.iterdir()}
        later = {"tune", CROSS_IDS, "report", "report.html", "report.json"}
        assert names == {*FILES, LOCK} - later
        run = Run.open(str(directory))
        assert run.config == SearchConfig.make(**FAST).resolve(rows=2000)
        adjacency = run.adjacency
        fields = len(adjacency.fields)
        assert adjacency.soft.shape == adjacency.binary.shape == (2, fields, fields)
        assert list(adjacency.columns) == [name.partition("@")[0] for name in adjacency.fields]
        assert all(cross.auc > 0 for cross in run.crosses)
        lines = journal.read(str(directory))
        assert {line["stage"] for line in lines} == stages(run)

    def test_the_python_function_gives_the_same(self, searched, small_dataset, tmp_path):
        importlib.import_module("fives_tf.search")  # makes the name a module of the package
        result = fives_tf.search(small_dataset, tmp_path / "run", **FAST)
        expected = Run.open(str(searched[0]))
        assert result.config == expected.config
        assert result.crosses == expected.crosses
        assert result.evaluation == expected.manifest["evaluation"]
        for name, value in vars(expected.adjacency).items():
            np.testing.assert_array_equal(getattr(result.adjacency, name), value)

    def test_the_python_function_is_there_without_an_import_of_the_module(self):
        program = "import fives_tf; fives_tf.search()"
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert "missing 2 required positional arguments: 'dataset' and 'run'" in run.stderr

    def test_flags_count_more_than_a_file_and_a_file_more_than_the_paper(
        self, cli, tmp_path, monkeypatch
    ):
        asked = {}

        def search(dataset, run, *, paper, resume, overwrite, **given):
            asked["config"] = SearchConfig.make(paper, **given)
            raise UserError("no need to search")

        monkeypatch.setattr("fives_tf.search.search", search)
        file = tmp_path / "config.yaml"
        file.write_text("version: 1\ndim: 5\ndropout: 0.25\nafter: from_scratch\n")
        done = cli("search", "d", "--run=r", "--paper", f"--config={file}", "--dim=7", "--finetune")
        refused(done, "no need to search")
        paper = SearchConfig.make(paper=True)
        assert asked["config"] == dataclasses.replace(paper, dim=7, dropout=0.25, after="finetune")
        cli("search", "d", "--run=r", "--no_refit", "--xla", "--thresholds=0.6,0.7", "--batch=9")
        assert asked["config"] == SearchConfig(refit=False, thresholds=(0.6, 0.7), batch=9)

    def test_every_setting_has_a_group_and_a_flag_with_its_default(self, cli):
        assert [one.name for group in groups().values() for one in group] == [
            one.name for one in settings()
        ]
        shown = " ".join(cli("search", "--help").stdout.split())
        for setting in settings():
            assert f" --{setting.name}" in shown
            assert (f"--no_{setting.name} " in shown) == (setting.metadata["kind"] == "flag")
        assert "highest order of crosses (default: 3)" in shown
        assert "start that table from a logistic regression (default: yes; --paper: no)" in shown

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--order=two"], "argument --order: expected a whole number. Received: 'two'."),
            (["--rate=fast"], "argument --rate: expected a number. Received: 'fast'."),
            (["--thresholds=a"], "argument --thresholds: expected numbers separated by commas."),
            (["--thresholds=0.5"], "`thresholds`: expected 2, one for each layer"),
            (["--order=1"], "`order`: expected a whole number from 2. Received: 1."),
            (["--dropout=nan"], "`dropout`: expected from 0 to 0.9. Received: nan."),
            (["--finetune", "--from_scratch"], "not allowed with argument --finetune"),
            (["--finetune", "--after=nothing"], "not allowed with argument --finetune"),
            (["--resume", "--overwrite"], "not allowed with argument --resume"),
            (["--paper", "--members=2"], "`members`: is for what is learned after the search"),
            (["--paper", "--random_adjacency"], "`random_adjacency`: is for what is learned"),
            (["--config=nowhere.yaml"], "nowhere.yaml: cannot be read"),
            (["--ordre=2"], "unknown flag --ordre"),
        ],
    )
    def test_a_mistake_in_the_flags_gets_one_message(self, flags, message, cli):
        done = cli("search", "dataset", "--run", "run", *flags)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("ordre: 2", ["unknown key `ordre`; did you mean `order`?"]),
            ("order: two", ["config.yaml: `order`: expected a whole number. Received: 'two'."]),
            ("xla: maybe", ["config.yaml: `xla`: expected true or false. Received: 'maybe'."]),
            ("after: finetuning", ["`after`: expected one of from_scratch, finetune, nothing."]),
            ("version: 2", ["config.yaml: version 2 is not known to this program"]),
            ("- order", ["config.yaml: expected a mapping"]),
        ],
    )
    def test_a_mistake_in_the_file_of_settings_gets_one_message(self, text, words, cli, tmp_path):
        (tmp_path / "config.yaml").write_text(text)
        done = cli("search", "dataset", "--run", "run", f"--config={tmp_path / 'config.yaml'}")
        refused(done, *words)


class TestPlace:
    def test_a_run_is_neither_mixed_nor_replaced_unasked(self, searched, small_dataset, cli):
        directory, _ = searched
        before = (directory / "run.json").read_bytes()
        done = cli("search", small_dataset, "--run", directory, *FLAGS)
        refused(done, str(directory), "--resume goes on with it, --overwrite replaces it")
        done = cli("search", small_dataset, "--run", directory, *FLAGS, "--resume", "--dim=5")
        refused(done, "was begun with `dim` = 4, not 5")
        done = cli("search", small_dataset, "--run", directory, *FLAGS, "--resume", "--tune")
        refused(done, "holds a search without --tune")
        assert (directory / "run.json").read_bytes() == before

    def test_a_complete_run_is_resumed_by_showing_it(self, searched, small_dataset, cli):
        directory, done = searched
        again = cli("search", small_dataset, "--run", directory, *FLAGS, "--resume")
        assert (again.returncode, again.stdout) == (0, done.stdout)
        assert len(again.stderr.splitlines()) == 1, "nothing is done but to choose a device"

    def test_overwrite_replaces_a_run_and_nothing_else(
        self, small_dataset, searched, cli, tmp_path
    ):
        directory = shutil.copytree(searched[0], tmp_path / "run")
        (directory / "notes.txt").write_text("mine")
        (directory / "run.json.0.aside").write_text("half-written")
        done = cli("search", small_dataset, "--run", directory, *SHORT, "--overwrite")
        assert done.returncode == 0, done.stderr
        assert Run.open(str(directory)).config.order == 2
        assert (directory / "notes.txt").read_text() == "mine"
        assert not (directory / "run.json.0.aside").exists()
        assert {line["stage"] for line in journal.read(str(directory))} == {"search"}

    @pytest.mark.parametrize("names", [["thesis.tex"], ["config.yaml"], ["run.json", "photos"]])
    @pytest.mark.parametrize("flags", [[], ["--overwrite"], ["--resume"], ["--tune"]])
    def test_a_directory_that_holds_other_things_is_left_alone(
        self, names, flags, small_dataset, cli, tmp_path
    ):
        for name in names:
            (tmp_path / name).write_text("{}")
        refused(cli("search", small_dataset, "--run", tmp_path, *flags), "holds no run")
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)

    def test_a_file_is_no_run_directory(self, small_dataset, cli, tmp_path):
        (tmp_path / "run").write_text("")
        refused(cli("search", small_dataset, "--run", tmp_path / "run"), "is a file")

    def test_two_searches_do_not_share_a_directory(self, small_dataset, cli, tmp_path):
        with storage.lock(str(tmp_path / "run" / LOCK)):
            done = cli("search", small_dataset, "--run", tmp_path / "run")
        refused(done, "another process is at work")

    def test_a_run_of_another_dataset_is_not_resumed(self, searched, dataset_copy, cli):
        manifest = json.loads((dataset_copy / "dataset.json").read_text())
        manifest["fingerprint"]["schema"] = "another"
        (dataset_copy / "dataset.json").write_text(json.dumps(manifest))
        done = cli("search", dataset_copy, "--run", searched[0], *FLAGS, "--resume")
        refused(done, "is not the dataset that")


class TestBadInput:
    @pytest.fixture(autouse=True)
    def no_run_is_begun(self, tmp_path):
        yield
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("file", "message"),
        [
            ("dataset.json", "dataset.json: version 7 is not known to this program"),
            ("encoding.json", "encoding.json: version 7 is not known to this program"),
            ("schema.yaml", "schema.yaml: schema version 7 is not known to this program"),
        ],
    )
    def test_a_dataset_of_another_version(self, file, message, dataset_copy, cli, tmp_path):
        path = dataset_copy / file
        mark = "version: 1" if file.endswith("yaml") else '"version": 1'
        assert mark in path.read_text()
        path.write_text(path.read_text().replace(mark, mark.replace("1", "7"), 1))
        refused(cli("search", dataset_copy, "--run", tmp_path / "run"), message)

    @pytest.mark.parametrize("split", ["train", "valid"])
    def test_a_split_without_clicks(self, split, dataset_copy, cli, tmp_path):
        manifest = json.loads((dataset_copy / "dataset.json").read_text())
        for shard in manifest["splits"][split]["shards"]:
            shard["clicks"] = 0
        (dataset_copy / "dataset.json").write_text(json.dumps(manifest))
        done = cli("search", dataset_copy, "--run", tmp_path / "run")
        refused(done, f"the {split} split has 0 clicks in", "`label`", "preprocess the log again")

    @pytest.mark.parametrize("granularities", [[10], [5, 10]])
    def test_one_column_only(self, granularities, cli, tmp_path):
        from pipelines.preprocess import preprocess

        rows = "".join(f"{number % 3 % 2},{number}\n" for number in range(300))
        (tmp_path / "log.csv").write_text("click,age\n" + rows)
        schema = Schema.parse(
            f"numeric: [age]\nlabel: {{column: click}}\ndiscretize: {{buckets: {granularities}}}"
        )
        preprocess([str(tmp_path / "log.csv")], schema, str(tmp_path / "dataset"))
        for tune in ([], ["--tune"]):
            done = cli("search", tmp_path / "dataset", "--run", tmp_path / "run", *tune)
            refused(done, "has fields of one column only, age; a cross needs two")

    def test_an_order_above_the_number_of_columns(self, small_dataset, cli, tmp_path):
        done = cli("search", small_dataset, "--run", tmp_path / "run", "--order=6")
        refused(done, "`order`: the dataset has fields of 5 columns", "Received: 6.")

    def test_no_dataset(self, cli, tmp_path):
        done = cli("search", tmp_path / "nowhere", "--run", tmp_path / "run")
        refused(done, "no such directory; make it with `fives preprocess`")


def spoil(directory, split, record):
    """Flips a bit of a record of the first shard of a split, which keeps its size; its name."""
    manifest = json.loads((directory / "dataset.json").read_text())
    file = manifest["splits"][split]["shards"][0]["file"]
    content = bytearray((directory / file).read_bytes())
    at = 0
    for _ in range(record - 1):
        at += 16 + int.from_bytes(content[at : at + 8], "little")
    content[at + 12 + 20] ^= 1
    (directory / file).write_bytes(bytes(content))
    return file


class TestCorruptShards:
    def test_one_stops_the_search_by_its_name(self, dataset_copy, cli, tmp_path):
        file = spoil(dataset_copy, "train", 5)
        done = cli("search", dataset_copy, "--run", tmp_path / "run", *FLAGS)
        refused(done, f"{dataset_copy / file}: record 5 is corrupt", "--skip_corrupt")

    def test_one_is_left_out_if_asked_for(self, dataset_copy, cli, tmp_path):
        files = [spoil(dataset_copy, "train", 5), spoil(dataset_copy, "test", 3)]
        done = cli("search", dataset_copy, "--run", tmp_path / "run", *FLAGS, "--skip_corrupt")
        assert done.returncode == 0, done.stderr
        assert f"left out {files[0]}: record 5 of" in done.stderr
        # All shards of test are corrupt; train can still be judged, without the corrupt one.
        done = cli("evaluate", tmp_path / "run")
        assert done.returncode == 2
        assert "the test split has 0 clicks in 0 rows" in done.stderr
        done = cli("evaluate", tmp_path / "run", "--split=train", "--json")
        dataset = Dataset.open(str(dataset_copy))
        left = dataset.split("train").rows - dataset.split("train").shards[0].rows
        assert json.loads(done.stdout)["rows"] == left

    def test_what_is_left_must_hold_clicks(self, dataset_copy, cli, tmp_path):
        manifest = json.loads((dataset_copy / "dataset.json").read_text())
        manifest["splits"]["valid"]["shards"][1]["clicks"] = 0
        (dataset_copy / "dataset.json").write_text(json.dumps(manifest))
        spoil(dataset_copy, "valid", 1)
        done = cli("search", dataset_copy, "--run", tmp_path / "run", *FLAGS, "--skip_corrupt")
        refused(done, "the valid split has 0 clicks in")


def test_a_loss_that_is_no_number_stops_the_search(small_dataset, cli, tmp_path):
    flags = [*FLAGS, "--search_embedding_rate=1e9", "--no_first_order"]
    done = cli("search", small_dataset, "--run", tmp_path / "run", *flags)
    refused(done, "search: the loss is not a finite number at step", "lower the learning rates")
    refused_run = cli("crosses", tmp_path / "run")
    assert "the search is unfinished" in refused_run.stderr


def test_a_search_that_is_told_to_stop_before_it_trains_says_how_to_go_on(small_dataset, tmp_path):
    flags = ["--run", str(tmp_path / "run"), *FLAGS]
    command = [sys.executable, "-m", "fives_tf.cli", "search", str(small_dataset), *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "run" / LOCK).exists():
            assert process.poll() is None
        process.terminate()
        _, told = process.communicate(timeout=60)
    assert process.returncode == 143
    hint = "fives search: interrupted; the same command with --resume goes on from here"
    assert told.splitlines()[-1] == hint
    assert "Traceback" not in told


class TestCrosses:
    def test_as_a_table(self, searched, cli):
        run = Run.open(str(searched[0]))
        shown = cli("crosses", searched[0], "--top=3")
        header, *rows = table(shown.stdout)
        assert header == ["cross", "order", "score", "AUC", "gain"]
        assert rows == [
            [c.name, str(c.order), f"{c.score:.4f}", f"{c.auc:.4f}", f"{c.gain:.6f}"]
            for c in best_of_orders(run.crosses, 3)
        ]
        assert [row[1] for row in rows] == ["2"] * 3 + ["3"] * 3
        _, *rows = table(cli("crosses", searched[0], "--order=3", "--top=2").stdout)
        assert [row[1] for row in rows] == ["3", "3"]

    def test_by_gain(self, searched, cli):
        crosses = Run.open(str(searched[0])).crosses
        ranked = by_gain(crosses)
        assert len(ranked) == len(best_of_orders(crosses, SHORT_LIST))
        assert ranked != [cross for cross in crosses if cross.gain is not None]
        shown = cli("crosses", searched[0], "--rank=gain", "--top=5", "--format=json").stdout
        assert from_json(shown.encode(), "here") == ranked[:5]
        _, *rows = table(cli("crosses", searched[0], "--rank=gain", "--order=3", "--top=2").stdout)
        assert [row[0] for row in rows] == [c.name for c in ranked if c.order == 3][:2]

    def test_gains_are_found_out_when_they_are_asked_for(self, small_dataset, cli, tmp_path):
        directory = tmp_path / "run"
        assert cli("search", small_dataset, "--run", directory, *SHORT).returncode == 0
        assert all(cross.gain is None for cross in Run.open(str(directory)).crosses)
        shown = cli("crosses", directory, "--rank=gain", "--format=json", "--top=1000").stdout
        ranked = from_json(shown.encode(), "here")
        assert len(ranked) > 1
        gains = [cross.gain for cross in ranked]
        assert gains == sorted(gains, reverse=True)
        assert by_gain(Run.open(str(directory)).crosses) == ranked

    def test_as_json(self, searched, cli):
        run = Run.open(str(searched[0]))
        shown = cli("crosses", searched[0], "--top=1000", "--format=json").stdout
        assert shown == (searched[0] / "crosses.json").read_text() + "\n"
        shown = cli("crosses", searched[0], "--top=2", "--format=json").stdout
        assert from_json(shown.encode(), "here") == best_of_orders(run.crosses, 2)

    def test_as_sql(self, searched, small_dataset, cli, tmp_path):
        run = Run.open(str(searched[0]))
        encoding = Dataset.open(str(small_dataset)).encoding
        expected = sql.select(best_of_orders(run.crosses, 2), encoding) + "\n"
        assert cli("crosses", searched[0], "--top=2", "--format=sql").stdout == expected
        moved = shutil.copytree(small_dataset, tmp_path / "moved")
        flags = ["--top=2", "--format=sql", f"--dataset={moved}"]
        assert cli("crosses", searched[0], *flags).stdout == expected

    def test_of_edges_that_count_only(self, searched, cli):
        run = Run.open(str(searched[0]))
        place = {field: index for index, field in enumerate(run.adjacency.fields)}

        def names(*flags):
            flags = ["--order=2", "--top=1000", *flags]
            return [row[0] for row in table(cli("crosses", searched[0], *flags).stdout)[1:]]

        def expected(threshold):
            strong = run.adjacency.soft[0] >= np.float32(threshold)
            return [
                cross.name
                for cross in run.crosses
                if cross.order == 2
                for i, j in [[place[field] for field in cross.fields]]
                if strong[i, j] or strong[j, i]
            ]

        assert sorted(names("--edges")) == sorted(expected(0.5))
        limit = float(np.median(run.adjacency.soft[0][run.adjacency.soft[0] > 0]))
        for flag in (f"--thresholds={limit}", f"--thresholds={limit},0.5"):
            assert sorted(names(flag)) == sorted(expected(limit))
        assert 0 < len(expected(limit)) < len(names())
        assert names("--thresholds=1.1") == []

    def test_beside_the_planted_truth(self, searched, small_log, cli):
        shown = cli("crosses", searched[0], "--truth", small_log / "truth.json", "--top=1000")
        header, *rows = table(shown.stdout)
        assert header[-1] == "planted"
        assert [row[0] for row in rows if row[-1] == "yes"] == ["C1 x C2"]
        pairs = [row[0] for row in rows if row[1] == "2"]
        rank = pairs.index("C1 x C2") + 1
        told = shown.stdout.splitlines()[-1]
        assert told == f"planted C1 x C2: rank {rank} among {len(pairs)} crosses of order 2"

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--top=0"], "--top: expected at least 1. Received: 0."),
            (["--order=4"], "--order: the run has crosses of the orders 2 to 3. Received: 4."),
            (["--thresholds=0.5,0.5,0.5"], "--thresholds: expected one number, or 2 of them"),
            (["--thresholds=high"], "--thresholds: expected one number"),
            (["--edges", "--thresholds=0.5"], "not allowed with argument --edges"),
            (["--truth=nowhere.json"], "nowhere.json: cannot be read"),
            (["--truth=t.json", "--format=sql"], "--truth: marks crosses in a table"),
            (["--format=sql", "--dataset=nowhere"], "nowhere: no such directory"),
        ],
    )
    def test_a_mistake_gets_one_message(self, flags, message, searched, cli):
        done = cli("crosses", searched[0], *flags)
        assert done.returncode == 2
        assert message in done.stderr

    def test_of_no_run(self, cli, tmp_path):
        done = cli("crosses", tmp_path)
        assert done.returncode == 2
        assert f"{tmp_path}: there is no run.json in it; make a run with" in done.stderr

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more"])
    def test_of_a_damaged_run(self, content, searched, cli, tmp_path):
        directory = shutil.copytree(searched[0], tmp_path / "run")
        (directory / "adjacency.npz").write_bytes(content)
        done = cli("crosses", directory, "--edges")
        assert done.returncode == 2
        assert "adjacency.npz: is damaged" in done.stderr


class TestEvaluate:
    def test_the_figures_are_those_of_the_predictions(self, searched, small_dataset, cli):
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

    def test_several_members_are_averaged(self, small_dataset, cli, tmp_path):
        flags = [*FLAGS, "--members=2", "--no_refit", "--search_epochs=1", "--order=2"]
        done = cli("search", small_dataset, "--run", tmp_path / "run", *flags)
        assert done.returncode == 0, done.stderr
        figures = json.loads((tmp_path / "run/run.json").read_text())["evaluation"]
        shown = cli("evaluate", tmp_path / "run", "--split=valid", "--json")
        shown = json.loads(shown.stdout)
        assert shown["members"] == 2
        assert {name: shown[name] for name in figures} == figures

    def test_each_member_has_a_search_of_its_own(self, small_dataset, cli, tmp_path):
        flags = [*FLAGS, "--members=2", "--search_epochs=1", "--order=2", "--form=table"]
        assert cli("search", small_dataset, "--run", tmp_path / "run", *flags).returncode == 0
        stages = {line["stage"] for line in journal.read(str(tmp_path / "run"))}
        assert {"search", "search-1", "refit-0", "refit-1"} <= stages
        name = "model/edges/.ATTRIBUTES/VARIABLE_VALUE"
        first, second = (
            tf.train.load_checkpoint(str(tmp_path / "run/members" / member)).get_tensor(name)
            for member in ("0", "1")
        )
        np.testing.assert_array_equal(first, Run.open(str(tmp_path / "run")).adjacency.binary)
        assert (first != second).any()

    def test_a_split_that_was_learned_from_is_told(self, searched, cli):
        told = "the search has learned from this split"
        assert told in cli("evaluate", searched[0], "--split=valid").stdout
        assert told not in cli("evaluate", searched[0]).stdout

    def test_a_mistake_gets_one_message(self, searched, dataset_copy, cli):
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


def test_tune_shows_what_it_tried_and_searches_with_the_best(
    small_dataset, cli, tmp_path, monkeypatch
):
    monkeypatch.setattr("fives_tf.tuning.GRID", {"order": (2, 3), "dim": (2,)})
    flags = [*SHORT, "--tune"]
    done = cli("search", small_dataset, "--run", tmp_path / "run", *flags)
    assert done.returncode == 0, done.stderr
    header, row = table(done.stdout)
    assert header == ["dim", "AUC", "log loss", "best"]
    assert (row[0], row[-1]) == ("2", "yes")
    assert "trial 1 of 1: dim=2" in done.stderr
    run = Run.open(str(tmp_path / "run"))
    assert (run.config.order, run.config.dim) == (2, 2)
    assert (tmp_path / "run/tune" / trial_name({"dim": 2}) / "run.json").exists()
    refused(
        cli("search", small_dataset, "--run", tmp_path / "run", *flags), "--resume goes on with it"
    )
    again = cli("search", small_dataset, "--run", tmp_path / "run", *flags, "--resume")
    assert (again.returncode, again.stdout) == (0, done.stdout)
    done = cli("search", small_dataset, "--run", tmp_path / "run", *flags, "--dim=2", "--resume")
    refused(done, "--tune: all of order, dim are given; leave one to be tuned")
