"""Crosses by conditional mutual information: which are scored, and which are found."""

import itertools

import numpy as np

from fives_tf.generators import cmi
from fives_tf.generators.cmi import cmi_crosses, scores_in_memory

from .samples import draw_ids, make_encoding

COLUMNS = {"a": (2,), "b": (2, 3), "c": (2,), "d": (2,)}


def test_all_pairs_are_scored_and_the_best_come_first():
    encoding, asked = make_encoding(COLUMNS), []

    def score(crosses):
        asked.extend(crosses)
        return [float(sum(cross) % 4) for cross in crosses]

    crosses = cmi_crosses(encoding, score, count=3, order=2)
    # The fields 1 and 2 are siblings.
    assert asked == [pair for pair in itertools.combinations(range(5), 2) if pair != (1, 2)]
    assert [(cross.name, cross.score) for cross in crosses] == [
        ("a x c", 3.0),
        ("c x d", 3.0),
        ("a x b@3", 2.0),
    ]


def test_crosses_of_three_extend_the_best_pairs(monkeypatch):
    monkeypatch.setattr(cmi, "BEAM", 2)
    encoding, asked = make_encoding(COLUMNS), {}

    def score(crosses):
        for cross in crosses:
            asked.setdefault(len(cross), []).append(cross)
        return [1.0 if cross in ((0, 1), (3, 4)) else 0.0 for cross in crosses]

    crosses = cmi_crosses(encoding, score, count=2, order=3)
    assert asked[3] == [(0, 1, 3), (0, 1, 4), (0, 3, 4), (1, 3, 4), (2, 3, 4)]
    assert [cross.order for cross in crosses] == [2, 2, 3, 3]


def test_planted_crosses_are_found_among_fields_of_more_values():
    """The label depends on the parity of two fields, and on no field alone."""
    encoding = make_encoding({"a": (4,), "b": (4,), "c": (500,), "d": (4,), "e": (300,), "f": (2,)})
    ids = draw_ids(encoding, 6000, seed=0)
    local = ids - np.array(encoding.offsets)
    draw = np.random.default_rng(1).random(6000)
    pair, triple = local[:, 0] + local[:, 1], local[:, 1] + local[:, 3] + local[:, 5]
    chance = 0.2 + 0.25 * (pair % 2) + 0.25 * (triple % 2)
    label = (draw < chance).astype(np.float32)
    crosses = cmi_crosses(encoding, scores_in_memory(encoding, ids, label), count=3, order=3)
    assert crosses[0].fields == ("a", "b")
    assert crosses[3].fields == ("b", "d", "f")
    assert crosses[0].score > 5 * crosses[1].score
    assert crosses[3].score > 5 * crosses[4].score
