"""The commands of docs/tutorial.md run in their order, on the beginning of the real log."""

import gzip
import itertools
import re
import shlex
import subprocess
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs/tutorial.md").read_text()
ROWS = {"adult.data": 6000, "adult.test": 2000}  # what the test can bear of 32,561 and 16,281


@pytest.fixture
def log(data_directory, tmp_path, monkeypatch) -> Path:
    """The beginning of both files, in the directory where the commands run."""
    for name, rows in ROWS.items():
        path = data_directory / "adult" / f"{name}.gz"
        if not path.exists():
            pytest.skip(f"{path} is not there; set FIVES_DATA to the directory of the real data")
        with gzip.open(path, "rt") as lines:
            (tmp_path / name).write_text("".join(itertools.islice(lines, rows)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks() -> list[tuple[str, str]]:
    """The blocks of the page that are no output: their language and their text."""
    return re.findall(r"^```(sh|yaml|python)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_way_of_the_tutorial(log, cli):
    names: dict = {}
    for language, text in blocks():
        if language == "yaml":
            (log / "adult.yaml").write_text(text)
        elif language == "python":
            exec(compile(text, "tutorial.md", "exec"), names)
        else:
            for line in text.splitlines():
                run(line, cli)
    for name in ("run/report.html", "run/report.json", "adult-with-crosses.parquet"):
        assert (log / name).exists(), name
    scores = (log / "scores.csv").read_text().splitlines()
    assert scores[0] == '"age","occupation","income","probability"'
    assert len(scores) == ROWS["adult.test"]  # a line for the header, none for the comment


def run(line: str, cli) -> None:
    """Runs a line of shell: a command of ours in this process, any other by the shell."""
    if not line.startswith("fives "):
        subprocess.run(["bash", "-c", line], check=True, capture_output=True)
        return
    command, _, target = line.partition(" > ")
    done = cli(*shlex.split(command)[1:])
    assert done.returncode == 0, (line, done.stderr)
    if target:
        Path(target).write_text(done.stdout)
