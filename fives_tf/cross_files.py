"""Crosses of a `crosses.json`, such as `fives generate` writes, and the dataset of their fields."""

from typing import TYPE_CHECKING

from fives_tf import storage
from fives_tf.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fives_tf.crosses import Cross
    from fives_tf.dataset import Dataset


def read_crosses(path: str) -> "list[Cross]":
    """The crosses of a file, one at least."""
    from fives_tf.crosses import from_json

    crosses = from_json(storage.read(path), path)
    _refuse_none(crosses, path)
    return crosses


def named_dataset(directory: str | None) -> "Dataset":
    """The dataset that --dataset names, which a file of crosses does not know."""
    from fives_tf.dataset import Dataset

    if directory is None:
        raise UserError("--dataset: name the dataset whose fields the crosses are made of.")
    return Dataset.open(directory)


def check_crosses(crosses: "Sequence[Cross]", path: str, dataset: "Dataset") -> None:
    """Refuses no crosses, and crosses of fields that a dataset does not have.

    Args:
        crosses: The crosses.
        path: Where they are from, for messages.
        dataset: The dataset.
    """
    from fives_tf.crosses import check_fields

    _refuse_none(crosses, path)
    try:
        check_fields(crosses, [field.name for field in dataset.encoding.fields])
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _refuse_none(crosses: "Sequence[Cross]", path: str) -> None:
    if not crosses:
        raise UserError(f"{path}: has no crosses.")
