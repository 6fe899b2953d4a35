"""The image, as far as it can be tried without building it."""

import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions(name: str) -> list[str]:
    """The arguments of every instruction of a kind, with its lines joined."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return re.findall(rf"^{name} +(.+)$", text, re.MULTILINE)


def pins(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    return {line for line in lines if re.match(r"[a-z0-9]", line)}


def test_the_linter_has_nothing_to_say():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_bases_are_of_the_tensorflow_that_is_pinned():
    [pinned] = [pin for pin in pins("requirements-runtime.lock") if pin.startswith("tensorflow==")]
    version = pinned.removeprefix("tensorflow==")
    bases = re.findall(r"tensorflow/tensorflow:([0-9.]+)(-gpu)?", DOCKERFILE)
    assert set(bases) == {(version, ""), (version, "-gpu")}


def test_what_runs_is_a_part_of_what_was_tested():
    runtime = pins("requirements-runtime.lock")
    assert runtime < pins("requirements.lock")
    assert not any(pin.startswith(("pytest==", "ruff==", "hypothesis==")) for pin in runtime)


def test_what_is_copied_is_not_ignored():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    copied = {source for copy in instructions("COPY") for source in copy.split()[:-1]}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)


def test_it_does_not_run_as_root():
    assert instructions("USER") == ["1000:1000"]


@pytest.mark.slow
def test_its_steps_install_a_program_that_starts(tmp_path):
    """Runs the steps that use pip, on a copy of what is copied; a clean environment is the base."""
    place = tmp_path / "image"
    for copy in instructions("COPY"):
        *sources, target = copy.split()
        for source in sources:
            destination = place / target / (source if target == "./" else "")
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, place / target, ignore=ignored)
            else:
                destination.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, destination)
    venv.create(tmp_path / "venv", with_pip=True, symlinks=True)
    upper = tmp_path / "upper"
    path = f"{upper / 'bin'}:{tmp_path / 'venv/bin'}:/usr/bin:/bin"
    environ = {"PATH": path, "HOME": str(tmp_path)}
    steps = [step.replace("/opt/venv", str(upper)) for step in instructions("RUN") if "pip" in step]
    assert len(steps) == 3
    for step in steps:
        done = subprocess.run(["sh", "-ec", step], cwd=place, env=environ, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines()[-1].startswith("fives-tf ")
    [entry] = instructions("ENTRYPOINT")
    command = [*re.findall(r'"([^"]+)"', entry), "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage: python -m launch.train_job" in done.stdout
    examples = list((upper / "lib").glob("*/site-packages/launch/k8s/*.yaml"))
    assert len(examples) == 3, "the examples are installed too"
