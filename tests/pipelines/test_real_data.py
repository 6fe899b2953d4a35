"""The real data sets, by the schemas in examples/; skipped where the data is absent."""

from pathlib import Path

import numpy as np
import pytest

from fives_tf.schema import Schema
from pipelines import runner
from pipelines.preprocess import Options, preprocess

SCHEMAS = Path(__file__).parents[2] / "examples" / "schemas"

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
