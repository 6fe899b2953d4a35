"""The estimators keep scikit-learn's contract."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from fives_tf.sklearn import FivesClassifier, FivesCrosses

# As little as a search can do, for the checks fit hundreds of small tables.
QUICK = {"order": 2, "bins": 5, "random_state": 0}
LITTLE = {"dim": 2, "batch": 16, "lr_epochs": 1, "search_epochs": 1, "after": "nothing"}


@parametrize_with_checks(
    [
        FivesClassifier(**QUICK, settings=LITTLE),
        FivesCrosses(2, **QUICK, settings=LITTLE),
    ]
)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)
