"""docs/launch.md agrees with the program."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from fives_tf.cli import parse_flags
from launch import train_job
from launch.status import STATES, Status

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/launch.md").read_text()
LINES = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]


@pytest.mark.parametrize(
    "line", [line for line in LINES if line.startswith("fives launch ") and "--dry_run" in line]
)
def test_a_job_of_the_page_can_be_rendered(line, cli):
    done = cli(*shlex.split(line)[1:])
    assert done.returncode == 0, done.stderr
    assert "launch.train_job" in done.stdout


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("fives ")])
def test_the_flags_of_a_command_of_the_page_exist(line):
    assert parse_flags(shlex.split(line)).verb in ("launch", "crosses", "evaluate")


@pytest.mark.parametrize("line", [line for line in LINES if "python -m launch.train_job" in line])
def test_the_arguments_of_a_job_of_the_page_are_accepted(line):
    train_job.check_arguments(shlex.split(line.partition("launch.train_job")[2]))


def test_the_page_names_every_flag_of_the_job_and_no_other(capsys):
    with pytest.raises(SystemExit):
        train_job.parse_flags(["train_job", "--help"])
    known = set(re.findall(r"^  (--[a-z_]+)", capsys.readouterr().out, re.MULTILINE))
    rows = re.findall(r"^\| (`--[^|]+)\|", PAGE, re.MULTILINE)
    assert {flag for row in rows for flag in re.findall(r"--[a-z_]+", row)} == known - {
        "--helpfull"
    }


def test_the_page_names_every_state_and_key_of_the_status(tmp_path):
    Status(str(tmp_path / "status.json"), str(tmp_path)).enter("done")
    for word in (*STATES, *yaml.safe_load((tmp_path / "status.json").read_text())):
        assert f"`{word}`" in PAGE, word


def test_the_claim_of_the_page_is_that_of_its_jobs():
    [text] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    claim = yaml.safe_load(text)
    volumes = {volume for line in LINES for volume in re.findall(r"--volume (\S+?):", line)}
    assert volumes == {claim["metadata"]["name"]}
