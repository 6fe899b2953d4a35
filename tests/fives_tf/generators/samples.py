"""Encodings and logs that the tests of generators share."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from fives_tf.dataset import Dataset
from fives_tf.encoding import Encoding, VocabularyField
from fives_tf.in_memory import write_dataset
from fives_tf.schema import Schema
from fives_tf.synth import SynthConfig, generate


def make_encoding(columns: dict[str, tuple[int, ...]], rows: int = 100) -> Encoding:
    """An encoding with a field of so many values, for each number, of each column."""
    fields = [
        VocabularyField(
            f"{column}@{values}" if len(sizes) > 1 else column,
            column,
            ("",),
            0,
            0,
            pa.array([str(value) for value in range(values)]),
            np.full(values, rows // values),
        )
        for column, sizes in columns.items()
        for values in sizes
    ]
    return Encoding(tuple(fields), rows)


def draw_ids(encoding: Encoding, rows: int, seed: int) -> np.ndarray:
    """Global ids, each value of a field with the same chance."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, field.size, rows) for field in encoding.fields]
    return np.column_stack(columns) + np.array(encoding.offsets)


def write_synth(config: SynthConfig, directory: Path) -> Dataset:
    """The dataset of a synthetic log."""
    generate(config, directory)
    schema = Schema.load(directory / "schema.yaml")
    names = (directory / "log.csv").read_text().partition("\n")[0].split(",")
    options = pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
    table = pa_csv.read_csv(directory / "log.csv", convert_options=options).combine_chunks()
    return write_dataset(table.to_batches()[0], schema, str(directory / "dataset"))
