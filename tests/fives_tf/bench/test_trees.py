"""Trees on the raw columns of the log that a dataset was made from."""

import csv
import dataclasses

import numpy as np
import pytest

from fives_tf.bench import trees
from fives_tf.bench.cells import Cell
from fives_tf.bench.learn import fit
from fives_tf.cross_fitting import fit_crosses
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
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
    test = dataset.split("test")
    assert (log.is_test.sum(), log.label[log.is_test].sum()) == (test.rows, test.clicks)
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
    cell = trees.tree_cell(library, small_data)
    found = cell.perform(small_data.directory, str(tmp_path), 0, **cell.arguments)
    assert 0.55 < found["test"]["auc"] < 1
    assert 0 < found["test"]["log_loss"] < 1
    again = cell.perform(small_data.directory, str(tmp_path), 0, **cell.arguments)
    assert again == found


def test_the_parameters_are_those_of_the_protocol(small_data):
    named = dataclasses.replace(small_data, name="criteo")
    cells = [
        trees.tree_cell("catboost", data)
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
    np.testing.assert_array_equal(np.sort(ids[log.is_test]), np.sort(expected))


def test_trees_learn_from_crosses(small_data):
    source = Cell(small_data, "lr-fives-gain", fit, {})
    given = [{"fields": ["C1", "C2"], "score": 1.0}]
    without, crossed = (
        trees.tree_cell("lightgbm", small_data, *crosses) for crosses in ((), (source, given))
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
