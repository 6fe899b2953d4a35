"""Other ways than FIVES to choose crosses: at random, by mutual information, and by AutoCross.

All of them give the same kind of list, which `fives fit`, `fives materialize` and the rest take as
they take the crosses of a search.
"""

import dataclasses
import os
import tempfile
from typing import TYPE_CHECKING

from fives_tf.errors import UserError

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from fives_tf.crosses import Cross
    from fives_tf.dataset import Dataset
    from fives_tf.training.batches import Source

METHODS = ("random", "cmi", "autocross")


def generate(
    dataset: "str | os.PathLike | Dataset",
    method: str,
    *,
    count: int = 20,
    order: int = 2,
    seed: int = 0,
    memory: int = 2 << 30,
    beam: "PipelineOptions | None" = None,
    beside: str | None = None,
) -> "list[Cross]":
    """Chooses crosses of the fields of a dataset.

    Args:
        dataset: A dataset directory.
        method: `random`, `cmi` or `autocross`; each has a module of its own here.
        count: How many crosses: of each order, or, by `autocross`, in all.
        order: Their highest order.
        seed: Decides what `random` draws, and in which order `autocross` takes the rows.
        memory: Bytes up to which all rows are held in memory; above, `cmi` counts through Beam.
        beam: Options for Beam, by which `cmi` counts in any case then.
        beside: A path that Beam's workers can write next to; the dataset's unless set.

    Returns:
        The crosses, best first: of `random` and `cmi` each order for itself, by rising order.
    """
    from fives_tf.config import SearchConfig
    from fives_tf.search import check_dataset, open_dataset, open_source

    if method not in METHODS:
        raise UserError(f"`method`: expected {', '.join(METHODS)}. Received: {method}.")
    for name, value, least in (("count", count, 1), ("seed", seed, 0), ("memory", memory, 0)):
        if value < least:
            raise UserError(f"`{name}`: expected at least {least}. Received: {value}.")
    if beam is not None and method != "cmi":
        raise UserError(f"a runner of Beam is for cmi; {method} does without.")
    dataset = open_dataset(dataset)
    check_dataset(dataset, SearchConfig(order=order))
    encoding = dataset.encoding
    if method == "random":
        from fives_tf.generators.random import random_crosses

        return random_crosses(encoding, dict.fromkeys(range(2, order + 1), count), seed)
    source = open_source(dataset, memory, skip_corrupt=False)
    if method == "autocross":
        return _autocross(source, count, order, seed)
    from fives_tf.generators.cmi import cmi_crosses, scores_in_memory

    if beam is None and source.held:
        score = scores_in_memory(encoding, *source.arrays("train"))
    else:
        from pipelines import runner
        from pipelines.count_labels import scores_by_beam

        options = beam or runner.pipeline_options([])
        score = scores_by_beam(dataset, options, beside or dataset.directory.rstrip("/"))
    return cmi_crosses(encoding, score, count, order)


def _autocross(source: "Source", count: int, order: int, seed: int) -> "list[Cross]":
    """Learns the regression on the fields that AutoCross starts from, and searches."""
    from fives_tf.config import FitConfig
    from fives_tf.generators.autocross import autocross_crosses, divided, rows_to_read
    from fives_tf.models.build import Facts, first_order
    from fives_tf.search import working
    from fives_tf.training.regression import fit_regression

    dataset, most = source.dataset, rows_to_read(source.dataset.encoding)
    learned, judge = divided(source.arrays("train", most), seed)
    # The rows that decide must be as new to the regression as they are to the crosses.
    part = source.holding({"train": learned, "valid": source.arrays("valid", most)})
    with tempfile.TemporaryDirectory() as directory:
        config = FitConfig(model="lr", seed=seed, strategy="one", xla=False)
        with working(directory, config):
            config = config.resolve(len(learned[1]))
            # A penalty stands beside the loss of the rows that are learned from.
            facts = dataclasses.replace(Facts.of(dataset, config), rows=len(learned[1]))
            model, _ = fit_regression(config, facts, part, directory)
            fitted = first_order(model)
    rows = (
        (ids, label, fitted.weights[ids].sum(axis=1) + fitted.bias)
        for ids, label in (learned, judge)
    )
    return autocross_crosses(dataset.encoding, *rows, count, order, seed)
