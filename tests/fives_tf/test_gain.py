"""The gain of a cross: against a loop written from its definition, and on known crosses."""

import math

import numpy as np
import pytest

from fives_tf.gain import (
    FOLDS,
    MOST_WEIGHT,
    STRENGTHS,
    held_out_gain,
    newton_weights,
    tell_the_same,
)


def slow_weights(rows: list[tuple], strength: float) -> dict[int, float]:
    """A Newton step for each value, one row after the other."""
    gradient: dict[int, float] = {}
    curvature: dict[int, float] = {}
    for value, label, logit in rows:
        probability = 1 / (1 + math.exp(-logit))
        gradient[value] = gradient.get(value, 0.0) + label - probability
        curvature[value] = curvature.get(value, 0.0) + probability * (1 - probability)
    return {
        value: min(max(gradient[value] / (curvature[value] + strength), -MOST_WEIGHT), MOST_WEIGHT)
        for value in gradient
    }


def slow_gain(rows: list[tuple]) -> tuple[float, float]:
    """Each fold by the weights of the others, with one penalty after the other."""
    gains = []
    for strength in STRENGTHS:
        gain = 0.0
        for fold in range(FOLDS):
            others = [row for place, row in enumerate(rows) if place % FOLDS != fold]
            weights = slow_weights(others, strength)
            for value, label, logit in rows[fold::FOLDS]:
                gain += loss(label, logit) - loss(label, logit + weights.get(value, 0.0))
        gains.append((gain / len(rows), strength))
    return max(gains)


def loss(label: float, logit: float) -> float:
    probability = 1 / (1 + math.exp(-logit))
    return -math.log(probability if label else 1 - probability)


def draw(count: int, sizes: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Fields with values at random, and one draw a row from 0 to 1."""
    random = np.random.default_rng(seed)
    return np.column_stack([random.integers(0, size, count) for size in sizes]), random.random(
        count
    )


@pytest.mark.parametrize("values", [1, 12, 90])
@pytest.mark.parametrize("effect", [0.0, 1.0, 8.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_the_definition_says(values, effect, seed):
    random = np.random.default_rng(seed)
    ids = random.integers(0, values, 203)
    logit = random.normal(-1, 1.5, 203).astype(np.float32)
    chance = 1 / (1 + np.exp(-(logit + effect * (ids % 2 * 2 - 1))))
    label = (random.random(203) < chance).astype(np.float32)
    gain, strength = slow_gain(list(zip(ids.tolist(), label.tolist(), logit.tolist(), strict=True)))
    found = held_out_gain(ids, label, logit)
    assert found.gain == pytest.approx(gain, abs=1e-9)
    assert found.strength == strength
    assert gain != 0


def test_a_planted_cross_gains_most_and_noise_gains_nothing():
    ids, drawn = draw(20_000, (6, 6, 6, 6), seed=0)
    planted = (ids[:, 0] + ids[:, 1]) % 2 == 0  # neither of the fields says anything alone
    label = (drawn < np.where(planted, 0.7, 0.3)).astype(np.float32)
    logit = np.zeros(len(label), np.float32)
    gains = {
        (first, second): held_out_gain(ids[:, first] * 6 + ids[:, second], label, logit).gain
        for first, second in ((0, 1), (0, 2), (1, 3), (2, 3))
    }
    # The most that there is to gain: from log 2 to the entropy of 0.7.
    most = math.log(2) + 0.7 * math.log(0.7) + 0.3 * math.log(0.3)
    assert gains[0, 1] == pytest.approx(most, rel=0.1)
    for cross in ((0, 2), (1, 3), (2, 3)):
        assert gains[cross] < 0.03 * most


def test_a_cross_of_many_values_that_is_all_noise_costs_little_and_gains_nothing():
    """A fixed penalty that is weak would tell the same of it and of one that is half noise."""
    ids, drawn = draw(4_000, (2_000,), seed=1)
    label = (drawn < 0.5).astype(np.float32)
    noise = held_out_gain(ids[:, 0], label, np.zeros(len(label), np.float32))
    assert -1e-3 < noise.gain < 1e-4
    assert noise.strength == max(STRENGTHS)
    label = (drawn < 0.35 + 0.3 * (ids[:, 0] % 2)).astype(np.float32)
    some = held_out_gain(ids[:, 0], label, np.zeros(len(label), np.float32))
    assert some.gain > 5e-3
    assert some.strength < max(STRENGTHS)


def test_no_rows_gain_nothing():
    none = np.array([])
    assert held_out_gain(none.astype(np.int64), none, none).gain == 0


def test_logits_without_bound_are_borne():
    ids, label = np.array([0, 0, 1]), np.array([1.0, 0.0, 1.0])
    logit = np.array([1e4, -1e4, -1e4])
    assert np.isfinite(held_out_gain(ids, label, logit).gain)


@pytest.mark.parametrize("strength", [0.1, 1.0, 50.0])
def test_weights_are_what_the_definition_says(strength):
    random = np.random.default_rng(0)
    ids, logit = random.integers(0, 12, 200), random.normal(-1, 1.5, 200)
    label = (random.random(200) < 0.3).astype(float)
    expected = slow_weights(
        list(zip(ids.tolist(), label.tolist(), logit.tolist(), strict=True)), strength
    )
    found = newton_weights(ids, label, logit, strength, 14)
    assert found == pytest.approx([expected.get(value, 0.0) for value in range(14)])


def test_without_a_penalty_values_that_were_not_seen_have_no_weight():
    found = newton_weights(np.array([0, 1]), np.array([1.0, 0.0]), np.zeros(2), 0.0, 3)
    assert found.tolist() == [2.0, -2.0, 0.0]


@pytest.mark.parametrize(
    ("ids", "others", "same"),
    [
        ([0, 1, 1, 2], [5, 0, 0, 3], True),
        ([0, 1, 1, 2], [5, 0, 0, 5], False),  # one of them tells less
        ([0, 0, 1, 2], [5, 0, 0, 3], False),  # equally many values
        ([0, 0, 0, 0], [1, 1, 1, 1], True),
        ([], [], True),
    ],
)
def test_features_that_tell_the_same(ids, others, same):
    ids, others = np.array(ids, np.int32), np.array(others, np.int32)
    assert tell_the_same(ids, others) == tell_the_same(others, ids) == same
