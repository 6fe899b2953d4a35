"""What a user should act on before trusting a search."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fives_tf.dataset import Dataset
from fives_tf.encoding import VocabularyField

LEAK_AUC = 0.98  # of a single field
CONSTANT = 0.999  # part of the rows with one value
MISSING = 0.95  # part of the rows without a value
DRIFT = 0.25
RATE_RATIO = 1.25  # between the click rates of two splits
_SURE = 4.0  # standard deviations that click rates must be apart

Advice = dict[str, Any]


def find(
    dataset: Dataset, fields: Sequence[dict[str, Any]], ids: np.ndarray, judged_on: str
) -> list[Advice]:
    """The warnings, the gravest first.

    Args:
        dataset: The dataset.
        fields: What the report says of the fields.
        ids: Global ids of train rows, [rows, fields].
        judged_on: The split that the models are judged on.
    """
    return [
        *_leaks(fields),
        *_no_test(judged_on),
        *_click_rates(dataset),
        *_drifts(fields),
        *_constants(fields),
        *_twins(dataset, ids),
        *_missing(fields),
    ]


def _advice(kind: str, fields: Sequence[str], text: str, advice: str) -> Advice:
    return {"kind": kind, "fields": list(fields), "text": text, "advice": advice}


def _leaks(fields: Sequence[dict[str, Any]]) -> Iterator[Advice]:
    for field in fields:
        if field["auc"] is not None and max(field["auc"], 1 - field["auc"]) > LEAK_AUC:
            yield _advice(
                "leak",
                [field["name"]],
                f"{field['name']} alone has an AUC of {field['auc']:.3f}; a value that is known "
                "only after the click would look like this.",
                f"Find out when {field['column']} is known; if that is after the click, list it "
                "under `drop` in the schema and preprocess the log again.",
            )


def _no_test(judged_on: str) -> Iterator[Advice]:
    if judged_on != "test":
        yield _advice(
            "no_test",
            [],
            "There are no test rows, so the figures are those of the validation rows, on which "
            "choices were made; they are too good.",
            "Set `test` under `split` in the schema and preprocess the log again.",
        )


def _click_rates(dataset: Dataset) -> Iterator[Advice]:
    train = dataset.split("train")
    rate = train.clicks / max(train.rows, 1)
    for split in dataset.splits.values():
        if split.name == "train" or not split.rows:
            continue
        other = split.clicks / split.rows
        chance = np.sqrt(rate * (1 - rate) * (1 / split.rows + 1 / train.rows))
        ratio = max(rate, other) / max(min(rate, other), 1e-9)
        if ratio > RATE_RATIO and abs(rate - other) > _SURE * chance:
            yield _advice(
                "click_rate",
                [],
                f"The click rate is {rate:.2%} in train and {other:.2%} in {split.name}.",
                "If the split is by time, the log changes with time: train on later rows, and "
                "watch the calibration. Else look at how the split is made.",
            )


def _drifts(fields: Sequence[dict[str, Any]]) -> Iterator[Advice]:
    for field in fields:
        if field["drift"] is not None and field["drift"] > DRIFT:
            yield _advice(
                "drift",
                [field["name"]],
                f"The values of {field['name']} differ between train and test (stability index "
                f"{field['drift']:.2f}; above {DRIFT} is a lot).",
                "What is learned of this field may not last. Leave it out, or train on rows that "
                "are closer to what the model will see.",
            )


def _constants(fields: Sequence[dict[str, Any]]) -> Iterator[Advice]:
    def is_constant(field: dict[str, Any]) -> bool:
        return bool(field["values"]) and field["values"][0]["share"] > CONSTANT

    telling = {field["column"] for field in fields if not is_constant(field)}
    for field in filter(is_constant, fields):
        value, column = field["values"][0], field["column"]
        advice = f"List {column} under `drop` in the schema; the search is then faster."
        if column in telling:  # at another granularity
            advice = f"Under `overrides` in the schema, give {column} other `buckets`."
        yield _advice(
            "constant",
            [field["name"]],
            f"{field['name']} has one value, {value['value']}, in {value['share']:.2%} of the "
            "rows, so it tells next to nothing.",
            advice,
        )


def _missing(fields: Sequence[dict[str, Any]]) -> Iterator[Advice]:
    for field in fields:
        if MISSING < field["missing"] <= CONSTANT:
            yield _advice(
                "missing",
                [field["name"]],
                f"{field['name']} has no value in {field['missing']:.1%} of the rows.",
                "Look at `missing` in the schema, and at how the column gets into the log.",
            )


def _twins(dataset: Dataset, ids: np.ndarray) -> Iterator[Advice]:
    """Columns whose values name each other: a cross of the two is no news."""
    encoding = dataset.encoding
    columns: dict[tuple[int, int], list[int]] = {}
    for place, field in enumerate(encoding.fields):
        if isinstance(field, VocabularyField):
            counts = np.unique(ids[:, place], return_counts=True)[1]
            if len(counts) > 1:
                columns.setdefault((len(counts), int(counts.max())), []).append(place)
    for (distinct, _), group in columns.items():  # twins have as many values, equally frequent
        for one, other in itertools.combinations(group, 2):
            pairs = ids[:, one].astype(np.int64) * encoding.size + ids[:, other]
            if len(np.unique(pairs)) == distinct:
                names = [encoding.fields[place].name for place in (one, other)]
                yield _advice(
                    "twins",
                    names,
                    f"{names[0]} and {names[1]} say the same: each value of one goes with one "
                    "value of the other.",
                    f"List one of them under `drop` in the schema, such as {names[1]}.",
                )
