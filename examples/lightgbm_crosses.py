"""What crosses add to LightGBM: `python examples/lightgbm_crosses.py [--csv FILE --label COLUMN]`.

Prints the test AUC of LightGBM on the columns alone, and on columns and crosses.
"""

import lightgbm
import pandas as pd
from example_log import read_arguments
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from fives_tf.sklearn import FivesCrosses


def main() -> None:
    """Fits LightGBM twice."""
    table, target, arguments = read_arguments("LightGBM without and with crosses")
    texts = table.select_dtypes(["object", "string"]).columns
    table = table.astype(dict.fromkeys(texts, "category"))
    train, test, y_train, y_test = train_test_split(table, target, test_size=0.2, random_state=0)
    print(f"columns alone: test AUC {held_out_auc(train, y_train, test, y_test):.4f}")

    crosses = FivesCrosses(arguments.crosses, random_state=0).fit(train, y_train)
    for cross in crosses.crosses_:
        print(f"  {cross.name:30}  gain {cross.gain:.6f}")
    names = [cross.name for cross in crosses.crosses_]
    train, test = (crosses.transform(part) for part in (train, test))
    figure = held_out_auc(train, y_train, test, y_test, names)
    print(f"with {len(names)} crosses: test AUC {figure:.4f}")


def held_out_auc(
    train: pd.DataFrame,
    y_train: pd.Series,
    test: pd.DataFrame,
    y_test: pd.Series,
    crosses: list[str] | None = None,
) -> float:
    """Fits LightGBM on the train rows; its AUC on the test rows.

    Args:
        train: The columns to learn from.
        y_train: Their target.
        test: The columns to judge on.
        y_test: Their target.
        crosses: The columns with ids of crosses, which are no quantities.
    """
    own = train.select_dtypes("category").columns.tolist()
    model = lightgbm.LGBMClassifier(n_estimators=200, learning_rate=0.05, verbose=-1, seed=0)
    model.fit(train, y_train, categorical_feature=[*own, *(crosses or [])])
    return roc_auc_score(y_test, model.predict_proba(test)[:, 1])


if __name__ == "__main__":
    main()
