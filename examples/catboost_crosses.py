"""What crosses add to CatBoost: `python examples/catboost_crosses.py [--csv FILE --label COLUMN]`.

Prints the test AUC of CatBoost on the columns alone, and on columns and crosses.
"""

import pandas as pd
from catboost import CatBoostClassifier
from example_log import read_arguments
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from fives_tf.sklearn import FivesCrosses


def main() -> None:
    """Fits CatBoost twice."""
    table, target, arguments = read_arguments("CatBoost without and with crosses")
    texts = table.select_dtypes(["object", "string"]).columns.tolist()
    table[texts] = table[texts].fillna("")  # CatBoost takes no missing categories
    train, test, y_train, y_test = train_test_split(table, target, test_size=0.2, random_state=0)
    print(f"columns alone: test AUC {held_out_auc(train, y_train, test, y_test, texts):.4f}")

    crosses = FivesCrosses(arguments.crosses, random_state=0).fit(train, y_train)
    for cross in crosses.crosses_:
        print(f"  {cross.name:30}  gain {cross.gain:.6f}")
    names = [cross.name for cross in crosses.crosses_]
    train, test = (crosses.transform(part) for part in (train, test))
    figure = held_out_auc(train, y_train, test, y_test, [*texts, *names])
    print(f"with {len(names)} crosses: test AUC {figure:.4f}")


def held_out_auc(
    train: pd.DataFrame,
    y_train: pd.Series,
    test: pd.DataFrame,
    y_test: pd.Series,
    categorical: list[str],
) -> float:
    """Fits CatBoost on the train rows; its AUC on the test rows.

    Args:
        train: The columns to learn from.
        y_train: Their target.
        test: The columns to judge on.
        y_test: Their target.
        categorical: The columns that are no quantities, ids of crosses among them.
    """
    model = CatBoostClassifier(
        iterations=200,
        cat_features=categorical,
        random_seed=0,
        verbose=False,
        allow_writing_files=False,
    )
    model.fit(train, y_train)
    return roc_auc_score(y_test, model.predict_proba(test)[:, 1])


if __name__ == "__main__":
    main()
