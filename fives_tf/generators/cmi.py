"""Crosses by conditional mutual information: what a cross tells of the clicks beyond its parts.

The score of a cross is the least I(cross; click | part) over the parts that lack one of its fields,
corrected for the number of combinations (see `information.py`). All crosses of two fields are
scored; of three fields and more, those that add a field to one of the best crosses before.
"""

from collections.abc import Callable, Sequence

import numpy as np

from fives_tf import progress
from fives_tf.crosses import Cross
from fives_tf.encoding import Encoding
from fives_tf.generators.information import information_beyond_parts
from fives_tf.generators.label_counts import LabelCounter
from fives_tf.generators.places import Places, named, single_fields, unions

BEAM = 50  # crosses of an order that those of the next are made from

Scores = Callable[[Sequence[Places]], Sequence[float]]
"""Gives the scores of crosses."""


def cmi_crosses(encoding: Encoding, score: Scores, count: int, order: int) -> list[Cross]:
    """The crosses with the highest scores, by rising order, then by falling score.

    Args:
        encoding: The encoding of the fields.
        score: Gives the scores, `scores_in_memory` or `pipelines.count_labels.scores_by_beam`.
        count: How many crosses of each order.
        order: The highest order.
    """
    fields = single_fields(encoding)
    crosses, best = [], fields
    for size in range(2, order + 1):
        candidates = [cross for cross in unions(best, fields, encoding) if len(cross) == size]
        scores = dict(zip(candidates, score(candidates), strict=True))
        ranked = sorted(candidates, key=lambda cross: (-scores[cross], cross))
        crosses += [named(cross, scores[cross], encoding) for cross in ranked[:count]]
        best = ranked[:BEAM]
    return crosses


def scores_in_memory(encoding: Encoding, ids: np.ndarray, label: np.ndarray) -> Scores:
    """Gives scores from rows that are in memory.

    Args:
        encoding: The encoding of the fields.
        ids: The global ids, [rows, fields].
        label: 1 for a click, 0 for none.
    """

    def score(crosses: Sequence[Places]) -> list[float]:
        counter, scores = LabelCounter(crosses, encoding, len(ids)), []
        with progress.view("score", len(crosses), unit="crosses") as view:
            for counts, shape in zip(counter.count(ids, label), counter.shapes, strict=True):
                scores.append(information_beyond_parts(counts, shape))
                view.update(len(scores))
        return scores

    return score
