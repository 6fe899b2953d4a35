"""AutoCross (Luo et al., KDD 2019): a greedy search, one cross after the other.

Of the paper there are: the tree of feature sets, walked by the best child only (a beam of one);
candidates that are the unions of any two features of the set, fields and crosses so far;
field-wise logistic regression, which learns nothing but the weights of a candidate beside fixed
logits; successive mini-batch gradient descent, which halves the candidates and doubles the rows;
and multi-granularity discretization, of which the better half is kept.

What differs:
- The weights of crosses that were added stay fixed, as those of the fields do (so does Alink's
  implementation); the paper learns the whole regression anew after each cross.
- Gradient descent has rates by the curvature that each value has seen; see `FieldWise`.
- Log loss decides, not AUC: it varies less by chance.
- The first block has `field_wise.BLOCK` rows at least. The paper has data for so many blocks that
  one candidate is left at the end; here several may be, and the best of them wins.
- In each round a candidate learns from the first row on again, so that memory holds the weights of
  a few candidates, not of all.
- The granularities are those of the dataset, which are buckets of equal width or not, and one or
  several, as its schema says.
- Values that occur once in the rows share a weight, as in `fives fit`.
- The rows that decide are a part of train, as in Alink's implementation. So the validation rows, of
  which hundreds of comparisons would leave nothing, can still say how many crosses are worth it.
- The search ends when no candidate lowers the log loss of the rows that decide.
"""

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from fives_tf import progress
from fives_tf.cross_fitting import MIN_COUNT
from fives_tf.crosses import Cross
from fives_tf.encoding import Encoding
from fives_tf.generators.field_wise import Base, FieldWise, block_rows, successive_halving
from fives_tf.generators.places import Places, named, single_fields, unions

STRENGTH = 3.0
LEARNED = 0.8  # of the rows; the others decide
MOST_ROWS = 1_000_000
MEMORY = 2 << 30  # bytes of the values that are kept; half of them are for pairs of fields
_DENSE = 4  # combinations for each row up to which a table of them is faster than to sort


def autocross_crosses(
    encoding: Encoding,
    train: tuple[np.ndarray, np.ndarray, np.ndarray],
    judge: tuple[np.ndarray, np.ndarray, np.ndarray],
    count: int,
    order: int,
    seed: int = 0,
    strength: float = STRENGTH,
) -> list[Cross]:
    """Searches crosses that lower the log loss of a model of the fields.

    Args:
        encoding: The encoding of the fields.
        train: The global ids, [rows, fields], the labels and the model's logits of the rows that
            weights are learned from.
        judge: The same of the rows that decide.
        count: How many crosses to find at most.
        order: Their highest order.
        seed: Decides the order in which rows are learned from.
        strength: The strength of the L2 penalty on weights, beside the sum of the loss over rows.
            That of the model is no good guide: fields that say little on their own want a strong
            one, and their crosses may say much.

    Returns:
        The crosses in the order in which they were found; the score is by how much each lowered the
        log loss of the rows that decide.
    """
    shuffled = np.random.default_rng(seed).permutation(len(train[1]))
    train_ids, *train_rest = (part[shuffled] for part in train)
    values = Values(encoding, train_ids, judge[0])
    bases = [Base(label, logit.astype(np.float64)) for label, logit in (train_rest, judge[1:])]
    features = keep_granularities(encoding, values, *bases, strength)
    crosses = []
    with progress.view("autocross", count, unit="crosses") as view:
        while len(crosses) < count:
            found = candidates(features, encoding, order)
            if not found:
                break
            learners = [
                lambda cross=cross: FieldWise(*values.of(cross), strength) for cross in found
            ]
            best, learner = successive_halving(
                learners, *bases, block_rows(len(shuffled), len(found))
            )
            before, after = bases[1].loss(), learner.loss(bases[1])
            if after >= before:
                break
            bases = [base.plus(one) for base, one in zip(bases, learner.added(), strict=True)]
            features.append(found[best])
            crosses.append(named(found[best], before - after, encoding))
            view.update(len(crosses), suffix=f"log loss {after:.5f}")
    return crosses


def divided(
    rows: tuple[np.ndarray, np.ndarray], seed: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Divides ids and labels at random: rows to learn from, and one at least to judge by."""
    ids, label = rows
    places = np.random.default_rng([seed, 1]).permutation(len(label))
    learned = places < min(round(LEARNED * len(label)), len(label) - 1)
    return (ids[learned], label[learned]), (ids[~learned], label[~learned])


def rows_to_read(encoding: Encoding) -> int:
    """How many rows the search takes at most: as many as leave room for crosses beside pairs."""
    pairs = len(unions(single_fields(encoding), single_fields(encoding), encoding))
    return min(MEMORY // (2 * pairs * np.dtype(np.int32).itemsize), MOST_ROWS)


def candidates(features: Collection[Places], encoding: Encoding, order: int) -> list[Places]:
    """The unions of any two features that are no features yet, of at most so many fields."""
    known = set(features)
    every = unions(features, features, encoding)
    return [cross for cross in every if len(cross) <= order and cross not in known]


def keep_granularities(
    encoding: Encoding, values: "Values", train: Base, judge: Base, strength: float
) -> list[Places]:
    """The fields, and of those that are made of one column the better half.

    Each is judged by the log loss of a field-wise regression beside a bias; one at least is kept.
    """
    # Few rows may all have a click, or none.
    least = 0.5 / len(train.label)
    rate = np.clip(train.label.mean(dtype=np.float64), least, 1 - least)
    bias = np.log(rate / (1 - rate))
    train, judge = (Base(base.label, np.full(len(base.label), bias)) for base in (train, judge))
    columns: dict[str, list[Places]] = {}
    for (place,) in single_fields(encoding):
        columns.setdefault(encoding.fields[place].column, []).append((place,))

    def loss(field: Places) -> float:
        learner = FieldWise(*values.of(field), strength)
        learner.learn(train, len(train.label))
        return learner.loss(judge)

    kept: list[Places] = []
    for siblings in columns.values():
        ranked = sorted(siblings, key=loss) if len(siblings) > 1 else siblings
        kept += ranked[: max(len(ranked) // 2, 1)]
    return sorted(kept)


class Values:
    """Which value of a feature each row has, for any feature, kept while there is memory."""

    def __init__(self, encoding: Encoding, train: np.ndarray, judge: np.ndarray):
        """Takes the global ids of the rows to learn from and to judge by."""
        self._columns = np.ascontiguousarray(np.concatenate([train, judge]).T.astype(np.int32))
        self._columns -= np.array(encoding.offsets, np.int32)[:, None]
        self._sizes = [field.size for field in encoding.fields]
        self._train = len(train)
        self._known: dict[Places, np.ndarray] = {}
        self._left = MEMORY

    def of(self, feature: Places) -> tuple[np.ndarray, np.ndarray]:
        """The values, unsigned integers, of the rows to learn from and to judge by.

        From 1 on if at least two of the rows to learn from have the combination, else 0.
        """
        found = self._known.get(feature)
        if found is None:
            found = self._find(feature)
            if found.nbytes <= self._left:
                self._known[feature] = found
                self._left -= found.nbytes
        return tuple(np.split(found, [self._train]))

    def _find(self, feature: Places) -> np.ndarray:
        numbers = number_combinations(
            [self._columns[place] for place in feature],
            [self._sizes[place] for place in feature],
        )
        counts = np.bincount(numbers[: self._train], minlength=numbers.max(initial=0) + 1)
        often = counts >= MIN_COUNT
        values = np.where(often, np.cumsum(often), 0)
        return values.astype(np.min_scalar_type(values.max()))[numbers]


def number_combinations(columns: Iterable[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """One number for each combination that the rows have, from 0 on without gaps.

    Args:
        columns: The ids within each field, [rows] each.
        sizes: How many ids the fields have.
    """
    numbers, most = 0, 1
    for column, size in zip(columns, sizes, strict=True):
        # There are no more numbers than rows, so that the product stays within 64 bits.
        keys, most = numbers * np.int64(size) + column, most * size
        if most <= _DENSE * len(keys):
            seen = np.zeros(most, bool)
            seen[keys] = True
            numbers = (np.cumsum(seen) - 1)[keys]
        else:
            numbers = np.unique(keys, return_inverse=True)[1]
        most = int(numbers.max(initial=-1)) + 1
    return numbers
