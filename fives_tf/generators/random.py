"""Crosses at random: what any better choice must beat."""

import itertools
import random
from collections.abc import Mapping, Sequence

from fives_tf.crosses import Cross
from fives_tf.encoding import Encoding
from fives_tf.generators.places import Places, named

SCORE = 0.0


def random_crosses(encoding: Encoding, counts: Mapping[int, int], seed: int = 0) -> list[Cross]:
    """Draws crosses, each of an order with the same chance, none of them twice.

    They come by rising order, within an order as they were drawn. Nothing is known of them, so the
    score of all is 0.

    Args:
        encoding: The encoding of the fields.
        counts: How many crosses of each order to draw; all if there are fewer.
        seed: Decides what is drawn.
    """
    columns: dict[str, list[int]] = {}
    for place, field in enumerate(encoding.fields):
        columns.setdefault(field.column, []).append(place)
    siblings = list(columns.values())
    crosses = []
    for order, count in sorted(counts.items()):
        rng = random.Random(f"{seed} {order}")  # no order depends on how many of others are drawn
        ways = _ways(siblings, order)
        for number in _draw(ways[0][order], count, rng):
            crosses.append(named(_cross(number, siblings, ways, order), SCORE, encoding))
    return crosses


def _ways(siblings: Sequence[Sequence[int]], order: int) -> list[list[int]]:
    """How many crosses of 0 to `order` fields there are, of the columns from each one on."""
    ways = [[1] + [0] * order]
    for fields in reversed(siblings):
        rest = ways[0]
        more = [n + len(fields) * fewer for fewer, n in itertools.pairwise(rest)]
        ways.insert(0, [1, *more])
    return ways


def _draw(total: int, count: int, rng: random.Random) -> list[int]:
    """Distinct numbers below `total`, by Floyd's way: one step each, whatever the total is."""
    drawn: set[int] = set()
    for last in range(max(total - count, 0), total):
        number = rng.randint(0, last)
        drawn.add(last if number in drawn else number)
    numbers = sorted(drawn)
    rng.shuffle(numbers)
    return numbers


def _cross(
    number: int, siblings: Sequence[Sequence[int]], ways: Sequence[Sequence[int]], order: int
) -> Places:
    """The cross of a number, if all of an order are counted through."""
    places = []
    for fields, rest in zip(siblings, ways[1:], strict=True):
        if number < rest[order]:  # those without this column
            continue
        number -= rest[order]
        order -= 1
        field, number = divmod(number, rest[order])
        places.append(fields[field])
        if not order:
            break
    return tuple(sorted(places))
