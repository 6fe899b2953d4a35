"""The logistic regressions that a search starts from, on a small dataset."""

import numpy as np
import pytest

from fives_tf.config import SearchConfig
from fives_tf.cross_fitting import fit_crosses
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.gain import STRENGTHS
from fives_tf.models.build import PENALTIES, Facts, Penalty, first_order
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
    assert start.penalty == Penalty(*[PENALTIES[chosen] / facts.rows] * 2)
    np.testing.assert_array_equal(start.weights, model.table.values.numpy()[:, chosen])
    assert start.bias == biases[chosen]
    assert outcome.steps == outcome.kept_step == 3 * (facts.rows // config.batch)


def test_penalties_with_crosses_are_sought_near_the_best_one_without(fitted, tmp_path):
    config, facts, source, *_ = fitted
    near = Penalty.near(0.01, facts.rows)
    assert {one.fields for one in near} == {0.01, 0.03}
    assert {round(one.crosses * facts.rows, 6) for one in near} == set(STRENGTHS)
    fields = [Cross(("C1", "C2"), 0.5)]
    crosses = fit_crosses(fields, source.dataset.encoding, [source.arrays("train")[0]])
    crossed = facts.with_crosses(crosses)
    model, _ = fit_regression(config, crossed, source, str(tmp_path), "crosses-1", near)
    assert list(zip(model.l2, model.cross_l2, strict=True)) == near
    assert first_order(model).penalty == near[int(model.chosen.numpy())]
    weights = model.table.values.numpy()[len(facts.frequency) :]
    sizes = {one: (weights[:, place] ** 2).sum() for place, one in enumerate(near)}
    for fields in {one.fields for one in near}:
        group = sorted((one for one in near if one.fields == fields), key=lambda one: one.crosses)
        of_group = [sizes[one] for one in group]
        assert of_group == sorted(of_group, reverse=True)
        assert of_group[0] > 2 * of_group[-1]


def test_the_refit_learns_from_valid_too(fitted):
    config, facts, source, directory, model, _ = fitted
    start = first_order(model)
    again = refit_regression(config, facts, source, directory, start.penalty)
    assert again.l2 == (start.penalty.fields,)
    found = first_order(again)
    ids, label = source.arrays("valid")
    before, after = (
        slow_losses(one.weights[:, None].astype(float), [one.bias], ids, label)[0]
        for one in (start, found)
    )
    assert after < before
