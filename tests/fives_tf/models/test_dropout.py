import functools

import numpy as np
import pytest
import tensorflow as tf

from fives_tf.models.dropout import kept
from fives_tf.models.fives import FivesForm, FivesModel
from fives_tf.training.optimizers import make_optimizer

FIELDS, ROWS, DIM = 6, 48, 8


def mask(seed=(1, 2), first_row=0, rows=ROWS, rate=0.3, fields=FIELDS, dim=DIM):
    """Which values of the embeddings are kept, [fields, rows, dim]."""
    seed = tf.constant(seed, tf.int64)
    return kept([fields, rows, dim], seed, tf.constant(first_row), rate).numpy()


@functools.cache
def masks_of_steps():
    """Those of many steps, [steps, fields, rows, dim]."""
    return np.stack([mask((7, step)) for step in range(200)])


@pytest.mark.parametrize("parts", [2, 3, 4, ROWS])
def test_a_divided_batch_keeps_what_the_whole_one_does(parts):
    size = ROWS // parts
    divided = [mask(first_row=size * part, rows=size) for part in range(parts)]
    np.testing.assert_array_equal(np.concatenate(divided, axis=1), mask())
    assert (divided[0] != divided[1]).any(), "the parts differ from each other"


@pytest.mark.parametrize("rate", [0.05, 0.3, 0.5, 0.9])
def test_the_rate_is_the_part_that_is_dropped(rate):
    shares = np.array([1 - mask((seed, 0), rate=rate).mean() for seed in range(100)])
    deviation = np.sqrt(rate * (1 - rate) / mask().size)
    z = (shares - rate) / deviation
    assert abs(z.mean()) < 4 / np.sqrt(len(z))
    assert 0.75 < z.std() < 1.25, "the share varies as that of independent draws does"


def test_the_rate_holds_for_many_values():
    share = 1 - mask(rows=4096, fields=40, dim=32).mean()
    assert share == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / (4096 * 40 * 32)))


def test_nothing_is_dropped_at_a_rate_of_0():
    assert mask(rate=0.0).all()


def assert_independent(draws):
    """Asserts that the rows of [things, draws] are not correlated more than chance would have it.

    A correlation of n independent draws is about normal, with a standard deviation of 1 / sqrt(n).
    """
    z = np.corrcoef(draws)[np.triu_indices(len(draws), k=1)] * np.sqrt(draws.shape[1])
    assert abs(z).max() < 5.5
    assert (z**2).mean() == pytest.approx(1, abs=5 * np.sqrt(2 / len(z)))


def test_steps_drop_independently():
    steps = masks_of_steps()
    assert_independent(steps.reshape(len(steps), -1))


def test_seeds_drop_independently():
    seeds = np.stack([mask((seed, 3)) for seed in range(100)])
    assert_independent(seeds.reshape(len(seeds), -1))


@pytest.mark.parametrize("axis", [1, 2, 3], ids=["fields", "rows", "dims"])
def test_the_values_of_a_step_are_dropped_independently(axis):
    of_each = np.moveaxis(masks_of_steps(), axis, 0)
    assert_independent(of_each.reshape(len(of_each), -1))


def test_each_value_is_dropped_independently_of_all_others():
    every = np.stack([mask((seed, 0), rows=4, fields=4, dim=4).ravel() for seed in range(1000)])
    assert_independent(every.T)


def test_a_compiled_function_keeps_the_same():
    compiled = tf.function(
        lambda seed, first_row: kept([FIELDS, ROWS, DIM], seed, first_row, 0.3), jit_compile=True
    )
    for step, first_row in ((0, 0), (1, 48), (2**31, 2**20)):
        found = compiled(tf.constant([5, step], tf.int64), tf.constant(first_row)).numpy()
        np.testing.assert_array_equal(found, mask((5, step), first_row))


@pytest.mark.parametrize("jit", [False, True], ids=["plain", "compiled"])
def test_a_model_drops_by_the_step_and_nothing_at_a_rate_of_0(jit):
    """With rates of 0 nothing but the dropout changes the loss from step to step."""
    random = np.random.default_rng(0)
    ids = tf.constant(random.integers(5, size=(ROWS, 3)) + 5 * np.arange(3), tf.int32)
    label = tf.constant(random.integers(2, size=ROWS), tf.float32)

    def losses(dropout):
        optimizers = {
            name: make_optimizer("sgd", 0.0) for name in ("embedding", "network", "first_order")
        }
        model = FivesModel(
            FivesForm(dim=4, dropout=dropout, stddev=1.0, readout_stddev=1.0),
            list("abc"),
            np.full(15, 0.2),
            ROWS,
            optimizers,
            edges=np.ones([2, 3, 3]) - np.eye(3),
            jit=jit,
        )
        return [model.train_step((ids, label))["loss"].numpy() for _ in range(3)]

    assert len(set(losses(0.0))) == 1
    assert len(set(losses(0.3))) == 3
