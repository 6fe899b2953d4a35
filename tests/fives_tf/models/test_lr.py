import numpy as np
import pytest
import tensorflow as tf

from fives_tf.models.base import CrossPenalty
from fives_tf.models.lr import LogisticRegression
from fives_tf.training.optimizers import make_optimizer

IDS, BATCH = 6, 4
FREQUENCY = np.array([0.5, 0.25, 0.25, 0.75, 0.125, 0.125])
PENALTIES = (0.0, 0.1, 1.5)


def make_model(l2=PENALTIES, optimizer="sgd", rate=0.5, **options):
    optimizer = make_optimizer(optimizer, rate)
    model = LogisticRegression(FREQUENCY, l2, BATCH, 0.2, optimizer, **options)
    random = np.random.default_rng(0)
    model.table.values.assign(np.repeat(random.normal(size=(IDS, 1)), len(l2), axis=1))
    return model


def make_batch(seed):
    random = np.random.default_rng(seed)
    ids = np.stack([random.integers(3, size=BATCH), random.integers(3, IDS, size=BATCH)], axis=1)
    return ids.astype(np.int32), random.integers(2, size=BATCH).astype(np.float32)


def train(model, seed):
    ids, label = make_batch(seed)
    return model.train_step((tf.constant(ids), tf.constant(label)))


def regress(weights, bias, l2, ids, label):
    """The logits, the mean loss and its gradients of one regression, row by row."""
    by_weights, by_bias, loss, logits = np.zeros(IDS), 0.0, 0.0, []
    for row, y in zip(ids, label, strict=True):
        logits.append(bias + sum(weights[i] for i in row))
        p = 1 / (1 + np.exp(-logits[-1]))
        loss -= (np.log(p) if y else np.log(1 - p)) / len(ids)
        by_bias += (p - y) / len(ids)
        for i in row:
            by_weights[i] += (p - y) / len(ids) + l2[i] * weights[i] / (BATCH * FREQUENCY[i])
    return logits, loss, by_weights, by_bias


@pytest.mark.parametrize("of_crosses", [None, (2.0, 0.0, 0.5)])
def test_outputs_loss_and_descent_are_those_of_logistic_regressions(of_crosses):
    model = make_model(cross_penalty=of_crosses and CrossPenalty(4, np.array(of_crosses)))
    assert model.cross_l2 == (of_crosses or PENALTIES)
    model.table.values.assign(np.random.default_rng(1).normal(size=(IDS, 3)))
    model.bias.assign([-1.0, 0.5, 0.2])
    weights, bias = model.table.values.numpy().astype(float), model.bias.numpy().astype(float)
    ids, label = make_batch(seed=1)
    found = model.call(tf.constant(ids)).numpy()
    loss = float(train(model, seed=1)["loss"])
    losses = []
    for output, penalty in enumerate(PENALTIES):
        l2 = [penalty] * 4 + [of_crosses[output] if of_crosses else penalty] * 2
        logits, one, by_weights, by_bias = regress(weights[:, output], bias[output], l2, ids, label)
        losses.append(one)
        np.testing.assert_allclose(found[:, output], logits, rtol=1e-5)
        moved = weights[:, output] - 0.5 * by_weights
        np.testing.assert_allclose(model.table.values.numpy()[:, output], moved, rtol=1e-5)
        assert model.bias.numpy()[output] == pytest.approx(bias[output] - 0.5 * by_bias, abs=1e-6)
    assert loss == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("optimizer", ["adagrad", "lazy_adam"])
def test_several_penalties_at_once_are_as_good_as_one_after_the_other(optimizer):
    together = make_model(PENALTIES, optimizer, rate=0.1)
    for seed in range(5):
        train(together, seed)
    weights = together.table.values.numpy()
    assert len(set(weights[0])) == len(PENALTIES)
    for output, l2 in enumerate(PENALTIES):
        alone = make_model((l2,), optimizer, rate=0.1)
        for seed in range(5):
            train(alone, seed)
        np.testing.assert_allclose(weights[:, output], alone.table.values.numpy()[:, 0], rtol=1e-6)
        assert together.bias.numpy()[output] == pytest.approx(alone.bias.numpy()[0], rel=1e-6)


def test_penalties_that_ftrl_applies_at_once_are_as_good_as_one_after_the_other():
    def learned(l2):
        optimizer = make_optimizer("ftrl", 0.1, beta=0.1, l2=l2)
        bias_optimizer = make_optimizer("adam", 0.1)
        model = LogisticRegression(
            FREQUENCY, l2, BATCH, 0.2, optimizer, bias_optimizer=bias_optimizer
        )
        for seed in range(5):
            train(model, seed)
        assert set(model.learners()) == {"weights", "bias"}
        return model.table.values.numpy(), model.bias.numpy()

    weights, bias = learned(PENALTIES)
    assert len(set(weights[0])) == len(PENALTIES)
    for output, l2 in enumerate(PENALTIES):
        alone, alone_bias = learned((l2,))
        np.testing.assert_allclose(weights[:, output], alone[:, 0], rtol=1e-5)
        assert bias[output] == pytest.approx(alone_bias[0], rel=1e-6)


def test_an_untrained_model_predicts_the_click_rate():
    model = LogisticRegression(FREQUENCY, PENALTIES, BATCH, 0.2, make_optimizer("sgd", 0.5))
    logits = model.call(tf.constant(make_batch(seed=1)[0]))
    np.testing.assert_allclose(tf.sigmoid(logits), np.full((BATCH, 3), 0.2), rtol=1e-6)


def test_the_regression_that_was_chosen_predicts():
    model = make_model()
    logits = np.random.default_rng(0).normal(size=(BATCH, 3)).astype(np.float32)
    for output in (0, 2, 1):
        model.choose(output)
        expected = 1 / (1 + np.exp(-logits[:, output]))
        np.testing.assert_allclose(model.probability(tf.constant(logits)), expected, rtol=1e-5)


def test_the_choice_goes_into_checkpoints(tmp_path):
    model, other = make_model(), make_model()
    model.choose(2)
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(model=other).read(path).assert_existing_objects_matched()
    assert other.chosen.numpy() == 2


def test_the_compiled_logits_are_those_of_the_call():
    model = make_model()
    ids = tf.constant(make_batch(seed=1)[0])
    np.testing.assert_allclose(model.logits(ids), model.call(ids), rtol=1e-6)
