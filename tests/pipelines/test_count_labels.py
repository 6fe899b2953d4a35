"""Scores of crosses by Beam: the same as in memory, whatever the groups and the workers."""

import itertools

import numpy as np
import pytest

from fives_tf.dataset import Dataset
from fives_tf.generators.cmi import scores_in_memory
from fives_tf.generators.information import information_beyond_parts
from fives_tf.generators.label_counts import LabelCounter
from pipelines import runner
from pipelines.count_labels import _groups, scores_by_beam


@pytest.fixture(scope="module")
def dataset(small_dataset) -> Dataset:
    return Dataset.open(str(small_dataset))


@pytest.fixture(scope="module")
def rows(dataset) -> tuple[np.ndarray, np.ndarray]:
    parts = list(dataset.read("train", 512).as_numpy_iterator())
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


@pytest.fixture(scope="module")
def crosses() -> list[tuple[int, ...]]:
    return [*itertools.combinations(range(1, 6), 2), (0, 2, 4), (1, 3, 4, 5)]


def test_they_are_those_of_rows_in_memory(dataset, rows, crosses, tmp_path):
    expected = scores_in_memory(dataset.encoding, *rows)(crosses)
    assert max(expected) > 0.01
    options = runner.pipeline_options([], workers=2)
    score = scores_by_beam(dataset, options, str(tmp_path / "out"))
    assert score(crosses) == expected
    assert not list(tmp_path.iterdir())


def test_groups_and_a_bound_on_combinations_change_nothing_but_the_bound(
    dataset, rows, crosses, tmp_path
):
    counter = LabelCounter(crosses, dataset.encoding, len(rows[0]), most=50)
    counts = zip(counter.count(*rows), counter.shapes, strict=True)
    expected = [information_beyond_parts(*one) for one in counts]
    assert expected != scores_in_memory(dataset.encoding, *rows)(crosses)
    options = runner.pipeline_options([], workers=1)
    score = scores_by_beam(dataset, options, str(tmp_path / "out"), most=50, group_cells=200)
    assert score(crosses) == expected


def test_groups_hold_what_they_may():
    cells = [5, 5, 3, 20, 1, 1, 9]
    groups = [cells[one] for one in _groups(cells, 10)]
    assert groups == [[5, 5], [3], [20], [1, 1], [9]]
    assert list(_groups([], 10)) == []
