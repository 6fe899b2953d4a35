"""`fives crosses` on a run of a small dataset."""

import shutil

import numpy as np
import pytest

from fives_tf import sql
from fives_tf.crosses import Cross, best_of_orders, by_gain, from_json, to_json
from fives_tf.dataset import Dataset
from fives_tf.run import Run
from fives_tf.training.crossing import SHORT_LIST
from tests.searching import SHORT, table


def test_as_a_table(searched, cli):
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


def test_by_gain(searched, cli):
    crosses = Run.open(str(searched[0])).crosses
    ranked = by_gain(crosses)
    assert len(ranked) == len(best_of_orders(crosses, SHORT_LIST))
    assert ranked != [cross for cross in crosses if cross.gain is not None]
    shown = cli("crosses", searched[0], "--rank=gain", "--top=5", "--format=json").stdout
    assert from_json(shown.encode(), "here") == ranked[:5]
    _, *rows = table(cli("crosses", searched[0], "--rank=gain", "--order=3", "--top=2").stdout)
    assert [row[0] for row in rows] == [c.name for c in ranked if c.order == 3][:2]


def test_gains_are_found_out_when_they_are_asked_for(small_dataset, cli, tmp_path):
    directory = tmp_path / "run"
    assert cli("search", small_dataset, "--run", directory, *SHORT).returncode == 0
    assert all(cross.gain is None for cross in Run.open(str(directory)).crosses)
    shown = cli("crosses", directory, "--rank=gain", "--format=json", "--top=1000").stdout
    ranked = from_json(shown.encode(), "here")
    assert len(ranked) > 1
    gains = [cross.gain for cross in ranked]
    assert gains == sorted(gains, reverse=True)
    assert by_gain(Run.open(str(directory)).crosses) == ranked


def test_as_json(searched, cli):
    run = Run.open(str(searched[0]))
    shown = cli("crosses", searched[0], "--top=1000", "--format=json").stdout
    assert shown == (searched[0] / "crosses.json").read_text() + "\n"
    shown = cli("crosses", searched[0], "--top=2", "--format=json").stdout
    assert from_json(shown.encode(), "here") == best_of_orders(run.crosses, 2)


def test_as_sql(searched, small_dataset, cli, tmp_path):
    run = Run.open(str(searched[0]))
    encoding = Dataset.open(str(small_dataset)).encoding
    expected = sql.select(best_of_orders(run.crosses, 2), encoding) + "\n"
    assert cli("crosses", searched[0], "--top=2", "--format=sql").stdout == expected
    moved = shutil.copytree(small_dataset, tmp_path / "moved")
    flags = ["--top=2", "--format=sql", f"--dataset={moved}"]
    assert cli("crosses", searched[0], *flags).stdout == expected


def test_of_edges_that_count_only(searched, cli):
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


def test_beside_the_planted_truth(searched, small_log, cli):
    shown = cli("crosses", searched[0], "--truth", small_log / "truth.json", "--top=1000")
    header, *rows = table(shown.stdout)
    assert header[-1] == "planted"
    assert [row[0] for row in rows if row[-1] == "yes"] == ["C1 x C2"]
    pairs = [row[0] for row in rows if row[1] == "2"]
    rank = pairs.index("C1 x C2") + 1
    told = shown.stdout.splitlines()[-1]
    assert told == f"planted C1 x C2: rank {rank} among {len(pairs)} crosses of order 2"


@pytest.fixture(scope="module")
def cross_file(searched, tmp_path_factory):
    """What `fives generate` writes: crosses in the order of their generator, without gains."""
    crosses = [
        Cross(fields, score)
        for fields, score in ((("C1", "C2"), 0.2), (("C1", "C2", "C3"), 0.1), (("C1", "C3"), 0.3))
    ]
    path = tmp_path_factory.mktemp("file") / "crosses.json"
    path.write_bytes(to_json(crosses))
    return path


def test_of_a_file(cross_file, small_dataset, small_log, cli):
    _, *rows = table(cli("crosses", cross_file).stdout)
    assert [row[0] for row in rows] == ["C1 x C2", "C1 x C2 x C3", "C1 x C3"]
    _, *rows = table(cli("crosses", cross_file, "--top=1", "--order=2").stdout)
    assert [row[0] for row in rows] == ["C1 x C2"]
    shown = cli("crosses", cross_file, "--format=json").stdout
    assert shown == cross_file.read_text() + "\n"
    dataset = f"--dataset={small_dataset}"
    encoding = Dataset.open(str(small_dataset)).encoding
    expected = sql.select(from_json(cross_file.read_bytes(), "here"), encoding) + "\n"
    assert cli("crosses", cross_file, "--format=sql", dataset).stdout == expected
    shown = cli("crosses", cross_file, dataset, "--truth", small_log / "truth.json")
    told = shown.stdout.splitlines()[-1]
    assert told == "planted C1 x C2: rank 1 among 2 crosses of order 2"


def test_of_a_file_by_gain(searched, cli, tmp_path):
    crosses = Run.open(str(searched[0])).crosses
    path = tmp_path / "crosses.json"
    path.write_bytes(to_json(crosses))
    shown = cli("crosses", path, "--rank=gain", "--top=5", "--format=json").stdout
    assert from_json(shown.encode(), "here") == by_gain(crosses)[:5]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--format=sql"], "--dataset: name the dataset"),
        (["--truth={truth}"], "--dataset: name the dataset"),
        (["--edges"], "--edges: is for the run of a search"),
        (["--thresholds=0.5"], "--thresholds: is for the run of a search"),
        (["--rank=gain"], "has a gain; `fives fit --crosses"),
        (["--order=4"], "has crosses of the orders 2, 3. Received: 4."),
    ],
)
def test_a_file_lacks_what_a_run_has(flags, message, cross_file, small_log, cli):
    flags = [flag.format(truth=small_log / "truth.json") for flag in flags]
    done = cli("crosses", cross_file, *flags)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [(to_json([]), "has no crosses"), (None, "cannot be read"), (b"{}", "version None")],
)
def test_a_file_without_crosses(content, message, cli, tmp_path):
    path = tmp_path / "crosses.json"
    if content is not None:
        path.write_bytes(content)
    done = cli("crosses", path)
    assert done.returncode == 2
    assert f"{path}: " in done.stderr
    assert message in done.stderr


def test_of_a_file_of_another_dataset(small_dataset, cli, tmp_path):
    path = tmp_path / "crosses.json"
    path.write_bytes(to_json([Cross(("C1", "elsewhere"), 1.0)]))
    done = cli("crosses", path, "--format=sql", f"--dataset={small_dataset}")
    assert done.returncode == 2
    assert f"{path}: the cross `C1 x elsewhere` needs the field `elsewhere`" in done.stderr


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
def test_a_mistake_gets_one_message(flags, message, searched, cli):
    done = cli("crosses", searched[0], *flags)
    assert done.returncode == 2
    assert message in done.stderr


def test_of_no_run(cli, tmp_path):
    done = cli("crosses", tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path}: there is no run.json in it; make a run with" in done.stderr


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more"])
def test_of_a_damaged_run(content, searched, cli, tmp_path):
    directory = shutil.copytree(searched[0], tmp_path / "run")
    (directory / "adjacency.npz").write_bytes(content)
    done = cli("crosses", directory, "--edges")
    assert done.returncode == 2
    assert "adjacency.npz: is damaged" in done.stderr
