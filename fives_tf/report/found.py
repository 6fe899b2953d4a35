"""The crosses that were found: what each is worth, and its most telling values."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fives_tf import progress
from fives_tf.cross_encoding import CrossField
from fives_tf.cross_fitting import fit_crosses
from fives_tf.crosses import Cross, best_of_orders, by_gain, with_auc
from fives_tf.encoding import FIRST_VALUE, Encoding
from fives_tf.gain import held_out_gain, newton_weights, sigmoid
from fives_tf.generators.information import entropy, expected_entropy
from fives_tf.report.names import value_name
from fives_tf.report.numbers import rounded
from fives_tf.training.intervals import rate_interval
from fives_tf.training.metrics import auc

MOST = 300  # crosses in a report
_BEST = 50  # of each order by score
_VALUES = 12  # of a cross


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Rows, and what a logistic regression on the fields alone says of them.

    Attributes:
        ids: Global ids, [rows, fields].
        label: 1 for a click, 0 for none.
        logit: The logits of the regression.
    """

    ids: np.ndarray
    label: np.ndarray
    logit: np.ndarray


def select(crosses: Sequence[Cross], used: set[str]) -> list[Cross]:
    """The crosses that a report shows: those in use, and the best by gain and by score.

    Args:
        crosses: The crosses of a run, by order and falling score.
        used: The names of those that the light model has weights for.
    """
    wanted = [cross for cross in crosses if cross.name in used]
    wanted += best_of_orders(crosses, _BEST) + by_gain(crosses)
    chosen = list(dict.fromkeys(cross.fields for cross in wanted))[:MOST]
    known = {cross.fields: cross for cross in crosses}
    ranked = sorted((known[fields] for fields in chosen), key=lambda cross: -cross.score)
    return sorted(ranked, key=lambda cross: math.inf if cross.gain is None else -cross.gain)


def judge(
    crosses: Sequence[Cross],
    encoding: Encoding,
    train: Rows,
    valid: Rows,
    used: set[str],
) -> list[dict[str, Any]]:
    """What a report says of each cross.

    Args:
        crosses: The crosses.
        encoding: The encoding of their fields.
        train: The rows that values and weights are learned from.
        valid: The rows that a lift is measured on.
        used: The names of those that the light model has weights for.
    """
    fields = [field.name for field in encoding.fields]
    base = auc(valid.label, valid.logit)
    found = []
    with progress.view("crosses", len(crosses), unit="crosses") as view:
        for done, cross in enumerate(crosses, start=1):
            if cross.auc is None:
                rows = ((part.ids, part.label) for part in (train, valid))
                (cross,) = with_auc([cross], fields, *rows)
            fitted = fit_crosses([cross], encoding, [train.ids])
            field, offset = fitted.fields[0], fitted.offsets[0]
            own, other = (fitted.encode_one(0, part.ids) - offset for part in (train, valid))
            rows = own, train.label, train.logit
            weights = newton_weights(*rows, held_out_gain(*rows).strength, field.size)
            found.append(
                rounded(
                    {
                        "name": cross.name,
                        "fields": list(cross.fields),
                        "order": cross.order,
                        "score": cross.score,
                        "auc": cross.auc,
                        "mutual_information": mutual_information(own, train.label),
                        "coverage": float(np.mean(own >= FIRST_VALUE)),
                        "gain": cross.gain,
                        "lift": auc(valid.label, valid.logit + weights[other]) - base,
                        "used": cross.name in used,
                        "values": telling_values(field, own, train, encoding),
                    }
                )
            )
            view.update(done)
    return found


def mutual_information(ids: np.ndarray, label: np.ndarray) -> float:
    """What a feature tells of the clicks, in bits for each row, less what chance would show.

    Args:
        ids: The ids of the feature, from 0 on.
        label: 1 for a click, 0 for none.
    """
    rows, clicks = np.bincount(ids), np.bincount(ids, label).astype(np.int64)
    clicks, rows = clicks[rows > 0], rows[rows > 0]
    every = np.full_like(rows, len(ids)), np.full_like(rows, clicks.sum())
    tells = expected_entropy(rows, *every) - entropy(clicks, rows)
    return float(np.sum(rows * tells)) / max(len(ids), 1) / math.log(2)


def telling_values(
    field: CrossField, ids: np.ndarray, rows: Rows, encoding: Encoding
) -> list[dict[str, Any]]:
    """The combinations whose clicks the fields alone explain least, the least explained first.

    Args:
        field: The cross.
        ids: Its ids in the rows, from 0 on.
        rows: The rows.
        encoding: The encoding of its fields.
    """
    predicted = sigmoid(rows.logit)
    count = np.bincount(ids, minlength=field.size)
    clicks = np.bincount(ids, rows.label, field.size)
    expected = np.bincount(ids, predicted, field.size)
    variance = np.bincount(ids, predicted * (1 - predicted), field.size)
    surprise = np.abs(clicks - expected) / np.sqrt(variance + 1)
    surprise[:FIRST_VALUE] = 0
    order = np.argsort(-surprise, kind="stable")[:_VALUES]
    order = order[surprise[order] > 0]
    low, high = rate_interval(clicks[order], count[order])
    own = {one.name: one for one in encoding.fields}
    members = [own[name] for name in field.cross.fields]
    return [
        {
            "values": [
                value_name(member, int(identity))
                for member, identity in zip(members, field.values[place - FIRST_VALUE], strict=True)
            ],
            "rows": int(count[place]),
            "clicks": int(clicks[place]),
            "rate": float(clicks[place] / count[place]),
            "interval": [float(low[number]), float(high[number])],
            "expected": float(expected[place] / count[place]),
        }
        for number, place in enumerate(order.tolist())
    ]
