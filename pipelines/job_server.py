"""The jar of Beam's job server for Flink: found in a cache, fetched or built by Maven, looked into.

The job server takes a pipeline, makes a Flink job of it and submits that. It must be made for the
release of Flink that the cluster runs, and come with the release of Beam that is installed.
"""

import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from fives_tf.errors import UserError

GROUP = "org.apache.beam"
_POM = Path(__file__).with_suffix(".xml")
_BEAM = "org/apache/beam/sdk/sdk.properties"
_FLINK = ".flink-runtime.version.properties"


@dataclass(frozen=True)
class Versions:
    """What a job server was made for: a release of Beam (2.77.0) and one of Flink (1.19)."""

    beam: str
    flink: str


def cache_directory() -> Path:
    """Where what was downloaded is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fives"


def look_into(path: str) -> Versions:
    """The versions that a jar names; refuses a file that is no job server."""
    try:
        with zipfile.ZipFile(path) as jar:
            beam = re.search(rb"^version=(\S+)", jar.read(_BEAM), re.MULTILINE)
            flink = re.search(rb"^project\.version=(\d+\.\d+)", jar.read(_FLINK), re.MULTILINE)
            return Versions(beam[1].decode(), flink[1].decode())
    except FileNotFoundError:
        raise UserError(
            f"{path}: no such file; correct --flink_job_server_jar, or leave it out to have the "
            "job server fetched by Maven."
        ) from None
    except (OSError, zipfile.BadZipFile, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: is no job server of Beam for Flink ({error}); correct --flink_job_server_jar."
        ) from None


def fetch(versions: Versions) -> str:
    """The path of a job server: from the cache, or else by Maven, ready or built from its parts."""
    name = f"beam-runners-flink-{versions.flink}-job-server"
    jar = cache_directory() / f"{name}-{versions.beam}.jar"
    if not jar.exists():
        if shutil.which("mvn") is None:
            raise UserError(
                f"{name} {versions.beam}: is not there, and mvn is not on the PATH to fetch it; "
                "install Maven, or download the jar and give --flink_job_server_jar."
            )
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=jar.parent, suffix=".aside") as aside:
            found = _ready(name, versions, Path(aside)) or _built(versions, Path(aside))
            if found is None:
                raise UserError(
                    f"{name} {versions.beam}: Maven can neither fetch nor build it; check the "
                    "network, give --flink_job_server_jar, or accept another release of Beam that "
                    "the repository holds by --job_server_beam."
                )
            found.replace(jar)
    return str(jar)


def _ready(name: str, versions: Versions, directory: Path) -> Path | None:
    artifact = f"{GROUP}:{name}:{versions.beam}"
    got = _maven(directory, "dependency:get", f"-Dartifact={artifact}", "-Dtransitive=false")
    if got and _maven(
        directory, "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"
    ):
        return directory / f"{name}-{versions.beam}.jar"
    return None


def _built(versions: Versions, directory: Path) -> Path | None:
    """Puts a job server together; some repositories hold its parts only."""
    shutil.copy(_POM, directory / "pom.xml")
    built = _maven(directory, "package", f"-Dflink={versions.flink}", f"-Dbeam={versions.beam}")
    return directory / "target" / "job-server-1.jar" if built else None


def _maven(directory: Path, *arguments: str) -> bool:
    command = ["mvn", "--quiet", "--batch-mode", "-Dmaven.artifact.threads=16", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True).returncode == 0
