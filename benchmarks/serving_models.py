"""What `serving.py` measures: FIVES, its light model and a DNN, trained and exported alike.

It loads TensorFlow, so only processes of their own import it.
"""

import dataclasses
import gzip
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import harness
import numpy as np
import tensorflow as tf

import fives_tf
from fives_tf import storage
from fives_tf.bench import protocol
from fives_tf.config import SearchConfig
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.dataset import SCHEMA, Dataset
from fives_tf.encoding import to_single
from fives_tf.exported import SCHEMA as EXPORTED_SCHEMA
from fives_tf.exported import Export
from fives_tf.models.build import Facts
from fives_tf.models.dnn import DNN, HIDDEN
from fives_tf.parsing import Rows, parse_text
from fives_tf.predictor import Predictor
from fives_tf.quiet import start_xla
from fives_tf.restore import light_model
from fives_tf.serving import export
from fives_tf.serving.module import PROBABILITY, ServedModel, parameter_names
from fives_tf.serving.scorers import MeanScorer
from fives_tf.serving.signatures import name_columns, read_signatures
from fives_tf.training.batches import Batches, Source
from fives_tf.training.evaluation import Evaluator
from fives_tf.training.loop import Loop, Outcome, Schedule
from fives_tf.training.metrics import auc, log_loss
from fives_tf.training.optimizers import make_optimizer


@dataclass(frozen=True)
class Setting:
    """How a DNN learns.

    Attributes:
        embedding_rate: The learning rate of the table, which falls to 0.
        rate: That of the network, likewise.
        l2: The strength of the penalty on the table.
        dropout: The part of what each layer is given that is dropped.
        epochs: The most epochs; the best moment on validation counts.
    """

    embedding_rate: float
    rate: float
    l2: float
    dropout: float
    epochs: int


def prepare(
    directory: str,
    exports: str,
    work: str,
    config: SearchConfig,
    dim: int,
    settings: list[Setting],
) -> dict[str, Any]:
    """Trains what is not trained yet, exports all models, and tells how they came about.

    Args:
        directory: The dataset.
        exports: Where the models go, each below its name.
        work: Where the run and the checkpoints of the DNNs go.
        config: The configuration of the search.
        dim: The dimension of the DNN's embedding.
        settings: Those that are tried for the DNN.
    """
    dataset = Dataset.open(directory)
    found = fives_tf.search(dataset, storage.join(work, "run"), config, resume=True)
    light = light_model(found.run, dataset)
    start_xla()
    rivals = [_Rival(dataset, found.config, work, dim, setting) for setting in settings]
    outcomes = [rival.learn() for rival in rivals]
    aucs = [outcome.evaluation.auc for outcome in outcomes]
    chosen = aucs.index(max(aucs))
    dnn = rivals[chosen].refit(outcomes[chosen])
    export(found.run, storage.join(exports, "fives"), version=1, dataset=directory)
    export(found.run, storage.join(exports, "light"), version=1, light=True, dataset=directory)
    _export_dnn(dnn, dataset, storage.join(exports, "dnn", "1"))
    return {
        "config": harness.config_values(found.config),
        "light": {"crosses": len(light.crosses.fields)},
        "dnn": {
            "dim": dim,
            "hidden": list(HIDDEN),
            "batch": found.config.batch,
            "tried": [
                asdict(setting)
                | {"kept_epochs": rival.epochs(outcome), "valid_auc": outcome.evaluation.auc}
                for setting, rival, outcome in zip(settings, rivals, outcomes, strict=True)
            ],
            "chosen": chosen,
        },
        "valid_auc": {
            "fives": found.evaluation["auc"],
            "light": light.evaluation["auc"],
            "dnn": aucs[chosen],
        },
    }


class _Rival:
    """The way to a DNN of one setting: on train, and then as FIVES goes it on train and valid."""

    def __init__(
        self, dataset: Dataset, config: SearchConfig, work: str, dim: int, setting: Setting
    ):
        self._config, self._dim, self._setting = config, dim, setting
        # Each id has an embedding of its own, as is usual.
        plain = dataclasses.replace(config, coarse_count=0, coarse_buckets=0)
        self._facts = Facts.of(dataset, plain)
        self._source = Source(dataset, config.memory)
        self._train = Batches(self._source, ["train"], config.batch, config.seed)
        name = "-".join(f"{value:g}" for value in (dim, *asdict(setting).values()))
        self._directory = storage.join(work, "dnn", name)

    def learn(self) -> Outcome:
        """Learns from train, and finds out by validation when to stop."""
        model = self._build(self._setting.epochs * self._train.steps)
        evaluator = Evaluator(self._source, ["valid"])
        return self._loop(model, "learn", self._setting.epochs).train(
            self._train, evaluate=lambda: evaluator.evaluate(model)
        )

    def refit(self, outcome: Outcome) -> DNN:
        """Learns from train and valid together, for as many epochs; the result is not compiled."""
        epochs = self.epochs(outcome)
        both = Batches(self._source, ["train", "valid"], self._config.batch, self._config.seed)
        model = self._build(round(epochs * both.steps))
        self._loop(model, "refit", epochs).train(both)
        served = self._build(1, jit=False)
        for target, learned in zip(served.variables, model.variables, strict=True):
            target.assign(learned)
        return served

    def epochs(self, outcome: Outcome) -> float:
        """After how many epochs the best parameters were found."""
        return outcome.kept_step / self._train.steps

    def _build(self, steps: int, jit: bool | None = None) -> DNN:
        setting, facts, config = self._setting, self._facts, self._config
        return DNN(
            len(facts.fields),
            facts.frequency,
            config.batch,
            {
                "embedding": make_optimizer("lazy_adam", setting.embedding_rate, steps),
                "network": make_optimizer("adam", setting.rate, steps),
            },
            dim=self._dim,
            l2=setting.l2,
            dropout=setting.dropout,
            click_rate=facts.click_rate,
            seed=config.seed,
            jit=config.xla if jit is None else jit,
        )

    def _loop(self, model: DNN, stage: str, epochs: float) -> Loop:
        schedule = Schedule.of(self._config, epochs)
        return Loop(model, stage, self._directory, self._source, schedule)


def _export_dnn(model: DNN, dataset: Dataset, path: str) -> None:
    """Writes a DNN as `fives export` writes a model, without what only people read."""
    encoding = dataset.encoding
    none = CrossEncoding([], encoding)
    with tempfile.TemporaryDirectory() as scratch:
        served = ServedModel(
            encoding.tensorflow(scratch),
            MeanScorer([model]),
            none,
            len(encoding.fields),
        )
        tf.saved_model.save(served, path, signatures=served.signatures())
    name_columns(path, parameter_names(list(served.columns())))
    schema = storage.read(storage.join(dataset.directory, SCHEMA))
    storage.write(storage.join(path, EXPORTED_SCHEMA), schema)


def test_rows(directory: str, data: str) -> Rows:
    """The raw rows of the test split: the end of the log."""
    schema, source = Dataset.open(directory).schema, protocol.SOURCES["criteo"]
    lines = gzip.decompress(Path(data, source.files[0]).read_bytes()).splitlines(keepends=True)
    first = len(lines) - source.test
    return parse_text(b"".join(lines[first:]), schema.format.columns, schema, first, first + 1)


def judge(rows: Rows, path: str) -> dict[str, float]:
    """How good an exported model is on raw rows."""
    probability = Predictor(Export.open(path)).probability(rows.batch)
    return {"auc": auc(rows.label, probability), "log_loss": log_loss(rows.label, probability)}


def write_requests(
    rows: Rows,
    directory: str,
    exports: str,
    requests: str,
    signatures: Sequence[str],
    batches: Sequence[int],
) -> None:
    """Writes the files that `latency.c` reads, `requests/MODEL-SIGNATURE-BATCH`.

    Args:
        rows: Raw rows; those of a request are spread evenly over them.
        directory: The dataset.
        exports: The exported models.
        requests: Where the files go.
        signatures: The signatures to ask.
        batches: The numbers of rows to ask for.
    """
    dataset = Dataset.open(directory)
    for batch in batches:
        taken = rows.batch.take(np.linspace(0, rows.batch.num_rows - 1, batch).astype(np.int64))
        columns = {
            column.name: to_single(taken.column(column.name))
            if column.numeric
            else np.array(taken.column(column.name).to_pylist(), object)
            for column in dataset.schema.columns
        }
        lines = (
            dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)
        )
        inputs = {
            "serving_default": columns,
            "examples": {"inputs": np.array([_example(line) for line in lines], object)},
            "ids": {"ids": dataset.encoding.encode(taken).astype(np.int64)},
        }
        for model in storage.names(exports):
            known = read_signatures(storage.join(exports, model, "1"))
            for name in signatures:
                content = _request(known[name], inputs[name])
                storage.write(storage.join(requests, f"{model}-{name}-{batch}"), content)


def _example(row: dict[str, Any]) -> bytes:
    """A raw row; what is missing is left out."""
    features = {}
    for name, value in row.items():
        if isinstance(value, bytes):
            if value:
                features[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        elif not np.isnan(value):
            features[name] = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _request(signature: Any, inputs: dict[str, np.ndarray]) -> bytes:
    """The request that `latency.c` describes."""

    def number(*values: int) -> bytes:
        return np.array(values, np.int32).tobytes()

    def text(value: bytes) -> bytes:
        return number(len(value)) + value

    parts = [text(signature.outputs[PROBABILITY].name.encode()), number(len(inputs))]
    for name, values in inputs.items():
        info = signature.inputs[name]
        parts += [text(info.name.encode()), number(info.dtype, values.ndim, *values.shape)]
        parts += map(text, values) if values.dtype == object else [values.tobytes()]
    return b"".join(parts)
