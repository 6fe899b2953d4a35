import itertools

import numpy as np
import pytest
import tensorflow as tf

from fives_tf.models.base import CrossPenalty, Table, cross_entropy

# Rows of two fields, and how likely they are: ids 0 and 1 are of the first, 2 to 4 of the second.
ROWS = {(0, 2): 0.4, (0, 3): 0.2, (0, 4): 0.05, (1, 2): 0.05, (1, 3): 0.3}
FREQUENCY = np.array([sum(p for row, p in ROWS.items() if i in row) for i in range(5)])


def dense(slices):
    total = np.zeros(tuple(slices.dense_shape), np.float32)
    np.add.at(total, slices.indices.numpy(), slices.values.numpy())
    return total


def filled(table, seed=0):
    values = np.random.default_rng(seed).normal(size=table.values.shape).astype(np.float32)
    table.values.assign(values)
    return values


@pytest.mark.parametrize("shape", [(4,), (3, 2), (2, 2, 2)])
def test_a_lookup_gives_the_row_of_each_id(shape):
    table = Table(FREQUENCY, width=3, batch=2)
    values = filled(table)
    ids = np.random.default_rng(1).integers(5, size=shape)
    np.testing.assert_array_equal(table.lookup(tf.constant(ids)), values[ids])


def test_the_gradient_sums_over_all_places_of_an_id():
    table = Table(FREQUENCY, width=3, batch=2)
    filled(table)
    ids = tf.constant([[0, 2], [0, 3], [1, 2]])
    by_lookup = np.random.default_rng(1).normal(size=(3, 2, 3)).astype(np.float32)
    slices = table.gradient(ids, table.lookup(ids), tf.constant(by_lookup))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(table.lookup(ids) * by_lookup)
    expected = tf.convert_to_tensor(tape.gradient(total, table.values.value))
    np.testing.assert_allclose(dense(slices), expected, rtol=1e-6)


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("l2", [0.3, (0.3, 0.0, 2.0)], ids=["one", "by column"])
def test_the_mean_penalty_over_all_batches_is_that_of_the_whole_table(batch, l2):
    table = Table(FREQUENCY, width=3, batch=batch, l2=l2)
    values = filled(table)
    mean = np.zeros_like(values)
    for rows in itertools.product(ROWS, repeat=batch):
        found = table.lookup(tf.constant(rows))
        gradient = table.gradient(tf.constant(rows), found, tf.zeros_like(found))
        mean += np.prod([ROWS[row] for row in rows]) * dense(gradient)
    np.testing.assert_allclose(mean, np.array(l2) * values, rtol=1e-5)


@pytest.mark.parametrize("l2", [0.0, (0.3, 0.0, 2.0)])
@pytest.mark.parametrize("of_crosses", [0.7, (0.0, 4.0, 1.0)])
def test_ids_of_crosses_may_have_a_penalty_of_their_own(l2, of_crosses):
    crosses = CrossPenalty(3, np.array(of_crosses))
    table = Table(FREQUENCY, width=3, batch=2, l2=l2, crosses=crosses)
    values = filled(table)
    ids = tf.constant([[0, 2], [1, 4], [1, 3]])
    found = table.lookup(ids)
    expected = np.zeros_like(values)
    for one in ids.numpy().ravel():
        strength = np.broadcast_to(of_crosses if one >= 3 else l2, 3)
        expected[one] += strength * values[one] / (2 * FREQUENCY[one])
    found = dense(table.gradient(ids, found, tf.zeros_like(found)))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_penalty_comes_on_top_of_the_gradient():
    table = Table(FREQUENCY, width=1, batch=4, l2=0.3)
    values = filled(table)
    ids = tf.constant([4])
    gradient = table.gradient(ids, table.lookup(ids), tf.constant([[7.0]]))
    expected = 7 + 0.3 * values[4] / (4 * 0.05)
    np.testing.assert_allclose(dense(gradient)[4], expected, rtol=1e-6)


def test_an_id_that_was_never_counted_is_not_punished():
    table = Table(np.array([0.0, 1.0]), width=1, batch=4, l2=0.3)
    filled(table)
    ids = tf.constant([0, 1])
    gradient = dense(table.gradient(ids, table.lookup(ids), tf.ones([2, 1])))
    assert gradient[0, 0] == 1
    assert gradient[1, 0] != 1


def test_first_values_are_zero_or_drawn_with_the_deviation_asked_for():
    frequency = np.full(2000, 0.01)
    assert not Table(frequency, width=2, batch=4).values.numpy().any()
    drawn = Table(frequency, width=2, batch=4, stddev=0.3, seed=1).values.numpy()
    assert np.std(drawn) == pytest.approx(0.3, rel=0.05)
    same = Table(frequency, width=2, batch=4, stddev=0.3, seed=1).values.numpy()
    np.testing.assert_array_equal(drawn, same)


def test_the_cross_entropy_is_taken_of_every_output():
    label, logits = np.array([1.0, 0.0]), np.array([[0.5, -2.0, 0.0], [0.5, -2.0, 3.0]])
    p = 1 / (1 + np.exp(-logits))
    expected = [-np.log(p[0]), -np.log(1 - p[1])]
    np.testing.assert_allclose(cross_entropy(tf.constant(label), tf.constant(logits)), expected)
