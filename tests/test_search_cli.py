"""`fives search` on a small dataset."""

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
from fives_tf import storage
from fives_tf.config import SearchConfig, groups, settings
from fives_tf.crosses import best_of_orders
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.run import CROSS_IDS, FILES, LOCK, Run
from fives_tf.schema import Schema
from fives_tf.training import journal
from fives_tf.tuning import trial_name
from tests.searching import FLAGS, SHORT, table

FAST = {"dim": 4, "search_epochs": 2, "epochs": 1, "patience": 1, "xla": False}


def refused(done: subprocess.CompletedProcess, *words: str) -> None:
    """Asserts that a mistake got one message, with these words in it."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("fives search:") == 1
    for word in words:
        assert word in done.stderr


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


def test_each_member_has_a_search_of_its_own(small_dataset, cli, tmp_path):
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
