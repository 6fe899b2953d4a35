"""What the networks that are timed have in common."""

from pathlib import Path

import pytest

from fives_tf.bench import efficiency
from fives_tf.bench.cells import Store
from fives_tf.bench.methods import learning_cell
from fives_tf.bench.session import Session
from fives_tf.training.batches import Source


@pytest.mark.parametrize("method", efficiency.ROWS)
def test_what_the_tables_assume_cannot_be_given(method, small_data):
    given = {"epochs": 1, "search_epochs": 1, "patience": 1, "refit": True, "dim": 2}
    session = Session(Store(Path()), {"dataset": [small_data]}, False, given)
    config = efficiency._curve_cell(session, method, small_data).arguments["config"]
    epochs = config["search_epochs" if method == "fives_paper" else "epochs"]
    assert epochs == efficiency.EPOCHS
    assert config["patience"] > efficiency.EPOCHS * efficiency.POINTS
    assert (config["refit"], config["dim"]) == (False, 2)


def test_all_networks_read_the_same_rows_in_memory(small_data, monkeypatch):
    made, begin = [], Source.__init__

    def count(self, *args, **more):
        made.append(self)
        begin(self, *args, **more)

    monkeypatch.setattr(Source, "__init__", count)
    settings = {"dim": 2, "hidden": (4,), "batch": 512, "xla": False}
    configs = {
        method: learning_cell(method, small_data, settings).arguments["config"]
        for method in ("dnn", "fm")
    }
    found = efficiency.clock(small_data.directory, "", 0, configs=configs, repeats=2, steps=1)
    assert set(found["epoch_seconds"]) == {"dnn", "fm"}
    assert len(made) == 1
