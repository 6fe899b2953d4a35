"""Everything that a report shows, as data: `report.json`."""

import dataclasses
import os
import shlex
from datetime import UTC, datetime
from typing import Any

from fives_tf import __version__, storage
from fives_tf.config import SearchConfig
from fives_tf.dataset import SCHEMA, Dataset
from fives_tf.describe import describe_splits
from fives_tf.report import advice, course, edges, fields, found, judged
from fives_tf.report.found import Rows
from fives_tf.report.numbers import rounded
from fives_tf.restore import rank_crosses
from fives_tf.run import CONFIG, Run
from fives_tf.search import open_source
from fives_tf.training.batches import Source
from fives_tf.training.crossing import regression_logits

VERSION = 1
SAMPLE = 200_000  # rows of a split that crosses and fields are judged on


def build(
    run: Run, dataset: Dataset, title: str | None = None, skip_corrupt: bool = False
) -> dict[str, Any]:
    """Gathers what a report shows of a search; to be called with the lock of the run held.

    Args:
        run: A search that is complete.
        dataset: Its dataset.
        title: What the report is called; by the dataset unless given.
        skip_corrupt: Whether to leave out shards that hold a corrupt record; else only if the
            search did.
    """
    config, adjacency = run.config, run.adjacency  # refuses what is no search
    skip_corrupt = skip_corrupt or config.skip_corrupt
    rank_crosses(run, dataset, skip_corrupt)
    source = open_source(dataset, config.memory, skip_corrupt)
    models = judged.judge(run, dataset, source)
    train, valid = (_rows(source, split, models) for split in ("train", "valid"))
    later = source.arrays("test", SAMPLE)[0] if models.split == "test" else None
    arrays = (train.ids, train.label), (valid.ids, valid.label)
    of_fields = fields.judge(dataset, *arrays, later)
    shown = found.select(run.crosses, models.crosses)
    return {
        "version": VERSION,
        "written_by": f"fives-tf {__version__}",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": title or _title(dataset),
        "headline": _headline(run, dataset, models),
        "crosses": found.judge(shown, dataset.encoding, train, valid, models.crosses),
        "adjacency": edges.adjacency_part(adjacency),
        "history": course.history(run, adjacency),
        "curves": course.curves(run),
        "layers": {"split": models.split, "auc": rounded(models.layers)},
        "scatter": edges.scatter(adjacency, *arrays),
        "data": {"fields": of_fields, "rejected": dataset.manifest["rejected"]},
        "warnings": advice.find(dataset, of_fields, train.ids, models.split),
        "reproduce": _reproduce(run, dataset, config),
    }


def _title(dataset: Dataset) -> str:
    path = _from_here(dataset.directory)
    return os.path.basename(path.rstrip("/")) if os.path.isabs(path) else path


def _from_here(path: str) -> str:
    """A path as one would write it here; whoever a report is sent to need not know more."""
    if storage.is_remote(path):
        return path
    path = os.path.abspath(path)
    near = os.path.relpath(path)
    return path if near.startswith(os.pardir) else near


def _rows(source: Source, split: str, models: judged.Judged) -> Rows:
    ids, label = source.arrays(split, SAMPLE)
    return Rows(ids, label, regression_logits(models.base, ids))


def _headline(run: Run, dataset: Dataset, models: judged.Judged) -> dict[str, Any]:
    encoding = dataset.encoding
    return {
        "dataset": _from_here(dataset.directory),
        "run": _from_here(run.directory),
        "columns": len({field.column for field in encoding.fields}),
        "fields": len(encoding.fields),
        "ids": encoding.size,
        "splits": rounded(describe_splits(dataset)),
        "judged_on": models.split,
        "models": models.models,
        "crosses_used": len(models.crosses),
        "calibration": models.calibration,
    }


def _reproduce(run: Run, dataset: Dataset, config: SearchConfig) -> dict[str, Any]:
    values = dataclasses.asdict(config)
    defaults = dataclasses.asdict(SearchConfig().resolve(dataset.split("train").rows))
    inputs = [_from_here(one["path"]) for one in dataset.manifest["inputs"]]
    made, into = _from_here(dataset.directory), _from_here(run.directory)
    schema, settings = storage.join(made, SCHEMA), storage.join(into, CONFIG)
    preprocess = [*inputs, "--schema", schema, "--out", f"{made}-again"]
    search = [f"{made}-again", "--run", f"{into}-again", "--config", settings]
    durations = course.durations(run)
    return {
        "config": values,
        "changed": {name: value for name, value in values.items() if value != defaults[name]},
        "versions": run.manifest.get("versions", {}),
        "durations": durations,
        "seconds": round(sum(one["seconds"] for one in durations), 1) or run.manifest["seconds"],
        "commands": [
            shlex.join(["fives", "preprocess", *preprocess]),
            shlex.join(["fives", "search", *search]),
        ],
    }
