"""Crosses as columns for any other model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import ClassifierTags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from fives_tf.cross_fitting import fit_crosses
from fives_tf.cross_values import cross_values
from fives_tf.crosses import Cross
from fives_tf.errors import UserError
from fives_tf.models.build import Facts
from fives_tf.search import open_source
from fives_tf.sklearn.base import FivesEstimator, Found
from fives_tf.sklearn.log import FROM_DTYPE
from fives_tf.sklearn.tables import append
from fives_tf.training.crossing import Crossing

AUTO = "auto"
VALUES = ("ids", "text")


class FivesCrosses(TransformerMixin, FivesEstimator):
    """Finds the useful crosses of a table with a binary target, and appends them as columns.

    Example:
        crosses = FivesCrosses(n_crosses=10, random_state=0).fit(X, y)
        crosses.transform(X)  # X, and ten columns more

    Attributes:
        crosses_: The crosses, by falling gain on held-out rows.
        fields_: The names of the fields that they are made of.
        adjacency_: The adjacency tensor, [K - 1, fields, fields]; slice k - 1 is layer k.
        n_features_in_: The number of columns of X.
        feature_names_in_: Their names, if they have names.
    """

    def __init__(
        self,
        n_crosses: int | str = AUTO,
        *,
        values: str = "ids",
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
            n_crosses: How many crosses to take, those of the greatest gain; or "auto", for as many
                as are best for a logistic regression on held-out rows, which may be none.
            values: What the new columns hold. "ids" are integers: 0 if all fields of the cross are
                missing, 1 for what is rare or new, from 2 on the combinations by falling count.
                "text" is what `fives crosses --format sql` computes.
            order: See `FivesEstimator`.
            categorical_features: See `FivesEstimator`.
            bins: See `FivesEstimator`.
            binning: See `FivesEstimator`.
            min_count: See `FivesEstimator`.
            validation_fraction: See `FivesEstimator`.
            settings: See `FivesEstimator`.
            random_state: See `FivesEstimator`.
            verbose: See `FivesEstimator`.
        """
        super().__init__(
            order=order,
            categorical_features=categorical_features,
            bins=bins,
            binning=binning,
            min_count=min_count,
            validation_fraction=validation_fraction,
            settings=settings,
            random_state=random_state,
            verbose=verbose,
        )
        self.n_crosses = n_crosses
        self.values = values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)  # of the target
        return tags

    def fit(self, X: Any, y: Any) -> "FivesCrosses":
        """Searches the crosses.

        Args:
            X: A table of pandas, polars or pyarrow, or an array; NaN and None are missing values.
            y: The target, of two classes.
        """
        self._check_parameters()
        with self._searched(X, y, after="nothing") as found:
            crosses = self._choose(found)
            self._check_names(crosses)
            encoding, adjacency = found.dataset.encoding, found.result.adjacency
            source = open_source(found.dataset, found.result.config.memory, False)
            rows = [source.arrays(split)[0] for split in ("train", "valid")]
            self._ids = fit_crosses(crosses, encoding, rows)
            self._encoding, self._schema = encoding, found.schema
            self.crosses_ = crosses
            self.fields_, self.adjacency_ = adjacency.fields, adjacency.soft
        return self

    def transform(self, X: Any) -> Any:
        """The table with a column for each cross behind its own, in a container of the same kind.

        Args:
            X: A table with the columns that it was fitted on.
        """
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        batch = self._clean(X, self._schema)
        if self.values == "ids":
            own = self._ids.encode(self._encoding.encode(batch)) - self._ids.offsets
            columns = list(own.astype(np.int32).T)
        else:
            columns = cross_values(batch, self.crosses_, self._encoding)
        return append(X, columns, [cross.name for cross in self.crosses_])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns that `transform` gives.

        Args:
            input_features: The names of the columns of X, if they are not known.
        """
        check_is_fitted(self)
        own = _check_feature_names_in(self, input_features)
        return np.array([*own, *(cross.name for cross in self.crosses_)], object)

    def _check_parameters(self) -> None:
        if self.values not in VALUES:
            raise ValueError(
                f"`values`: expected one of {', '.join(VALUES)}. Received: {self.values!r}."
            )
        is_number = isinstance(self.n_crosses, int | np.integer) and self.n_crosses >= 1
        if self.n_crosses != AUTO and not is_number:
            raise ValueError(
                f"`n_crosses`: expected a whole number from 1, or {AUTO!r}. Received: "
                f"{self.n_crosses!r}."
            )

    def _check_names(self, crosses: Sequence[Cross]) -> None:
        own = set(getattr(self, "feature_names_in_", ()))
        taken = [cross.name for cross in crosses if cross.name in own]
        if taken:
            raise UserError(
                f"X has a column `{taken[0]}`, which is the name of a cross; rename it."
            )

    def _choose(self, found: Found) -> list[Cross]:
        """The crosses to take, the greatest gain first."""
        config, dataset, run = found.result.config, found.dataset, found.result.run
        source = open_source(dataset, config.memory, False)
        facts = Facts.of(dataset, config)
        crossing = Crossing(config, facts, dataset.encoding, source, run.directory)
        if self.n_crosses == AUTO:
            chosen = crossing.choose(found.result.crosses)
            return [field.cross for field in chosen.crosses.fields]
        return crossing.rank(found.result.crosses, self.n_crosses)[: self.n_crosses]
