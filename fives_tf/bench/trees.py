"""Gradient boosted trees on the raw columns of a log: rows from outside of the paper.

They learn from train and valid together, with the parameters of the protocol. Categories are given
as such, numbers as they are in the log. The values of crosses are further categories. Rare ones
share one, except for a library that can do with them; how rare is tuned.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fives_tf import storage
from fives_tf.bench import facts
from fives_tf.bench.cells import Cell, Result, Store
from fives_tf.bench.data import Data
from fives_tf.bench.methods import Trial
from fives_tf.bench.session import Session
from fives_tf.bench.summary import Runs
from fives_tf.cross_fitting import fit_crosses
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.encoding import Encoding
from fives_tf.errors import UserError
from fives_tf.schema import SPLITS
from fives_tf.splitting import TEST, Splitter

if TYPE_CHECKING:
    import pyarrow as pa

Predict = Callable[[np.ndarray], np.ndarray]

_BLOCK_BYTES = 64 << 20
_BOOSTED = {"n_estimators": 200, "learning_rate": 0.05}
_MIN_COUNTS = (2, 1, 5, 20, 100)  # the first one is what is not tuned


@dataclass(frozen=True)
class Library:
    """A library of trees.

    Attributes:
        label: Its name in tables.
        parameters: Its parameters.
        differs: Those that are others on some public data sets.
        min_counts: From how many rows on a category may be one of its own, to choose from.
        beside: A module that it loads without, but does not learn without.
    """

    label: str
    parameters: dict[str, Any]
    differs: dict[str, dict[str, Any]] = field(default_factory=dict)
    min_counts: tuple[int, ...] = (1,)
    beside: str = "sklearn"


# Statistics of rare categories are what CatBoost is made for; the others learn them by heart.
LIBRARIES = {
    "lightgbm": Library("LightGBM", _BOOSTED, min_counts=_MIN_COUNTS),
    "catboost": Library(
        "CatBoost", {"iterations": 500}, {"criteo": {"iterations": 300}}, beside="pandas"
    ),
    "xgboost": Library("XGBoost", {**_BOOSTED, "tree_method": "hist"}, min_counts=_MIN_COUNTS),
}


@dataclass(frozen=True, eq=False)
class Log:
    """The rows of a log.

    Attributes:
        columns: Their columns as numbers, [rows, columns], and the ids of crosses behind them; NaN
            where a number is missing.
        categorical: Which columns are the numbers of categories.
        label: 1 for a click, 0 for none.
        split: The number of the split that a row belongs to, in the order of `SPLITS`.
    """

    columns: np.ndarray
    categorical: list[int]
    label: np.ndarray
    split: np.ndarray


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a table.

    Attributes:
        library: One of LIBRARIES.
        crosses: The cell that crosses come from, and the crosses, by data set and seed; None for a
            row without crosses.
    """

    library: str
    crosses: dict[tuple[str, int], tuple[Cell, list[Result]]] | None = None

    def cell(self, data: Data, store: Store, min_count: int, test: bool = True) -> Cell | None:
        """A run of it, if that is done already or can be done; see `tree_cell`."""
        crosses = (None, None)
        if self.crosses is not None:
            if (data.name, data.seed) not in self.crosses:
                return None
            crosses = self.crosses[data.name, data.seed]
        cell = tree_cell(self.library, data, min_count, *crosses, test=test)
        return cell if cell in store or obstacle(self.library, data) is None else None

    def trials(self, data: Data, store: Store) -> list[Trial]:
        """What is tried."""
        return [
            ({"min_count": min_count}, self.cell(data, store, min_count, test=False))
            for min_count in LIBRARIES[self.library].min_counts
        ]


def run(session: Session, rows: dict[str, Row]) -> Runs:
    """Tunes and runs the rows of a table, as far as that is possible."""
    store = session.store
    session.choose(
        {name: lambda data, row=row: row.trials(data, store) for name, row in rows.items()}
    )
    return session.run(
        {
            name: lambda data, name=name, row=row: row.cell(
                data, store, **session.tuned[data.name, name]
            )
            for name, row in rows.items()
        }
    )


def tell_obstacles(libraries: Iterable[str]) -> None:
    """Tells which libraries cannot be used; to be called before hours of other work."""
    for library in libraries:
        why = missing(library)
        if why:
            print(f"{LIBRARIES[library].label}: {why}", file=sys.stderr, flush=True)


def obstacle(library: str, data: Data) -> str | None:
    """Why a library cannot learn from the log of a dataset; None if it can."""
    return missing(library) or (None if has_log(data) else "no log")


def missing(library: str) -> str | None:
    """Why a library cannot be used on this machine; None if it can."""
    why, beside = facts.obstacle(library), LIBRARIES[library].beside
    if why is None and (other := facts.obstacle(beside)):
        return f"{beside} is needed and {other}"
    return why


def has_log(data: Data) -> bool:
    """Whether there are files where those were that a dataset was made from."""
    inputs = Dataset.open(data.directory).manifest["inputs"]
    return bool(inputs) and all(storage.exists(one["path"]) for one in inputs)


def tree_cell(
    library: str,
    data: Data,
    min_count: int,
    crosses: Cell | None = None,
    given: list[Result] | None = None,
    test: bool = True,
) -> Cell:
    """A run of a library.

    Args:
        library: One of LIBRARIES.
        data: The data.
        min_count: From how many rows on a category is one of its own.
        crosses: Where the crosses come from, if it has any.
        given: The crosses.
        test: Whether it is judged on test, or on valid.
    """
    known = LIBRARIES[library]
    parameters = known.parameters | (known.differs.get(data.name, {}) if data.public else {})
    arguments = {"library": library, "parameters": parameters}
    if min_count > 1:
        arguments["min_count"] = min_count
    if not test:
        arguments["test"] = False
    if crosses is None:
        return Cell(data, library, fit_trees, arguments)
    what = f"{library}-{crosses.what}"
    return Cell(data, what, fit_trees, arguments | {"crosses": crosses.name}, given)


def fit_trees(
    directory: str,
    run: str,
    seed: int,
    *,
    library: str,
    parameters: dict[str, Any],
    min_count: int = 1,
    crosses: str = "",
    given: list[Result] | None = None,
    test: bool = True,
) -> Result:
    """Learns trees from train and valid and reads the test rows once; or from train, for a trial.

    Args:
        directory: The dataset directory, whose log is read.
        run: Not used.
        seed: The seed.
        library: One of LIBRARIES.
        parameters: What the library takes.
        min_count: From how many rows that it learns from on a category is one of its own.
        crosses: The name of the cell that the crosses come from.
        given: The crosses.
        test: Whether it is judged on test, or on valid.
    """
    from fives_tf.training.metrics import auc, log_loss

    candidates = [Cross(tuple(one["fields"]), one["score"]) for one in given or []]
    log = read_log(Dataset.open(directory), candidates)
    judged = log.split == SPLITS.index("test" if test else "valid")
    learned = (log.split != TEST) & ~judged
    columns = merge_rare(log, learned, min_count)
    rows = columns[learned], log.label[learned], log.categorical
    predict = _FIT[library](*rows, parameters, seed, _threads())
    label, probability = log.label[judged], predict(columns[judged])
    figures = {"auc": auc(label, probability), "log_loss": log_loss(label, probability)}
    return {
        "config": {"library": library, **parameters, "min_count": min_count},
        "valid": None if test else figures,
        "test": figures if test else None,
        "crosses_from": crosses or None,
    }


def merge_rare(log: Log, learned: np.ndarray, min_count: int) -> np.ndarray:
    """The columns of a log with one category, 0, for all that have fewer rows.

    Args:
        log: The log.
        learned: Which rows count.
        min_count: From how many of them on a category is one of its own.
    """
    if min_count == 1:
        return log.columns
    columns = log.columns.copy()
    for place in log.categorical:
        categories, number = np.unique(columns[:, place], return_inverse=True)
        kept = np.bincount(number[learned], minlength=len(categories)) >= min_count
        columns[:, place] = (np.cumsum(kept) * kept)[number]
    return columns


def read_log(dataset: Dataset, crosses: Sequence[Cross] = ()) -> Log:
    """Reads the whole log that a dataset was made from, and deals its rows out as it was done.

    Args:
        dataset: The dataset.
        crosses: Crosses of its fields, which become further columns.
    """
    import pyarrow as pa

    from fives_tf.arrow import single_batch
    from pipelines.pieces import cut_log
    from pipelines.sources import open_log, read_blocks

    _check_files(dataset)
    schema, encoding = dataset.schema, dataset.encoding
    files = open_log([one["path"] for one in dataset.manifest["inputs"]], schema)
    pieces, total = cut_log(files, schema.format, _BLOCK_BYTES, lambda done: None)
    splitter = Splitter(schema.split, total)
    batches, ids, labels, splits = [], [], [], []
    for piece in pieces:
        for block in read_blocks(piece, schema, _BLOCK_BYTES):
            rows = block.rows
            batches.append(rows.batch)
            if crosses:
                ids.append(encoding.encode(rows.batch))
            labels.append(rows.label)
            splits.append(splitter.assign(rows.number, rows.keys, piece.file.split))
    label, split = np.concatenate(labels), np.concatenate(splits)
    _check_rows(dataset, label, split)
    batch = single_batch(pa.Table.from_batches(batches).unify_dictionaries())
    columns, categorical = _numbers(batch)
    if crosses:
        own = columns.shape[1]
        further = _cross_ids(crosses, encoding, np.concatenate(ids), split != TEST)
        columns = np.column_stack([columns, further])
        categorical += range(own, columns.shape[1])
    return Log(columns, categorical, label, split)


def _threads() -> int:
    """How many threads this process may have, as OpenMP understands it."""
    outermost = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(outermost) if outermost.isdecimal() else os.cpu_count() or 1


def _check_files(dataset: Dataset) -> None:
    """Refuses other files than those that a dataset was made from, as far as their size tells."""
    for one in dataset.manifest["inputs"]:
        size = storage.size(one["path"])
        if size != one["bytes"]:
            found = "is not there" if size is None else f"has {size:,} bytes"
            raise UserError(
                f"{one['path']}: {found}, and had {one['bytes']:,} bytes when {dataset.directory} "
                "was made from it; put the file back, or preprocess the log again."
            )


def _check_rows(dataset: Dataset, label: np.ndarray, split: np.ndarray) -> None:
    """Refuses a log whose splits are not those of a dataset."""
    for number, name in enumerate(SPLITS):
        own, part = split == number, dataset.split(name)
        rows, clicks = np.count_nonzero(own), np.count_nonzero(label[own])
        if (rows, clicks) != (part.rows, part.clicks):
            raise UserError(
                f"{dataset.directory}: its log has {rows:,} {name} rows with {clicks:,} clicks, "
                f"and the dataset {part.rows:,} with {part.clicks:,}; preprocess the log again."
            )


def _cross_ids(
    crosses: Sequence[Cross], encoding: Encoding, ids: np.ndarray, learned: np.ndarray
) -> np.ndarray:
    """The ids of crosses within themselves, [rows, crosses]; values are those of learned rows."""
    fitted = fit_crosses(crosses, encoding, [ids[learned]])
    return fitted.encode(ids) - fitted.offsets


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


def _fit_lightgbm(
    columns: np.ndarray,
    label: np.ndarray,
    categorical: list[int],
    parameters: dict[str, Any],
    seed: int,
    threads: int,
) -> Predict:
    import lightgbm

    model = lightgbm.LGBMClassifier(
        **parameters, random_state=seed, n_jobs=threads, verbose=-1, deterministic=True
    )
    model.fit(columns, label, categorical_feature=categorical)
    return lambda columns: model.predict_proba(columns)[:, 1]


def _fit_xgboost(
    columns: np.ndarray,
    label: np.ndarray,
    categorical: list[int],
    parameters: dict[str, Any],
    seed: int,
    threads: int,
) -> Predict:
    import xgboost

    kinds = ["c" if column in categorical else "q" for column in range(columns.shape[1])]
    model = xgboost.XGBClassifier(
        **parameters,
        random_state=seed,
        n_jobs=threads,
        enable_categorical=True,
        feature_types=kinds,
    )
    model.fit(columns, label)
    return lambda columns: model.predict_proba(columns)[:, 1]


def _fit_catboost(
    columns: np.ndarray,
    label: np.ndarray,
    categorical: list[int],
    parameters: dict[str, Any],
    seed: int,
    threads: int,
) -> Predict:
    import catboost
    import pandas as pd

    def table(columns: np.ndarray) -> pd.DataFrame:
        # A category must not be a fraction.
        return pd.DataFrame(columns).astype(dict.fromkeys(categorical, np.int64))

    model = catboost.CatBoostClassifier(
        **parameters,
        random_seed=seed,
        thread_count=threads,
        verbose=False,
        allow_writing_files=False,
    )
    model.fit(table(columns), label, cat_features=categorical)
    return lambda columns: model.predict_proba(table(columns))[:, 1]


_FIT = {"lightgbm": _fit_lightgbm, "catboost": _fit_catboost, "xgboost": _fit_xgboost}
