"""What is in a dataset, as data that a command or a report can show."""

from typing import Any

from fives_tf.dataset import Dataset
from fives_tf.encoding import FIRST_VALUE, BucketField, Field, VocabularyField

CROSS, HASHED_CROSS = "cross", "hashed cross"


def describe(dataset: Dataset) -> dict[str, Any]:
    """Splits with their label rates; fields with vocabulary sizes, missing and rare rates."""
    encoding = dataset.encoding
    crosses = dataset.crosses.fields if dataset.crosses else ()
    return {
        "splits": describe_splits(dataset),
        "fields": [
            {
                "name": field.name,
                "column": field.column,
                "kind": field.kind,
                "ids": field.size,
                "missing": field.missing_count / encoding.rows,
                "rare": field.rare_count / encoding.rows,
                "example": _most_frequent(field),
            }
            for field in encoding.fields
        ]
        + [
            {
                "name": field.cross.name,
                "column": "",
                "kind": HASHED_CROSS if field.is_hashed else CROSS,
                "ids": field.size,
                "missing": field.missing_count / encoding.rows,
                "rare": field.rare_count / encoding.rows,
                "example": "",
            }
            for field in crosses
        ],
        "ids": encoding.size + sum(field.size for field in crosses),
        "fitted_rows": encoding.rows,
        "rejected": dataset.manifest["rejected"],
    }


def describe_splits(dataset: Dataset) -> list[dict[str, Any]]:
    """Splits with their label rates."""
    return [
        {
            "name": split.name,
            "rows": split.rows,
            "clicks": split.clicks,
            "rate": split.clicks / max(split.rows, 1),
            "shards": len(split.shards),
        }
        for split in dataset.splits.values()
    ]


def _most_frequent(field: Field) -> str:
    """The value or the bucket that most rows have."""
    if isinstance(field, VocabularyField) and len(field.values):
        return field.values[0].as_py().decode("utf-8", "replace")
    if isinstance(field, BucketField) and len(field.counts):
        return field.bucket_name(int(field.counts.argmax()) + FIRST_VALUE)
    return ""
