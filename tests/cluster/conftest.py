"""A real Flink cluster on this machine, with two TaskManagers, and a log to preprocess on it."""

import shutil
import sys
from pathlib import Path

import apache_beam
import pytest

from fives_tf.errors import UserError
from launch import flink_local
from pipelines.job_server import Versions, cache_directory, fetch

# Where a repository lacks the job server of the installed Beam, the newest that was seen to work.
OLDER_BEAM = "2.62.0"
ROWS = 200_000
PIECE_BYTES = 1 << 20


@pytest.fixture(scope="session")
def job_server() -> list[str]:
    """The flags for a job server."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on the PATH: no Flink cluster is started")
    release = ".".join(flink_local.RELEASE.split(".")[:2])
    choices = [Versions(beam, release) for beam in (apache_beam.__version__, OLDER_BEAM)]
    names = {path.name for path in cache_directory().glob("*.jar")}
    choices.sort(key=lambda versions: not any(versions.beam in name for name in names))
    for versions in choices:
        try:
            jar = fetch(versions)
        except UserError as error:
            print(error, file=sys.stderr)
        else:
            return [f"--flink_job_server_jar={jar}", f"--job_server_beam={versions.beam}"]
    pytest.fail(f"Maven has no job server for Flink {release}")


@pytest.fixture(scope="session")
def cluster(job_server, tmp_path_factory):
    logs = tmp_path_factory.mktemp("flink-logs")
    with flink_local.start(flink_local.Config(logs=str(logs))) as running:
        yield running


@pytest.fixture(scope="session")
def log(fives, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("cluster") / "log"
    fives("synth", f"--rows={ROWS}", f"--out={directory}").check_returncode()
    return directory


@pytest.fixture(scope="session")
def arguments(log):
    """The arguments of `fives preprocess` but for the directory and Beam's."""
    return [log / "log.csv", f"--schema={log / 'schema.yaml'}", f"--piece_bytes={PIECE_BYTES}"]


@pytest.fixture(scope="session")
def expected(fives, arguments, log) -> Path:
    """The dataset that the runner in this process makes."""
    directory = log.parent / "expected"
    fives("preprocess", *arguments, f"--out={directory}").check_returncode()
    return directory
