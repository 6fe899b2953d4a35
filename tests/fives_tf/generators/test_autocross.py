"""AutoCross: its regressions, halving and candidates against slow loops, and what it finds."""

import itertools
import math

import numpy as np
import pytest

from fives_tf.gain import newton_weights
from fives_tf.generators import autocross, field_wise
from fives_tf.generators.autocross import (
    Values,
    autocross_crosses,
    candidates,
    divided,
    keep_granularities,
    number_combinations,
    rows_to_read,
)
from fives_tf.generators.field_wise import Base, FieldWise, block_rows, successive_halving
from fives_tf.training.metrics import log_loss

from .samples import draw_ids, make_encoding


def sigmoid(logit):
    return 1 / (1 + np.exp(-logit))


def slow_learn(values, base: Base, strength: float, last: int) -> dict:
    """Weights by value, from the definition, after so many rows."""
    weights, curvature = {}, {}
    for start in range(0, last, field_wise.BATCH):
        rows = range(start, min(start + field_wise.BATCH, last))
        before = {row: base.logit[row] + weights.get(values[row], 0.0) for row in rows}
        error = {}
        for row, logit in before.items():
            value, chance = values[row], 1 / (1 + math.exp(-logit))
            error[value] = error.get(value, 0.0) + base.label[row] - chance
            curvature[value] = curvature.get(value, strength) + chance * (1 - chance)
        for value, sum_ in error.items():
            weights[value] = weights.get(value, 0.0) + sum_ / curvature[value]
    return weights


def slow_loss(values, base: Base, weights: dict) -> float:
    losses = []
    for value, label, logit in zip(values.tolist(), base.label, base.logit, strict=True):
        chance = 1 / (1 + math.exp(-logit - weights.get(value, 0.0)))
        losses.append(-math.log(chance if label else 1 - chance))
    return sum(losses) / len(losses)


def draw_base(rows: int, seed: int) -> Base:
    rng = np.random.default_rng(seed)
    return Base((rng.random(rows) < 0.3).astype(np.float32), rng.normal(-1, 1, rows))


def test_weights_are_learned_as_defined(monkeypatch):
    monkeypatch.setattr(field_wise, "BATCH", 16)
    rng, train, valid = np.random.default_rng(0), draw_base(100, 1), draw_base(40, 2)
    own, other = rng.integers(0, 7, 100).astype(np.int32), rng.integers(0, 9, 40).astype(np.int32)
    learner = FieldWise(own, other, 0.5)
    learner.learn(train, 90)
    weights = slow_learn(own.tolist(), train, 0.5, 90)
    assert learner.weights == pytest.approx([weights.get(value, 0.0) for value in range(9)])
    assert learner.loss(valid) == pytest.approx(slow_loss(other, valid, weights))
    assert learner.loss(valid) == pytest.approx(
        log_loss(valid.label, sigmoid(valid.logit + learner.weights[other]))
    )


def test_one_batch_is_one_newton_step():
    own, train = np.random.default_rng(3).integers(0, 7, 500), draw_base(500, 4)
    learner = FieldWise(own, own, 2.0)
    learner.learn(train, 500)
    assert learner.weights == pytest.approx(newton_weights(own, train.label, train.logit, 2.0, 7))


def test_a_pass_comes_close_to_the_least_penalised_loss():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 5, 20_000)
    effect = np.array([-1.0, -0.5, 0.0, 0.5, 1.5])
    logit = rng.normal(-1, 0.5, 20_000)
    label = (rng.random(20_000) < sigmoid(logit + effect[values])).astype(np.float32)
    learner = FieldWise(values, values, 3.0)
    learner.learn(Base(label, logit), len(values))
    for value in range(5):
        own, weight = values == value, 0.0
        for _ in range(30):
            chance = sigmoid(logit[own] + weight)
            slope = np.sum(label[own] - chance) - 3.0 * weight
            weight += slope / (np.sum(chance * (1 - chance)) + 3.0)
        assert learner.weights[value] == pytest.approx(weight, abs=0.02)


@pytest.mark.parametrize(("count", "rows"), [(1, 100), (7, 100), (8, 333), (20, 100), (3, 1000)])
def test_halving_goes_as_a_slow_loop_does(count, rows, monkeypatch):
    monkeypatch.setattr(field_wise, "BATCH", 16)
    rng, train, valid = np.random.default_rng(count), draw_base(rows, 1), draw_base(60, 2)
    features = [
        [rng.integers(0, 6, size).astype(np.int32) for size in (rows, 60)] for _ in range(count)
    ]
    learners = [lambda values=values: FieldWise(*values, 1.0) for values in features]
    best, learner = successive_halving(learners, train, valid, block=20)
    left, last, block = list(range(count)), 0, 20
    while last < rows:
        last = min(last + block, rows) if len(left) > 1 else rows
        losses = {}
        for place in left:
            weights = slow_learn(features[place][0].tolist(), train, 1.0, last)
            losses[place] = slow_loss(features[place][1], valid, weights)
        left = sorted(left, key=losses.get)
        if last < rows:
            left = left[: math.ceil(len(left) / 2)]
        block *= 2
    assert best == left[0]
    assert learner.loss(valid) == pytest.approx(losses[best])


def test_the_first_block_leaves_one_candidate_at_the_end_if_there_are_rows():
    rows, count = 40_000_000, 741
    block, left, used = block_rows(rows, count), count, 0
    rounds = 0
    while used < rows:
        used += block * 2**rounds
        rounds += 1
        left = math.ceil(left / 2)
    assert left == 1
    assert used < rows + rows // 100
    assert block_rows(100_000, 741) == field_wise.BLOCK


def test_candidates_are_the_unions_of_two_features():
    columns = {"a": (2,), "b": (2, 3), "c": (2,), "d": (2,)}
    encoding = make_encoding(columns)
    features = [(0,), (1,), (3,), (4,), (0, 1), (3, 4), (0, 2)]
    siblings = {1, 2}
    for order in (2, 3, 4):
        expected = set()
        for one, other in itertools.product(features, features):
            union = set(one) | set(other)
            if 2 <= len(union) <= order and not siblings <= union:
                expected.add(tuple(sorted(union)))
        expected -= set(features)
        found = candidates(features, encoding, order)
        assert len(found) == len(set(found))
        assert set(found) == expected
    assert (0, 1, 3, 4) in found  # two crosses of two


def test_combinations_are_numbered_without_gaps():
    rng = np.random.default_rng(0)
    for sizes in ((3,), (4, 5), (2, 1000), (1000, 1000, 3)):
        columns = [rng.integers(0, size, 60) for size in sizes]
        numbers = number_combinations(columns, sizes)
        rows = list(zip(*columns, strict=True))
        assert sorted(set(numbers.tolist())) == list(range(len(set(rows))))
        assert len(set(zip(rows, numbers.tolist(), strict=True))) == len(set(rows))


def test_values_that_train_has_once_or_never_are_one():
    encoding = make_encoding({"a": (3,), "b": (3,)})
    train = np.array([[0, 5], [0, 5], [1, 5], [0, 6], [0, 6], [2, 6]])
    valid = np.array([[0, 5], [0, 6], [1, 5], [4, 9]])
    values = Values(encoding, train, valid)
    for _ in range(2):
        fitted, judged = values.of((0, 1))
        assert fitted.tolist() == [1, 1, 0, 2, 2, 0]
        assert judged.tolist() == [1, 2, 0, 0]


def test_values_that_are_not_kept_are_found_again(monkeypatch):
    encoding, (train, *_) = planted(500, 0)
    _, (judge, *_) = planted(100, 1)
    kept = Values(encoding, train, judge)
    room = 2 * 600  # a byte for each row, as there are 36 combinations
    monkeypatch.setattr(autocross, "MEMORY", room)
    short = Values(encoding, train, judge)
    for _ in range(2):
        for pair in itertools.combinations(range(4), 2):
            for one, other in zip(short.of(pair), kept.of(pair), strict=True):
                np.testing.assert_array_equal(one, other)
    assert (len(short._known), len(kept._known)) == (2, 6)


def test_the_better_half_of_granularities_is_kept():
    """Of the column `x`, the label follows the field of eight values; the others only blur it."""
    encoding = make_encoding({"x": (2, 8, 900), "y": (4,), "z": (3, 5)})
    rng, rows = np.random.default_rng(0), 6000
    position = rng.integers(0, 7200, rows)
    columns = [2 + position * size // 7200 for size in (2, 8, 900)]
    columns += [rng.integers(0, size, rows) for size in (4, 3, 5)]
    ids = np.column_stack(columns) + np.array(encoding.offsets)
    label = (rng.random(rows) < np.where(columns[1] % 2, 0.6, 0.2)).astype(np.float32)
    logit = np.zeros(rows)
    values = Values(encoding, ids[:5000], ids[5000:])
    bases = Base(label[:5000], logit[:5000]), Base(label[5000:], logit[5000:])
    kept = keep_granularities(encoding, values, *bases, 1.0)
    names = [encoding.fields[place].name for (place,) in kept]
    assert names[:2] == ["x@8", "y"]
    assert len(names) == 3


def planted(rows: int, seed: int) -> tuple:
    """Rows whose label depends on two pairs and on a triple, and logits that know nothing of it."""
    encoding = make_encoding(dict.fromkeys("abcdefgh", (6,)) | {"many": (400,)})
    ids = draw_ids(encoding, rows, seed)
    local = ids - np.array(encoding.offsets)
    signs = [
        2 * (sum(local[:, place] for place in places) % 2) - 1
        for places in ((0, 1), (2, 3), (0, 1, 4))
    ]
    logit = -1 + 1.0 * signs[0] + 0.7 * signs[1] + 0.5 * signs[2]
    rng = np.random.default_rng(seed + 1)
    label = (rng.random(rows) < sigmoid(logit)).astype(np.float32)
    return encoding, (ids, label, np.full(rows, -0.8))


def test_planted_crosses_are_found_the_strongest_first():
    encoding, train = planted(20_000, 0)
    _, valid = planted(4_000, 10)
    crosses = autocross_crosses(encoding, train, valid, count=3, order=3)
    # A triple over a planted pair holds all that the pair tells.
    assert {cross.fields for cross in crosses} <= {("a", "b"), ("c", "d"), ("a", "b", "e")}
    assert crosses[0].fields[:2] == ("a", "b")
    assert ("a", "b", "e") in {cross.fields for cross in crosses}
    pairs = autocross_crosses(encoding, train, valid, count=2, order=2)
    assert [cross.fields for cross in pairs] == [("a", "b"), ("c", "d")]
    assert pairs[0].score > pairs[1].score > 0.01
    assert pairs == autocross_crosses(encoding, train, valid, count=2, order=2)


def test_the_score_is_what_the_weights_take_off_the_log_loss():
    encoding, train = planted(9_000, 0)
    _, valid = planted(2_000, 10)
    [cross] = autocross_crosses(encoding, train, valid, count=1, order=2, seed=5)
    shuffled = np.random.default_rng(5).permutation(9_000)
    ids, label, logit = (part[shuffled] for part in train)
    learner = FieldWise(*Values(encoding, ids, valid[0]).of((0, 1)), autocross.STRENGTH)
    learner.learn(Base(label, logit), 9_000)
    drop = Base(*valid[1:]).loss() - learner.loss(Base(*valid[1:]))
    assert (cross.fields, cross.score) == (("a", "b"), pytest.approx(drop))


def test_it_ends_when_nothing_helps():
    encoding = make_encoding({"a": (2,), "b": (2,), "c": (2,)})
    label = (np.random.default_rng(0).random(4000) < 0.5).astype(np.float32)
    train = (draw_ids(encoding, 4000, seed=1), label, np.zeros(4000))
    # With the labels turned around, whatever is learned is wrong.
    wrong = (train[0], 1 - train[1], train[2])
    assert autocross_crosses(encoding, train, wrong, count=5, order=3) == []
    assert len(autocross_crosses(encoding, train, train, count=50, order=3)) == 4


def test_rows_are_fewer_where_there_are_many_fields():
    few = make_encoding({f"c{i}": (2,) for i in range(3)})
    many = make_encoding({f"c{i}": (2,) for i in range(40)})
    assert rows_to_read(few) == autocross.MOST_ROWS
    assert 300_000 < rows_to_read(many) < autocross.MOST_ROWS


def test_a_fifth_of_the_rows_decides():
    rows = np.arange(1000).reshape(500, 2), np.arange(500)
    learned, judged = divided(rows, seed=3)
    assert [len(number) for _, number in (learned, judged)] == [400, 100]
    for ids, number in (learned, judged):
        np.testing.assert_array_equal(ids[:, 0], 2 * number)
    np.testing.assert_array_equal(np.sort(np.concatenate([learned[1], judged[1]])), rows[1])
    np.testing.assert_array_equal(divided(rows, seed=3)[1][1], judged[1])
    assert not np.array_equal(divided(rows, seed=4)[1][1], judged[1])
    assert [len(number) for _, number in divided((rows[0][:2], rows[1][:2]), 0)] == [1, 1]


@pytest.mark.parametrize("click", [0, 1])
def test_few_rows_may_be_of_one_class(click):
    encoding = make_encoding({"n": (2, 3), "b": (2,)})
    train = (draw_ids(encoding, 9, seed=1), np.full(9, click, np.float32), np.zeros(9))
    judge = (draw_ids(encoding, 3, seed=2), np.full(3, click, np.float32), np.zeros(3))
    with np.errstate(all="raise"):
        crosses = autocross_crosses(encoding, train, judge, count=5, order=2)
    assert all(cross.score > 0 for cross in crosses)
