import numpy as np
import pytest
import tensorflow as tf

from fives_tf.models.dnn import DNN
from fives_tf.training.metrics import auc
from fives_tf.training.optimizers import make_optimizer

FIELDS, VALUES, DIM, BATCH = 3, 2, 2, 4
HIDDEN = (5, 3)
FREQUENCY = np.tile([0.75, 0.25], FIELDS)
STEP = 1e-6


def make_model(embedding="sgd", network="sgd", rate=0.5, **options):
    """A model with parameters large enough that every one matters."""
    optimizers = {
        "embedding": make_optimizer(embedding, rate),
        "network": make_optimizer(network, rate),
    }
    options = {"dim": DIM, "hidden": HIDDEN, "jit": False} | options
    model = DNN(FIELDS, FREQUENCY, BATCH, optimizers, **options)
    random = np.random.default_rng(1)
    for variable in (model.embedding.values, *model.network):
        variable.assign(random.normal(size=variable.shape))
    return model


def make_batch(seed):
    random = np.random.default_rng(seed)
    ids = random.integers(VALUES, size=(BATCH, FIELDS)) + VALUES * np.arange(FIELDS)
    return ids.astype(np.int32), np.resize([1, 0, 0], BATCH).astype(np.float32)


def train(model, seed=2):
    return model.train_step(tuple(map(tf.constant, make_batch(seed))))


def parameters(model):
    """The embedding, and kernel and bias of each layer."""
    variables = (model.embedding.values, *model.network)
    return [variable.numpy().astype(np.float64) for variable in variables]


def slow_logit(values, row):
    """The logit of a row, number by number."""
    table, *network = values
    inputs = [table[identity, part] for identity in row for part in range(DIM)]
    for number, (kernel, bias) in enumerate(zip(network[::2], network[1::2], strict=True)):
        outputs = []
        for unit in range(len(bias)):
            total = bias[unit]
            for place, value in enumerate(inputs):
                total += value * kernel[place, unit]
            last = number == len(HIDDEN)
            outputs.append(total if last else max(total, 0.0))
        inputs = outputs
    [logit] = inputs
    return logit


def slow_loss(values, ids, label, l2=0.0):
    """The mean cross-entropy, and half of the penalty's strength times the squares."""
    loss = 0.0
    for row, y in zip(ids, label, strict=True):
        logit = slow_logit(values, row)
        loss += (np.log1p(np.exp(logit)) - y * logit) / len(ids)
        for identity in row:
            squares = (values[0][identity] ** 2).sum()
            loss += l2 / 2 * squares / (BATCH * FREQUENCY[identity])
    return loss


def slow_gradients(values, *args):
    """The gradient of the loss by each parameter, by finite differences."""
    gradients = [np.zeros_like(value) for value in values]
    for value, gradient in zip(values, gradients, strict=True):
        for place in np.ndindex(*value.shape):
            before = value[place]
            value[place] = before + STEP
            above = slow_loss(values, *args)
            value[place] = before - STEP
            below = slow_loss(values, *args)
            value[place] = before
            gradient[place] = (above - below) / (2 * STEP)
    return gradients


def test_the_logits_are_those_of_slow_loops():
    model = make_model()
    ids, _ = make_batch(seed=1)
    logits = model.call(tf.constant(ids))
    assert logits.shape == (BATCH, 1)
    expected = [slow_logit(parameters(model), row) for row in ids]
    np.testing.assert_allclose(logits[:, 0], expected, rtol=1e-5)
    probability = 1 / (1 + np.exp(-np.array(expected)))
    np.testing.assert_allclose(model.probability(logits), probability, rtol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_a_step_descends_the_gradient_of_loss_and_penalty(jit):
    l2 = 0.3
    model = make_model(l2=l2, jit=jit)
    before = parameters(model)
    loss = float(train(model)["loss"])
    assert loss == pytest.approx(slow_loss(before, *make_batch(2)), rel=1e-5)
    gradients = slow_gradients(before, *make_batch(2), l2)
    for value, gradient, moved in zip(before, gradients, parameters(model), strict=True):
        np.testing.assert_allclose(moved, value - 0.5 * gradient, rtol=1e-4, atol=1e-5)
    assert model.step.numpy() == 1


def test_a_first_step_of_adam_moves_by_the_rate_what_occurs():
    model = make_model("lazy_adam", "adam", rate=0.01)
    before = parameters(model)
    ids, label = make_batch(2)
    ids[:, 0] = 0  # so that id 1 is absent
    gradients = slow_gradients(before, ids, label)
    model.train_step((tf.constant(ids), tf.constant(label)))
    for value, gradient, moved in zip(before, gradients, parameters(model), strict=True):
        # Adam's first step is the gradient's sign, but for gradients near its epsilon.
        sure = np.abs(gradient) > 1e-4
        step = np.where(sure, -0.01 * np.sign(gradient), moved - value)
        np.testing.assert_allclose(moved - value, step, atol=1e-4)
    np.testing.assert_array_equal(parameters(model)[0][1], before[0][1])


def test_an_untrained_model_predicts_about_the_click_rate():
    optimizers = {name: make_optimizer("sgd", 0.1) for name in ("embedding", "network")}
    model = DNN(FIELDS, FREQUENCY, BATCH, optimizers, click_rate=0.2, jit=False)
    probability = model.probability(model.call(tf.constant(make_batch(1)[0])))
    np.testing.assert_allclose(probability, np.full(BATCH, 0.2), atol=0.02)


def test_the_seed_decides_the_first_values():
    def first(seed):
        optimizers = {name: make_optimizer("sgd", 0.1) for name in ("embedding", "network")}
        return parameters(DNN(FIELDS, FREQUENCY, BATCH, optimizers, seed=seed, jit=False))

    for one, same, other in zip(first(1), first(1), first(2), strict=True):
        np.testing.assert_array_equal(one, same)
        assert not one.any() or (one != other).any()


def test_dropout_is_for_training_only_and_new_in_each_step():
    plain, dropping = make_model(rate=0.0), make_model(rate=0.0, dropout=0.5)
    ids, _ = make_batch(1)
    np.testing.assert_array_equal(plain.call(tf.constant(ids)), dropping.call(tf.constant(ids)))
    losses = {float(train(dropping)["loss"]) for _ in range(5)}
    assert len(losses) == 5
    assert len({float(train(plain)["loss"]) for _ in range(2)}) == 1


def test_checkpoints_hold_all_parameters(tmp_path):
    model, other = make_model(), make_model()
    train(model)
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(model=other).read(path).assert_existing_objects_matched()
    for expected, value in zip(parameters(model), parameters(other), strict=True):
        np.testing.assert_array_equal(value, expected)
    assert other.step.numpy() == 1


def test_a_planted_cross_is_learned():
    random = np.random.default_rng(0)
    ids = random.integers(VALUES, size=(2000, FIELDS))
    label = (ids[:, 0] ^ ids[:, 1]).astype(np.float32)
    ids = (ids + VALUES * np.arange(FIELDS)).astype(np.int32)
    optimizers = {
        "embedding": make_optimizer("lazy_adam", 0.02),
        "network": make_optimizer("adam", 0.02),
    }
    model = DNN(FIELDS, np.full(6, 0.5), 100, optimizers, hidden=(16, 8), stddev=0.1, jit=False)
    step = tf.function(model.train_step)
    for start in range(0, 1500, 100):
        part = slice(start, start + 100)
        for _ in range(5):
            step((tf.constant(ids[part]), tf.constant(label[part])))
    held_out = model.probability(model.call(tf.constant(ids[1500:]))).numpy()
    assert auc(label[1500:], held_out) > 0.99
