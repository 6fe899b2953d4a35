"""Training as a job of Kubernetes: the documents that describe it, and their submission.

One node is a Job. Several are an Indexed Job with a headless Service, by which the pods find each
other: every pod derives TF_CONFIG from its index, and no operator is needed. The other kind is a
TFJob, whose operator sets TF_CONFIG.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from fives_tf.cli import TRY_AGAIN, USER_ERROR
from fives_tf.errors import UserError
from launch import cluster, submission

KINDS = ("job", "tfjob")
USER = 1000  # of the image; see the Dockerfile
CONTAINER = "tensorflow"  # the name that the operator of TFJob looks for

_TRAIN = ["python", "-m", "launch.train_job"]
_GRACE_SECONDS = 120  # to save a checkpoint after SIGTERM
_LONGEST_NAME = 50  # a host name, with -worker-9999 behind it, has at most 63 characters
_NAME = r"[a-z]([a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
_QUANTITY = r"[0-9]+(\.[0-9]+)?(m|[kMGTP]|[KMGTP]i)?"


@dataclass(frozen=True)
class Volume:
    """A claim of storage that the pods see at a path."""

    claim: str
    path: str
    read_only: bool = False

    @classmethod
    def parse(cls, text: str) -> "Volume":
        """Reads CLAIM:PATH or CLAIM:PATH:ro."""
        found = re.fullmatch(rf"(?P<claim>{_SUBDOMAIN}):(?P<path>/[^:\s]*)(?P<ro>:ro)?", text)
        if not found:
            raise UserError(
                "--volume: expected CLAIM:PATH or CLAIM:PATH:ro with an absolute path, such as "
                f"clicks-data:/data:ro. Received: {text!r}."
            )
        return cls(found["claim"], found["path"], bool(found["ro"]))


@dataclass(frozen=True)
class Job:
    """What is to run, and on what.

    Attributes:
        name: The name of the job.
        image: The container image, made from the Dockerfile.
        arguments: What `launch.train_job` is given.
        kind: `job` or `tfjob`.
        nodes: The number of pods.
        gpus: The GPUs of each pod.
        cpu: The processor cores of each pod, as Kubernetes writes quantities.
        memory: The memory of each pod, shared memory included.
        shm: How large the shared memory at /dev/shm may grow.
        namespace: The namespace; that of kubectl's context if empty.
        volumes: The storage of the pods.
        env_secret: A secret whose keys become environment variables, or nothing.
        retries: How often a pod that failed is replaced.
        port: Where the pods listen for each other.
    """

    name: str
    image: str
    arguments: Sequence[str] = ()
    kind: str = "job"
    nodes: int = 1
    gpus: int = 1
    cpu: str = "8"
    memory: str = "32Gi"
    shm: str = "8Gi"
    namespace: str = ""
    volumes: Sequence[Volume] = ()
    env_secret: str = ""
    retries: int = 3
    port: int = cluster.PORT

    def __post_init__(self):
        """Refuses what Kubernetes would refuse, or would accept and never run."""
        _check("--name", self.name, _NAME, "small letters, digits and -, a letter first")
        if len(self.name) > _LONGEST_NAME:
            raise UserError(
                f"--name: expected at most {_LONGEST_NAME} characters. Received: {self.name!r}."
            )
        _check("--image", self.image, r"[^\s]+", "the name of an image, without spaces")
        for flag in ("cpu", "memory", "shm"):
            text = "a quantity such as 8, 500m or 32Gi"
            _check(f"--{flag}", getattr(self, flag), _QUANTITY, text)
        if self.namespace:
            _check("--namespace", self.namespace, _NAME, "small letters, digits and -")
        if self.env_secret:
            _check("--env_secret", self.env_secret, _SUBDOMAIN, "the name of a secret")
        submission.check_least("--nodes", self.nodes, 1)
        submission.check_least("--gpus", self.gpus, 0)
        submission.check_least("--retries", self.retries, 0)
        paths = [volume.path for volume in self.volumes]
        if len({"/dev/shm", *paths}) <= len(paths):
            raise UserError(
                "--volume: expected a path of its own for each volume, other than /dev/shm. "
                f"Received: {', '.join(paths)}."
            )


def render(job: Job) -> str:
    """The YAML that describes a job to Kubernetes."""
    return yaml.dump_all(documents(job), Dumper=_Dumper, sort_keys=False, width=100)


def documents(job: Job) -> list[dict[str, Any]]:
    """The objects that make up a job."""
    if job.kind == "tfjob":
        return [_tfjob(job)]
    return [_service(job), _job(job)] if job.nodes > 1 else [_job(job)]


def submit(job: Job) -> None:
    """Hands a job to the cluster that kubectl is set up for."""
    submission.submit(["kubectl", "apply", "-f", "-"], render(job), "set up access to the cluster")


class _Dumper(yaml.SafeDumper):
    """Quotes texts that Kubernetes' reader takes for numbers or truth though PyYAML's does not."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "'" if re.match(r"[-+]?[.0-9]|[yYnN]$", text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def _job(job: Job) -> dict[str, Any]:
    """One pod, or as many as there are nodes, each with an index."""
    several = job.nodes > 1
    indexed = {"completionMode": "Indexed", "completions": job.nodes, "parallelism": job.nodes}
    spec = {
        **(indexed if several else {}),
        "backoffLimit": job.retries,
        "podFailurePolicy": {
            "rules": [
                # The user's mistakes stay, however often they are tried.
                {"action": "FailJob", "onExitCodes": _exit_code(USER_ERROR)},
                # If one of several pods fails, those that wait for it end too; that counts as one.
                {"action": "Ignore", "onExitCodes": _exit_code(TRY_AGAIN)},
                # A node that is drained is nobody's failure.
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
            ]
        },
        "template": _pod(job, derive=several),
    }
    spec["template"]["spec"]["restartPolicy"] = "Never"  # as a podFailurePolicy demands
    if several:
        spec["template"]["spec"]["subdomain"] = job.name
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(job), "spec": spec}


def _exit_code(code: int) -> dict[str, Any]:
    return {"containerName": CONTAINER, "operator": "In", "values": [code]}


def _service(job: Job) -> dict[str, Any]:
    """Gives each pod a host name, also before it is ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(job),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _labels(job),
            "ports": [{"name": "workers", "port": job.port}],
        },
    }


def _tfjob(job: Job) -> dict[str, Any]:
    worker = {
        "replicas": job.nodes,
        # From 128 on an exit code means a signal, and the pod is started again; 2 is final.
        "restartPolicy": "ExitCode",
        "template": _pod(job, derive=False),
    }
    # Kubeflow's namespaces add a sidecar of Istio, which would outlive the work.
    worker["template"]["metadata"]["annotations"] = {"sidecar.istio.io/inject": "false"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": _metadata(job),
        "spec": {
            "runPolicy": {"backoffLimit": job.retries * job.nodes, "cleanPodPolicy": "Running"},
            "tfReplicaSpecs": {"Worker": worker},
        },
    }


def _metadata(job: Job) -> dict[str, Any]:
    place = {"namespace": job.namespace} if job.namespace else {}
    return {"name": job.name, **place, "labels": _labels(job)}


def _labels(job: Job) -> dict[str, str]:
    return {"app.kubernetes.io/name": "fives-tf", "app.kubernetes.io/instance": job.name}


def _pod(job: Job, derive: bool) -> dict[str, Any]:
    """The template of a pod; if `derive`, its command derives TF_CONFIG first."""
    return {
        "metadata": {"labels": _labels(job)},
        "spec": {
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [_container(job, derive)],
            "volumes": [
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": job.shm}},
                *(_volume(index, volume) for index, volume in enumerate(job.volumes)),
            ],
        },
    }


def _container(job: Job, derive: bool) -> dict[str, Any]:
    wrap = ["python", "-m", "launch.cluster", "kubernetes", "--"] if derive else []
    secret = {"envFrom": [{"secretRef": {"name": job.env_secret}}]} if job.env_secret else {}
    port = "workers" if job.kind == "job" else "tfjob-port"
    amounts = {"cpu": job.cpu, "memory": job.memory}
    if job.gpus:
        amounts["nvidia.com/gpu"] = str(job.gpus)
    return {
        "name": CONTAINER,
        "image": job.image,
        "command": [*wrap, *_TRAIN],
        "args": [_literal(text) for text in submission.with_gpus(job.arguments, job.gpus)],
        **({"env": _addresses(job)} if derive else {}),
        **secret,
        **({"ports": [{"name": port, "containerPort": job.port}]} if job.nodes > 1 else {}),
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            *(_mount(index, volume) for index, volume in enumerate(job.volumes)),
        ],
    }


def _addresses(job: Job) -> list[dict[str, str]]:
    """What `launch.cluster` needs beside the index, which Kubernetes adds."""
    values = {
        cluster.JOB: job.name,
        cluster.NODES: str(job.nodes),
        cluster.SERVICE: job.name,
        cluster.PORT_VARIABLE: str(job.port),
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def _volume(index: int, volume: Volume) -> dict[str, Any]:
    claim = {"claimName": volume.claim, **({"readOnly": True} if volume.read_only else {})}
    return {"name": f"volume-{index}", "persistentVolumeClaim": claim}


def _mount(index: int, volume: Volume) -> dict[str, Any]:
    mount = {"name": f"volume-{index}", "mountPath": volume.path}
    return {**mount, **({"readOnly": True} if volume.read_only else {})}


def _literal(text: str) -> str:
    """Keeps Kubernetes from putting the value of a variable in place of $(NAME)."""
    return text.replace("$", "$$")


def _check(flag: str, text: str, pattern: str, expected: str) -> None:
    if not re.fullmatch(pattern, text):
        raise UserError(f"{flag}: expected {expected}. Received: {text!r}.")
