"""What a result states beside its figures: the machine, the versions, the settings."""

import importlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import yaml

from fives_tf.config import Config

TRAINING = ("fives-tf", "tensorflow", "keras", "numpy")
"""The packages whose versions matter to what a training gives."""


EXTRA = "pip install 'fives-tf[bench]'"
"""What brings all that a benchmark may need."""


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True


def machine() -> dict[str, Any]:
    """What is worth knowing of the machine, and does not tell whose it is."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "memory_gibibytes": round(memory / 2**30, 1),
        "python": platform.python_version(),
    }


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """The versions of packages, of those that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


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
