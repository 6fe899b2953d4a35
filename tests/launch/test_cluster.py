"""TF_CONFIG from what Kubernetes and Slurm tell."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fives_tf.errors import UserError
from launch import cluster

POD = {
    "JOB_COMPLETION_INDEX": "1",
    "FIVES_JOB": "clicks",
    "FIVES_NODES": "2",
    "FIVES_SERVICE": "clicks",
    "FIVES_PORT": "2222",
}
# As in the second task of `srun --nodes=4 --ntasks-per-node=1`.
SLURM = {
    "SLURM_JOB_ID": "81734",
    "SLURM_JOB_NODELIST": "gpu[01-03],login-2",
    "SLURM_NODEID": "1",
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "4",
}


def test_the_config_has_the_form_that_tensorflow_documents():
    assert cluster.tf_config(["a", "b"], 1, 2222) == {
        "cluster": {"worker": ["a:2222", "b:2222"]},
        "task": {"type": "worker", "index": 1},
    }


def test_a_pod_of_an_indexed_job_knows_all_by_name():
    assert cluster.from_kubernetes(POD) == cluster.tf_config(
        ["clicks-0.clicks", "clicks-1.clicks"], 1, 2222
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("JOB_COMPLETION_INDEX", None, "JOB_COMPLETION_INDEX: this environment variable is not"),
        ("FIVES_SERVICE", "", "FIVES_SERVICE: this environment variable is not set"),
        ("FIVES_NODES", "two", "FIVES_NODES: expected a whole number from 1. Received: 'two'."),
        ("JOB_COMPLETION_INDEX", "2", "expected a number below FIVES_NODES, which is 2"),
        ("FIVES_PORT", "70000", "FIVES_PORT: expected a port, at most 65535. Received: 70000."),
    ],
)
def test_a_pod_with_a_variable_amiss_is_told_which(name, value, message):
    environ = {key: text for key, text in {**POD, name: value}.items() if text is not None}
    with pytest.raises(UserError) as error:
        cluster.from_kubernetes(environ)
    assert message in str(error.value)


def test_a_slurm_task_knows_all_nodes_and_a_port_of_the_job():
    assert cluster.from_slurm(SLURM) == cluster.tf_config(
        ["gpu01", "gpu02", "gpu03", "login-2"], 1, 12_000 + 81734 % 20_000
    )
    assert cluster.from_slurm({**SLURM, "FIVES_PORT": "99"})["cluster"]["worker"][0] == "gpu01:99"
    del (other := dict(SLURM))["SLURM_NODEID"]
    assert cluster.from_slurm(other) == cluster.from_slurm(SLURM)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"SLURM_JOB_NODELIST": ""}, "SLURM_JOB_NODELIST: this environment variable is not set"),
        ({"SLURM_NODEID": "", "SLURM_PROCID": ""}, "`srun` in a Slurm job"),
        ({"SLURM_PROCID": "3"}, "Received: 3. Start the job with --ntasks-per-node=1."),
        ({"SLURM_NODEID": "4", "SLURM_PROCID": "4"}, "expected a number below 4"),
        ({"SLURM_NODEID": "x"}, "SLURM_NODEID: expected a whole number from 0. Received: 'x'."),
    ],
)
def test_a_slurm_task_with_a_variable_amiss_is_told_which(changes, message):
    with pytest.raises(UserError) as error:
        cluster.from_slurm({**SLURM, **changes})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("cpu5", "cpu5"),
        ("gpu[01-03,07],cpu5", "gpu01 gpu02 gpu03 gpu07 cpu5"),
        ("a1,b[9-11]", "a1 b9 b10 b11"),
        ("r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"),
        ("node[8,099-100]-ib.example", "node8-ib.example node099-ib.example node100-ib.example"),
    ],
)
def test_a_list_of_hosts_is_expanded_as_slurm_does(text, hosts):
    assert cluster.expand_hosts(text) == hosts.split()


@settings(deadline=None)
@given(st.sets(st.integers(0, 999), min_size=1))
def test_numbers_in_brackets_come_back(numbers):
    items = [f"{number:03}" for number in sorted(numbers)]
    assert cluster.expand_hosts(f"n[{','.join(items)}]") == [f"n{item}" for item in items]


@pytest.mark.parametrize(
    "text",
    [
        *("", "a,", ",a", "a[1", "a]1[", "a[]", "a[2-1]", "a[1-2-3]", "a[x]", "a b", "a[[1]]"),
        *("a[0-99999999]", "a[0-999][0-999]"),
    ],
)
def test_a_list_of_another_form_is_refused(text):
    with pytest.raises(UserError, match="SLURM_JOB_NODELIST: expected a list of hosts"):
        cluster.expand_hosts(text)


def program(*arguments: str, **environ: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "launch.cluster", *arguments]
    return subprocess.run(
        command, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60
    )


def test_the_program_prints_what_a_shell_can_export():
    done = program("slurm", **SLURM)
    assert (done.returncode, json.loads(done.stdout)) == (0, cluster.from_slurm(SLURM))


def test_the_program_becomes_a_command():
    code = "import os, sys; print(os.environ['TF_CONFIG']); sys.exit(7)"
    done = program("kubernetes", "--", sys.executable, "-c", code, **POD)
    assert (done.returncode, json.loads(done.stdout)) == (7, cluster.from_kubernetes(POD))


def test_the_program_tells_a_mistake_in_one_message():
    done = program("slurm", **{**SLURM, "SLURM_JOB_NODELIST": "a["})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("launch.cluster: SLURM_JOB_NODELIST: expected")
    done = program("slurm", "--", "no-such-command", **SLURM)
    assert done.returncode == 2
    assert "no-such-command: cannot be started (No such file or directory)." in done.stderr
