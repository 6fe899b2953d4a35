"""Networks over embeddings: each against slow loops, and what all of them have in common."""

import numpy as np
import pytest
import tensorflow as tf

from fives_tf.config import FitConfig
from fives_tf.errors import UserError
from fives_tf.models.autofis import LEAST_FIRST_GATE, MOST_FIRST_GATE, AutoFIS
from fives_tf.models.build import NETWORKS, Facts, build_network
from fives_tf.models.fignn import FiGNN
from fives_tf.training.metrics import auc
from fives_tf.training.optimizers import make_optimizer

from . import slow

HIDDEN = {"hidden": (5, 3)}
# What a model is built with, and what is to come out of it.
CASES = {
    "dnn": (HIDDEN, slow.dnn),
    "fm": ({}, slow.fm),
    "wide_deep": (HIDDEN, slow.dnn),
    "autoint": ({"layers": 2, "heads": 2, "head_dim": 3}, slow.autoint),
    "fignn": ({"layers": 2, "heads": 2}, slow.fignn),
    "autofis": (HIDDEN, slow.autofis),
}


def make_model(name, **options):
    return slow.make_model(NETWORKS[name], **CASES[name][0] | options)


def tables(name):
    return ("table", "weights") if NETWORKS[name].has_first_order else ("table",)


def test_every_network_is_tested():
    assert list(CASES) == list(NETWORKS)


@pytest.mark.parametrize("name", CASES)
def test_the_logits_are_those_of_slow_loops(name):
    model = make_model(name)
    ids, _ = slow.make_batch(seed=1)
    logits = model.call(tf.constant(ids))
    assert logits.shape == (slow.BATCH, 1)
    expected = slow.slow_logits(CASES[name][1], slow.parameters(model), ids)
    np.testing.assert_allclose(logits[:, 0], expected, rtol=1e-4, atol=1e-5)
    probability = 1 / (1 + np.exp(-np.array(expected)))
    np.testing.assert_allclose(model.probability(logits), probability, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "jit"), [(name, jit) for name in CASES for jit in (False, True)])
def test_a_step_descends_the_gradient_of_loss_and_penalties(name, jit):
    penalties = {"l2": 0.3, "first_order_l2": 0.2}
    model, logit = make_model(name, jit=jit, **penalties), CASES[name][1]
    before, batch = slow.parameters(model), slow.make_batch(2)
    strengths = [penalties["l2"], penalties["first_order_l2"] * ("weights" in before)]
    loss = float(slow.train(model)["loss"])
    assert loss == pytest.approx(slow.slow_loss(logit, before, *batch), rel=1e-4)
    gradients = slow.slow_gradients(logit, before, *batch, *strengths)
    after = slow.parameters(model)
    for one, value in before.items():
        expected = value - slow.RATE * gradients[one]
        np.testing.assert_allclose(after[one], expected, rtol=1e-3, atol=2e-5, err_msg=one)
    assert any(np.abs(gradient).max() > 1e-3 for gradient in gradients.values())
    assert model.step.numpy() == 1


@pytest.mark.parametrize("name", CASES)
def test_the_bias_starts_at_the_odds_of_a_click(name):
    groups = ("embedding", "network", "first_order", "gates")
    optimizers = {group: make_optimizer("sgd", 0.1) for group in groups}
    model = NETWORKS[name](
        slow.FIELDS, slow.FREQUENCY, slow.BATCH, optimizers, click_rate=0.2, jit=False
    )
    assert model.network["bias"].numpy() == pytest.approx(np.log(0.25))


@pytest.mark.parametrize("name", CASES)
def test_the_seed_decides_the_first_values(name):
    def first(seed):
        groups = ("embedding", "network", "first_order", "gates")
        optimizers = {group: make_optimizer("sgd", 0.1) for group in groups}
        kind = NETWORKS[name]
        model = kind(slow.FIELDS, slow.FREQUENCY, slow.BATCH, optimizers, seed=seed, jit=False)
        return slow.parameters(model)

    one, same, other = first(1), first(1), first(2)
    for parameter, value in one.items():
        np.testing.assert_array_equal(value, same[parameter])
    assert (one["table"] != other["table"]).any()


@pytest.mark.parametrize("name", CASES)
def test_dropout_is_for_training_only_and_new_in_each_step(name):
    plain, dropping = make_model(name), make_model(name, dropout=0.5)
    for model in (plain, dropping):
        for optimizer in model.learners().values():
            optimizer.learning_rate = 0.0
    ids, _ = slow.make_batch(1)
    np.testing.assert_array_equal(plain.call(tf.constant(ids)), dropping.call(tf.constant(ids)))
    assert len({float(slow.train(dropping)["loss"]) for _ in range(5)}) == 5
    assert len({float(slow.train(plain)["loss"]) for _ in range(2)}) == 1


@pytest.mark.parametrize("name", CASES)
def test_checkpoints_hold_all_parameters(name, tmp_path):
    model, other = make_model(name), make_model(name)
    slow.train(model)
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(model=other).read(path).assert_existing_objects_matched()
    assert len(model.variables) == len(other.variables)
    for expected, value in zip(model.variables, other.variables, strict=True):
        np.testing.assert_array_equal(value.numpy(), expected.numpy())
    assert other.step.numpy() == 1


@pytest.mark.parametrize("name", CASES)
def test_a_planted_cross_is_learned(name):
    random = np.random.default_rng(0)
    fields, values, batch = 3, 4, 100
    ids = random.integers(values, size=(3000, fields))
    label = ((ids[:, 0] + ids[:, 1]) % 2).astype(np.float32)
    ids = (ids + values * np.arange(fields)).astype(np.int32)
    groups = {"embedding": "lazy_adam", "network": "adam", "first_order": "lazy_adam"}
    optimizers = {
        group: make_optimizer(kind, 0.02) for group, kind in (groups | {"gates": "adam"}).items()
    }
    options = {"hidden": (16, 8)} if "hidden" in NETWORKS[name].settings else {}
    model = NETWORKS[name](
        fields, np.full(12, 0.25), batch, optimizers, dim=8, stddev=0.3, jit=False, **options
    )
    step = tf.function(model.train_step)
    for _ in range(6):
        for start in range(0, 2500, batch):
            part = slice(start, start + batch)
            step((tf.constant(ids[part]), tf.constant(label[part])))
    held_out = model.probability(model.call(tf.constant(ids[2500:]))).numpy()
    assert auc(label[2500:], held_out) > 0.95


def test_autofis_leaves_out_pairs_whose_gate_was_0():
    model = make_model("autofis")
    model.keep(np.array([0.3, 0.0, -0.1]))
    ids, _ = slow.make_batch(1)

    def logit(values, nodes):
        return slow.autofis(values, nodes, kept=[True, False, True])

    expected = slow.slow_logits(logit, slow.parameters(model), ids)
    np.testing.assert_allclose(model.call(tf.constant(ids))[:, 0], expected, rtol=1e-4, atol=1e-5)


def test_autofis_predicts_by_means_that_follow_those_of_the_batches():
    model = make_model("autofis")
    ids, _ = slow.make_batch(2)
    table = model.embedding.values.numpy()
    products = np.array(
        [[table[r[i]] @ table[r[j]] for i, j in ((0, 1), (0, 2), (1, 2))] for r in ids]
    )
    slow.train(model, 2)
    np.testing.assert_allclose(model.mean.numpy(), 0.01 * products.mean(axis=0), rtol=1e-4)
    expected = 0.99 + 0.01 * products.var(axis=0)
    np.testing.assert_allclose(model.variance.numpy(), expected, rtol=1e-4)


def test_autofis_starts_with_all_gates_open():
    groups = ("embedding", "network", "first_order", "gates")
    optimizers = {group: make_optimizer("sgd", 0.1) for group in groups}
    model = AutoFIS(slow.FIELDS, slow.FREQUENCY, slow.BATCH, optimizers)
    gates = model.network["gates"].numpy()
    assert ((gates >= LEAST_FIRST_GATE) & (gates <= MOST_FIRST_GATE)).all()
    assert len(set(gates)) == len(gates)


def test_a_gate_of_autofis_that_nothing_holds_up_is_0_at_the_end_of_the_search():
    facts = Facts(("a", "b"), ("a", "b"), np.full(4, 0.5), None, rows=100, click_rate=0.3)
    steps = 7
    model = build_network(FitConfig(model="autofis", batch=4), facts, steps, searching=True)
    [gates] = model._groups()["gates"]
    gates.assign([MOST_FIRST_GATE])
    for step in range(steps):
        assert gates.numpy() > 0, step
        model.learners()["gates"].apply([tf.zeros(1)], [gates])
    np.testing.assert_allclose(gates.numpy(), 0.0, atol=1e-7)


def test_each_matrix_of_fignn_starts_as_strong_as_one_by_itself():
    optimizers = {group: make_optimizer("sgd", 0.1) for group in ("embedding", "network")}
    model = FiGNN(40, slow.FREQUENCY, 8, optimizers, dim=16, jit=False)
    for name in ("outward", "inward", "query"):
        values = model.network[name].numpy()
        assert np.abs(values).max() == pytest.approx(np.sqrt(3 / 16), rel=0.02)
        assert values.std() == pytest.approx(np.sqrt(1 / 16), rel=0.1)


def test_a_graph_of_one_node_has_no_edge():
    optimizers = {group: make_optimizer("sgd", 0.1) for group in ("embedding", "network")}
    model = FiGNN(1, np.full(5, 0.2), 4, optimizers, dim=2, jit=False)
    ids = tf.constant([[0], [1], [2], [3]])
    before = model.call(ids).numpy()
    model.outward.assign(100 * model.outward)
    np.testing.assert_array_equal(model.call(ids), before)


def test_heads_of_fignn_share_the_dimension():
    with pytest.raises(UserError, match="`heads`: expected a divisor of `dim`, which is 16"):
        FitConfig(model="fignn", heads=3)
