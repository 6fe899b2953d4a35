"""The model card: what an exported model was learned from, how good it is, and what it takes."""

import dataclasses
import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import keras
import tensorflow as tf

from fives_tf import __version__
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.encoding import Encoding
from fives_tf.run import Run

VERSION = 1
MODEL_CARD = "model_card.json"
FIVES, LIGHT = "fives", "light"  # the kinds of model, beside those of a fit by name


def model_card(
    model: str,
    run: Run,
    dataset: Dataset,
    encoding: Encoding,
    crosses: Sequence[Cross],
    evaluation: dict[str, Any],
    numbers: int,
) -> dict[str, Any]:
    """The facts of a model.

    Args:
        model: The kind of model.
        run: The run that found it.
        dataset: The dataset it was learned from.
        encoding: The encoding of the dataset.
        crosses: The crosses whose ids it tells.
        evaluation: Its figures on validation.
        numbers: How many numbers its parameters are.
    """
    schema, config = dataset.schema, run.config
    refit = config.refit and (model != FIVES or config.after != "nothing")
    columns: dict[str, dict[str, Any]] = {}
    for field in encoding.fields:
        column = columns.setdefault(field.column, {"name": field.column, "fields": []})
        column["fields"].append({"name": field.name, "kind": field.kind, "ids": field.size})
    for column in schema.columns:
        columns[column.name] |= {
            "type": "float32" if column.numeric else "string",
            "missing": list(column.missing),
        }
    return {
        "version": VERSION,
        "model": model,
        "members": run.manifest["members"] if model == FIVES else 1,
        "parameters": numbers,
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "fives-tf": __version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
            "python": platform.python_version(),
        },
        "data": {
            "label": dataclasses.asdict(schema.label),
            "splits": {
                name: {"rows": split.rows, "clicks": split.clicks}
                for name, split in dataset.splits.items()
            },
            "fingerprint": dataset.manifest["fingerprint"],
        },
        "learned_on": ["train", "valid"] if refit else ["train"],
        "metrics": {"valid": evaluation},
        "columns": list(columns.values()),
        "crosses": [
            {"name": cross.name, "fields": list(cross.fields), "score": cross.score}
            for cross in crosses
        ],
        "config": dataclasses.asdict(config),
    }


def card_files(card: dict[str, Any]) -> dict[str, bytes]:
    """The card as files by name: for programs and for people."""
    return {
        MODEL_CARD: json.dumps(card, indent=1, ensure_ascii=False).encode(),
        "model_card.md": _markdown(card).encode(),
    }


def _markdown(card: dict[str, Any]) -> str:
    kind = {
        FIVES: "FIVES, a graph network over the fields of a log",
        LIGHT: "a logistic regression on fields and crosses",
        "dnn": "a network of hidden layers over the embeddings of fields and crosses",
        "fm": "a factorization machine on fields and crosses",
        "wide_deep": "Wide & Deep, a logistic regression and hidden layers on fields and crosses",
        "autoint": "AutoInt, self-attention over the embeddings of fields and crosses",
        "fignn": "Fi-GNN, a graph network over the embeddings of fields and crosses",
        "autofis": "AutoFIS, products of pairs of fields that a search kept, and hidden layers",
    }[card["model"]]
    members = card["members"]
    valid, label = card["metrics"]["valid"], card["data"]["label"]
    refit = "valid" in card["learned_on"]
    lines = [
        "# Model card",
        "",
        f"The probability of a click, by {kind}"
        + (f"; the mean of {members} models." if members > 1 else "."),
        "",
        f"- Written at {card['written_at']} by fives-tf {card['versions']['fives-tf']} with "
        f"TensorFlow {card['versions']['tensorflow']}.",
        f"- {card['parameters']:,} parameters.",
        f"- A click is {' or '.join(label['positive'])} in the column `{label['column']}`.",
        "",
        "## Data",
        "",
        *_table(
            ("split", "rows", "clicks", "click rate"),
            [
                (
                    name,
                    f"{part['rows']:,}",
                    f"{part['clicks']:,}",
                    f"{part['clicks'] / max(part['rows'], 1):.4f}",
                )
                for name, part in card["data"]["splits"].items()
            ],
        ),
        "",
        "## Metrics",
        "",
        *_table(
            ("split", "rows", "AUC", "log loss"),
            [("valid", f"{valid['rows']:,}", f"{valid['auc']:.5f}", f"{valid['log_loss']:.5f}")],
        ),
        "",
        ("Measured before the model also learned from these rows. " if refit else "")
        + "Choices were made on them, which flatters it; `fives evaluate` and `fives predict` tell "
        "of other rows.",
        "",
        "## Columns",
        "",
        *_table(
            ("column", "type", "fields", "ids", "means missing"),
            [
                (
                    f"`{column['name']}`",
                    column["type"],
                    ", ".join(f"`{field['name']}`" for field in column["fields"]),
                    f"{sum(field['ids'] for field in column['fields']):,}",
                    ", ".join(f"`{text}`" if text else "empty" for text in column["missing"]),
                )
                for column in card["columns"]
            ],
        ),
        "",
        "## Crosses",
        "",
    ]
    if card["crosses"]:
        lines += _table(
            ("number", "cross", "score"),
            [
                (str(index), f"`{cross['name']}`", f"{cross['score']:.4f}")
                for index, cross in enumerate(card["crosses"])
            ],
        )
    else:
        lines.append("None.")
    return "\n".join(lines) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [
        f"| {' | '.join(header)} |",
        f"|{' --- |' * len(header)}",
        *(f"| {' | '.join(row)} |" for row in escaped),
    ]
