"""What a report says of the crosses."""

import math
from collections import Counter

import numpy as np
import pytest

from fives_tf import gain
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.report import found
from fives_tf.report.found import Rows
from fives_tf.training.batches import Source
from fives_tf.training.metrics import auc

STRENGTH = 2.0


@pytest.fixture(scope="module")
def dataset(small_dataset):
    return Dataset.open(str(small_dataset))


@pytest.fixture(scope="module")
def rows(dataset):
    """Train and valid rows with the logits of some model."""
    source, rng = Source(dataset), np.random.default_rng(0)
    parts = (source.arrays(split) for split in ("train", "valid"))
    return [Rows(ids, label, rng.normal(-1, 0.5, len(label))) for ids, label in parts]


@pytest.fixture(scope="module")
def judged(dataset, rows):
    crosses = [Cross(("C1", "C2"), 0.9, 0.7, 0.01), Cross(("C1", "C2", "C3"), 0.2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gain, "STRENGTHS", (STRENGTH,))
        return found.judge(crosses, dataset.encoding, *rows, {"C1 x C2"})


def combinations(dataset, part, names):
    """The values of a cross in each row, as ids within the fields; None where one is rare."""
    encoding = dataset.encoding
    places = [[field.name for field in encoding.fields].index(name) for name in names]
    local = part.ids[:, places] - np.array(encoding.offsets)[places]
    return [None if 1 in row else tuple(row) for row in local.tolist()]


def test_the_lift_is_that_of_weights_learned_on_train(dataset, rows, judged):
    for one in judged:
        train, valid = (combinations(dataset, part, one["fields"]) for part in rows)
        often = {value for value, count in Counter(train).items() if value and count >= 2}
        sums: dict[object, list[float]] = {}
        for value, label, logit in zip(train, rows[0].label, rows[0].logit, strict=True):
            p = 1 / (1 + math.exp(-logit))
            own = sums.setdefault(value if value in often else None, [0.0, STRENGTH])
            own[0] += label - p
            own[1] += p * (1 - p)
        added = [sums.get(value if value in often else None, [0.0, 1.0]) for value in valid]
        after = rows[1].logit + [gradient / curvature for gradient, curvature in added]
        lift = auc(rows[1].label, after) - auc(rows[1].label, rows[1].logit)
        assert one["lift"] == pytest.approx(lift, abs=1e-6)
        assert one["coverage"] == pytest.approx(np.mean([value in often for value in train]), 1e-5)


def test_what_is_known_of_a_cross_is_told(judged):
    pair, triple = judged
    assert (pair["name"], pair["order"], pair["score"]) == ("C1 x C2", 2, 0.9)
    assert (pair["auc"], pair["gain"], pair["used"]) == (0.7, 0.01, True)
    assert (triple["gain"], triple["used"]) == (None, False)
    assert 0.4 < triple["auc"] < 1


def test_telling_values_are_those_that_the_model_explains_least(dataset, rows, judged):
    train = rows[0]
    fields = {field.name: field for field in dataset.encoding.fields}
    for one in judged:
        values = combinations(dataset, train, one["fields"])
        surprise = {}
        for value, count in Counter(values).items():
            if value is None or count < 2:
                continue
            own = np.array([other == value for other in values])
            p = 1 / (1 + np.exp(-train.logit[own]))
            clicks = train.label[own].sum()
            names = tuple(
                fields[name].values[identity - 2].as_py().decode() if identity else "(missing)"
                for name, identity in zip(one["fields"], value, strict=True)
            )
            surprise[names] = (
                abs(clicks - p.sum()) / math.sqrt((p * (1 - p)).sum() + 1),
                int(count),
                int(clicks),
                p.mean(),
            )
        best = sorted(surprise, key=lambda names: -surprise[names][0])[:12]
        told = {tuple(value["values"]): value for value in one["values"]}
        assert set(told) == set(best)
        assert [surprise[tuple(v["values"])][0] for v in one["values"]] == sorted(
            (surprise[names][0] for names in best), reverse=True
        )
        for names, value in told.items():
            _, count, clicks, expected = surprise[names]
            assert (value["rows"], value["clicks"]) == (count, clicks)
            assert value["expected"] == pytest.approx(expected, rel=1e-5)
            assert value["interval"][0] <= value["rate"] <= value["interval"][1]


def test_mutual_information_is_that_of_the_counts_if_there_are_many():
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 3, 200_000)
    label = (rng.random(len(ids)) < np.array([0.1, 0.5, 0.8])[ids]).astype(np.float32)

    def bits(p: float) -> float:
        return -p * math.log2(p) - (1 - p) * math.log2(1 - p)

    expected = bits(label.mean()) - np.mean([bits(label[ids == one].mean()) for one in range(3)])
    assert found.mutual_information(ids, label) == pytest.approx(expected, abs=2e-3)


def test_mutual_information_of_chance_is_none():
    rng = np.random.default_rng(0)
    values = [
        found.mutual_information(rng.integers(0, 400, 1000), (rng.random(1000) < 0.3) * 1.0)
        for _ in range(50)
    ]
    assert abs(np.mean(values)) < 4 * np.std(values) / math.sqrt(50)
    assert np.mean(values) == pytest.approx(0, abs=0.01)


def test_the_crosses_in_use_and_the_best_are_shown():
    crosses = [
        Cross((f"f{n}", f"g{n}", *("h" for _ in range(order - 2))), 1 / (n + 1), None, gain)
        for order in (2, 3)
        for n, gain in enumerate([0.1, None, 0.3, *[None] * 197])
    ]
    used = {crosses[150].name}
    shown = found.select(crosses, used)
    assert {"f150 x g150", "f0 x g0", "f49 x g49", "f2 x g2 x h"} <= {one.name for one in shown}
    assert len(shown) == 101
    gains = [cross.gain for cross in shown]
    assert gains[:4] == [0.3, 0.3, 0.1, 0.1]
    assert set(gains[4:]) == {None}
