"""What cells compute with TensorFlow."""

import numpy as np

from fives_tf.bench.learn import draw, edge_figures, fit
from fives_tf.bench.methods import learning_cell
from fives_tf.crosses import single_feature_auc
from fives_tf.dataset import Dataset
from fives_tf.edges import indicated
from fives_tf.training.batches import Source


def test_the_auc_of_an_entry_is_that_of_its_cross_alone(small_data):
    dataset = Dataset.open(small_data.directory)
    fields = [field.name for field in dataset.encoding.fields]
    count = len(fields)
    strength = np.random.default_rng(0).random((2, count, count)).round(3)
    adjacency = {
        "fields": fields,
        "columns": [field.column for field in dataset.encoding.fields],
        "soft": (strength / 2).tolist(),
        "strength": strength.tolist(),
    }
    points = edge_figures(small_data.directory, "", 0, search="", given=adjacency)["points"]
    entries = indicated(strength, adjacency["columns"])
    assert len(points) == len(entries)
    source = Source(dataset)
    (train, clicks), (valid, valid_clicks) = source.arrays("train"), source.arrays("valid")
    for point, ((layer, start, end), cross) in zip(points[::7], entries[::7], strict=True):
        assert (point["layer"], point["strength"]) == (layer + 1, strength[layer, start, end])
        assert point["soft"] == point["strength"] / 2
        members = list(cross)
        auc = single_feature_auc(train[:, members], clicks, valid[:, members], valid_clicks)
        assert point["auc"] == auc


def test_random_crosses_have_no_order(small_data):
    found = draw(small_data.directory, "", 0, counts={"2": 6, "3": 6})["crosses"]
    orders = [len(cross["fields"]) for cross in found]
    assert sorted(orders) == [2] * 6 + [3] * 6
    assert orders != sorted(orders)
    assert found == draw(small_data.directory, "", 0, counts={"2": 6, "3": 6})["crosses"]


def test_a_fit_tells_its_crosses_and_where_they_come_from(small_data, tmp_path):
    settings = {"lr_epochs": 1, "batch": 512, "xla": False, "top": 1, "rank": "given"}
    config = learning_cell("lr", small_data, settings).arguments["config"]
    given = draw(small_data.directory, "", 0, counts={"2": 2})["crosses"]
    found = fit(
        small_data.directory,
        str(tmp_path),
        0,
        config=config,
        test=False,
        crosses="dataset-0-random",
        given=given,
    )
    assert found["crosses"] == given[:1]
    assert (found["chosen"], found["crosses_from"]) == ({"2": 1}, "dataset-0-random")
