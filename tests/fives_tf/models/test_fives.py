import keras
import numpy as np
import pytest
import tensorflow as tf

from fives_tf.adjacency import edge_mask, rescale
from fives_tf.models.fives import FivesForm, FivesModel

from .reference import Reference

COLUMNS = ["a", "b", "b", "c"]  # the two fields of column b are siblings
FIELDS, VALUES, DIM, BATCH = len(COLUMNS), 3, 2, 3
IDS = FIELDS * VALUES
FREQUENCY = np.tile([0.5, 0.375, 0.125], FIELDS)
# Two of the three values of each field share a row of the embedding.
COARSE = np.array([[2 * field, 2 * field + 1, 2 * field + 1] for field in range(FIELDS)]).ravel()
THETA = ("embedding", "transform", "readout", "bias", "first_order")
PAPER = {"first_order": False, "joint": 0.0}
DEFAULT = {"first_order": True, "joint": 0.5}


class KeepingSGD(keras.optimizers.SGD):
    """Gradient descent that keeps the gradients it was given; a repeated row is summed."""

    def apply(self, gradients, variables):
        self.kept = [dense(gradient) for gradient in gradients]
        super().apply(gradients, variables)


def dense(gradient):
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient.numpy()
    total = np.zeros(tuple(gradient.dense_shape), np.float32)
    np.add.at(total, gradient.indices.numpy(), gradient.values.numpy())
    return total


@pytest.fixture
def eagerly():
    """Without tracing, which takes longer than the few steps of a test."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def build_model(form, rate=0.0, edge_rate=0.0, optimizer=KeepingSGD, **options):
    """A model with its first values."""
    rates = {"embedding": rate, "network": rate, "first_order": rate, "edges": edge_rate}
    optimizers = {name: optimizer(learning_rate=value) for name, value in rates.items()}
    return FivesModel(
        form, COLUMNS, FREQUENCY, BATCH, optimizers, **({"jit": False, "steps": 10} | options)
    )


def make_model(form, values_seed=1, **options):
    """A model with parameters large enough that every order of crosses matters."""
    model = build_model(form, **options)
    random = np.random.default_rng(values_seed)
    for name, variable in variables(model).items():
        if name != "edges":
            scale = 1.5 if name == "h" else 1.0
            variable.assign(random.normal(0, scale, variable.shape))
    return model


def make_form(order=3, **switches):
    return FivesForm(**{"order": order, "dim": DIM, **DEFAULT, **switches})


def variables(model):
    """The parameters of a model by the names of the reference."""
    found = {"embedding": model.embedding.values, "bias": model.bias}
    found |= {"transform": model.transform, "readout": model.readout}
    if model.first_order is not None:
        found["first_order"] = model.first_order.values
    return found | ({"h": model.h} if model.searching else {"edges": model.edges})


def snapshot(model):
    return {name: variable.numpy() for name, variable in variables(model).items()}


def reference_of(model, coarse=None, l2=0.0, first_order_l2=0.0):
    """The reference with the parameters that the model has now."""
    frequency = FREQUENCY if coarse is None else np.bincount(coarse, weights=FREQUENCY)
    penalties = {"embedding": l2 / (BATCH * frequency)} if l2 else {}
    if first_order_l2:
        penalties["first_order"] = first_order_l2 / (BATCH * FREQUENCY)
    return Reference(
        form=model.form,
        values={name: value.astype(np.float64) for name, value in snapshot(model).items()},
        mask=edge_mask(COLUMNS),
        temperature=float(model.temperature.numpy()),
        coarse=coarse,
        penalties=penalties,
    )


def make_batch(seed, rows=BATCH):
    random = np.random.default_rng(seed)
    ids = random.integers(VALUES, size=(rows, FIELDS)) + VALUES * np.arange(FIELDS)
    label = np.resize([1, 0], rows)
    return ids.astype(np.int32), label.astype(np.float32)


TRAIN, VALID = make_batch(seed=2), make_batch(seed=3)


def tensors(batch):
    return tuple(tf.constant(part) for part in batch)


def train(model, train_batch=TRAIN, valid_batch=VALID):
    """One training step."""
    batch = tensors(train_batch)
    return model.train_step((batch, tensors(valid_batch)) if model.searching else batch)


def applied(model):
    """The gradients that the optimizers were last given, by the names of the reference."""
    kept = {name: optimizer.kept for name, optimizer in model.learners().items()}
    network = dict(zip(("transform", "readout", "bias"), kept.pop("network"), strict=True))
    network["h"] = kept.pop("edges", [None])[0]
    return network | {name: gradients[0] for name, gradients in kept.items()}


def check_parity(model, **options):
    """Forward values to 1e-5 relative, all gradients to 1e-3."""
    reference = reference_of(model, **options)
    ids, label = TRAIN
    # Eq. 8 divides by the temperature, and so multiplies what single precision rounds.
    rounding = 1e-5 / max(float(model.temperature.numpy()), 0.1)
    np.testing.assert_allclose(model.adjacency(), reference.edges(), rtol=rounding, atol=1e-30)
    logits = model.call(tf.constant(ids))
    np.testing.assert_allclose(logits, reference.logits(ids), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.probability(logits), reference.predictions(ids), rtol=1e-5)
    figures = train(model)
    assert float(figures["loss"]) == pytest.approx(reference.loss(ids, label), rel=1e-5)
    if model.searching:
        assert float(figures["edge_loss"]) == pytest.approx(reference.loss(*VALID), rel=1e-5)
    gradients = applied(model)
    for name in reference.values:
        if name == "edges":
            continue
        batch = VALID if name == "h" else TRAIN
        expected = reference.gradient(name, *batch)
        assert np.abs(expected).max() > 1e-3  # there is something to compare
        np.testing.assert_allclose(gradients[name], expected, rtol=1e-3, atol=1e-7, err_msg=name)


ORDERS = pytest.mark.parametrize("order", [2, 3, 4])
FORMS = pytest.mark.parametrize("form", [PAPER, DEFAULT], ids=["paper", "default"])
SWITCHES = [
    {},
    {"dependencies": False},
    {"rescaling": False},
    {"straight_through": True},
    {"dependencies": False, "straight_through": True},
    {"aggregate": "sum"},
    {"thresholds": (0.3, 0.7, 0.45)},
]


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@FORMS
@ORDERS
def test_values_and_gradients_are_those_of_the_equations(order, form, switches):
    if "thresholds" in switches:
        switches = {"thresholds": switches["thresholds"][: order - 1]}
    model = make_model(make_form(order, **form, **switches))
    if model.form.rescaling:
        model.temperature.assign(0.4)
    check_parity(model)


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(("first_order", "joint"), [(False, 0.5), (True, 0.0), (True, 1.0)])
@ORDERS
def test_the_joint_loss_goes_with_and_without_a_first_order_table(order, first_order, joint):
    check_parity(make_model(make_form(order, first_order=first_order, joint=joint)))


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    "switches", [{}, {"straight_through": True}, {"aggregate": "sum", "straight_through": True}]
)
@FORMS
@ORDERS
def test_nodes_without_edges_have_no_crosses_of_higher_order(order, form, switches):
    model = make_model(make_form(order, **form, **switches))
    h = model.h.numpy()
    h[0, 1] = -4.0  # a node that no edge leaves
    model.h.assign(h)
    model.temperature.assign(0.4)
    assert not model.adjacency().numpy()[1:, 1].any()
    check_parity(model)


@pytest.mark.usefixtures("eagerly")
@FORMS
def test_values_and_gradients_hold_at_the_end_temperature(form):
    model = make_model(make_form(4, **form))
    model.temperature.assign(0.02)
    check_parity(model)


@pytest.mark.usefixtures("eagerly")
@FORMS
@ORDERS
def test_given_edges_are_used_as_they_are_and_do_not_move(order, form):
    edges = np.random.default_rng(0).integers(2, size=(order - 1, FIELDS, FIELDS))
    edges[:, 1] = 0
    model = make_model(make_form(order, **form), rate=0.1, edges=edges)
    assert not hasattr(model, "h")
    assert "edges" not in model.learners()
    assert model.figures == ("loss",)
    check_parity(model)
    np.testing.assert_array_equal(model.edges, edges)
    np.testing.assert_array_equal(model.strength(), edges)
    assert model.temperature.numpy() == 1


@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("edges", [None, np.ones((2, FIELDS, FIELDS))], ids=["searched", "given"])
@FORMS
def test_ids_share_coarse_rows_of_the_embedding_and_tables_have_penalties(form, edges):
    options = {"coarse": COARSE, "l2": 0.3}
    if form["first_order"]:
        options["first_order_l2"] = 0.2
    model = make_model(make_form(3, **form), edges=edges, **options)
    assert model.embedding.values.shape == (2 * FIELDS, DIM)
    check_parity(model, **options)


@pytest.mark.usefixtures("eagerly")
def test_fields_are_crossed_neither_with_themselves_nor_with_siblings():
    model = make_model(make_form(4))
    train(model)
    barred = edge_mask(COLUMNS) == 0
    assert barred.sum() == FIELDS + 2
    for edges in (model.adjacency().numpy(), model.strength().numpy()):
        assert not edges[:, barred].any()
        assert (edges[0, ~barred] > 0).all()
    assert not applied(model)["h"][0, barred].any()


@pytest.mark.usefixtures("eagerly")
def test_the_strength_of_edges_is_that_before_rescaling():
    model = make_model(make_form(4))
    model.temperature.assign(0.1)
    strength = model.strength().numpy()
    np.testing.assert_array_equal(strength >= 0.5, model.adjacency().numpy() >= 0.5)
    model.temperature.assign(1.0)
    np.testing.assert_allclose(strength, reference_of(model).edges(), rtol=1e-5)


@pytest.mark.parametrize("thresholds", [None, (0.3, 0.7, 0.4)])
def test_the_strengths_rescaled_are_the_adjacency_tensor(thresholds):
    model = make_model(make_form(4, thresholds=thresholds))
    model.temperature.assign(0.3)
    strength, adjacency = model.strength().numpy(), model.adjacency().numpy()
    rescaled = np.where(strength > 0, rescale(strength, 0.3).numpy(), 0)
    np.testing.assert_allclose(rescaled, adjacency, rtol=1e-4, atol=1e-6)


def test_the_strengths_are_not_binary_where_the_network_sees_binary_edges():
    model = make_model(make_form(3, straight_through=True))
    assert set(np.unique(model.adjacency().numpy())) <= {0, 1}
    strength = model.strength().numpy()
    assert np.any((strength > 0) & (strength < 1))


def test_a_batch_of_any_size_is_predicted_by_one_graph():
    model = make_model(make_form(3))
    predict = tf.function(model.call, input_signature=[tf.TensorSpec([None, FIELDS], tf.int32)])
    ids, _ = make_batch(5, rows=7)
    for rows in (1, 7):
        expected = model(tf.constant(ids[:rows]))
        np.testing.assert_allclose(predict(tf.constant(ids[:rows])), expected, rtol=1e-5)


@pytest.mark.usefixtures("eagerly")
@FORMS
def test_theta_descends_on_train_and_then_h_on_valid(form):
    """Algorithm 1, lines 5 and 6: H descends with the Theta of after its update."""
    model = make_model(make_form(3, **form), rate=2.0, edge_rate=3.0)
    before = reference_of(model)
    train(model)
    after = snapshot(model)
    moved = {
        name: before.values[name] - 2.0 * before.gradient(name, *TRAIN)
        for name in THETA
        if name in before.values
    }
    for name, value in moved.items():
        np.testing.assert_allclose(after[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    h = before.values["h"]
    by_new_theta = before.with_values(**moved).gradient("h", *VALID)
    np.testing.assert_allclose(after["h"], h - 3.0 * by_new_theta, rtol=1e-4, atol=1e-6)
    by_old_theta = before.gradient("h", *VALID)
    assert np.abs(by_new_theta - by_old_theta).max() > 1e-3  # it makes a difference


@pytest.mark.usefixtures("eagerly")
def test_theta_does_not_see_the_valid_batch_and_h_sees_train_through_theta_only():
    def after(train_batch, valid_batch, rate):
        model = make_model(make_form(3), rate=rate, edge_rate=1.0)
        train(model, train_batch, valid_batch)
        return snapshot(model)

    other = make_batch(seed=4)
    usual, other_valid = after(TRAIN, VALID, 0.5), after(TRAIN, other, 0.5)
    assert (usual.pop("h") != other_valid.pop("h")).any()
    assert set(usual) == set(THETA)
    for name in usual:
        np.testing.assert_array_equal(usual[name], other_valid[name])
    usual, other_train = after(TRAIN, VALID, 0.0), after(other, VALID, 0.0)
    np.testing.assert_array_equal(usual["h"], other_train["h"])


@pytest.mark.usefixtures("eagerly")
def test_the_temperature_falls_in_a_line_over_the_steps_of_training():
    model = make_model(make_form(3, end_temperature=0.2), steps=4)
    found = [float(model.temperature.numpy())]
    for _ in range(6):
        train(model)
        model.probability(model.logits(tf.constant(TRAIN[0])))  # evaluation moves nothing
        found.append(float(model.temperature.numpy()))
    np.testing.assert_allclose(found, [1, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2], rtol=1e-6)


@pytest.mark.usefixtures("eagerly")
def test_the_temperature_stays_without_rescaling():
    model = make_model(make_form(3, rescaling=False), steps=2)
    for _ in range(3):
        train(model)
    assert model.temperature.numpy() == 1


@pytest.mark.usefixtures("eagerly")
def test_dropout_drops_values_of_the_embedding_and_scales_up_the_others():
    """A value that was dropped has no gradient; that tells what to drop in the reference."""
    batch = TRAIN[0][:1], TRAIN[1][:1]  # one row, so that each embedding is used once
    model = make_model(make_form(3, **PAPER, dropout=0.4))
    reference = reference_of(model)
    loss = float(train(model, batch)["loss"])
    kept = applied(model)["embedding"] != 0
    used = reference.values["embedding"][batch[0][0]]
    assert 0 < kept.sum() < used.size
    dropped = reference.with_values(embedding=reference.values["embedding"] * kept / 0.6)
    assert loss == pytest.approx(dropped.loss(*batch), rel=1e-5)
    assert abs(loss - reference.loss(*batch)) > 1e-3


@pytest.mark.usefixtures("eagerly")
def test_nothing_is_dropped_outside_of_training():
    model = make_model(make_form(3, dropout=0.4))
    ids = TRAIN[0]
    for _ in range(2):
        np.testing.assert_allclose(
            model.call(tf.constant(ids)), reference_of(model).logits(ids), rtol=1e-5, atol=1e-6
        )
        train(model)


@pytest.mark.usefixtures("eagerly")
def test_dropout_follows_from_the_seed_and_the_step():
    def losses(seed, step=0):
        model = make_model(make_form(3, dropout=0.4, rescaling=False), seed=seed)
        model.step.assign(step)
        return [float(figure) for _ in range(3) for figure in train(model).values()]

    usual = losses(seed=5)
    assert len(set(usual)) == 6  # other values are dropped each time
    assert losses(seed=5) == usual
    assert losses(seed=5, step=2)[:2] == usual[4:]
    assert not set(losses(seed=6)) & set(usual)


@pytest.mark.parametrize(
    ("switches", "edges"),
    [(DEFAULT, None), ({**PAPER, "aggregate": "sum"}, np.ones((2, FIELDS, FIELDS)))],
    ids=["search", "given"],
)
def test_compiled_training_ends_where_that_in_plain_operations_does(switches, edges):
    def train_and_predict(jit):
        options = {"rate": 0.5, "edge_rate": 1.0, "optimizer": keras.optimizers.SGD}
        model = make_model(make_form(**switches), edges=edges, jit=jit, **options)
        step = tf.function(model.train_step)
        batches = tensors(TRAIN), tensors(VALID)
        for _ in range(3):
            figures = step(batches if model.searching else batches[0])
        return snapshot(model) | figures | {"logits": model.logits(batches[0][0])}

    compiled, plain = train_and_predict(jit=True), train_and_predict(jit=False)
    assert compiled.keys() == plain.keys()
    for name in plain:
        np.testing.assert_allclose(compiled[name], plain[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.usefixtures("eagerly")
@FORMS
def test_an_untrained_model_predicts_the_click_rate_with_every_edge_open(form):
    model = build_model(make_form(**form, stddev=1e-4), click_rate=0.2)
    probabilities = tf.sigmoid(model.call(tf.constant(TRAIN[0])))
    np.testing.assert_allclose(probabilities, np.full((BATCH, 3), 0.2), rtol=1e-2)
    np.testing.assert_array_equal(model.adjacency(), [edge_mask(COLUMNS) / 2] * 2)
    assert model.h.numpy().shape == (2, FIELDS, FIELDS)


@pytest.mark.usefixtures("eagerly")
def test_layer_0_starts_from_a_logistic_regression():
    model = build_model(make_form(3), click_rate=0.2)
    weights = np.random.default_rng(0).normal(size=IDS)
    model.start_from(weights, bias=-0.5)
    ids = TRAIN[0]
    logits = model.call(tf.constant(ids)).numpy()
    np.testing.assert_allclose(logits[:, 0], weights[ids].sum(axis=1) - 0.5, rtol=1e-5)
    np.testing.assert_array_equal(model.bias.numpy()[1:], 0)


@pytest.mark.usefixtures("eagerly")
def test_first_values_follow_from_the_seed():
    names = ("embedding", "transform", "readout")
    one, same, other = (snapshot(build_model(make_form(), seed=seed)) for seed in (1, 1, 2))
    for name in names:
        np.testing.assert_array_equal(one[name], same[name])
        assert (one[name] != other[name]).all()


@pytest.mark.usefixtures("eagerly")
def test_theta_is_all_that_is_trained_but_h():
    model = build_model(make_form())
    trained = [variable for name, variable in variables(model).items() if name != "h"]
    assert {id(variable) for variable in model.theta()} == {id(variable) for variable in trained}
