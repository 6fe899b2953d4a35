"""The jars of a Flink release, taken from the package that PyPI has of them and kept in a cache."""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from fives_tf.errors import UserError
from pipelines.job_server import cache_directory

PACKAGE = "apache-flink-libraries"
_WANTED = ("flink-dist-", "log4j-")  # the rest is for SQL


def libraries(version: str) -> Path:
    """A directory with the jars that JobManager and TaskManagers need.

    Args:
        version: A release of Flink, such as 1.19.3.
    """
    place = cache_directory() / f"flink-{version}"
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, suffix=".aside") as aside:
            _unpack(_download(version, Path(aside)), Path(aside, "lib"))
            Path(aside, "lib").replace(place)
    return place


def _download(version: str, directory: Path) -> Path:
    """Gets the source package, which is not built: it only carries the jars."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    source = ["--no-deps", "--no-build-isolation", "--no-binary", ":all:"]
    command = [*pip, *source, f"--dest={directory}", f"{PACKAGE}=={version}"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = list(directory.glob("*.tar.gz"))
    if done.returncode or not found:
        reason = done.stderr.strip().splitlines()[-1:] or ["pip found none"]
        raise UserError(
            f"{PACKAGE} {version}: cannot be downloaded ({reason[0]}); check the network and the "
            "release of Flink."
        )
    return found[0]


def _unpack(package: Path, directory: Path) -> None:
    directory.mkdir()
    with tarfile.open(package) as archive:
        for member in archive:
            path = Path(member.name)
            if path.parts[1:3] == ("deps", "lib") and path.name.startswith(_WANTED):
                with archive.extractfile(member) as source, open(directory / path.name, "wb") as to:
                    shutil.copyfileobj(source, to)
