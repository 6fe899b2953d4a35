"""What a report says of the fields, and what it warns of."""

import json
import math

import numpy as np
import pytest

from fives_tf.dataset import Dataset
from fives_tf.report import advice, fields
from fives_tf.schema import Schema
from fives_tf.training.batches import Source
from pipelines.preprocess import Options, preprocess

SCHEMA = """
label: {column: click}
categorical: [city, twin, same, leak, moved]
numeric: [hour]
discretize: {kind: quantile, buckets: [2, 4]}
split: {by: position, valid: 0.2, test: 0.2}
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A log in which something is wrong with every column but one."""
    directory = tmp_path_factory.mktemp("odd")
    rng = np.random.default_rng(0)
    lines = ["click,city,twin,same,leak,moved,hour"]
    for row in range(3000):
        city, click = rng.integers(0, 6), int(rng.random() < (0.2 if row < 2400 else 0.5))
        moved = rng.integers(0, 4) + 2 * (row >= 2400)
        lines.append(f"{click},c{city},t{5 - city},x,{'yn'[click]},m{moved},{row % 24}")
    (directory / "log.csv").write_text("\n".join(lines) + "\n")
    preprocess(
        [str(directory / "log.csv")], Schema.parse(SCHEMA), str(directory / "dataset"), Options()
    )
    return Dataset.open(str(directory / "dataset"))


@pytest.fixture(scope="module")
def told(dataset):
    source = Source(dataset)
    train, valid, test = (source.arrays(split) for split in ("train", "valid", "test"))
    return fields.judge(dataset, train, valid, test[0]), train


def test_fields_are_described(told):
    by_name = {field["name"]: field for field in told[0]}
    assert json.dumps(told[0], allow_nan=False)
    assert list(by_name) == ["hour@2", "hour@4", "city", "twin", "same", "leak", "moved"]
    assert by_name["hour@4"]["bucket_edges"] == [6.0, 12.0, 18.0]
    assert by_name["city"]["bucket_edges"] is None
    assert by_name["same"]["values"] == [{"value": "x", "share": 1.0}]
    assert by_name["leak"]["auc"] == 1.0
    assert sum(value["share"] for value in by_name["city"]["values"]) == pytest.approx(1, 1e-4)
    assert by_name["city"]["drift"] < 0.1 < 0.5 < by_name["moved"]["drift"]


def test_what_is_wrong_is_told_with_what_to_do(dataset, told):
    found = advice.find(dataset, told[0], told[1][0], "test")
    assert [(one["kind"], one["fields"]) for one in found] == [
        ("leak", ["leak"]),
        ("click_rate", []),
        ("drift", ["leak"]),  # as the click rate rises
        ("drift", ["moved"]),
        ("constant", ["same"]),
        ("twins", ["city", "twin"]),
    ]
    assert all(one["text"].endswith(".") and one["advice"].endswith(".") for one in found)
    assert "under `drop`" in found[0]["advice"]


def test_a_number_that_is_constant_at_one_granularity_only_is_not_to_be_dropped(dataset, told):
    known = [dict(field) for field in told[0]]
    known[0]["values"] = [{"value": "[0, 24)", "share": 1.0}]
    found = [
        one for one in advice.find(dataset, known, told[1][0], "test") if one["kind"] == "constant"
    ]
    assert found[0]["fields"] == ["hour@2"]
    assert "`buckets`" in found[0]["advice"]
    assert "`drop`" in found[1]["advice"]


def test_drift_is_the_stability_index():
    before, after = np.repeat([3, 5, 9], [5000, 3000, 2000]), np.repeat([3, 5, 9], [200, 300, 500])
    expected = sum((p - q) * math.log(p / q) for p, q in ((0.5, 0.2), (0.2, 0.5)))
    assert fields.drift(before, after) == pytest.approx(expected, rel=0.01)
    assert fields.drift(before, before) == 0
    assert fields.drift(before, np.full(1000, 77)) > 5  # ids that were not there before


@pytest.mark.parametrize(("rows", "ids"), [(50, 20), (100, 1000), (200, 20), (20_000, 100_000)])
def test_chance_does_not_look_like_drift(rows, ids):
    rng = np.random.default_rng(0)
    found = [
        fields.drift(rng.integers(0, ids, 8 * rows), rng.integers(0, ids, rows)) for _ in range(50)
    ]
    assert np.mean(found) < 0.05
    assert max(found) < advice.DRIFT
