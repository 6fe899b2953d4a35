"""A -> named crosses: the feature crosses that an adjacency tensor suggests, best first.

A cross of order k + 1 is a path A(1)_{i,c1}, .., A(k)_{i,ck} whose edges all start at the same node
i, so that it extends a cross of order k by one field: f_c1 x .. x f_ck x f_i.
"""

import dataclasses
import heapq
import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fives_tf.errors import UserError, nearest
from fives_tf.training.metrics import auc

VERSION = 1
CROSSES_AN_ORDER = 1000  # how many a run keeps
# A combination seen once would else score 0 or 1 and stand beyond all that were seen often.
_PRIOR_WEIGHT = 10
_MOST_GAPS = 4  # numbers for each row that combinations of values may be spread over


@dataclass(frozen=True)
class Cross:
    """Fields whose values are taken together as one feature.

    Attributes:
        fields: The names of the fields, in the order of the dataset's fields.
        score: The product of the edge probabilities on the cross's best path.
        auc: How well the cross alone ranks the validation rows; None if that is not known.
        gain: By how much it lowers the log loss of a logistic regression on rows that its weights
            were not learned from; None if that is not known.
    """

    fields: tuple[str, ...]
    score: float
    auc: float | None = None
    gain: float | None = None

    @property
    def name(self) -> str:
        """The name for people and for columns, such as `C14 x I5@100`."""
        return " x ".join(self.fields)

    @property
    def order(self) -> int:
        """The number of fields."""
        return len(self.fields)


def derive(
    strength: np.ndarray,
    fields: Sequence[str],
    columns: Sequence[str],
    edges: np.ndarray | None = None,
    top: int | None = None,
) -> list[Cross]:
    """The crosses of orders 2 to K that an adjacency tensor suggests.

    The original columns of a cross are distinct, and crosses of the same fields are one. Paths are
    visited best first, so a small `top` is cheap however many paths there are.

    Args:
        strength: The edges' probabilities, [K - 1, fields, fields], before the re-scaling of eq. 8,
            which would make all strong edges equal; zero where no edge may be.
        fields: The names of the fields.
        columns: The column that each field is made from.
        edges: The binary adjacency tensor: only edges that are 1 are used. All are unless given.
        top: How many crosses of each order are wanted at most; all unless given.

    Returns:
        The crosses by rising order, then by falling score, then in the order of the fields.
    """
    usable = strength > 0 if edges is None else (strength > 0) & (edges == 1)
    neighbours, scale = _neighbours(np.where(usable, strength, 0), columns)
    crosses = []
    for layers in range(1, len(strength) + 1):
        for weight, members in itertools.islice(_best_first(neighbours, columns, layers), top):
            names = tuple(fields[member] for member in members)
            crosses.append(Cross(names, weight / scale**layers))
    return crosses


def edge_probabilities(strength: np.ndarray) -> np.ndarray:
    """The probabilities of the edges, by whose product crosses are ranked.

    Each edge of layer 1 is a decision of its own, and its strength is its probability. From layer 2
    on a row of strengths is an average over all that a node saw before (eq. 7), high or low as a
    whole; what tells its edges apart is an edge's share of the row, the probability of that hop.

    Args:
        strength: The edges' strengths before re-scaling, [K - 1, fields, fields].
    """
    total = strength.sum(axis=-1, keepdims=True)
    shares = np.divide(strength, total, np.zeros_like(strength), where=total > 0)
    return np.concatenate([strength[:1], shares[1:]])


def best_of_orders(crosses: Iterable[Cross], top: int) -> list[Cross]:
    """The first crosses of each order, so many at most."""
    counts: Counter[int] = Counter()
    best = []
    for cross in crosses:
        counts[cross.order] += 1
        if counts[cross.order] <= top:
            best.append(cross)
    return best


def by_gain(crosses: Iterable[Cross]) -> list[Cross]:
    """The crosses whose gain is known, the greatest gain first."""
    known = [cross for cross in crosses if cross.gain is not None]
    return sorted(known, key=lambda cross: -cross.gain)


def with_figures(crosses: Iterable[Cross], known: Iterable[Cross]) -> list[Cross]:
    """The crosses with the AUCs and gains that are known of the same fields."""
    figures = {cross.fields: {"auc": cross.auc, "gain": cross.gain} for cross in known}
    return [dataclasses.replace(cross, **figures.get(cross.fields, {})) for cross in crosses]


def with_auc(
    crosses: Iterable[Cross],
    fields: Sequence[str],
    train: tuple[np.ndarray, np.ndarray],
    valid: tuple[np.ndarray, np.ndarray],
) -> list[Cross]:
    """The crosses with their single-feature AUC; it stays None if only one class is there.

    Args:
        crosses: The crosses.
        fields: The names of the fields, in the order of the ids.
        train: The ids, [rows, fields], and labels that the click rates are taken from.
        valid: The ids and labels that the AUC is measured on.
    """
    crosses = list(crosses)
    check_fields(crosses, fields)
    place = {field: index for index, field in enumerate(fields)}
    result = []
    for cross in crosses:
        members = [place[field] for field in cross.fields]
        value = single_feature_auc(train[0][:, members], train[1], valid[0][:, members], valid[1])
        result.append(dataclasses.replace(cross, auc=None if math.isnan(value) else value))
    return result


def single_feature_auc(
    train_ids: np.ndarray, train_label: np.ndarray, valid_ids: np.ndarray, valid_label: np.ndarray
) -> float:
    """The exact AUC, on the validation rows, of a cross used alone.

    A row's score is the smoothed click rate that its combination of values has on the training
    rows, and the base rate where the combination is new. NaN if only one class is there.

    Args:
        train_ids: The ids of the cross's fields, [rows, fields of the cross].
        train_label: 1 for a click, 0 for none.
        valid_ids: As `train_ids`.
        valid_label: As `train_label`.
    """
    keys = _combine(np.concatenate([train_ids, valid_ids]))
    train_keys, valid_keys = np.split(keys, [len(train_ids)])
    size = keys.max(initial=-1) + 1
    counts = np.bincount(train_keys, minlength=size)
    clicks = np.bincount(train_keys, weights=train_label, minlength=size)
    base_rate = np.mean(train_label, dtype=np.float64)
    rates = (clicks + _PRIOR_WEIGHT * base_rate) / (counts + _PRIOR_WEIGHT)
    return auc(valid_label, rates[valid_keys])


def check_fields(crosses: Iterable[Cross], fields: Sequence[str]) -> None:
    """Refuses crosses of fields that a dataset does not have, and two crosses of one name."""
    known, names = set(fields), set()
    for cross in crosses:
        if cross.name in names:
            raise UserError(f"the cross `{cross.name}` is listed twice; remove one of them.")
        names.add(cross.name)
        for field in cross.fields:
            if field not in known:
                raise UserError(
                    f"the cross `{cross.name}` needs the field `{field}`, which the dataset does "
                    f"not have{nearest(field, fields)} Use the dataset that the crosses were "
                    "searched on."
                )


def to_json(crosses: Iterable[Cross]) -> bytes:
    """The content of `crosses.json`, which a person can read and `from_json` reads back."""
    document = to_document(crosses)
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode()


def to_document(crosses: Iterable[Cross]) -> dict[str, Any]:
    """What `crosses.json` says."""
    return {"version": VERSION, "crosses": to_items(crosses)}


def to_items(crosses: Iterable[Cross]) -> list[dict[str, Any]]:
    """Crosses as `crosses.json` lists them."""
    return [
        {
            "name": cross.name,
            "fields": list(cross.fields),
            "order": cross.order,
            "score": cross.score,
            "auc": cross.auc,
            "gain": cross.gain,
        }
        for cross in crosses
    ]


def from_json(content: bytes, place: str) -> list[Cross]:
    """Reads crosses; `name` and `order` follow from the fields and are there for people only.

    Args:
        content: The content of a file.
        place: The path of the file, for messages.
    """
    try:
        document = json.loads(content)
    except ValueError as error:
        raise _damaged(place, str(error)) from None
    if not isinstance(document, dict):
        raise _damaged(place, "expected a JSON object")
    if document.get("version") != VERSION:
        raise UserError(
            f"{place}: version {document.get('version')} is not known to this program, which "
            f"reads version {VERSION}. Search again, or use the fives-tf release that wrote it."
        )
    items = document.get("crosses")
    if not isinstance(items, list):
        raise _damaged(place, "`crosses`: expected a list")
    return [_read_cross(item, place, number) for number, item in enumerate(items, start=1)]


class _Edge(NamedTuple):
    """An edge from a start node that is known by the place of the edge."""

    weight: int
    bit: int
    end: int


def _neighbours(
    strength: np.ndarray, columns: Sequence[str]
) -> tuple[list[list[list[_Edge]]], int]:
    """The edges by start node and layer, strongest first, and what their weights are divided by.

    Weights are integers, so that products are exact: rounding could neither make nor break a tie.
    """
    ratios = {value: value.as_integer_ratio() for value in set(strength.ravel().tolist())}
    scale = max((bottom for _, bottom in ratios.values()), default=1)
    weights = {value: top * (scale // bottom) for value, (top, bottom) in ratios.items()}
    size = len(columns)
    starts: list[list[list[_Edge]]] = [[] for _ in columns]
    for layer in strength.tolist():
        for start, row in enumerate(layer):
            edges = [
                _Edge(weights[value], _bit(end, size), end)
                for end, value in enumerate(row)
                if value and columns[end] != columns[start]
            ]
            starts[start].append(sorted(edges, key=lambda edge: (-edge.weight, edge.end)))
    return starts, scale


def _best_first(
    neighbours: list[list[list[_Edge]]], columns: Sequence[str], layers: int
) -> Iterator[tuple[int, list[int]]]:
    """The crosses of order layers + 1: their weight and the numbers of their fields, best first.

    One heap holds the beginnings of paths from all start nodes. A beginning stands for its best
    conceivable end, the strongest edge of every layer to come, and so comes up before anything
    that is worse than all that it can lead to.
    """
    heap: list[tuple[int, int, int, tuple[int, ...]]] = []

    def push(start: int, ranks: tuple[int, ...]) -> None:
        """Adds a beginning, or its next sibling if its last column is on the path already."""
        lists = neighbours[start]
        *before, rank = ranks
        here = lists[len(before)]
        taken = {columns[edges[r].end] for edges, r in zip(lists, before, strict=False)}
        while rank < len(here) and columns[here[rank].end] in taken:
            rank += 1
        if rank == len(here):
            return
        weight, bits = 1, _bit(start, len(columns))
        for edges, r in itertools.zip_longest(lists[:layers], (*before, rank), fillvalue=0):
            weight *= edges[r].weight
            bits += edges[r].bit
        heapq.heappush(heap, (-weight, -bits, start, (*before, rank)))

    for start, lists in enumerate(neighbours):
        if all(lists[:layers]):
            push(start, (0,))
    seen = set()
    while heap:
        weight, bits, start, ranks = heapq.heappop(heap)
        push(start, (*ranks[:-1], ranks[-1] + 1))
        if len(ranks) < layers:
            push(start, (*ranks, 0))
        elif bits not in seen:
            seen.add(bits)
            ends = (edges[r].end for edges, r in zip(neighbours[start], ranks, strict=False))
            yield -weight, sorted((start, *ends))


def _bit(field: int, fields: int) -> int:
    """A field's part in the order of ties.

    Of two sets of as many fields the one that comes first has the greater sum of bits: it holds the
    first field that the other one lacks. A sum can be bounded as a product can.
    """
    return 1 << (fields - 1 - field)


def _combine(ids: np.ndarray) -> np.ndarray:
    """A number for each distinct row, from 0 on; with few gaps, so that arrays can be as long."""
    if not len(ids):
        return np.zeros(0, np.int64)
    keys, size = np.zeros(len(ids), np.int64), 1
    for column in ids.T:
        first, last = int(column.min()), int(column.max())
        if size * (last - first + 1) > np.iinfo(np.int64).max:
            keys, size = _numbered(keys)
        keys, size = keys * (last - first + 1) + (column - first), size * (last - first + 1)
    return _numbered(keys)[0] if size > _MOST_GAPS * len(keys) else keys


def _numbered(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """The same numbers without gaps, and how many there are; it sorts, which takes its time."""
    distinct, numbers = np.unique(keys, return_inverse=True)
    return numbers, len(distinct)


def _read_cross(item: Any, place: str, number: int) -> Cross:
    item = item if isinstance(item, dict) else {}
    fields, score = item.get("fields"), item.get("score")
    named = isinstance(fields, list) and all(isinstance(field, str) for field in fields)
    if not named or len(fields) < 2 or len(set(fields)) < len(fields):
        raise _damaged(place, f"cross {number}: `fields`: expected two or more distinct names")
    if not _is_number(score):
        raise _damaged(place, f"cross {number}: `score`: expected a number")
    figures = {}
    for name in ("auc", "gain"):
        value = item.get(name)
        if value is not None and not _is_number(value):
            raise _damaged(place, f"cross {number}: `{name}`: expected a number or null")
        figures[name] = None if value is None else float(value)
    return Cross(tuple(fields), float(score), **figures)


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max


def _damaged(place: str, reason: str) -> UserError:
    return UserError(
        f"{place}: is no list of crosses, or damaged ({reason}); copy it again, or search again."
    )
