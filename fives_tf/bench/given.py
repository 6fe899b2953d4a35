"""Settings that a flag gives to a benchmark."""

import argparse
from collections.abc import Sequence
from typing import Any

from fives_tf.config import Config, SearchConfig, read_settings, settings
from fives_tf.errors import UserError, nearest


def add_set_flag(parser: argparse.ArgumentParser) -> None:
    """Adds the flag for settings that differ from the default."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting, as in config.yaml; may be repeated",
    )


def read_set_flag(
    texts: list[str],
    reserved: tuple[str, ...] = ("seed",),
    kinds: Sequence[type[Config]] = (SearchConfig,),
) -> dict[str, Any]:
    """The settings that `--set` gave.

    Args:
        texts: What was given.
        reserved: Those that the program itself decides, and are refused.
        kinds: What may have them.
    """
    known = {one.name: kind for kind in kinds for one in settings(kind)}
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--set: expected NAME=VALUE. Received: {text}.")
        if name in reserved:
            raise UserError(f"--set: `{name}` is decided by this program; leave it out.")
        if name not in known:
            raise UserError(f"--set: no setting `{name}`{nearest(name, known)}")
        if "\n" in value:  # there might be further settings behind it
            raise UserError(f"--set: expected one line. Received: {text!r}.")
        found |= read_settings(f"{name}: {value}", "--set", known[name])
    return found
