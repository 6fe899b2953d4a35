"""How many crosses a regression takes, on a small dataset."""

import numpy as np
import pytest

from fives_tf.config import FitConfig
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.models.build import Facts
from fives_tf.training import crossing
from fives_tf.training.batches import Source
from fives_tf.training.crossing import Crossing

FIELDS = ("C1", "C2", "C3", "C4")
PAIRS = [Cross((b, a), 0.5) for n, a in enumerate(FIELDS) for b in FIELDS[:n]]


@pytest.fixture
def choose(small_dataset, tmp_path, monkeypatch):
    """Chooses among the pairs, with valid as it is or with its labels in another order."""
    monkeypatch.setattr(crossing, "COUNTS", (1, 3))
    dataset = Dataset.open(str(small_dataset))

    def run(rank: str, mixed: bool):
        config = FitConfig(lr_epochs=3, batch=64, rank=rank).resolve(dataset.split("train").rows)
        source = Source(dataset)
        if mixed:
            ids, label = source.arrays("valid")
            mixed_up = np.random.default_rng(1).permutation(label)
            source = source.holding({"train": source.arrays("train"), "valid": (ids, mixed_up)})
        facts, directory = Facts.of(dataset, config), str(tmp_path / f"{rank}-{mixed}")
        chosen = Crossing(config, facts, dataset.encoding, source, directory).choose(PAIRS)
        return chosen, source

    return run


def names(chosen) -> list[str]:
    return [field.cross.name for field in chosen.crosses.fields]


def test_valid_has_no_say_in_which_crosses_are_taken(choose):
    chosen, source = choose("gain", mixed=False)
    other, _ = choose("gain", mixed=True)
    assert names(chosen)[0] == "C1 x C2"
    assert names(other) == names(chosen)
    assert other.ranked == chosen.ranked
    assert other.weights.penalty == chosen.weights.penalty
    np.testing.assert_array_equal(other.weights.weights, chosen.weights.weights)
    assert other.evaluation.log_loss > chosen.evaluation.log_loss
    # It has learned from all of train, and is judged on valid.
    assert chosen.evaluation.rows == source.rows(["valid"])
    field = chosen.crosses.fields[0]
    assert field.counts.sum() + field.rare_count + field.missing_count == source.rows(["train"])


def test_of_crosses_that_are_ranked_already_valid_decides(choose):
    chosen, other = (choose("given", mixed)[0] for mixed in (False, True))
    given = [cross.name for cross in PAIRS]
    assert names(chosen)
    assert names(chosen) == given[: len(names(chosen))]
    strengths = [one.weights.penalty.crosses for one in (chosen, other)]
    assert strengths[0] < strengths[1], "weights of no use should be small"
