"""Looks at the machine and tells what is missing for which task.

Whether something works is found out by doing it, in another process where it may crash or hang.
"""

import dataclasses
import glob
import os
from concurrent.futures import ThreadPoolExecutor

from fives_tf import __version__
from fives_tf.doctor import machine, needs, stores
from fives_tf.doctor.finding import MISSING, OK, WARNING, Finding, Task
from fives_tf.doctor.packages import Package, judge, load_each
from fives_tf.doctor.processes import Answer
from fives_tf.doctor.programs import look

BASIC, TRIAL = "search, fit, predict", "the store of --storage"
_ADDED = {"s3", "hdfs"}  # the schemes that TensorFlow has by tensorflow-io
_THREADS = 16  # each waits for a process
_JAVA = "17"  # what Flink 1.19 was run with


def examine(store: str | None = None) -> list[Task]:
    """Looks at all that the tasks of this program need.

    Args:
        store: The URL of a directory at a store to try, such as `s3://bucket/directory`.

    Returns:
        The tasks; required are that which everyone needs, and the store if one is to be tried.
    """
    with ThreadPoolExecutor(_THREADS) as pool:
        trial = pool.submit(stores.trial, store) if store else None
        # TensorFlow takes longest, so it is imported in one process only.
        learning = (*needs.CORE, *needs.PARTS, needs.TENSORFLOW_IO, needs.SERVING_API)
        others = (needs.PIP, *needs.SKLEARN, *needs.BENCH)
        loads = [pool.submit(load_each, packages) for packages in (learning, others)]
        looks = {program.name: pool.submit(look, program) for program in needs.PROGRAMS}
        endpoint = pool.submit(stores.s3_endpoint, os.environ)
        answers = {name: answer for load in loads for name, answer in load.result().items()}
        programs = {name: finding.result() for name, finding in looks.items()}
        settings = [endpoint.result(), stores.s3_credentials(os.environ)]
        tried = {TRIAL: [trial.result()]} if trial else {}

    def judged(*packages: Package) -> list[Finding]:
        return [judge(package, answers[package.name]) for package in packages]

    tensorflow = answers[needs.TENSORFLOW.name]
    tasks = {
        BASIC: [
            machine.python(),
            *judged(*needs.CORE),
            _own_parts(answers),
            machine.processor(),
            machine.memory(),
            machine.working_directory(),
            machine.temporary_directory(),
        ],
        "preprocess on a cluster": [
            _java(programs["Java"]),
            programs["Maven"],
            *judged(needs.PIP),
        ],
        "object storage": [
            _tensorflow_io(answers[needs.TENSORFLOW_IO.name], tensorflow),
            *settings,
        ],
        **tried,
        "GPU training": [_gpus(tensorflow)],
        "serving": [
            *judged(needs.SERVING_API),
            programs["tensorflow_model_server"],
            programs["Docker Compose"],
        ],
        "launch": [
            programs[name]
            for name in ("Docker client", "Docker engine", "kubectl", "Kubernetes", "sbatch")
        ],
        "scikit-learn": judged(*needs.SKLEARN),
        "benchmarks": judged(*needs.BENCH),
    }
    return [
        Task(name, [_public(one) for one in findings], required=name in (BASIC, TRIAL))
        for name, findings in tasks.items()
    ]


def _own_parts(answers: dict[str, Answer]) -> Finding:
    """This program: whether all that it imports is there."""
    use = "everything"
    for part in needs.PARTS:
        answer = answers[part.name]
        if answer.problem or answer.value is None:
            found = f"{part.module} does not load: {answer.problem or 'it is not there'}"
            return Finding("fives-tf", MISSING, found, use, part.remedy)
    return Finding("fives-tf", OK, f"{__version__}, all its parts load", use)


def _java(found: Finding) -> Finding:
    major = found.found.removeprefix("1.").split(".")[0]
    if found.state != OK or major == _JAVA:
        return found
    remedy = f"Flink was run with Java {_JAVA} only; install that one if it fails"
    return dataclasses.replace(found, state=WARNING, remedy=remedy)


def _tensorflow_io(answer: Answer, tensorflow: Answer) -> Finding:
    """Whether TensorFlow reaches stores by it; the package may be there without its native code."""
    package = needs.TENSORFLOW_IO
    finding = judge(package, answer)
    if finding.state == OK:
        if set(answer.value["schemes"]) >= _ADDED:
            found = f"{finding.found}, with which TensorFlow opens {' and '.join(sorted(_ADDED))}"
            return dataclasses.replace(finding, found=found)
        found = f"{finding.found}, but its native code does not load"
        finding = Finding(package.name, MISSING, found, package.use, package.remedy)
    if tensorflow.value:
        found = f"{finding.found}; TensorFlow is {tensorflow.value['version']}"
        finding = dataclasses.replace(finding, found=found)
    return finding


def _gpus(tensorflow: Answer) -> Finding:
    use = "training on GPUs; without one everything runs on the processor, only slower"
    if not tensorflow.value:
        return Finding("GPU", MISSING, "not known, as TensorFlow does not load", use)
    gpus = tensorflow.value["gpus"]
    if gpus:
        return Finding("GPU", OK, f"{len(gpus)}: {', '.join(gpus)}", use)
    there = len(glob.glob("/dev/nvidia[0-9]*"))
    if there:
        found = f"{there} at /dev/nvidia*, but TensorFlow sees none"
        remedy = (
            "pip install 'tensorflow[and-cuda]' of the same version, or mend CUDA_VISIBLE_DEVICES"
        )
        return Finding("GPU", WARNING, found, use, remedy)
    return Finding("GPU", MISSING, "TensorFlow sees none", use, "choose a machine with GPUs")


def _public(finding: Finding) -> Finding:
    """A finding that can be shown to anyone."""
    fields = dataclasses.asdict(finding)
    return Finding(
        **{name: stores.without_secrets(text, os.environ) for name, text in fields.items()}
    )
