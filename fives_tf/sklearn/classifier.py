"""FIVES as a classifier."""

from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fives_tf.serving.scorers import MeanScorer, Scorer
from fives_tf.sklearn.base import FivesEstimator
from fives_tf.sklearn.eager import eagerly
from fives_tf.sklearn.kept import KeptRun

BLOCK = 4096  # rows that go through the network at a time


class FivesClassifier(ClassifierMixin, FivesEstimator):
    """FIVES on a table with a binary target: searches crosses and predicts with them.

    Example:
        model = FivesClassifier(random_state=0).fit(X, y)
        model.predict_proba(X)[:, 1]

    Attributes:
        classes_: The two labels, sorted; the second one is the positive class.
        crosses_: The crosses of the search, by order and falling score.
        fields_: The names of the fields that they are made of.
        adjacency_: The adjacency tensor, [K - 1, fields, fields]; slice k - 1 is layer k.
        n_features_in_: The number of columns of X.
        feature_names_in_: Their names, if they have names.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> "FivesClassifier":
        """Searches crosses and learns a network with them.

        Args:
            X: A table of pandas, polars or pyarrow, or an array; NaN and None are missing values.
            y: The target, of two classes.
        """
        with self._searched(X, y) as found:
            adjacency = found.result.adjacency
            self.classes_, self._schema = found.classes, found.schema
            self.fields_, self.adjacency_ = adjacency.fields, adjacency.soft
            self.crosses_ = found.result.crosses
            self._kept = KeptRun.of(found.result.run, found.dataset)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of both classes, [rows, 2].

        Args:
            X: A table with the columns that it was fitted on.
        """
        check_is_fitted(self)
        batch = self._clean(self._checked(X, reset=False), self._schema)
        ids = self._kept.encoding.encode(batch)
        blocks = (ids[start : start + BLOCK] for start in range(0, len(ids), BLOCK))
        with eagerly():
            scorer = MeanScorer(self._kept.models)
            scores = [_score(scorer, block) for block in blocks]
        positive = np.concatenate([np.empty(0), *scores])
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row, the one that is more probable.

        Args:
            X: A table with the columns that it was fitted on.
        """
        check_is_fitted(self)
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]


def _score(scorer: Scorer, ids: np.ndarray) -> np.ndarray:
    """The probability of the second class.

    Rows are filled up to blocks of one size, so that a row has the same probability in any company,
    to the last bit.
    """
    filled = np.pad(ids, ((0, BLOCK - len(ids)), (0, 0)), mode="edge")
    return scorer(tf.constant(filled)).probability.numpy()[: len(ids)].astype(np.float64)
