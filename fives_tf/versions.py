"""The versions of packages, which results state."""

from importlib.metadata import PackageNotFoundError, version

TRAINING = ("fives-tf", "tensorflow", "keras", "numpy")
"""The packages whose versions matter to what a training gives."""


def versions(packages: tuple[str, ...] = TRAINING) -> dict[str, str]:
    """The versions of packages, of those that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
