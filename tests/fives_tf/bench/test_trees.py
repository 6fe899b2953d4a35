"""Trees on the raw columns of the log that a dataset was made from."""

import csv
import dataclasses

import numpy as np
import pytest

from fives_tf.bench import trees
from fives_tf.dataset import Dataset


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
    cells = [
        trees.tree_cell("catboost", data)
        for data in (small_data, dataclasses.replace(small_data, name="criteo"))
    ]
    assert [cell.arguments["parameters"]["iterations"] for cell in cells] == [500, 300]
