"""What the commands that take settings share: a flag for each setting, and a file of them."""

import argparse
import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fives_tf import config


def add_setting(
    group: Any,
    setting: dataclasses.Field,
    shorthands: Mapping[str, str] = MappingProxyType({}),
    paper: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Adds the flag of a setting; its value is None unless it is given.

    Args:
        group: Where to add it.
        setting: The setting.
        shorthands: Values that have a flag of their own, and the help of each.
        paper: The values of the paper, which the help tells where they differ.
    """
    facts = setting.metadata
    options: dict[str, Any] = {"dest": setting.name, "help": _help(setting, paper)}
    flags = [f"--{setting.name}"]
    if facts["kind"] == "flag":
        flags.append(f"--no_{setting.name}")
        options["action"] = _YesOrNo
    elif facts["kind"] == "choice":
        options["choices"] = facts["choices"]
    else:
        options["type"], options["metavar"] = _TYPES[facts["kind"]]
    if shorthands:
        group = group.add_mutually_exclusive_group()
    for name, text in shorthands.items():
        group.add_argument(
            f"--{name}", dest=setting.name, action="store_const", const=name, help=text
        )
    group.add_argument(*flags, **options)


def given_settings(args: argparse.Namespace, kind: type[config.Config]) -> dict[str, Any]:
    """The settings that the flags and the file of --config give."""
    settings = config.load_settings(args.config, kind) if args.config else {}
    flags = {setting.name: getattr(args, setting.name) for setting in config.settings(kind)}
    return settings | {name: value for name, value in flags.items() if value is not None}


def _help(setting: dataclasses.Field, paper: Mapping[str, Any]) -> str:
    """The help of a setting with its default, and the paper's if that differs."""
    defaults = []
    if setting.default not in (None, (), ""):
        defaults.append(f"default: {_text(setting.default)}")
    if paper.get(setting.name, setting.default) != setting.default:
        defaults.append(f"--paper: {_text(paper[setting.name])}")
    text = f"{setting.metadata['help']} ({'; '.join(defaults)})" if defaults else None
    return (text or setting.metadata["help"]).replace("%", "%%")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


class _YesOrNo(argparse.Action):
    """A flag `--name` for yes and `--no_name` for no."""

    def __init__(self, **options: Any):
        super().__init__(nargs=0, **options)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, not option_string.startswith("--no_"))


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _unexpected("a whole number", text) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _unexpected("a number", text) from None


def _integers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part)
    except ValueError:
        raise _unexpected("whole numbers separated by commas", text) from None


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part)
    except ValueError:
        raise _unexpected("numbers separated by commas", text) from None


def _unexpected(expected: str, text: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"expected {expected}. Received: {text!r}.")


_TYPES = {
    "integer": (_integer, "N"),
    "integers": (_integers, "LIST"),
    "number": (_number, "X"),
    "numbers": (_numbers, "LIST"),
    "text": (str, "TEXT"),
}
