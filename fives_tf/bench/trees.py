"""Gradient boosted trees on the raw columns of a log: rows from outside of the paper.

They learn from train and valid together, with the parameters of the protocol; nothing is tuned.
Categories are given as such, numbers as they are in the log.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fives_tf.bench.cells import Cell, Result
from fives_tf.bench.data import Data
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK_BYTES = 64 << 20
_BOOSTED = {"n_estimators": 200, "learning_rate": 0.05}


@dataclass(frozen=True)
class Library:
    """A library of trees.

    Attributes:
        label: Its name in tables.
        parameters: Its parameters.
        differs: Those that are others on some data sets.
    """

    label: str
    parameters: dict[str, Any]
    differs: dict[str, dict[str, Any]]


LIBRARIES = {
    "lightgbm": Library("LightGBM", _BOOSTED, {}),
    "catboost": Library("CatBoost", {"iterations": 500}, {"criteo": {"iterations": 300}}),
    "xgboost": Library("XGBoost", {**_BOOSTED, "tree_method": "hist"}, {}),
}


@dataclass(frozen=True, eq=False)
class Log:
    """The rows of a log.

    Attributes:
        columns: Their columns as numbers, [rows, columns]; NaN where a number is missing.
        categorical: Which columns are the numbers of categories.
        label: 1 for a click, 0 for none.
        is_test: Which rows are those of the test split.
    """

    columns: np.ndarray
    categorical: list[int]
    label: np.ndarray
    is_test: np.ndarray


def has_log(data: Data) -> bool:
    """Whether the log that a dataset was made from is still where it was."""
    inputs = Dataset.open(data.directory).manifest["inputs"]
    return bool(inputs) and all(os.path.exists(one["path"]) for one in inputs)


def tree_cell(library: str, data: Data) -> Cell:
    """A run of a library."""
    known = LIBRARIES[library]
    parameters = known.parameters | known.differs.get(data.name, {})
    return Cell(data, library, fit_trees, {"library": library, "parameters": parameters})


def fit_trees(
    directory: str, run: str, seed: int, *, library: str, parameters: dict[str, Any]
) -> Result:
    """Learns trees from train and valid, and reads the test rows once.

    Args:
        directory: The dataset directory, whose log is read.
        run: Not used.
        seed: The seed.
        library: One of LIBRARIES.
        parameters: What the library takes.
    """
    from fives_tf.training.metrics import auc, log_loss

    log = read_log(Dataset.open(directory))
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    predict = _FIT[library](log, parameters, seed, threads)
    label, probability = log.label[log.is_test], predict(log.columns[log.is_test])
    return {
        "config": {"library": library, **parameters},
        "test": {"auc": auc(label, probability), "log_loss": log_loss(label, probability)},
    }


def read_log(dataset: Dataset) -> Log:
    """Reads the whole log that a dataset was made from, and deals its rows out as it was done."""
    import pyarrow as pa

    from fives_tf.arrow import single_batch
    from fives_tf.splitting import TEST, Splitter
    from pipelines.pieces import cut_log
    from pipelines.sources import open_log, read_blocks

    schema = dataset.schema
    files = open_log([one["path"] for one in dataset.manifest["inputs"]], schema)
    pieces, total = cut_log(files, schema.format, _BLOCK_BYTES, lambda done: None)
    splitter = Splitter(schema.split, total)
    batches, labels, splits = [], [], []
    for piece in pieces:
        for block in read_blocks(piece, schema, _BLOCK_BYTES):
            rows = block.rows
            batches.append(rows.batch)
            labels.append(rows.label)
            splits.append(splitter.assign(rows.number, rows.keys, piece.file.split))
    is_test = np.concatenate(splits) == TEST
    if np.sum(is_test) != dataset.split("test").rows:
        raise UserError(
            f"{dataset.directory}: its log has {np.sum(is_test):,} test rows, and the dataset "
            f"{dataset.split('test').rows:,}; preprocess the log again."
        )
    batch = single_batch(pa.Table.from_batches(batches).unify_dictionaries())
    return Log(*_numbers(batch), np.concatenate(labels), is_test)


def _numbers(batch: "pa.RecordBatch") -> tuple[np.ndarray, list[int]]:
    import pyarrow as pa

    columns, categorical = [], []
    for index, column in enumerate(batch.columns):
        if pa.types.is_dictionary(column.type):
            columns.append(column.indices.to_numpy().astype(np.float64))
            categorical.append(index)
        else:
            columns.append(column.to_numpy(zero_copy_only=False).astype(np.float64))
    return np.column_stack(columns), categorical


def _fit_lightgbm(log: Log, parameters: dict[str, Any], seed: int, threads: int) -> Any:
    import lightgbm

    model = lightgbm.LGBMClassifier(
        **parameters, random_state=seed, n_jobs=threads, verbose=-1, deterministic=True
    )
    learned = ~log.is_test
    model.fit(log.columns[learned], log.label[learned], categorical_feature=log.categorical)
    return lambda columns: model.predict_proba(columns)[:, 1]


def _fit_xgboost(log: Log, parameters: dict[str, Any], seed: int, threads: int) -> Any:
    import xgboost

    kinds = ["c" if column in log.categorical else "q" for column in range(log.columns.shape[1])]
    model = xgboost.XGBClassifier(
        **parameters,
        random_state=seed,
        n_jobs=threads,
        enable_categorical=True,
        feature_types=kinds,
    )
    learned = ~log.is_test
    model.fit(log.columns[learned], log.label[learned])
    return lambda columns: model.predict_proba(columns)[:, 1]


def _fit_catboost(log: Log, parameters: dict[str, Any], seed: int, threads: int) -> Any:
    import catboost
    import pandas as pd

    def table(columns: np.ndarray) -> pd.DataFrame:
        # A category must not be a fraction.
        return pd.DataFrame(columns).astype(dict.fromkeys(log.categorical, np.int64))

    model = catboost.CatBoostClassifier(
        **parameters,
        random_seed=seed,
        thread_count=threads,
        verbose=False,
        allow_writing_files=False,
    )
    learned = ~log.is_test
    model.fit(table(log.columns[learned]), log.label[learned], cat_features=log.categorical)
    return lambda columns: model.predict_proba(table(columns))[:, 1]


_FIT = {"lightgbm": _fit_lightgbm, "catboost": _fit_catboost, "xgboost": _fit_xgboost}
