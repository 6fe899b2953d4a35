"""Python packages: whether they load, and what they say of themselves."""

import importlib
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fives_tf.doctor.finding import MISSING, OK, Finding
from fives_tf.doctor.processes import Answer, call_each

SECONDS = 60.0  # TensorFlow on a cold network disk


@dataclass(frozen=True)
class Package:
    """A package that pip installs.

    Attributes:
        name: Its name there.
        module: A module of it that shows by its import that the package works.
        use: What it is needed for.
        remedy: How to get it.
    """

    name: str
    module: str
    use: str
    remedy: str


def load_each(packages: Sequence[Package]) -> dict[str, Answer]:
    """Imports packages in another process; what `load` answers, by the names of the packages."""
    asked = [(package.module, package.name) for package in packages]
    answers = call_each(load, asked, SECONDS)
    return {package.name: answer for package, answer in zip(packages, answers, strict=True)}


def load(asked: tuple[str, str]) -> dict[str, Any] | None:
    """Imports a module and tells what is worth knowing of it; None if it is not installed.

    Args:
        asked: The module, and the name of its package.
    """
    module, package = asked
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name in (module, module.partition(".")[0]):
            return None
        raise
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        version = getattr(loaded, "__version__", "of an unknown version")
    return {"version": version, **_FACTS.get(module, dict)()}


def judge(package: Package, answer: Answer) -> Finding:
    """What an answer means."""
    if answer.problem:
        found = f"does not load: {answer.problem}"
    elif answer.value is None:
        found = "not installed"
    else:
        return Finding(package.name, OK, answer.value["version"], package.use)
    return Finding(package.name, MISSING, found, package.use, package.remedy)


def _gpus() -> dict[str, Any]:
    """The GPUs that TensorFlow sees; it takes no memory on them for that."""
    import tensorflow as tf

    details = tf.config.experimental.get_device_details
    gpus = tf.config.list_physical_devices("GPU")
    return {"gpus": [details(gpu).get("device_name", gpu.name) for gpu in gpus]}


def _schemes() -> dict[str, Any]:
    """The places that TensorFlow can reach; without its native code tensorflow-io adds none."""
    import tensorflow as tf

    return {"schemes": tf.io.gfile.get_registered_schemes()}


_FACTS = {"tensorflow": _gpus, "tensorflow_io": _schemes}
