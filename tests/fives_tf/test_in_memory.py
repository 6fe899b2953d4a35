"""A dataset made in memory is the one that Beam makes."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fives_tf.errors import UserError
from fives_tf.in_memory import write_dataset
from fives_tf.schema import Column, Discretize, Format, Label, Schema, SplitRule
from pipelines.preprocess import Options, preprocess


def rows(count: int) -> pa.Table:
    random = np.random.default_rng(0)
    city = random.choice(["Rome", "Oslo", "", None, "Rio", "odd\nname"], count)
    return pa.table(
        {
            "age": pa.array(random.integers(0, 90, count), mask=random.random(count) < 0.1),
            "price": random.choice([np.nan, np.inf, -1.0, *random.random(30)], count),
            "city": pa.array(city.tolist(), pa.string()),
            "user": [f"u{number}" for number in random.zipf(1.5, count) % 50],
            "device": random.integers(0, 1000, count),
            "click": random.integers(0, 2, count),
        }
    )


def schema(split: SplitRule) -> Schema:
    return Schema(
        Format("parquet", quote=None),
        Label("click"),
        (
            Column("age", True, discretize=Discretize("quantile", (4, 10), values=True)),
            Column("price", True, missing=("", "-1"), discretize=Discretize("width", (8,))),
            Column("city", False, min_count=1, max_vocab=100),
            Column("user", False, min_count=3, max_vocab=6),
            Column("device", False, hash_buckets=16),
        ),
        (),
        split,
    )


@pytest.mark.parametrize(
    "split",
    [
        SplitRule("random", valid=0.2, test=0.2, seed=3),
        SplitRule("position", valid=0.25, test=0.0, seed=1, valid_rows="last"),
    ],
)
def test_its_files_are_those_of_the_pipeline(split, tmp_path):
    table = rows(600)
    pq.write_table(table, tmp_path / "log.parquet")
    options = Options(shards={"train": 1, "valid": 1, "test": 1})
    preprocess([str(tmp_path / "log.parquet")], schema(split), str(tmp_path / "beam"), options)
    [batch] = table.to_batches()
    dataset = write_dataset(batch, schema(split), str(tmp_path / "memory"))

    made = {p.relative_to(tmp_path / "memory") for p in (tmp_path / "memory").rglob("*.*")}
    assert len(made) > 8
    for name in made:
        own, expected = ((tmp_path / place / name).read_bytes() for place in ("memory", "beam"))
        if name.name == "dataset.json":
            own, expected = (json.loads(one) for one in (own, expected))
            for key in ("inputs", "fingerprint"):
                del own[key], expected[key]
        assert own == expected, name
    assert dataset.split("train").rows + dataset.split("valid").rows > 400


def test_a_bad_value_is_named_with_its_row(tmp_path):
    table = rows(50)
    [batch] = table.set_column(5, "click", pa.array([*[1, 0] * 20, 7, *[0] * 9])).to_batches()
    with pytest.raises(UserError, match="row 40: label column `click` is '7'"):
        write_dataset(batch, schema(SplitRule()), str(tmp_path / "dataset"))
