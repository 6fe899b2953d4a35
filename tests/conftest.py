"""What several test files share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
