"""What both estimators share: parameters, checks, and the search in a temporary directory."""

import contextlib
import io
import numbers
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from fives_tf.arrow import single_batch
from fives_tf.config import SearchConfig
from fives_tf.config import settings as config_settings
from fives_tf.dataset import Dataset
from fives_tf.errors import Interrupted, UserError, nearest
from fives_tf.in_memory import read_rows, write_dataset
from fives_tf.schema import Schema
from fives_tf.scored_log import Scoring
from fives_tf.search import SearchResult, search
from fives_tf.sklearn.eager import eagerly
from fives_tf.sklearn.log import FROM_DTYPE, Cut, labelled_rows, validation_last
from fives_tf.sklearn.tables import is_frame, to_arrow

FEW_ROWS = 500  # with no more, tracing would take longer than learning


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found; its directories are gone when the block that made it ends.

    Attributes:
        classes: The two classes, sorted.
        schema: What the columns mean.
        dataset: The dataset that the table became.
        result: The result of the search.
    """

    classes: np.ndarray
    schema: Schema
    dataset: Dataset
    result: SearchResult


class FivesEstimator(BaseEstimator):
    """The search for crosses in a table with a binary target."""

    def __init__(
        self,
        *,
        order: int = 3,
        categorical_features: str | Sequence[str | int | bool] = FROM_DTYPE,
        bins: int | Sequence[int] = (10, 100),
        binning: str = "quantile",
        min_count: int | None = None,
        validation_fraction: float = 0.2,
        settings: dict[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ):
        """Takes the parameters, which are checked when it is fitted.

        Args:
            order: The highest order of crosses; no higher than the number of columns.
            categorical_features: The categorical columns: their names, their places, or a flag for
                each column. "from_dtype" takes all that are no numbers.
            bins: The numbers of buckets that numeric columns are cut into, each for one field.
            binning: How they are cut: "quantile", "width" or "log".
            min_count: Values with fewer rows share an id. None stands for 5, and for less if there
                are fewer than 1,000 rows.
            validation_fraction: The part of the rows of each class that the edges are learned on.
            settings: Settings of the search; see `fives_tf.config.SearchConfig`.
            random_state: Decides all that is drawn.
            verbose: Whether to show progress on standard error.
        """
        self.order = order
        self.categorical_features = categorical_features
        self.bins = bins
        self.binning = binning
        self.min_count = min_count
        self.validation_fraction = validation_fraction
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    @contextlib.contextmanager
    def _searched(self, X: Any, y: Any, **settings: Any) -> Iterator[Found]:
        """Searches, and lets the block take what it needs.

        Args:
            X: The table.
            y: The target, of two classes.
            **settings: Settings of the search, where the user's say nothing else.
        """
        with _as_value_errors():
            table = self._table(self._checked(X, y, reset=True))
            classes, clicks = _binary(y, type(self).__name__)
            check_consistent_length(X, clicks)
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            config = self._config(table.num_columns, seed, settings)
            if not 0 < self.validation_fraction < 1:
                raise UserError(
                    "`validation_fraction`: expected a number between 0 and 1. Received: "
                    f"{self.validation_fraction}."
                )
            order, valid = validation_last(clicks, self.validation_fraction, seed, classes)
            cut = Cut(self.categorical_features, self.bins, self.binning, self.min_count)
            schema = cut.schema(table, valid / len(order), seed)
            batch = labelled_rows(table, clicks, schema, order)
            with self._working(table.num_rows), tempfile.TemporaryDirectory() as directory:
                dataset = write_dataset(batch, schema, os.path.join(directory, "dataset"))
                result = search(dataset, os.path.join(directory, "run"), config)
                yield Found(classes, schema, dataset, result)

    def _checked(self, X: Any, y: Any = "no_validation", *, reset: bool) -> Any:
        """A table as it is, or anything else as an array of two dimensions."""
        if is_frame(X):
            validate_data(self, X, y, reset=reset, skip_check_array=True)
            if reset and self.n_features_in_ < 2:
                raise UserError("X has 1 feature(s); a cross needs two at least.")
            return X
        if y is None:
            validate_data(self, X, y, reset=reset, skip_check_array=True)  # says what is amiss
        least = 2 if reset else 1
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=None,
            ensure_all_finite=False,
            ensure_min_samples=least,
            ensure_min_features=least,
        )

    def _table(self, X: Any) -> pa.Table:
        """A table that was checked, as Arrow."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{place}" for place in range(self.n_features_in_)]
        return to_arrow(X, names)

    def _clean(self, X: Any, schema: Schema) -> pa.RecordBatch:
        """The rows of a table that was checked, as the encoding takes them."""
        with _as_value_errors():
            batch = single_batch(self._table(X))
            return read_rows(batch, schema.for_scoring(Scoring())).batch

    def _config(self, columns: int, seed: int, settings: dict[str, Any]) -> SearchConfig:
        own = dict(self.settings or {})
        for name in ("order", "seed"):
            if name in own:
                instead = {"seed": "random_state"}.get(name, name)
                raise UserError(f"`settings`: `{name}` is set by the parameter `{instead}`.")
        known = [setting.name for setting in config_settings()]
        for name in own:
            if name not in known:
                raise UserError(f"`settings`: there is no `{name}`{nearest(name, known)}")
        order = self.order
        if isinstance(order, numbers.Integral):
            order = min(int(order), columns)
        # One device: a table that fits into memory gains little from several.
        return SearchConfig(**{"strategy": "one"} | settings | own | {"order": order, "seed": seed})

    @contextlib.contextmanager
    def _working(self, rows: int) -> Iterator[None]:
        """Says nothing unless it shall, and traces nothing if the rows are few."""
        with contextlib.ExitStack() as stack:
            if not self.verbose:
                stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
            if rows <= FEW_ROWS:
                stack.enter_context(eagerly())
            yield


def _binary(y: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The two classes, sorted, and which of them each row is of, 0 or 1."""
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
    check_classification_targets(y)
    kind = type_of_target(y, input_name="y", raise_unknown=True)
    if kind != "binary":
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {kind}."
        )
    classes, clicks = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"{name} needs two classes; y has one class only, {classes[0]!r}.")
    return classes, clicks


@contextlib.contextmanager
def _as_value_errors() -> Iterator[None]:
    """Turns what the program raises into what callers of scikit-learn expect."""
    try:
        yield
    except UserError as error:
        raise ValueError(str(error)) from None
    except Interrupted as error:
        raise KeyboardInterrupt(str(error)) from None
