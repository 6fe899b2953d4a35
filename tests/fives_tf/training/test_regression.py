"""The logistic regressions that a search starts from, on a small dataset."""

import numpy as np
import pytest

from fives_tf.config import SearchConfig
from fives_tf.dataset import Dataset
from fives_tf.models.build import PENALTIES, Facts, first_order
from fives_tf.training.batches import Source
from fives_tf.training.metrics import log_loss
from fives_tf.training.regression import fit_regression, refit_regression


@pytest.fixture(scope="module")
def fitted(small_dataset, tmp_path_factory):
    dataset = Dataset.open(str(small_dataset))
    config = SearchConfig(lr_epochs=3).resolve(dataset.split("train").rows)
    facts, source = Facts.of(dataset, config), Source(dataset)
    directory = str(tmp_path_factory.mktemp("regression"))
    return config, facts, source, directory, *fit_regression(config, facts, source, directory)


def slow_losses(weights, biases, ids, label):
    """The log loss of each regression, a row at a time."""
    losses = []
    for output, bias in enumerate(biases):
        logits = [bias + sum(weights[i, output] for i in row) for row in ids]
        losses.append(log_loss(label, 1 / (1 + np.exp(-np.array(logits)))))
    return losses


def test_the_penalty_of_the_lowest_log_loss_on_valid_is_chosen(fitted):
    config, facts, source, _, model, outcome = fitted
    weights, biases = model.table.values.numpy().astype(float), model.bias.numpy()
    losses = slow_losses(weights, biases, *source.arrays("valid"))
    chosen = int(np.argmin(losses))
    assert int(model.chosen.numpy()) == chosen
    assert outcome.evaluation.log_loss == pytest.approx(losses[chosen], rel=1e-5)
    start = first_order(model)
    assert start.l2 == PENALTIES[chosen] / facts.rows
    np.testing.assert_array_equal(start.weights, model.table.values.numpy()[:, chosen])
    assert start.bias == biases[chosen]
    assert outcome.steps == outcome.kept_step == 3 * (facts.rows // config.batch)


def test_the_refit_learns_from_valid_too(fitted):
    config, facts, source, directory, model, _ = fitted
    start = first_order(model)
    again = refit_regression(config, facts, source, directory, start.l2)
    assert again.l2 == (start.l2,)
    found = first_order(again)
    ids, label = source.arrays("valid")
    before, after = (
        slow_losses(one.weights[:, None].astype(float), [one.bias], ids, label)[0]
        for one in (start, found)
    )
    assert after < before
