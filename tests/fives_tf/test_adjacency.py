import math

import numpy as np
import pytest
import tensorflow as tf

from fives_tf.adjacency import binary_adjacency, edge_mask, rescale, soft_adjacency

SWITCHES = [
    {},
    {"dependencies": False},
    {"straight_through": True},
    {"dependencies": False, "straight_through": True},
]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def adjacency_slowly(h, tau, mask, thresholds=None, dependencies=True, straight_through=False):
    """The paper's equations 7 and 8, an entry at a time."""
    layers, m = len(h), len(mask)
    result = np.zeros((layers, m, m))
    binary = np.eye(m)
    for k in range(layers):
        threshold = 0.5 if thresholds is None else thresholds[k]
        for i in range(m):
            neighbours = [j for j in range(m) if binary[i, j] == 1]
            for j in range(m):
                if mask[i, j] == 0 or (dependencies and not neighbours):
                    continue
                s = sigmoid(h[k, i, j])
                if dependencies:
                    s = sum(sigmoid(h[k, n, j]) for n in neighbours) / len(neighbours)
                result[k, i, j] = sigmoid(math.log(s / (1 - s)) / tau)
        binary = np.array([[float(a >= threshold) for a in row] for row in result[k]])
        if straight_through:
            result[k] = binary
    return result


def parameters(layers, fields, seed=0, spread=1.5):
    return np.random.default_rng(seed).normal(0, spread, (layers, fields, fields))


MASK = edge_mask(["a", "b", "b", "c", "d"])


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@pytest.mark.parametrize("tau", [1.0, 0.3, 0.02])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_adjacency_tensor_is_that_of_the_paper(layers, tau, switches):
    for seed in range(5):
        h = parameters(layers, 5, seed)
        found = soft_adjacency(tf.constant(h), tau, MASK, **switches)
        np.testing.assert_allclose(found, adjacency_slowly(h, tau, MASK, **switches), rtol=1e-9)


def test_each_layer_has_its_own_threshold():
    h = parameters(3, 5)
    thresholds = (0.2, 0.7, 0.9)
    found = soft_adjacency(tf.constant(h), 0.5, MASK, thresholds)
    np.testing.assert_allclose(found, adjacency_slowly(h, 0.5, MASK, thresholds), rtol=1e-9)
    expected = [
        [[float(a >= t) for a in row] for row in layer]
        for layer, t in zip(found.numpy(), thresholds, strict=True)
    ]
    np.testing.assert_array_equal(binary_adjacency(found.numpy(), thresholds), expected)


def test_a_node_without_edges_has_none_in_the_next_layer_and_nothing_divides_by_zero():
    h = np.full((3, 4, 4), -3.0)  # no edge is strong enough
    h[0, 0, 1] = 3.0  # but this one
    mask = edge_mask(["a", "b", "c", "d"])
    with tf.GradientTape() as tape:
        variable = tf.Variable(h)
        found = soft_adjacency(variable, 0.1, mask)
        total = tf.reduce_sum(found)
    assert (found[1].numpy()[1:] == 0).all()
    assert (found[1].numpy()[0, 1:] > 0).all()
    assert (found[2].numpy() == 0).all()
    assert np.isfinite(tape.gradient(total, variable)).all()
    np.testing.assert_allclose(found, adjacency_slowly(h, 0.1, mask), atol=1e-12)


@pytest.mark.parametrize("switches", SWITCHES[:2], ids=str)
def test_the_gradient_flows_through_the_transitions_and_the_temperature_only(switches):
    """Finite differences, with the binary decisions held as they are."""
    h = parameters(3, 5, seed=2)
    weights = np.random.default_rng(1).normal(size=h.shape)
    with tf.GradientTape() as tape:
        variable = tf.Variable(h)
        loss = tf.reduce_sum(soft_adjacency(variable, 0.4, MASK, **switches) * weights)
    gradient = tape.gradient(loss, variable).numpy()
    step = 1e-5  # small enough that no edge crosses its threshold
    for index in np.ndindex(*h.shape):
        up, down = h.copy(), h.copy()
        up[index] += step
        down[index] -= step
        pair = [np.sum(adjacency_slowly(x, 0.4, MASK, **switches) * weights) for x in (up, down)]
        assert gradient[index] == pytest.approx((pair[0] - pair[1]) / (2 * step), abs=1e-6)


def test_straight_through_has_the_gradient_of_the_soft_tensor():
    h = parameters(2, 5)
    weights = np.random.default_rng(1).normal(size=h.shape)
    gradients = []
    for straight_through in (False, True):
        with tf.GradientTape() as tape:
            variable = tf.Variable(h)
            found = soft_adjacency(variable, 0.4, MASK, straight_through=straight_through)
            loss = tf.reduce_sum(found * weights)
        gradients.append(tape.gradient(loss, variable))
    np.testing.assert_allclose(*gradients)


def test_rescaling_drives_strengths_apart_and_survives_the_extremes():
    strengths = tf.constant([0.0, 0.1, 0.49, 0.5, 0.51, 0.9, 1.0])
    np.testing.assert_allclose(rescale(strengths, 1.0), strengths, atol=2e-6)
    with tf.GradientTape() as tape:
        tape.watch(strengths)
        sharp = rescale(strengths, 0.02)
    np.testing.assert_allclose(sharp, [0, 0, 0.119, 0.5, 0.881, 1, 1], atol=1e-3)
    assert np.isfinite(tape.gradient(sharp, strengths)).all()


def test_fields_are_crossed_neither_with_themselves_nor_with_siblings():
    np.testing.assert_array_equal(
        edge_mask(["age", "age", "city"]), [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    )
