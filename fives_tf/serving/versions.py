"""Writes a version of a model as TensorFlow Serving expects it: whole, or not at all."""

import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from fives_tf import crosses as crosses_format
from fives_tf import storage
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.cross_fitting import fit_crosses
from fives_tf.crosses import Cross, best_of_orders
from fives_tf.dataset import SCHEMA, Dataset
from fives_tf.encoding import Encoding
from fives_tf.exported import MODEL, Export, check_base, next_version, versions
from fives_tf.fitted import load_fitted
from fives_tf.restore import light_model, load_models, weighed_crosses
from fives_tf.run import ADJACENCY, CROSSES, FIT, SEARCH, Run
from fives_tf.search import open_source
from fives_tf.serving.card import FIVES, LIGHT, MODEL_CARD, card_files, model_card
from fives_tf.serving.module import ServedModel, parameter_names
from fives_tf.serving.scorers import LightScorer, MeanScorer, Scorer
from fives_tf.serving.signatures import name_columns
from fives_tf.serving.warmup import FILE as WARMUP
from fives_tf.serving.warmup import write_warmup
from fives_tf.training.crossing import SAMPLE
from fives_tf.training.strategy import tell

EXTRA = "assets.extra"
LOCK = "lock"
_BROKEN_OFF = re.compile(rf"\d+\.\w+{re.escape(storage.ASIDE)}")
TOLD_CROSSES = 10  # of each order, whose ids FIVES tells


def export(
    run: str | os.PathLike | Run,
    to: str | os.PathLike,
    *,
    version: int | None = None,
    light: bool = False,
    dataset: str | os.PathLike | None = None,
) -> Export:
    """Writes the model of a run as a SavedModel, as the next version of a served model.

    Args:
        run: A run that is complete.
        to: The directory of the versions; TensorFlow Serving's base path.
        version: The number of the version; the next free one unless given.
        light: Whether to export the light model, which is learned if it is not yet, in place of
            FIVES.
        dataset: Where the dataset of the run is now, if it moved.
    """
    run = run if isinstance(run, Run) else Run.open(os.fspath(run))
    opened = run.dataset(os.fspath(dataset) if dataset is not None else None)
    base = os.fspath(to)
    check_base(base, version)
    model = _model(run, opened, light)
    with storage.lock(storage.join(base, LOCK)):
        _remove_broken_off(base)
        check_base(base, version)
        number = next_version(base) if version is None else version
        path = storage.join(base, str(number))
        with storage.create_directory(path, last=MODEL) as directory:
            _write(model, run, opened, Path(directory))
    return Export.open(path)


def find_export(run: Run, base: str, light: bool) -> Export | None:
    """The version, if there is one, that the model of a run was exported as."""
    adjacency = storage.read(storage.join(run.directory, ADJACENCY))
    for number in reversed(versions(base)):
        extra = storage.join(base, str(number), EXTRA)
        if not storage.exists(storage.join(extra, MODEL_CARD)):  # another program's
            continue
        card = json.loads(storage.read(storage.join(extra, MODEL_CARD)))
        if card["model"] != (LIGHT if light else FIVES):
            continue
        own = storage.join(extra, ADJACENCY)
        if storage.exists(own) and storage.read(own) == adjacency:  # a fit has none
            return Export.open(storage.join(base, str(number)))
    return None


@dataclass(frozen=True, eq=False)
class _Model:
    """What is to be exported.

    Attributes:
        kind: FIVES, LIGHT, or the model of a fit.
        encoding: The encoding of raw columns.
        scorer: The model.
        crosses: The crosses whose ids are told.
        evaluation: The figures on validation.
    """

    kind: str
    encoding: Encoding
    scorer: Scorer
    crosses: CrossEncoding
    evaluation: dict[str, Any]


def _model(run: Run, dataset: Dataset, light: bool) -> _Model:
    if light or (run.kind == FIT and run.config.model == "lr"):
        return _light(run, dataset)
    return _fitted(run, dataset) if run.kind == FIT else _fives(run, dataset)


def _fitted(run: Run, dataset: Dataset) -> _Model:
    model, crosses = load_fitted(run, dataset, xla=False, rows_have_crosses=False)
    kind, evaluation = run.config.model, run.manifest["evaluation"]
    return _Model(kind, dataset.encoding, MeanScorer([model]), crosses, evaluation)


def _fives(run: Run, dataset: Dataset) -> _Model:
    encoding = dataset.encoding
    weighed = weighed_crosses(run, encoding)
    models = load_models(run, dataset, xla=False, crosses=weighed)  # a server may lack XLA
    told = weighed or _best_crosses(run, dataset, encoding)
    return _Model(FIVES, encoding, MeanScorer(models), told, run.manifest["evaluation"])


def _light(run: Run, dataset: Dataset) -> _Model:
    encoding, light = dataset.encoding, light_model(run, dataset)
    return _Model(LIGHT, encoding, LightScorer(light), light.crosses, light.evaluation)


def _best_crosses(run: Run, dataset: Dataset, encoding: Encoding) -> CrossEncoding:
    """The best crosses of the search, whose ids a model without weights for crosses tells."""
    config = run.config
    source = open_source(dataset, config.memory, config.skip_corrupt)
    rows = [source.arrays(split, SAMPLE)[0] for split in ("train", "valid")]
    return fit_crosses(best_of_orders(run.edge_crosses(), TOLD_CROSSES), encoding, rows)


def _remove_broken_off(base: str) -> None:
    """Removes what killed exports left; what others write aside in the same place stays."""
    for name in storage.names(base):
        if _BROKEN_OFF.fullmatch(name):
            storage.remove(storage.join(base, name))


def _write(model: _Model, run: Run, dataset: Dataset, directory: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        served = ServedModel(
            model.encoding.tensorflow(scratch),
            model.scorer,
            model.crosses,
            len(model.encoding.fields),
            dataset.schema.format.trim,
        )
        tf.saved_model.save(served, str(directory), signatures=served.signatures())
    name_columns(directory, parameter_names(list(served.columns())))
    learned = [variable for variable in served.parameters if variable.dtype.is_floating]
    numbers = sum(int(np.prod(variable.shape)) for variable in learned)
    told = [field.cross for field in model.crosses.fields]
    files = {
        CROSSES: _crosses_json(model.kind, told, run),
        SCHEMA: storage.read(storage.join(dataset.directory, SCHEMA)),
        **model.crosses.to_files(),
        **card_files(
            model_card(model.kind, run, dataset, model.encoding, told, model.evaluation, numbers)
        ),
    }
    if run.kind == SEARCH:
        files[ADJACENCY] = storage.read(storage.join(run.directory, ADJACENCY))
    for name, content in files.items():
        storage.write(str(directory / EXTRA / name), content)
    source = open_source(dataset, run.config.memory, run.config.skip_corrupt)
    if not write_warmup(directory / EXTRA / WARMUP, FIVES, source, model.encoding):
        tell("no warm-up requests: they need `pip install fives-tf[serving]`")


def _crosses_json(kind: str, told: list[Cross], run: Run) -> bytes:
    """The crosses of the run; of a light model those that it has weights for."""
    return crosses_format.to_json(told if kind == LIGHT else run.crosses)
