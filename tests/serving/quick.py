"""Runs and exports that are made in a moment, and what the training path says of raw rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from fives_tf import search
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.dataset import Dataset
from fives_tf.light import Light
from fives_tf.parsing import parse_text
from fives_tf.restore import load_models
from fives_tf.run import LIGHT, Run
from fives_tf.schema import Schema
from fives_tf.serving.signatures import read_signatures
from pipelines import runner
from pipelines.preprocess import Options, preprocess

# Enough to learn something that differs from row to row.
SETTINGS = {
    "dim": 4,
    "batch": 1024,
    "lr_epochs": 1,
    "search_epochs": 1,
    "epochs": 1,
    "refit": False,
    "xla": False,
}
_ROWS = 4096  # that a model scores at a time

Columns = dict[str, np.ndarray]


class Scores(NamedTuple):
    """What a model says of rows: [rows], [rows, outputs] and [rows, crosses]."""

    probability: np.ndarray
    logits: np.ndarray
    crosses: np.ndarray


def make_dataset(files: Sequence[Path], schema: Schema, directory: Path) -> Dataset:
    """Preprocesses a small log."""
    options = Options(beam=runner.pipeline_options([], workers=1))
    return preprocess([str(file) for file in files], schema, str(directory), options)


def make_run(dataset: Dataset, directory: Path, **settings: object) -> Run:
    """A search that is over soon."""
    return search(dataset, directory, **SETTINGS | settings).run


def training_ids(log: bytes, columns: Sequence[str], schema: Schema, dataset: Dataset):
    """The ids of raw text without a header, by the way that leads to training."""
    rows = parse_text(log, tuple(columns), schema, 0, 1)
    assert rows.rejects == ()
    return dataset.encoding.encode(rows.batch)


class TrainingPath:
    """A run's models as they were trained: NumPy and Keras, nothing of an export's graph."""

    def __init__(self, run: Run, export: Path, light: bool):
        """Takes the crosses that an export names from its files."""
        dataset = run.dataset()
        self.encoding = dataset.encoding
        self._told = CrossEncoding.from_files(
            lambda name: (export / "assets.extra" / name).read_bytes(), self.encoding
        )
        self._models = [] if light else load_models(run, dataset)
        self._light = Light.load(str(Path(run.directory, LIGHT)), self.encoding) if light else None

    def scores(self, ids: np.ndarray) -> Scores:
        """What the models say of rows of ids."""
        crosses = self._told.encode(ids) - self._told.offsets
        if self._light is not None:
            every = np.concatenate([ids, self._light.crosses.encode(ids)], axis=1)
            logit = self._light.weights.astype(np.float64)[every].sum(axis=1) + self._light.bias
            return Scores(1 / (1 + np.exp(-logit)), logit[:, None], crosses)
        logits, probability = [], []
        for start in range(0, len(ids), _ROWS):
            block = tf.constant(ids[start : start + _ROWS], tf.int64)
            own = [model.call(block) for model in self._models]
            pairs = zip(self._models, own, strict=True)
            probability.append(np.mean([model.probability(one) for model, one in pairs], axis=0))
            logits.append(np.mean(own, axis=0))
        return Scores(np.concatenate(probability), np.concatenate(logits), crosses)

    def encode(self, columns: Columns) -> np.ndarray:
        """The ids of raw columns by the Arrow face of the encoding."""
        clean = {
            name: pa.array(values.tolist(), pa.binary()).dictionary_encode()
            if values.dtype == object
            else pa.array(values, pa.float64(), from_pandas=True)
            for name, values in columns.items()
        }
        return self.encoding.encode(pa.record_batch(clean))

    def probability(self, columns: Columns) -> np.ndarray:
        """What the models say of raw columns."""
        return self.scores(self.encode(columns)).probability


class Loaded:
    """A SavedModel in a session, fed by the names of its signatures' inputs as a server does."""

    def __init__(self, directory: Path):
        self.signatures: Mapping[str, meta_graph_pb2.SignatureDef] = read_signatures(directory)
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            tf.compat.v1.saved_model.load(self._session, ["serve"], str(directory))

    def run(self, signature: str, inputs: Columns) -> Columns:
        """The outputs by name; inputs that are left out get their defaults."""
        found = self.signatures[signature]
        feeds = {
            info.name: inputs[alias] if alias in inputs else tf.make_ndarray(found.defaults[alias])
            for alias, info in found.inputs.items()
        }
        fetches = {alias: info.name for alias, info in found.outputs.items()}
        return self._session.run(fetches, feeds)

    def probability(self, signature: str, inputs: Columns) -> np.ndarray:
        return self.run(signature, inputs)["probability"]


def raw_columns(schema: Schema, texts: Mapping[str, Sequence[str]]) -> Columns:
    """Texts of a log as a server takes them, made without the project's own parser."""
    columns = {}
    for column in schema.columns:
        values = texts[column.name]
        if column.numeric:
            columns[column.name] = np.array([_number(text) for text in values], np.float32)
        else:
            columns[column.name] = np.array([text.encode() for text in values], object)
    return columns


def serialized(columns: Columns) -> np.ndarray:
    """The rows as serialized examples; what is missing is left out."""
    names = list(columns)
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    return np.array([example(dict(zip(names, row, strict=True))) for row in rows], object)


def example(row: Mapping[str, bytes | float]) -> bytes:
    """A row as a serialized example."""
    found = tf.train.Example()
    for name, value in row.items():
        if isinstance(value, bytes) and value:
            found.features.feature[name].bytes_list.value.append(value)
        elif isinstance(value, float) and value == value:
            found.features.feature[name].float_list.value.append(value)
    return found.SerializeToString()


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
