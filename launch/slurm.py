"""Training as a job of Slurm: the batch script that describes it, and its submission."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from fives_tf.errors import UserError
from launch import submission

# Slurm reads the lines that begin with #SBATCH before any shell does, with rules of its own.
_PLAIN = r"[A-Za-z0-9._:+=/%@,-]+"
_GRACE_SECONDS = 120  # to save a checkpoint before the time limit


@dataclass(frozen=True)
class Job:
    """What is to run, and on what.

    Attributes:
        arguments: What `launch.train_job` is given.
        name: The name of the job.
        nodes: The number of nodes, with one task on each.
        gpus: The GPUs of each node.
        cpu: The processor cores of each node; Slurm's default if 0.
        memory: The memory of each node, such as 64G; Slurm's default if empty.
        partition: The partition; Slurm's default if empty.
        time: The time limit; that of the partition if empty.
        container: An image that Apptainer runs, or nothing.
        bind: Paths that the container sees, as Apptainer's --bind takes them.
        venv: A virtual environment on a shared disk, or nothing: then `python` on the PATH.
    """

    arguments: Sequence[str] = ()
    name: str = "fives"
    nodes: int = 1
    gpus: int = 1
    cpu: int = 0
    memory: str = ""
    partition: str = ""
    time: str = ""
    container: str = ""
    bind: Sequence[str] = ()
    venv: str = ""

    def __post_init__(self):
        """Refuses what Slurm would read otherwise than it is meant."""
        for flag in ("name", "memory", "partition", "time"):
            value = getattr(self, flag)
            if not re.fullmatch(_PLAIN, value) and (value or flag == "name"):
                raise UserError(
                    f"--{flag}: expected letters, digits and . _ : + = / % @ , - without spaces. "
                    f"Received: {value!r}."
                )
        if self.container and self.venv:
            raise UserError("--venv: is not for a job with --container; leave one of them out.")
        if self.bind and not self.container:
            raise UserError("--bind: is for a job with --container only; leave it out.")
        submission.check_least("--nodes", self.nodes, 1)
        submission.check_least("--gpus", self.gpus, 0)
        submission.check_least("--cpu", self.cpu, 0)


def render(job: Job) -> str:
    """The batch script of a job."""
    options = {
        "job-name": job.name,
        "nodes": job.nodes,
        "ntasks-per-node": 1,
        "gpus-per-node": job.gpus,
        "cpus-per-task": job.cpu,
        "mem": job.memory,
        "partition": job.partition,
        "time": job.time,
        "signal": f"TERM@{_GRACE_SECONDS}",
        "output": "%x-%j.log",
    }
    lines = [f"#SBATCH --{name}={value}" for name, value in options.items() if value]
    return "\n".join(
        [
            "#!/bin/bash",
            *lines,
            "#SBATCH --requeue",
            "",
            "set -euo pipefail",
            "# One task a node. If one fails, the others would wait for it: they end too.",
            f"srun --kill-on-bad-exit=1 {shlex.join(_command(job))}",
            "",
        ]
    )


def submit(job: Job) -> None:
    """Hands a job to Slurm."""
    submission.submit(["sbatch"], render(job), "correct the flags that it refused")


def _command(job: Job) -> list[str]:
    """What runs on each node: TF_CONFIG is derived from Slurm's variables if there are several."""
    python = f"{job.venv.rstrip('/')}/bin/python" if job.venv else "python"
    inside: list[str] = []
    if job.container:
        binds = [part for path in job.bind for part in ("--bind", path)]
        inside = ["apptainer", "exec", *(["--nv"] if job.gpus else []), *binds, job.container]
    derive = [python, "-m", "launch.cluster", "slurm", "--"] if job.nodes > 1 else []
    train = [python, "-m", "launch.train_job", *submission.with_gpus(job.arguments, job.gpus)]
    return [*inside, *derive, *train]
