import json
import math
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from fives_tf.models.base import CrossPenalty
from fives_tf.training.optimizers import (
    DenseAdam,
    Grda,
    LazyAdam,
    RowAdagrad,
    RowFtrl,
    make_optimizer,
    sum_slices,
)

ROWS, WIDTH, STEPS, RATE = 7, 3, 6, 0.1
BOTH = pytest.mark.parametrize("kind", [LazyAdam, RowAdagrad])
ALL = pytest.mark.parametrize("kind", [LazyAdam, RowAdagrad, RowFtrl])


def make_slices(seed, most=5):
    """A sparse gradient that has rows more than once; the last rows of the table never occur."""
    random = np.random.default_rng(seed)
    indices = np.append(random.integers(most, size=5), [0, 0])
    return indices, random.normal(size=(len(indices), WIDTH)).astype(np.float32)


def sparse(indices, values):
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([ROWS, WIDTH]))


def dense(indices, values):
    total = np.zeros((ROWS, WIDTH), np.float32)
    for index, value in zip(indices, values, strict=True):
        total[index] += value
    return total


def first_values():
    return np.random.default_rng(99).normal(size=(ROWS, WIDTH)).astype(np.float32)


def minimize(optimizer, gradients, start=None):
    """Where a variable ends that the optimizer is given gradients for."""
    variable = keras.Variable(first_values() if start is None else start)
    optimizer.build([variable])
    for gradient in gradients:
        optimizer.apply([gradient], [variable])
    return variable.numpy()


def lazy_adam_slowly(slices, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
    """Adam, row by row, on the rows of each step only."""
    values = first_values().astype(np.float64)
    momentum, velocity = np.zeros_like(values), np.zeros_like(values)
    for step, (indices, slice_values) in enumerate(slices, start=1):
        gradient = dense(indices, slice_values).astype(np.float64)
        for row in set(indices.tolist()):
            momentum[row] = beta_1 * momentum[row] + (1 - beta_1) * gradient[row]
            velocity[row] = beta_2 * velocity[row] + (1 - beta_2) * gradient[row] ** 2
            correction = np.sqrt(1 - beta_2**step) / (1 - beta_1**step)
            values[row] -= RATE * correction * momentum[row] / (np.sqrt(velocity[row]) + epsilon)
    return values


@pytest.mark.parametrize(
    ("kind", "of_keras"),
    [(RowAdagrad, keras.optimizers.Adagrad), (DenseAdam, keras.optimizers.Adam)],
)
def test_a_sparse_gradient_moves_as_the_dense_one_does_in_keras(kind, of_keras):
    slices = [make_slices(seed) for seed in range(STEPS)]
    found = minimize(kind(RATE), [sparse(*one) for one in slices])
    expected = minimize(of_keras(RATE), [dense(*one) for one in slices])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (found[:5] != first_values()[:5]).all()


def test_lazy_adam_is_adam_on_the_rows_of_the_step():
    slices = [make_slices(seed) for seed in range(STEPS)]
    assert any(len(set(indices)) < 5 for indices, _ in slices)  # rows are absent at times
    found = minimize(LazyAdam(RATE), [sparse(*one) for one in slices])
    np.testing.assert_allclose(found, lazy_adam_slowly(slices), rtol=1e-4, atol=1e-5)
    everywhere = minimize(keras.optimizers.Adam(RATE), [dense(*one) for one in slices])
    assert np.abs(found - everywhere).max() > 1e-2  # which would not be the same


def test_lazy_adam_is_keras_adam_if_every_row_is_in_every_step():
    slices = [make_slices(seed, most=ROWS) for seed in range(STEPS)]
    slices = [
        (np.append(indices, np.arange(ROWS)), np.concatenate([values, np.ones((ROWS, WIDTH))]))
        for indices, values in slices
    ]
    slices = [(indices, values.astype(np.float32)) for indices, values in slices]
    found = minimize(LazyAdam(RATE), [sparse(*one) for one in slices])
    expected = minimize(keras.optimizers.Adam(RATE), [dense(*one) for one in slices])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@ALL
def test_rows_without_a_gradient_stay(kind):
    slices = [make_slices(seed) for seed in range(STEPS)]
    found = minimize(kind(RATE), [sparse(*one) for one in slices])
    np.testing.assert_array_equal(found[5:], first_values()[5:])
    one_row = sparse([1], np.ones((1, WIDTH), np.float32))
    before = minimize(kind(RATE), [sparse(*make_slices(0))])
    after = minimize(kind(RATE), [sparse(*make_slices(0)), one_row])
    assert (after[1] != before[1]).all()
    np.testing.assert_array_equal(np.delete(after, 1, axis=0), np.delete(before, 1, axis=0))


@ALL
def test_slices_of_one_row_are_summed_before_the_step(kind):
    indices, values = make_slices(0)
    rows = np.unique(indices)
    found = minimize(kind(RATE), [sparse(indices, values)] * 2)
    expected = minimize(kind(RATE), [sparse(rows, dense(indices, values)[rows])] * 2)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_slices_are_summed_by_row():
    rows, values = sum_slices(sparse(*make_slices(3)))
    assert len(set(rows.numpy().tolist())) == len(rows)
    np.testing.assert_allclose(dense(rows.numpy(), values.numpy()), dense(*make_slices(3)))


@BOTH
def test_a_dense_gradient_goes_the_way_of_keras(kind):
    gradients = [dense(*make_slices(seed)) for seed in range(STEPS)]
    found = minimize(kind(RATE), gradients)
    np.testing.assert_array_equal(found, minimize(kind.__base__(RATE), gradients))


@ALL
def test_a_sparse_and_a_dense_variable_have_each_its_own_state(kind):
    slices = [make_slices(seed) for seed in range(STEPS)]
    optimizer = kind(RATE)
    variables = [keras.Variable(first_values()), keras.Variable(first_values())]
    optimizer.build(variables)
    for one in slices:
        optimizer.apply([dense(*one), sparse(*one)], variables)
    alone = minimize(kind(RATE), [sparse(*one) for one in slices])
    np.testing.assert_array_equal(variables[1].numpy(), alone)
    alone = minimize(kind(RATE), [dense(*one) for one in slices])
    np.testing.assert_allclose(variables[0].numpy(), alone, rtol=1e-6)


def ftrl_slowly(slices, beta, l1, l2):
    """Algorithm 1 of McMahan et al., number by number; a slice is (row, gradients)."""
    z, n, w = (np.zeros((ROWS, WIDTH)) for _ in range(3))
    for indices, slice_values in slices:
        gradient = dense(indices, slice_values).astype(np.float64)
        for row in set(indices.tolist()):
            for column in range(WIDTH):
                at, g = (row, column), gradient[row, column]
                sigma = (math.sqrt(n[at] + g * g) - math.sqrt(n[at])) / RATE
                z[at] += g - sigma * w[at]
                n[at] += g * g
                w[at] = 0.0
                if abs(z[at]) > l1:
                    curvature = (beta + math.sqrt(n[at])) / RATE + l2[row][column]
                    w[at] = -(z[at] - math.copysign(l1, z[at])) / curvature
    return w


@pytest.mark.parametrize("l1", [0.0, 1.5])
@pytest.mark.parametrize("l2", [(0.0, 0.0, 0.0), (0.0, 0.5, 20.0)])
@pytest.mark.parametrize("of_crosses", [None, (3.0, 0.0, 40.0)])
def test_ftrl_is_that_of_the_paper_on_the_rows_of_the_step(l1, l2, of_crosses):
    slices = [make_slices(seed) for seed in range(STEPS)]
    crosses = of_crosses and CrossPenalty(2, np.array(of_crosses))
    optimizer = RowFtrl(RATE, beta=0.7, l1=l1, l2=l2, crosses=crosses)
    found = minimize(optimizer, [sparse(*one) for one in slices], np.zeros_like(first_values()))
    expected = ftrl_slowly(slices, 0.7, l1, [l2] * 2 + [of_crosses or l2] * (ROWS - 2))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found == 0, expected == 0)
    assert (found[:5] == 0).any() == (l1 > 0)  # L1 leaves some of the rows at 0, and not all
    assert (found[:5] != 0).any()


def test_ftrl_moves_a_dense_gradient_as_keras_does():
    gradients = [dense(*make_slices(seed)) for seed in range(STEPS)]
    start = np.zeros_like(first_values())
    of_keras = keras.optimizers.Ftrl(
        RATE,
        initial_accumulator_value=0.0,
        l1_regularization_strength=1.5,
        l2_regularization_strength=0.25,  # Keras leaves out the half of l2 / 2
        beta=0.7,
    )
    expected = minimize(of_keras, gradients, start)
    found = minimize(RowFtrl(RATE, beta=0.7, l1=1.5, l2=0.5), gradients, start)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    slices = [make_slices(seed) for seed in range(STEPS)]
    found = minimize(
        RowFtrl(RATE, beta=0.7, l1=1.5, l2=0.5), [sparse(*one) for one in slices], start
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_grda_takes_a_growing_threshold_off_the_summed_gradients():
    rate, c, mu = 0.5, 0.3, 0.8
    gradients = [dense(*make_slices(seed)) for seed in range(STEPS)]
    total = first_values().astype(np.float64)
    threshold, weights = 0.0, None
    for step, gradient in enumerate(gradients):
        total = total - rate * gradient
        threshold += c * rate ** (0.5 + mu) * ((step + 1) ** mu - step**mu)
        weights = np.zeros_like(total)
        for place in np.ndindex(*total.shape):
            if abs(total[place]) > threshold:
                weights[place] = total[place] - math.copysign(threshold, total[place])
    found = minimize(Grda(rate, c, mu), gradients, first_values())
    np.testing.assert_allclose(found, weights, rtol=1e-4, atol=1e-6)
    assert 0 < (found == 0).sum() < found.size


def test_optimizers_have_names():
    optimizer = make_optimizer("adagrad", 0.25, initial_accumulator_value=0.5)
    assert isinstance(optimizer, RowAdagrad)
    assert float(optimizer.learning_rate) == 0.25
    assert optimizer.initial_accumulator_value == 0.5


def test_a_rate_falls_along_a_cosine_and_then_stays_at_zero():
    optimizer = make_optimizer("sgd", 0.5, falls_over=4)
    variable = keras.Variable(np.zeros(1, np.float32))
    optimizer.build([variable])
    moves = []
    for _ in range(6):
        before = float(variable.numpy()[0])
        optimizer.apply([tf.ones(1)], [variable])
        moves.append(before - float(variable.numpy()[0]))
    expected = [0.5 * (1 + math.cos(math.pi * step / 4)) / 2 for step in range(4)]
    assert moves == pytest.approx([*expected, 0, 0], abs=1e-6)


# Several devices must be declared before TensorFlow begins, so in a process of its own.
REPLICAS = """
import json, sys
import keras, numpy as np, tensorflow as tf
from fives_tf.training.optimizers import make_optimizer

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

def share(parts, dtype):
    return strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(parts[context.replica_id_in_sync_group], dtype)
    )

def minimize(name, rate, first, slices):
    with strategy.scope():
        variable = keras.Variable(np.array(first, np.float32))
        optimizer = make_optimizer(name, rate)
        optimizer.build([variable])
    shape = tf.constant(list(variable.shape))

    @tf.function
    def step(indices, values):
        def apply(indices, values):
            optimizer.apply([tf.IndexedSlices(values, indices, shape)], [variable])

        strategy.run(apply, args=(indices, values))

    for indices, values in slices:
        step(share(indices, tf.int32), share(values, tf.float32))
    return [copy.numpy().tolist() for copy in strategy.experimental_local_results(variable.value)]

print(json.dumps([minimize(**task) for task in json.load(sys.stdin)]))
"""


def test_two_replicas_end_where_one_device_does():
    slices = [make_slices(seed) for seed in range(3)]
    halves = [[(part[:3].tolist(), part[3:].tolist()) for part in one] for one in slices]
    task = {"rate": RATE, "first": first_values().tolist(), "slices": halves}
    kinds = {"lazy_adam": LazyAdam, "adagrad": RowAdagrad, "ftrl": RowFtrl}
    run = subprocess.run(
        [sys.executable, "-c", REPLICAS],
        input=json.dumps([task | {"name": name} for name in kinds]),
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    for kind, copies in zip(kinds.values(), json.loads(run.stdout), strict=True):
        expected = minimize(kind(RATE), [sparse(*one) for one in slices])
        np.testing.assert_allclose(copies, [expected] * 2, rtol=1e-5, atol=1e-6)
