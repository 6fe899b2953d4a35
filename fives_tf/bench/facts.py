"""What a result states beside its figures: the machine, the versions, the settings."""

import importlib
import os
import platform
from collections.abc import Iterable
from typing import Any

import yaml

from fives_tf.config import Config
from fives_tf.versions import TRAINING

LEARNING = (*TRAINING, "catboost", "lightgbm", "xgboost")
"""The packages whose versions matter to what is learned, trees included."""

EXTRA = "pip install 'fives-tf[bench]'"
"""What brings all that a benchmark may need."""


def obstacle(package: str) -> str | None:
    """Why a package cannot be used; None if it can."""
    try:
        importlib.import_module(package)
    except Exception as error:  # where a shared library is missing, any kind is raised
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            return f"not installed: {EXTRA}"
        return f"does not load: {type(error).__name__}: {error}".splitlines()[0]
    return None


def machine() -> dict[str, Any]:
    """What is worth knowing of the machine, and does not tell whose it is."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gibibytes": round(memory / 2**30, 1),
        "python": platform.python_version(),
    }


def all_versions(found: Iterable[dict[str, str]]) -> dict[str, list[str]]:
    """For each package all versions that occur."""
    every: dict[str, set[str]] = {}
    for one in found:
        for package, number in one.items():
            every.setdefault(package, set()).add(number)
    return {package: sorted(numbers) for package, numbers in sorted(every.items())}


def config_values(config: Config) -> dict[str, Any]:
    """The settings as `config.yaml` has them, but for the seed, which results state elsewhere."""
    values = yaml.safe_load(config.to_yaml())
    return {name: value for name, value in values.items() if name != "seed"}


def configs_once(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Cells with the number of their configuration, if they have one, in place of the whole."""
    configs: list[dict[str, Any]] = []
    for cell in cells:
        if "config" in cell and cell["config"] not in configs:
            configs.append(cell["config"])
    numbered = [
        cell | {"config": configs.index(cell["config"])} if "config" in cell else cell
        for cell in cells
    ]
    return {"configs": configs, "cells": numbered}
