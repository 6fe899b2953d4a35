"""What cells compute with TensorFlow: searches, fits, lists of crosses, and figures of edges."""

import random
from collections import Counter
from typing import Any

import yaml

from fives_tf.config import Config, FitConfig, SearchConfig, read_settings

Result = dict[str, Any]


def search(directory: str, run: str, seed: int, *, config: Result, test: bool) -> Result:
    """A search: its figures, its adjacency tensor, and the short list of its crosses.

    Args:
        directory: The dataset directory.
        run: The run directory, in which a search that was stopped goes on.
        seed: The seed.
        config: The settings, as `config.yaml` has them.
        test: Whether to read the test split, once, when the search is complete.
    """
    import fives_tf
    from fives_tf.crosses import best_of_orders
    from fives_tf.training.crossing import SHORT_LIST

    found = fives_tf.search(directory, run, make_config(SearchConfig, config, seed), resume=True)
    adjacency = found.adjacency
    return {
        **_figures(found, config, test, "search"),
        "crosses": _plain(best_of_orders(found.crosses, SHORT_LIST)),
        "adjacency": {
            "fields": adjacency.fields.tolist(),
            "columns": adjacency.columns.tolist(),
            "soft": adjacency.soft.round(5).tolist(),
            "strength": adjacency.strength.round(5).tolist(),
        },
    }


def fit(
    directory: str,
    run: str,
    seed: int,
    *,
    config: Result,
    test: bool,
    crosses: str = "",
    given: list[Result] | None = None,
) -> Result:
    """A fit, with crosses or without.

    Args:
        directory: The dataset directory.
        run: The run directory, in which a fit that was stopped goes on.
        seed: The seed.
        config: The settings, as `config.yaml` has them.
        test: Whether to read the test split, once, when the fit is complete.
        crosses: The name of the cell that the crosses come from.
        given: The crosses.
    """
    import fives_tf
    from fives_tf.crosses import Cross

    candidates = [Cross(tuple(one["fields"]), one["score"]) for one in given or []]
    settings = make_config(FitConfig, config, seed)
    found = fives_tf.fit(directory, run, settings, crosses=candidates, resume=True)
    orders = Counter(cross.order for cross in found.crosses)
    return {
        **_figures(found, config, test, "lr" if settings.model == "lr" else "fit"),
        "chosen": {str(order): count for order, count in sorted(orders.items())},
        "crosses": _plain(found.crosses),
        "crosses_from": crosses or None,
    }


def generate(directory: str, run: str, seed: int, *, method: str, count: int, order: int) -> Result:
    """Crosses that another way than FIVES chooses, in its own order.

    Args:
        directory: The dataset directory.
        run: Not used.
        seed: The seed.
        method: One of `fives_tf.generators.METHODS`.
        count: How many crosses; see `fives_tf.generators.generate`.
        order: Their highest order.
    """
    from fives_tf.generators import generate

    return {"crosses": _plain(generate(directory, method, count=count, order=order, seed=seed))}


def draw(directory: str, run: str, seed: int, *, counts: dict[str, int]) -> Result:
    """Crosses at random, in no order.

    Args:
        directory: The dataset directory.
        run: Not used.
        seed: The seed.
        counts: How many crosses of each order.
    """
    from fives_tf.dataset import Dataset
    from fives_tf.generators.random import random_crosses

    numbers = {int(order): count for order, count in counts.items()}
    drawn = random_crosses(Dataset.open(directory).encoding, numbers, seed)
    random.Random(seed).shuffle(drawn)  # they come by rising order, which would be a ranking
    return {"crosses": _plain(drawn)}


def edge_figures(directory: str, run: str, seed: int, *, search: str, given: Result) -> Result:
    """For each entry of an adjacency tensor, how well the cross that it indicates ranks alone.

    Args:
        directory: The dataset directory.
        run: Not used.
        seed: Not used.
        search: The name of the search's cell.
        given: The adjacency tensor.
    """
    import numpy as np

    from fives_tf.dataset import Dataset
    from fives_tf.edges import indicated, indicated_crosses
    from fives_tf.training.batches import Source
    from fives_tf.training.crossing import SAMPLE

    soft, strength = np.array(given["soft"]), np.array(given["strength"])
    entries = indicated(strength, given["columns"])
    source = Source(Dataset.open(directory))
    rows = (source.arrays(split, SAMPLE) for split in ("train", "valid"))
    crosses = indicated_crosses(entries, given["fields"], *rows)
    return {
        "points": [
            {
                "layer": layer + 1,
                "soft": float(soft[layer, start, end]),
                "strength": float(strength[layer, start, end]),
                "auc": cross.auc,
            }
            for ((layer, start, end), _), cross in zip(entries, crosses, strict=True)
        ]
    }


def _figures(found: Any, config: Result, test: bool, stage: str) -> Result:
    """The figures of a finished run, its configuration, and the AUC by step on the way."""
    from fives_tf.evaluate import evaluate
    from fives_tf.training import journal

    records = journal.read(found.run.directory)
    return {
        "config": config,
        "valid": _both(found.evaluation),
        "test": _both(evaluate(found.run, "test").to_json()) if test else None,
        "curve": [[one["step"], one["auc"]] for one in records if _tells(one, stage)],
    }


def _tells(record: Result, stage: str) -> bool:
    return record["stage"] == stage and record.get("auc") is not None


def _both(figures: Result) -> Result:
    return {name: figures[name] for name in ("auc", "log_loss")}


def _plain(crosses: Any) -> list[Result]:
    return [{"fields": list(cross.fields), "score": cross.score} for cross in crosses]


def make_config(kind: type[Config], values: Result, seed: int) -> Any:
    """A configuration of the settings that `config.yaml` has."""
    text = yaml.safe_dump(values | {"seed": seed})
    return kind(**read_settings(text, "settings", kind))
