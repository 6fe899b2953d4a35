"""What the tests of launching share."""

import os
import shlex
import sys
from pathlib import Path

import pytest


@pytest.fixture
def program():
    """Writes a program; REAL in its text stands for this Python."""

    def write(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("REAL", shlex.quote(sys.executable)))
        path.chmod(0o755)

    return write


@pytest.fixture
def fake(program, tmp_path, monkeypatch):
    """Puts a program first on the PATH that keeps its arguments and input, and may fail."""

    def make(name: str, code: int = 0) -> Path:
        kept = tmp_path / f"{name}.kept"
        keep = f'(echo "$@"; cat) > {shlex.quote(str(kept))}'
        program(tmp_path / "bin" / name, f"#!/bin/sh\n{keep}\nexit {code}\n")
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        return kept

    return make


@pytest.fixture
def no_programs(tmp_path, monkeypatch):
    """A PATH on which nothing is."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))


@pytest.fixture
def read_example():
    """Reads the command in the comment of an example, and the rest of the file."""

    def read(path: Path) -> tuple[list[str], str]:
        lines = path.read_text().splitlines(keepends=True)
        comment = [line for line in lines if line.startswith(("# fives", "#     "))]
        command = shlex.split(" ".join(line.lstrip("# ") for line in comment))
        return command, "".join(line for line in lines if line not in comment)

    return read
