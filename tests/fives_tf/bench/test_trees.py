"""Trees on the raw columns of the log that a dataset was made from."""

import csv
import dataclasses

import numpy as np
import pytest

from fives_tf.bench import trees
from fives_tf.bench.cells import Cell, Store
from fives_tf.bench.learn import fit
from fives_tf.bench.session import Session
from fives_tf.cross_fitting import fit_crosses
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.schema import SPLITS
from fives_tf.splitting import TEST, TRAIN
from fives_tf.training.batches import Source


@pytest.fixture
def log(small_data):
    return trees.read_log(Dataset.open(small_data.directory))


def test_the_rows_are_those_of_the_log_and_of_its_splits(log, small_data, small_log):
    dataset = Dataset.open(small_data.directory)
    with open(small_log / "log.csv") as file:
        rows = list(csv.DictReader(file))
    names = [column.name for column in dataset.schema.columns]
    assert log.columns.shape == (len(rows), len(names))
    label = dataset.schema.label
    np.testing.assert_array_equal(log.label, [row[label.column] == "1" for row in rows])
    for number, name in enumerate(SPLITS):
        own, part = log.split == number, dataset.split(name)
        assert (own.sum(), log.label[own].sum()) == (part.rows, part.clicks)
    for place, column in enumerate(dataset.schema.columns):
        values = [row[column.name] for row in rows]
        assert (place in log.categorical) != column.numeric
        if column.numeric:
            expected = [float(value) if value else np.nan for value in values]
            np.testing.assert_allclose(log.columns[:, place], expected, rtol=1e-6)
        else:  # as many categories, each with its own number
            pairs = set(zip(values, log.columns[:, place], strict=True))
            assert len(pairs) == len(set(values)) == len(set(log.columns[:, place]))


@pytest.mark.parametrize("library", trees.LIBRARIES)
def test_trees_learn_the_log(library, small_data, tmp_path):
    pytest.importorskip(library)
    cell = trees.tree_cell(library, small_data, 1)
    found = cell.perform(small_data.directory, str(tmp_path), 0, **cell.arguments)
    assert found["valid"] is None
    assert 0.55 < found["test"]["auc"] < 1
    assert 0 < found["test"]["log_loss"] < 1
    again = cell.perform(small_data.directory, str(tmp_path), 0, **cell.arguments)
    assert again == found


def test_categories_that_are_rare_among_learned_rows_are_one(log):
    learned = log.split == TRAIN
    merged = trees.merge_rare(log, learned, 300)
    several = 0
    for place, (before, after) in enumerate(zip(log.columns.T, merged.T, strict=True)):
        if place not in log.categorical:
            np.testing.assert_array_equal(before, after)
            continue
        rare = {one for one in set(before) if (before[learned] == one).sum() < 300}
        np.testing.assert_array_equal(after == 0, [one in rare for one in before])
        kept = {pair for pair in zip(before, after, strict=True) if pair[1]}
        assert sorted(number for _, number in kept) == list(range(1, len(kept) + 1))
        several += len(rare) > 1 and bool(kept)
    assert several > 1
    np.testing.assert_array_equal(trees.merge_rare(log, learned, 1), log.columns)


@pytest.mark.usefixtures("one_process")
def test_valid_decides_which_categories_are_rare(small_data, tmp_path):
    source = Cell(small_data, "lr-fives-gain", fit, {})
    crosses = {(small_data.name, small_data.seed): (source, [{"fields": ["C1", "C2"], "score": 1}])}
    rows = {"plain": trees.Row("lightgbm"), "crossed": trees.Row("lightgbm", crosses)}
    session = Session(Store(tmp_path), {small_data.name: [small_data]}, True)
    runs = trees.run(session, rows)
    assert len(session.tried) == 10
    for name in rows:
        tried = [one for one in session.tried if one["method"] == name]
        best = max(tried, key=lambda one: one["valid"]["auc"])
        assert session.tuned[small_data.name, name] == best["settings"]
        [found] = runs[name][small_data.name].values()
        assert found["config"]["min_count"] == best["settings"]["min_count"]
        assert found["test"]
    assert len({trial["valid"]["auc"] for trial in session.tried}) > 2


@pytest.mark.usefixtures("one_process")
def test_without_tuning_categories_of_one_row_are_rare(small_data, tmp_path):
    session = Session(Store(tmp_path), {small_data.name: [small_data]}, False)
    runs = trees.run(
        session, {"plain": trees.Row("lightgbm"), "crossed": trees.Row("lightgbm", {})}
    )
    [found] = runs["plain"][small_data.name].values()
    assert found["config"]["min_count"] == 2
    assert (session.tried, runs["crossed"]) == ([], {small_data.name: {}})


def test_a_trial_reads_no_test_row(log, small_data, monkeypatch):
    cell = trees.tree_cell("lightgbm", small_data, 5, test=False)
    found = cell.perform(small_data.directory, "", 0, **cell.arguments)
    others = np.where(log.split == TEST, 1 - log.label, log.label)
    spoiled = dataclasses.replace(log, label=others)
    monkeypatch.setattr(trees, "read_log", lambda dataset, crosses: spoiled)
    assert cell.perform(small_data.directory, "", 0, **cell.arguments) == found
    assert found["test"] is None


def test_the_parameters_are_those_of_the_protocol(small_data):
    named = dataclasses.replace(small_data, name="criteo")
    cells = [
        trees.tree_cell("catboost", data, 1)
        for data in (small_data, named, dataclasses.replace(named, public=True))
    ]
    assert [cell.arguments["parameters"]["iterations"] for cell in cells] == [500, 500, 300]


def test_the_values_of_crosses_are_further_categories(log, small_data, small_log):
    dataset = Dataset.open(small_data.directory)
    cross = Cross(("C1", "C2"), 1.0)
    crossed = trees.read_log(dataset, [cross])
    own = log.columns.shape[1]
    assert crossed.categorical == [*log.categorical, own]
    np.testing.assert_array_equal(crossed.columns[:, :own], log.columns)
    ids = crossed.columns[:, own].astype(int)
    # Each frequent pair of values has an id of its own.
    with open(small_log / "log.csv") as file:
        pairs = [(row["C1"], row["C2"]) for row in csv.DictReader(file)]
    known = set(zip(pairs, ids, strict=True))
    assert len(known) == len(set(pairs))
    frequent = [(pair, number) for pair, number in known if number >= 2]
    assert len({number for _, number in frequent}) == len(frequent) > 10
    # They are as many rows of test as by the shards, with ids that test rows do not decide.
    source = Source(dataset)
    learned = [source.arrays(split)[0] for split in ("train", "valid")]
    fitted = fit_crosses([cross], dataset.encoding, learned)
    expected = fitted.encode(source.arrays("test")[0])[:, 0] - fitted.offsets[0]
    np.testing.assert_array_equal(np.sort(ids[log.split == TEST]), np.sort(expected))


def test_trees_learn_from_crosses(small_data):
    source = Cell(small_data, "lr-fives-gain", fit, {})
    given = [{"fields": ["C1", "C2"], "score": 1.0}]
    without, crossed = (
        trees.tree_cell("lightgbm", small_data, 1, *crosses) for crosses in ((), (source, given))
    )
    assert (without.what, crossed.what) == ("lightgbm", "lightgbm-lr-fives-gain")
    assert without.name != crossed.name
    found, more = (
        cell.perform(small_data.directory, "", 0, **cell.arguments, given=cell.given)
        for cell in (without, crossed)
    )
    assert (found["crosses_from"], more["crosses_from"]) == (None, source.name)
    assert found["test"] != more["test"]


@pytest.fixture
def moved(small_data, small_log, tmp_path):
    """The dataset, as if it had been made from a file that is now another one."""
    dataset = Dataset.open(small_data.directory)
    (source,) = dataset.manifest["inputs"]

    def make(change):
        path = tmp_path / "log.csv"
        path.write_text(change((small_log / "log.csv").read_text()))
        inputs = [source | {"path": str(path)}]
        return Dataset(dataset.directory, dataset.manifest | {"inputs": inputs})

    return make


def test_another_log_of_the_same_name_is_refused(moved):
    with pytest.raises(UserError, match=r"log.csv: has [\d,]+ bytes, and had [\d,]+ bytes"):
        trees.read_log(moved(lambda text: text + text.splitlines()[-1] + "\n"))


def test_a_log_of_other_clicks_is_refused(moved):
    def flip(text):
        header, *lines = text.splitlines()
        place = header.split(",").index("click")
        for number, line in enumerate(lines):
            parts = line.split(",")
            parts[place] = str(1 - int(parts[place]))
            lines[number] = ",".join(parts)
        return "\n".join([header, *lines]) + "\n"

    with pytest.raises(
        UserError, match=r"its log has .* train rows with .* clicks, and the dataset"
    ):
        trees.read_log(moved(flip))
