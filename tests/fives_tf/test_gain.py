"""The gain of a cross: against a loop written from its definition, and on known crosses."""

import math

import numpy as np
import pytest

from fives_tf.gain import held_out_gain


def slow_gain(fitted: tuple, held_out: tuple, strength: float) -> float:
    """One row after the other: a Newton step for each value, then both log losses."""
    gradient: dict[int, float] = {}
    curvature: dict[int, float] = {}
    for value, label, logit in zip(*fitted, strict=True):
        probability = 1 / (1 + math.exp(-logit))
        gradient[value] = gradient.get(value, 0.0) + label - probability
        curvature[value] = curvature.get(value, 0.0) + probability * (1 - probability)
    before = after = 0.0
    for value, label, logit in zip(*held_out, strict=True):
        weight = gradient.get(value, 0.0) / (curvature.get(value, 0.0) + strength)
        before += loss(label, logit)
        after += loss(label, logit + weight)
    return (before - after) / len(held_out[0])


def loss(label: float, logit: float) -> float:
    probability = 1 / (1 + math.exp(-logit))
    return -math.log(probability if label else 1 - probability)


def rows(count: int, sizes: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Fields with values at random, and one draw a row from 0 to 1."""
    random = np.random.default_rng(seed)
    return np.column_stack([random.integers(0, size, count) for size in sizes]), random.random(
        count
    )


@pytest.mark.parametrize("strength", [0.1, 1.0, 50.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_the_definition_says(strength, seed):
    random = np.random.default_rng(seed)

    def part(count: int, values: int) -> tuple:
        ids = random.integers(0, values, count)
        label = (random.random(count) < 0.3).astype(np.float32)
        return ids, label, random.normal(-1, 1.5, count).astype(np.float32)

    # Some values are in one of the halves only.
    fitted, held_out = part(200, 12), part(150, 15)
    expected = slow_gain(fitted, held_out, strength)
    assert held_out_gain(fitted, held_out, strength) == pytest.approx(expected, abs=1e-9)
    assert expected != 0


def test_a_planted_cross_gains_most_and_noise_gains_nothing():
    ids, draw = rows(20_000, (6, 6, 6, 6), seed=0)
    planted = (ids[:, 0] + ids[:, 1]) % 2 == 0  # neither of the fields says anything alone
    label = (draw < np.where(planted, 0.7, 0.3)).astype(np.float32)
    logit = np.zeros(len(label), np.float32)
    gains = {}
    for first, second in ((0, 1), (0, 2), (1, 3), (2, 3)):
        own = ids[:, first] * 6 + ids[:, second]
        halves = zip(*(np.split(part, 2) for part in (own, label, logit)), strict=True)
        gains[first, second] = held_out_gain(*halves, 1.0)
    # The most that there is to gain: from log 2 to the entropy of 0.7.
    most = math.log(2) + 0.7 * math.log(0.7) + 0.3 * math.log(0.3)
    assert gains[0, 1] == pytest.approx(most, rel=0.15)
    for cross in ((0, 2), (1, 3), (2, 3)):
        assert gains[cross] < 0.03 * most


def test_noise_of_many_values_costs_and_a_strong_penalty_spares_it():
    ids, draw = rows(4_000, (2_000,), seed=1)
    label = (draw < 0.5).astype(np.float32)
    logit = np.zeros(len(label), np.float32)
    halves = [*zip(*(np.split(part, 2) for part in (ids[:, 0], label, logit)), strict=True)]
    weak, strong = held_out_gain(*halves, 0.1), held_out_gain(*halves, 1e4)
    assert weak < -0.1
    assert weak < strong
    assert strong == pytest.approx(0, abs=1e-4)


def test_no_rows_to_learn_from_change_nothing():
    held_out = (np.array([0, 3]), np.array([1.0, 0.0]), np.array([0.5, -0.5]))
    none = (np.array([], np.int64), np.array([]), np.array([]))
    assert held_out_gain(none, held_out, 1.0) == 0


def test_logits_without_bound_are_borne():
    ids, label = np.array([0, 0, 1]), np.array([1.0, 0.0, 1.0])
    logit = np.array([1e4, -1e4, -1e4])
    assert np.isfinite(held_out_gain((ids, label, logit), (ids, label, logit), 1.0))


def test_without_a_penalty_values_that_were_not_seen_have_no_weight():
    fitted = (np.array([0, 1, 0, 1]), np.array([1.0, 0, 1, 0]), np.zeros(4))
    held_out = (np.array([2, 2]), np.array([1.0, 0]), np.zeros(2))
    assert held_out_gain(fitted, held_out, 0.0) == 0
