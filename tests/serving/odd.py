"""A log with columns whose names neither Python nor TensorFlow takes, a run on it, and exports."""

import csv
import io
import random
from dataclasses import dataclass
from pathlib import Path

from fives_tf.dataset import Dataset
from fives_tf.run import Run
from fives_tf.schema import Schema
from fives_tf.serving import export
from tests.serving import quick

ROWS = 1500
SCHEMA = """
label: {column: click}
categorical: ["user id", education-num, 1st, a b, a_b, A_B, self, class, ü]
numeric: ["num er", n@2]
overrides:
  self: {hash_buckets: 50}
  num er: {discretize: {kind: quantile, buckets: [5, 20], values: true}}
  n@2: {missing: ["", "-1"], discretize: {kind: edges, edges: [0, 1, 5]}}
split: {by: random, valid: 0.2, test: 0.1}
"""
HASHED = "self"


@dataclass(frozen=True, eq=False)
class Odd:
    """What there is of the log.

    Attributes:
        dataset: The dataset.
        run: The run.
        columns: All rows of the log, as a server takes them.
        exports: The directories of versions by model, `fives` and `light`; each holds version 1.
    """

    dataset: Dataset
    run: Run
    columns: quick.Columns
    exports: dict[str, Path]

    def rows(self, count: int) -> quick.Columns:
        """The first rows."""
        return {name: values[:count] for name, values in self.columns.items()}


def make(directory: Path) -> Odd:
    """Makes it all in an empty directory."""
    schema = Schema.parse(SCHEMA)
    rows = _rows()
    names = ["click", *(column.name for column in schema.columns)]
    text = io.StringIO(newline="")
    csv.writer(text).writerows([names, *([row[name] for name in names] for row in rows)])
    log = directory / "log.csv"
    log.write_text(text.getvalue(), encoding="utf-8")
    dataset = quick.make_dataset([log], schema, directory / "dataset")
    run = quick.make_run(dataset, directory / "run", batch=256)
    texts = {name: [row[name] for row in rows] for name in names}
    exports = {}
    for kind in ("fives", "light"):
        exports[kind] = directory / kind
        export(run, exports[kind], light=kind == "light")
    return Odd(dataset, run, quick.raw_columns(schema, texts), exports)


def _rows() -> list[dict[str, str]]:
    """Clicks depend on two of the columns together."""
    draw = random.Random(0)
    rows = []
    for _ in range(ROWS):
        row = {
            "user id": draw.choice(["x", "y", "zé"]),
            "education-num": draw.choice(["1", "2", "3", ""]),
            "1st": draw.choice("pqr"),
            "a b": draw.choice("pqr"),
            "a_b": draw.choice("st"),
            "A_B": draw.choice("uv"),
            HASHED: f"s{draw.randrange(500)}",
            "class": draw.choice(["", "first", "second"]),
            "ü": draw.choice("äß"),
            "num er": f"{draw.gauss(0, 3):.2f}",
            "n@2": draw.choice(["-1", "0", "1", "2", "", "7.5"]),
        }
        likely = (row["user id"] == "x") == (row["1st"] == "p")
        rows.append({"click": str(int(draw.random() < (0.9 if likely else 0.1))), **row})
    return rows
