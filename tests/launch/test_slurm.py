"""The batch script for Slurm: as in the examples, and run by a shell."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from fives_tf.errors import UserError
from launch import cluster
from launch.slurm import Job, render

EXAMPLES = sorted((Path(__file__).parents[2] / "launch/slurm").glob("*.sh"))
# What Slurm tells the batch script of a job on three nodes.
BATCH = {
    "SLURM_JOB_ID": "81734",
    "SLURM_JOB_NODELIST": "gpu[01-02,07]",
    "SLURM_JOB_NUM_NODES": "3",
    "SLURM_NTASKS_PER_NODE": "1",
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "0",
}
# Runs the command once for each node, here, with what Slurm tells each task.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
code=0
for ((node = 0; node < SLURM_JOB_NUM_NODES; node++)); do
  SLURM_NODEID=$node SLURM_PROCID=$node "$@" || code=$?
done
exit $code
"""
# Stands for the virtual environment: runs all for real but the training, which it writes down.
PYTHON = """#!/bin/bash
if [[ $2 == launch.train_job ]]; then
  printf '%s\\n' "${TF_CONFIG:-none}" >> "$TOLD"
  printf '%s\\0' "${@:3}" > "$TOLD.arguments"
  exit "${CODE:-0}"
fi
exec REAL "$@"
"""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_what_their_commands_print(path, cli, read_example):
    command, expected = read_example(path)
    done = cli(*command[1:])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == expected, f"write {path.name} anew"


@pytest.fixture
def run_script(tmp_path, program):
    """Runs a batch script with a fake srun; returns its exit code, the configs and arguments."""
    program(tmp_path / "bin/srun", SRUN)
    program(tmp_path / "my venv/bin/python", PYTHON)

    def run(job: Job, **environ: str) -> tuple[int, list[str], list[str]]:
        told = tmp_path / "told"
        path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environ = {**os.environ, **BATCH, "PATH": path, "TOLD": str(told), **environ}
        done = subprocess.run(
            ["bash"], input=render(job), env=environ, capture_output=True, text=True, timeout=120
        )
        arguments = (tmp_path / "told.arguments").read_text().split("\0")[:-1]
        return done.returncode, told.read_text().splitlines(), arguments

    run.venv = str(tmp_path / "my venv")
    return run


def test_each_node_gets_its_place_and_the_arguments_as_they_are(run_script):
    arguments = ["--run", "a b", "$HOME", "it's", "new\nline", "*", "`date`"]
    code, configs, found = run_script(Job(arguments, nodes=3, gpus=0, venv=run_script.venv))
    assert code == 0
    assert found == arguments
    for index, config in enumerate(configs):
        expected = cluster.tf_config(["gpu01", "gpu02", "gpu07"], index, 13_734)
        assert json.loads(config) == expected
    assert len(configs) == 3


def test_one_node_has_no_cluster(run_script):
    job = Job(["--run", "r"], nodes=1, gpus=2, venv=run_script.venv)
    code, configs, found = run_script(job, SLURM_JOB_NUM_NODES="1")
    assert (code, configs) == (0, ["none"])
    assert found == ["--gpus", "2", "--run", "r"]


def test_the_exit_code_of_the_job_is_that_of_the_script(run_script):
    job = Job(["--run", "r"], nodes=3, venv=run_script.venv)
    assert run_script(job, CODE="143")[0] == 143


def test_the_options_of_slurm_come_before_the_first_command():
    text = render(Job(nodes=2, gpus=4, cpu=16, memory="64G", partition="gpu", time="1-12:00:00"))
    head = text.partition("\n\n")[0].splitlines()
    assert head[0] == "#!/bin/bash"
    assert set(head[1:]) == {
        "#SBATCH --job-name=fives",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --gpus-per-node=4",
        "#SBATCH --cpus-per-task=16",
        "#SBATCH --mem=64G",
        "#SBATCH --partition=gpu",
        "#SBATCH --time=1-12:00:00",
        "#SBATCH --signal=TERM@120",
        "#SBATCH --output=%x-%j.log",
        "#SBATCH --requeue",
    }
    assert "gpus" not in render(Job(gpus=0))


def test_a_container_is_run_by_apptainer():
    job = Job(["--run", "r"], nodes=2, container="my image.sif", bind=["/data", "/runs"])
    last = shlex.split(render(job).splitlines()[-1])
    assert last[2:9] == ["apptainer", "exec", "--nv", "--bind", "/data", "--bind", "/runs"]
    assert last[9:15] == ["my image.sif", "python", "-m", "launch.cluster", "slurm", "--"]
    assert "--nv" not in render(Job(gpus=0, container="image.sif"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a b"}, "--name: expected letters, digits and"),
        ({"name": ""}, "--name: expected letters, digits and"),
        ({"partition": "gpu\n#SBATCH --x"}, "--partition: expected letters, digits and"),
        ({"time": "1 day"}, "--time: expected letters, digits and"),
        ({"memory": "64 G"}, "without spaces. Received: '64 G'."),
        ({"nodes": 0}, "--nodes: expected a whole number from 1. Received: 0."),
        ({"gpus": -1}, "--gpus: expected a whole number from 0. Received: -1."),
        ({"cpu": -1}, "--cpu: expected a whole number from 0. Received: -1."),
        ({"container": "i", "venv": "v"}, "--venv: is not for a job with --container"),
        ({"bind": ["/data"]}, "--bind: is for a job with --container only"),
    ],
)
def test_what_slurm_would_misread_is_refused(changes, message):
    with pytest.raises(UserError) as error:
        Job(**changes)
    assert message in str(error.value)


class TestSubmission:
    FLAGS = ("launch", "slurm", "--nodes=2", "--gpus=4")
    JOB = ("--", "--dataset", "/data", "--run", "/runs/run", "--epochs=2")

    def test_without_dry_run_sbatch_gets_the_script(self, cli, fake):
        kept = fake("sbatch")
        printed = cli(*self.FLAGS, "--dry_run", *self.JOB).stdout
        assert not kept.exists()
        assert cli(*self.FLAGS, *self.JOB).returncode == 0
        assert kept.read_text() == f"\n{printed}"

    def test_without_sbatch_the_way_out_is_told(self, cli, no_programs):
        done = cli(*self.FLAGS, *self.JOB)
        assert done.returncode == 2
        assert "sbatch: is not installed here" in done.stderr
