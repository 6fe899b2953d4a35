"""What the paper reports: figures to print beside one's own.

Its splits of the data are not known, and its Criteo is the whole of it, where that of the protocol
is a sample; so these are a yardstick, not the same work.
"""

from fives_tf.bench.data import Data

DATASETS = ("employee", "bank", "adult", "credit", "criteo")


def _row(*figures: float) -> dict[str, float]:
    return dict(zip(DATASETS, figures, strict=True))


# Table 2: test AUC.
AUC = {
    "lr": _row(0.8353, 0.9377, 0.8836, 0.8262, 0.7898),
    "dnn": _row(0.8510, 0.9435, 0.8869, 0.8292, 0.7779),
    "fm": _row(0.8473, 0.9434, 0.8847, 0.8278, 0.7836),
    "wide_deep": _row(0.8484, 0.9416, 0.8870, 0.8299, 0.7710),
    "autoint": _row(0.8397, 0.9393, 0.8869, 0.8301, 0.7993),
    "fignn": _row(0.8260, 0.9417, 0.8813, 0.8276, 0.7964),
    "autofis": _row(0.8454, 0.9423, 0.8840, 0.8295, 0.7916),
    "fives_paper": _row(0.8536, 0.9446, 0.8863, 0.8307, 0.8006),
}

# Table 3: by how many per cent the AUC is higher than that of LR.
IMPROVEMENT = {
    "random": _row(-0.98, -0.04, -0.59, -0.04, -0.94),
    "cmi": _row(0.70, -0.07, -0.56, 0.02, -1.70),
    "autocross": _row(1.76, 0.16, -0.65, 0.12, 0.04),
    "fives_score": _row(1.79, 0.01, 0.14, 0.12, 0.26),
}


def figure(table: dict[str, dict[str, float]], method: str, data: Data) -> float | None:
    """A figure of a table; None if the paper has none.

    Args:
        table: AUC or IMPROVEMENT.
        method: The method.
        data: The data.
    """
    return table.get(method, {}).get(data.name) if data.public else None
