"""Compares the crosses of a search with those that were planted in a synthetic log."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fives_tf import storage
from fives_tf.crosses import Cross
from fives_tf.errors import UserError


@dataclass(frozen=True)
class Planted:
    """A planted cross and where it was found.

    Attributes:
        columns: Its columns.
        rank: Its place among the crosses of its order, from 1 on; None if it is not among them.
        among: How many crosses of its order there are.
    """

    columns: tuple[str, ...]
    rank: int | None
    among: int

    @property
    def name(self) -> str:
        """The name for people, such as `C1 x C3`."""
        return " x ".join(self.columns)

    @property
    def order(self) -> int:
        """The number of columns."""
        return len(self.columns)


def read_truth(path: str) -> list[tuple[str, ...]]:
    """The columns of the planted crosses, from the `truth.json` of `fives synth`."""
    try:
        return [tuple(cross["fields"]) for cross in json.loads(storage.read(path))["crosses"]]
    except (ValueError, TypeError, KeyError):
        raise UserError(
            f"{path}: is no truth.json of a synthetic log, or damaged; `fives synth` writes one."
        ) from None


def find_planted(
    planted: Sequence[tuple[str, ...]], crosses: Sequence[Cross], columns: Mapping[str, str]
) -> list[Planted]:
    """Looks for planted crosses in a list; one of any granularity of a number will do.

    Args:
        planted: The columns of each planted cross.
        crosses: The crosses that were found, each order with the best first.
        columns: The column that each field is made from.
    """
    found = []
    for names in planted:
        same_order = [cross for cross in crosses if cross.order == len(names)]
        matches = (is_planted(cross, [names], columns) for cross in same_order)
        rank = next((rank for rank, match in enumerate(matches, start=1) if match), None)
        found.append(Planted(names, rank, len(same_order)))
    return found


def is_planted(
    cross: Cross, planted: Sequence[tuple[str, ...]], columns: Mapping[str, str]
) -> bool:
    """Whether a cross is of the very columns of a planted one."""
    return {columns[field] for field in cross.fields} in map(set, planted)
