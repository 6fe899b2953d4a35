"""What several test files share."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.searching import FLAGS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The real data sets, which are not part of the project."""
    path = Path(os.environ.get("FIVES_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip("the real data sets are not there; set FIVES_DATA to their directory")
    return path


@pytest.fixture(scope="session")
def fives():
    """Runs the command line in a process of its own."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "fives_tf.cli", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)

    return run


@pytest.fixture(scope="session")
def small_log(tmp_path_factory) -> Path:
    """A directory with a small generated log, its schema and its truth."""
    from fives_tf.synth import SynthConfig, generate

    directory = tmp_path_factory.mktemp("small") / "log"
    generate(
        SynthConfig(rows=2500, fields=5, numeric=1, plant=("C1 x C2",), max_values=8), directory
    )
    return directory


@pytest.fixture(scope="session")
def small_dataset(small_log) -> Path:
    """The dataset made of it: six fields of five columns, three shards of train."""
    from fives_tf.schema import Schema
    from pipelines.preprocess import Options, preprocess

    directory = small_log.parent / "dataset"
    schema = Schema.load(small_log / "schema.yaml")
    shards = {"train": 3, "valid": 2, "test": 1}
    preprocess([str(small_log / "log.csv")], schema, str(directory), Options(shards=shards))
    return directory


@pytest.fixture
def dataset_copy(small_dataset, tmp_path) -> Path:
    """That dataset for a test that may spoil it."""
    return shutil.copytree(small_dataset, tmp_path / "dataset")


@pytest.fixture(scope="session")
def searched(fives, small_dataset, tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """A run that the command made in a process of its own, and what it told."""
    directory = tmp_path_factory.mktemp("searched") / "run"
    done = fives("search", small_dataset, "--run", directory, *FLAGS)
    assert done.returncode == 0, done.stderr
    return directory, done


@pytest.fixture
def cli(capsys):
    """Runs the command line in this process, where TensorFlow is imported once."""
    from fives_tf.cli import _run, parse_flags

    def run(*arguments: object) -> subprocess.CompletedProcess:
        command = ["fives", *map(str, arguments)]
        capsys.readouterr()
        try:
            code = _run(parse_flags(command))
        except SystemExit as end:
            code = end.code
        told = capsys.readouterr()
        return subprocess.CompletedProcess(command, code, told.out, told.err)

    return run


@pytest.fixture(scope="session")
def object_store():
    """A server that speaks S3."""
    pytest.importorskip("moto", reason="the server that speaks S3 is not installed")
    from tests.object_store import ObjectStore

    store = ObjectStore()
    yield store
    store.close()


@pytest.fixture
def bucket(object_store, monkeypatch) -> str:
    """The URL of an empty bucket, which this process and those that it starts can reach."""
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    return object_store.new_bucket()
