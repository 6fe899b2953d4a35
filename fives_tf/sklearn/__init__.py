"""Estimators for scikit-learn: crosses as columns, and FIVES as a classifier.

Example:
    X = FivesCrosses(random_state=0).fit(X, y).transform(X)
    FivesClassifier(random_state=0).fit(X, y).predict_proba(X)
"""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "fives_tf.sklearn needs scikit-learn; install it with `pip install fives-tf[sklearn]`."
    ) from error

from fives_tf.sklearn.classifier import FivesClassifier
from fives_tf.sklearn.crosses import FivesCrosses

__all__ = ["FivesClassifier", "FivesCrosses"]
