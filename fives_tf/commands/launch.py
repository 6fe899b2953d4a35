"""`fives launch`: starts training here, on Kubernetes or under Slurm, or a Flink cluster here."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.errors import UserError

if TYPE_CHECKING:
    from launch.flink_local import Cluster

HELP = "start training here, on Kubernetes or under Slurm; or a Flink cluster on this machine"

_JOB_EPILOG = (
    "What follows `--` goes to `python -m launch.train_job`: --log with --schema, or --dataset; "
    "--run; --status; and settings of `fives search`. `python -m launch.train_job --help` tells "
    "more."
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the actions `local`, `k8s`, `slurm` and `flink-local` and their flags."""
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    _add_local(actions)
    _add_k8s(actions)
    _add_slurm(actions)
    _add_flink_local(actions)


def run(args: argparse.Namespace) -> int:
    """Runs the action; returns the exit code."""
    actions = {"local": _local, "k8s": _k8s, "slurm": _slurm, "flink-local": _flink_local}
    return actions[args.action](args)


def _add_local(actions: Any) -> None:
    text = "run a command as several workers on this machine, with TF_CONFIG set for each"
    parser = _add_action(actions, "local", text, "--workers N -- COMMAND ...")
    parser.epilog = (
        "Each line that a worker tells has its number in front. If one fails the others are ended, "
        "and the exit code is that of the one that failed."
    )
    parser.add_argument(
        "--workers", type=int, default=2, metavar="N", help="how many (default: %(default)s)"
    )
    parser.add_argument(
        "--grace_seconds",
        type=float,
        default=30,
        metavar="S",
        help="how long a worker may go on when it is told to stop (default: %(default)s)",
    )
    parser.add_argument("arguments", nargs="...", metavar="COMMAND", help="what each worker runs")


def _add_k8s(actions: Any) -> None:
    text = "run a training job on Kubernetes, on one node or several"
    parser = _add_action(actions, "k8s", text, "--name NAME --image IMAGE [flags] -- ARGUMENTS")
    parser.epilog = _JOB_EPILOG
    parser.add_argument("--name", required=True, help="the name of the job")
    parser.add_argument("--image", required=True, help="the image, built from the Dockerfile")
    parser.add_argument(
        "--kind",
        choices=("job", "tfjob"),
        default="job",
        help="a Job of Kubernetes itself, or a TFJob of Kubeflow (default: %(default)s)",
    )
    _add_size(parser)
    parser.add_argument("--cpu", default="8", help="cores of each node (default: %(default)s)")
    parser.add_argument(
        "--memory",
        default="32Gi",
        help="memory of each node, shared memory included (default: %(default)s)",
    )
    parser.add_argument(
        "--shm", default="8Gi", help="shared memory at /dev/shm (default: %(default)s)"
    )
    parser.add_argument("--namespace", default="", help="default: that of kubectl's context")
    parser.add_argument(
        "--volume",
        action="append",
        default=[],
        metavar="CLAIM:PATH[:ro]",
        help="show a PersistentVolumeClaim to the pods at a path; may be given several times",
    )
    parser.add_argument(
        "--env_secret",
        default="",
        metavar="NAME",
        help="a Secret whose keys become environment variables, such as access keys of a store",
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=3,
        metavar="N",
        help="how often a node that failed is started again; it goes on where it was "
        "(default: %(default)s)",
    )
    _add_submission(parser, "kubectl apply")


def _add_slurm(actions: Any) -> None:
    text = "run a training job under Slurm, on one node or several"
    parser = _add_action(actions, "slurm", text, "[flags] -- ARGUMENTS")
    parser.epilog = _JOB_EPILOG
    parser.add_argument("--name", default="fives", help="of the job (default: %(default)s)")
    _add_size(parser)
    parser.add_argument(
        "--cpu", type=int, default=0, metavar="N", help="cores of each node; default: Slurm's"
    )
    parser.add_argument("--memory", default="", help="of each node, such as 64G; default: Slurm's")
    parser.add_argument("--partition", default="", help="default: Slurm's")
    parser.add_argument("--time", default="", help="the time limit; default: the partition's")
    parser.add_argument(
        "--container", default="", metavar="IMAGE", help="an image that Apptainer runs"
    )
    parser.add_argument(
        "--bind",
        action="append",
        default=[],
        metavar="PATH",
        help="a path that the container sees too; may be given several times",
    )
    parser.add_argument(
        "--venv",
        default="",
        metavar="DIR",
        help="a virtual environment on a shared disk; default: the `python` on the PATH",
    )
    _add_submission(parser, "sbatch")


def _add_flink_local(actions: Any) -> None:
    text = "run a Flink cluster on this machine, with Beam's Python workers, for `fives preprocess`"
    parser = _add_action(actions, "flink-local", text, "[flags]")
    parser.epilog = "Runs until Ctrl-C or SIGTERM, and tells the flags to submit a pipeline with."
    parser.add_argument(
        "--task_managers", type=int, default=2, metavar="N", help="how many (default: %(default)s)"
    )
    parser.add_argument(
        "--flink", default="1.19.3", metavar="RELEASE", help="of Flink (default: %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="of the JobManager; default: a free one"
    )
    parser.add_argument(
        "--pool_port", type=int, default=0, metavar="N", help="of the pool; default: a free one"
    )
    parser.add_argument(
        "--logs",
        default="flink-logs",
        metavar="DIR",
        help="what the processes tell, a file each (default: %(default)s)",
    )
    add_json_flag(parser)


def _add_action(actions: Any, name: str, text: str, usage: str) -> argparse.ArgumentParser:
    return actions.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        usage=f"fives launch {name} {usage}",
        allow_abbrev=False,
    )


def _add_size(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--nodes", type=int, default=1, metavar="N", help="how many (default: %(default)s)"
    )
    parser.add_argument(
        "--gpus", type=int, default=1, metavar="N", help="of each node (default: %(default)s)"
    )


def _add_submission(parser: argparse.ArgumentParser, program: str) -> None:
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help=f"print what would be submitted by `{program}`, and do nothing",
    )
    parser.add_argument(
        "arguments", nargs="...", metavar="ARGUMENTS", help="of launch.train_job, after `--`"
    )


def _local(args: argparse.Namespace) -> int:
    from launch import local

    command = _after_dashes(args)
    if not command:
        raise UserError(
            "COMMAND: expected what each worker is to run, such as `fives launch local --workers 2 "
            "-- fives search DATASET --run RUN`."
        )
    if args.workers < 1:
        raise UserError(f"--workers: expected a number from 1. Received: {args.workers}.")
    if not 0 <= args.grace_seconds < float("inf"):
        raise UserError(f"--grace_seconds: expected from 0. Received: {args.grace_seconds}.")
    return local.launch(command, args.workers, args.grace_seconds)


def _k8s(args: argparse.Namespace) -> int:
    from launch import kubernetes

    job = kubernetes.Job(
        name=args.name,
        image=args.image,
        arguments=_job_arguments(args),
        kind=args.kind,
        nodes=args.nodes,
        gpus=args.gpus,
        cpu=args.cpu,
        memory=args.memory,
        shm=args.shm,
        namespace=args.namespace,
        volumes=[kubernetes.Volume.parse(text) for text in args.volume],
        env_secret=args.env_secret,
        retries=args.retries,
    )
    return _submit(kubernetes, job, args.dry_run)


def _slurm(args: argparse.Namespace) -> int:
    from launch import slurm

    job = slurm.Job(
        arguments=_job_arguments(args),
        name=args.name,
        nodes=args.nodes,
        gpus=args.gpus,
        cpu=args.cpu,
        memory=args.memory,
        partition=args.partition,
        time=args.time,
        container=args.container,
        bind=args.bind,
        venv=args.venv,
    )
    return _submit(slurm, job, args.dry_run)


def _flink_local(args: argparse.Namespace) -> int:
    from launch import flink_local, submission

    submission.check_least("--task_managers", args.task_managers, 1)
    return flink_local.launch(
        flink_local.Config(
            task_managers=args.task_managers,
            release=args.flink,
            port=args.port,
            pool_port=args.pool_port,
            logs=args.logs,
        ),
        _print_cluster if args.json else flink_local.tell,
    )


def _print_cluster(cluster: "Cluster") -> None:
    """Prints where a Flink cluster is; it goes on, so that a reader must have it at once."""
    print_json(
        {
            "release": cluster.release,
            "master": cluster.master,
            "pool": cluster.pool,
            "logs": str(cluster.logs),
            "flags": cluster.flags,
        }
    )
    sys.stdout.flush()


def _submit(manager: Any, job: Any, dry_run: bool) -> int:
    if dry_run:
        print(manager.render(job), end="")
    else:
        manager.submit(job)
    return 0


def _job_arguments(args: argparse.Namespace) -> list[str]:
    """The arguments of the job, checked: it must not wait in a queue to find a wrong flag."""
    from launch import train_job

    arguments = _after_dashes(args)
    train_job.check_arguments(arguments)
    return arguments


def _after_dashes(args: argparse.Namespace) -> list[str]:
    return args.arguments[1:] if args.arguments[:1] == ["--"] else args.arguments
