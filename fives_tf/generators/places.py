"""Crosses as the places of their fields in a dataset, which is how generators handle them."""

from collections.abc import Iterable, Sequence

from fives_tf.crosses import Cross
from fives_tf.encoding import Encoding

Places = tuple[int, ...]
"""The places of the fields of a cross, rising."""


def single_fields(encoding: Encoding) -> list[Places]:
    """The fields of an encoding, each for itself."""
    return [(place,) for place in range(len(encoding.fields))]


def unions(ones: Iterable[Places], others: Iterable[Places], encoding: Encoding) -> list[Places]:
    """The crosses of all fields that one of the first and one of the second have together.

    Each is there once, by rising order and then in the order of the fields. Fields of one column
    are never crossed.

    Args:
        ones: Fields and crosses.
        others: The same, to put them together with.
        encoding: The encoding of the fields.
    """
    columns, others = [field.column for field in encoding.fields], list(others)
    found = {tuple(sorted({*one, *other})) for one in ones for other in others}
    apart = (cross for cross in found if len({columns[place] for place in cross}) == len(cross))
    return sorted((cross for cross in apart if len(cross) > 1), key=lambda c: (len(c), c))


def named(places: Sequence[int], score: float, encoding: Encoding) -> Cross:
    """The cross of the fields at some places."""
    return Cross(tuple(encoding.fields[place].name for place in sorted(places)), float(score))
