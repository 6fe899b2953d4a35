"""Which data a benchmark takes, and what it refuses before it begins."""

import json
import shutil
from pathlib import Path

import pytest

from fives_tf.bench.data import prepare
from fives_tf.cross_fitting import fit_crosses
from fives_tf.crosses import Cross
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.schema import Schema
from fives_tf.training.batches import Source
from pipelines.preprocess import Options, preprocess


@pytest.fixture
def directory(small_dataset, tmp_path) -> Path:
    """A dataset directory of one's own that has the name of a public data set."""
    return Path(shutil.copytree(small_dataset, tmp_path / "mine" / "adult"))


def describe(directory):
    return prepare([str(directory)], range(2), Path("absent"), Path("absent"), 1)


def test_a_directory_is_no_public_data_set_whatever_its_name(directory):
    found = describe(directory)["adult"]
    assert [(data.seed, data.public, data.columns) for data in found] == [
        (0, False, 5),
        (1, False, 5),
    ]


def test_what_was_computed_of_data_counts_wherever_and_whenever_it_was_made(small_log, tmp_path):
    schema = Schema.load(small_log / "schema.yaml")
    lines = (small_log / "log.csv").read_text().splitlines(keepends=True)
    identities = []
    for name, rows in (("one", lines), ("two", lines), ("other", lines[:-1])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.csv").write_text("".join(rows))
        place = tmp_path / name / "dataset"
        preprocess([str(tmp_path / name / "log.csv")], schema, str(place), Options())
        identities.append(describe(place)["dataset"][0].identity)
    assert identities[0] == identities[1] != identities[2]


def test_shards_of_the_same_figures_that_hold_something_else_are_other_data(directory):
    before = describe(directory)["adult"][0].identity
    assert describe(directory)["adult"][0].identity == before
    dataset = Dataset.open(str(directory))
    path = Path(dataset.path(dataset.split("valid").shards[-1]))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert describe(directory)["adult"][0].identity != before


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_a_split_of_one_class_is_refused(directory, split):
    path = directory / "dataset.json"
    manifest = json.loads(path.read_text())
    for shard in manifest["splits"][split]["shards"]:
        shard["clicks"] = 0
    path.write_text(json.dumps(manifest))
    with pytest.raises(UserError, match=f"the {split} split has 0 clicks"):
        describe(directory)


def test_a_dataset_with_crosses_among_its_fields_is_refused(directory):
    dataset = Dataset.open(str(directory))
    encoding = dataset.encoding
    crosses = [Cross(tuple(field.name for field in encoding.fields[:2]), 1.0)]
    fitted = fit_crosses(crosses, encoding, [Source(dataset).arrays("train")[0]])
    for name, content in fitted.to_files().items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(content)
    with pytest.raises(UserError, match="has crosses among its fields"):
        describe(directory)
