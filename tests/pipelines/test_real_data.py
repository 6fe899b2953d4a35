"""The real data sets, by the schemas of the benchmarks; skipped where the data is absent."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.encoding import BucketField, HashField, parse_number
from fives_tf.schema import Schema
from fives_tf.sql import select
from pipelines import rowwise, runner
from pipelines.count_crosses import fit_on_dataset
from pipelines.cross_log import write_cross_log
from pipelines.preprocess import Options, preprocess

SCHEMAS = Path(__file__).parents[2] / "fives_tf" / "bench" / "schemas"

# Rows and clicks as the data's own README states them, by the splits that come from files.
CASES = {
    "employee": (["employee/train.csv.gz"], {"all": (32_769, 30_872)}),
    "bank": (["bank/bank-additional-full.csv.gz"], {"all": (41_188, 4_640)}),
    "adult": (
        ["adult/adult.data.gz", "adult/adult.test.gz"],
        {"train": (32_561, 7_841), "test": (16_281, 3_846)},
    ),
    "credit": (["credit/cs-training.csv.gz"], {"all": (150_000, 10_026)}),
    "criteo": (["criteo/criteo_kaggle_0p3pct.tsv.gz"], {"all": (137_139, 35_213)}),
    "criteo extra": (["criteo/criteo_kaggle_extra.tsv.gz"], {"all": (80_837, 19_702)}),
    "avazu": (["avazu/avazu_kaggle_small.csv.gz"], {"all": (9_999, 1_706)}),
}


@pytest.fixture(scope="module")
def datasets(data_directory, tmp_path_factory):
    """The preprocessed data sets, each made when it is first asked for."""
    made = {}

    def get(name: str):
        if name not in made:
            files = [str(data_directory / file) for file in CASES[name][0]]
            schema = Schema.load(SCHEMAS / f"{name.split()[0]}.yaml")
            out = tmp_path_factory.mktemp("real") / "dataset"
            beam = runner.pipeline_options([], workers=1)
            made[name] = preprocess(files, schema, str(out), Options(beam=beam))
        return made[name]

    return get


@pytest.mark.parametrize("name", CASES)
def test_rows_and_label_rates_are_those_of_the_source(name, datasets):
    dataset = datasets(name)
    assert dataset.manifest["rejected"] == 0
    counts = {split: (part.rows, part.clicks) for split, part in dataset.splits.items()}
    for part, expected in CASES[name][1].items():
        parts = {"all": ("train", "valid", "test"), "train": ("train", "valid")}.get(part, (part,))
        total = tuple(sum(counts[split][i] for split in parts) for i in (0, 1))
        assert total == expected


def test_employee_has_the_known_number_of_values(datasets):
    schema = datasets("employee").schema
    sizes = {field.name: field.size - 2 for field in datasets("employee").encoding.fields}
    known = dict(zip(sizes, (7518, 4243, 128, 177, 449, 343, 2358, 67, 343), strict=True))
    assert len(schema.columns) == 9
    # Some values occur in the test part only, and those are rightly not known.
    for name, size in sizes.items():
        assert 0.93 * known[name] <= size <= known[name]


def test_missing_markers_of_the_sources_are_found(datasets):
    fields = {field.name: field for field in datasets("credit").encoding.fields}
    rows = datasets("credit").encoding.rows
    assert fields["MonthlyIncome@30"].missing_count / rows == pytest.approx(0.198, abs=0.004)
    assert fields["NumberOfDependents@10"].missing_count / rows == pytest.approx(0.026, abs=0.002)
    fields = {field.name: field for field in datasets("criteo").encoding.fields}
    rows = datasets("criteo").encoding.rows
    for name, rate in {"I1@30": 0.45, "I12@30": 0.77, "C22": 0.76, "C19": 0.44}.items():
        assert fields[name].missing_count / rows == pytest.approx(rate, abs=0.02)


def test_the_criteo_test_part_is_the_end_of_the_log(datasets):
    assert datasets("criteo").split("test").rows == 27_428


def test_training_reads_what_was_written(datasets):
    dataset = datasets("bank")
    encoding = dataset.encoding
    ids = np.concatenate([b[0] for b in dataset.read("train", batch=4096).as_numpy_iterator()])
    low = np.array(encoding.offsets)
    high = low + [field.size for field in encoding.fields]
    assert ids.shape == (dataset.split("train").rows, len(encoding.fields))
    assert np.all((ids >= low) & (ids < high))


CROSSED_ROWS = 5000  # that TensorFlow's face is asked for


def some_crosses(dataset: Dataset) -> list[Cross]:
    """Crosses of fields of all kinds, of orders 2 and 3, of different columns each."""
    by_column = {field.column: field for field in dataset.encoding.fields}
    usable = [f for f in by_column.values() if not isinstance(f, HashField)]
    numbers = [f.name for f in usable if isinstance(f, BucketField) and len(f.edges) <= 200]
    texts = [f.name for f in usable if not isinstance(f, BucketField)]
    groups = [texts[:2], texts[1:4], [*texts[-1:], *numbers[:1]], [*texts[:1], *numbers[-2:]]]
    groups += [numbers[1:3], numbers[:3]]
    names = {tuple(group) for group in groups if len(group) > 1}
    return [Cross(fields, 1.0) for fields in sorted(names)]


def tensorflow_ids(dataset: Dataset, table: pa.Table, directory: Path) -> np.ndarray:
    """The ids of raw rows by the graph that is served."""
    module = dataset.encoding.tensorflow(directory)
    columns = {name: tf.constant(table[name].to_pylist()) for name in module.text_columns}
    for name in module.number_columns:
        numbers = [parse_number(text) for text in table[name].to_pylist()]
        numbers = [np.nan if number is None else number for number in numbers]
        columns[name] = tf.constant(numbers, tf.float32)
    return module(columns).numpy()


@pytest.mark.parametrize("name", [name for name in CASES if name != "criteo extra"])
def test_crosses_are_the_same_by_sql_beam_arrow_and_tensorflow(
    name, datasets, data_directory, tmp_path
):
    dataset, crosses = datasets(name), some_crosses(datasets(name))
    assert {cross.order for cross in crosses} == {2, 3}
    log = [str(data_directory / file) for file in CASES[name][0]]
    by_beam = rowwise.Options(beam=runner.pipeline_options([], workers=1))
    fitted = fit_on_dataset(dataset, crosses, by_beam.beam, str(tmp_path / "fit"))
    write_cross_log(log, str(tmp_path / "texts.parquet"), dataset, crosses, by_beam)
    write_cross_log(log, str(tmp_path / "ids.parquet"), dataset, crosses, by_beam, lambda: fitted)
    texts, ids = (pq.read_table(tmp_path / f"{kind}.parquet") for kind in ("texts", "ids"))
    names = [cross.name for cross in crosses]

    table = texts.drop_columns(names)
    connection = duckdb.connect()
    connection.register("log", table)
    query = select(crosses, dataset.encoding, trim=dataset.schema.format.trim)
    by_sql = connection.sql(query).to_arrow_table()
    for cross in names:
        assert by_sql[cross].to_pylist() == texts[cross].to_pylist()
        # Equal texts have equal ids, and combinations with an id of their own one text.
        pairs = set(zip(texts[cross].to_pylist(), ids[cross].to_pylist(), strict=True))
        assert len(pairs) == len({text for text, _ in pairs})
        known = [number for _, number in pairs if number > 1]
        assert len(known) == len(set(known)) > 3

    first = table.slice(0, CROSSED_ROWS)
    served = fitted.module(tf.constant(tensorflow_ids(dataset, first, tmp_path))).numpy()
    for index, cross in enumerate(names):
        own = ids[cross].slice(0, CROSSED_ROWS).to_numpy()
        np.testing.assert_array_equal(served[:, index] - fitted.offsets[index], own)
