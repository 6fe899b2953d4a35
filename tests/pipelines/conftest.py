"""A generated log and helpers to look at dataset directories."""

from pathlib import Path

import pytest

from fives_tf.schema import Schema
from fives_tf.synth import SynthConfig, generate


@pytest.fixture(scope="session")
def log_directory(tmp_path_factory) -> Path:
    """A small generated log with its schema."""
    directory = tmp_path_factory.mktemp("log")
    generate(SynthConfig(rows=20_000, fields=14, numeric=4, seed=1), directory)
    return directory


@pytest.fixture(scope="session")
def log_schema(log_directory) -> Schema:
    return Schema.load(log_directory / "schema.yaml")


@pytest.fixture(scope="session")
def files_of():
    """All files below a directory with their content."""

    def read(directory: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(directory)): path.read_bytes()
            for path in sorted(Path(directory).rglob("*"))
            if path.is_file()
        }

    return read
