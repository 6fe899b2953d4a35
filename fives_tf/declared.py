"""Settings as fields of a dataclass: each is declared once, with its check and its line of help."""

import dataclasses
import math
from typing import Any

import yaml

from fives_tf.errors import UserError
from fives_tf.mapping import Mapping

VERSION = 1


def integer(default: int | None, text: str, minimum: int = 0) -> Any:
    """A whole number."""
    return setting(default, "integer", text, minimum=minimum)


def number(default: float | None, text: str, minimum: float = 0.0, maximum: float = 1e9) -> Any:
    """A number."""
    return setting(default, "number", text, minimum=minimum, maximum=maximum)


def integers(default: tuple[int, ...], text: str, minimum: int = 0) -> Any:
    """One or several whole numbers."""
    return setting(default, "integers", text, minimum=minimum)


def flag(default: bool, text: str) -> Any:
    """True or false."""
    return setting(default, "flag", text)


def choice(default: str | None, text: str, choices: tuple[str, ...]) -> Any:
    """One of some names."""
    return setting(default, "choice", text, choices=choices)


def setting(default: Any, kind: str, text: str, **limits: Any) -> Any:
    """A setting.

    Args:
        default: The default; None for what is chosen later.
        kind: "integer", "integers", "number", "numbers", "flag", "choice" or "text".
        text: The line of help.
        **limits: The `minimum` and `maximum`, or the `choices`.
    """
    return dataclasses.field(default=default, metadata={"kind": kind, "help": text, **limits})


def again(kind: type, name: str) -> Any:
    """Declares a setting as another dataclass does."""
    setting = kind.__dataclass_fields__[name]
    return dataclasses.field(default=setting.default, metadata=setting.metadata)


def check(config: Any) -> None:
    """Refuses a configuration with a value that its setting does not allow."""
    for setting in dataclasses.fields(config):
        _check(setting, getattr(config, setting.name))


def read(mapping: Mapping, kind: type) -> dict[str, Any]:
    """The settings of a kind of configuration that a mapping gives."""
    version = mapping.integer("version", VERSION)
    if version != VERSION:
        raise UserError(
            f"{mapping.place}: version {version} is not known to this program, which reads "
            f"version {VERSION}."
        )
    values = {setting.name: _read(setting, mapping) for setting in dataclasses.fields(kind)}
    mapping.finish()
    return {name: value for name, value in values.items() if value is not None}


def to_yaml(config: Any) -> str:
    """A configuration as YAML text, which `read` reads back."""
    values = {"version": VERSION} | {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in dataclasses.asdict(config).items()
        if value is not None
    }
    return yaml.safe_dump(values, sort_keys=False)


def _read(setting: dataclasses.Field, mapping: Mapping) -> Any:
    readers = {
        "integer": mapping.integer,
        "integers": mapping.integers,
        "number": mapping.number,
        "numbers": mapping.numbers,
        "flag": mapping.flag,
        "choice": mapping.text,
        "text": mapping.text,
    }
    return readers[setting.metadata["kind"]](setting.name, None)


def _check(setting: dataclasses.Field, value: Any) -> None:
    limits = setting.metadata
    if value is None and setting.default is None:
        return
    if limits["kind"] == "choice" and value not in limits["choices"]:
        raise _error(setting, f"one of {', '.join(limits['choices'])}", value)
    if limits["kind"] == "integer" and not _is_integer(value, limits["minimum"]):
        raise _error(setting, f"a whole number from {limits['minimum']}", value)
    if limits["kind"] == "integers" and not (
        value and all(_is_integer(one, limits["minimum"]) for one in value)
    ):
        raise _error(setting, f"whole numbers from {limits['minimum']}", value)
    if limits["kind"] == "number" and not (
        isinstance(value, int | float) and limits["minimum"] <= value <= limits["maximum"]
    ):
        raise _error(setting, f"from {limits['minimum']:g} to {limits['maximum']:g}", value)
    if limits["kind"] == "flag" and not isinstance(value, bool):
        raise _error(setting, "true or false", value)
    if limits["kind"] == "numbers" and not all(math.isfinite(one) for one in value):
        raise _error(setting, "finite numbers", value)


def _is_integer(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def _error(setting: dataclasses.Field, expected: str, received: Any) -> UserError:
    return UserError(f"`{setting.name}`: expected {expected}. Received: {received!r}.")
