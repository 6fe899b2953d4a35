"""The scripts of `fives completion`, in real shells."""

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from fives_tf.cli import VERBS

# What bash does when TAB is pressed behind the words.
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$(complete -p fives | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(fives, tmp_path_factory) -> Path:
    """A directory with both scripts, by the names that the help tells."""
    directory = tmp_path_factory.mktemp("completion")
    for shell, name in (("bash", "fives"), ("zsh", "_fives")):
        done = fives("completion", shell)
        assert done.returncode == 0, done.stderr
        (directory / name).write_text(done.stdout)
    return directory


@pytest.fixture
def completions(scripts, tmp_path):
    """What bash offers for the last of some words, in a directory with a file and a directory."""
    (tmp_path / "log.csv").touch()
    (tmp_path / "dataset").mkdir()

    def ask(*words: str) -> set[str]:
        command = ["bash", "--norc", "-c", ASK, "bash", scripts / "fives", "fives", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
        assert done.stderr == ""
        return set(filter(None, done.stdout.split("\n")))

    return ask


class TestBash:
    def test_verbs(self, completions):
        assert completions("") == set(VERBS)
        assert completions("se") == {"search"}

    def test_verbs_of_verbs(self, completions):
        assert completions("schema", "") == {"infer", "check", "tune"}
        assert completions("launch", "fl") == {"flink-local"}

    def test_flags(self, completions):
        assert completions("crosses", "run", "--r") == {"--rank"}
        assert completions("schema", "infer", "log.csv", "--la") == {"--label"}
        assert {"--xla", "--no_xla"} <= completions("search", "-")
        assert completions("launch", "flink-local", "--task") == {"--task_managers"}

    def test_the_choices_of_a_flag(self, completions):
        assert completions("crosses", "run", "--format", "") == {"table", "json", "sql"}
        assert completions("generate", "dataset", "--method", "c") == {"cmi"}
        assert completions("completion", "") == {"bash", "zsh"}

    def test_files_and_directories(self, completions):
        assert completions("preprocess", "") == {"log.csv", "dataset"}
        assert completions("describe", "") == {"dataset"}
        assert completions("crosses", "run", "--truth", "lo") == {"log.csv"}

    def test_a_number_is_nothing_to_complete(self, completions):
        assert completions("crosses", "run", "--top", "") == set()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not on the PATH")
class TestZsh:
    def test_the_script_is_one_of_zsh_and_is_found(self, scripts):
        subprocess.run(["zsh", "-n", scripts / "_fives"], check=True)
        program = f"fpath=({scripts} $fpath); autoload -Uz compinit; compinit -u -D"
        command = ["zsh", "-f", "-c", f"{program}; print $_comps[fives]"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("_fives\n", "")

    @pytest.mark.parametrize(
        ("typed", "completed"),
        [
            ("fives sea", "fives search "),
            ("fives schema inf", "fives schema infer "),
            ("fives crosses run --ran", "fives crosses run --rank "),
            ("fives crosses run --format js", "fives crosses run --format json "),
            ("fives describe data", "fives describe dataset/"),
        ],
    )
    def test_tab_completes(self, typed, completed, scripts, tmp_path):
        (tmp_path / "dataset").mkdir()
        (tmp_path / "data.csv").touch()
        # The key ^B shows the line as it is.
        setup = f"""
            PS1= PS2= RPS1= fpath=({scripts} $fpath) zle_highlight=(none)
            autoload -Uz compinit; compinit -u -D
            show() {{ print -r -- "<$BUFFER>" }}; zle -N show; bindkey '^B' show
            unsetopt prompt_cr prompt_sp; print rea''dy
        """
        (tmp_path / "setup").write_text(setup)
        terminal, side = pty.openpty()
        ends = {"stdin": side, "stdout": side, "stderr": side}
        with subprocess.Popen(["zsh", "-f", "-i"], cwd=tmp_path, **ends) as process:
            os.close(side)
            try:
                os.write(terminal, b"source ./setup\n")
                read_until(terminal, "ready")
                os.write(terminal, f"{typed}\t\x02".encode())
                assert f"<{completed}>" in read_until(terminal, ">")
            finally:
                process.kill()
                os.close(terminal)


def read_until(terminal: int, end: str) -> str:
    """What a terminal shows, until some text comes."""
    shown, deadline = "", time.monotonic() + 30
    while end not in shown and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown
