"""Reads a user's YAML mapping key by key, with errors that name the place."""

import math
import os
from pathlib import Path
from typing import Any

import yaml

from fives_tf import storage
from fives_tf.errors import UserError, nearest

_REQUIRED: Any = object()


class _Loader(yaml.BaseLoader):
    """Knows strings, lists and mappings only, and refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(
                    problem=f"the key `{key}` stands twice; remove one",
                    problem_mark=node.start_mark,
                )
        return super().construct_mapping(node, deep)


class Mapping:
    """A typed view of one YAML mapping that remembers which keys were asked for.

    YAML is loaded without any guess at types: `yes`, `01` and `1.0` stay the text that stands in
    the file, so that a label value or a missing marker is compared with the log as written. Each
    accessor converts what it needs, and `finish` refuses the keys that no accessor asked for.

    Example:
        mapping = Mapping({"min_count": "5"}, "schema.yaml")
        mapping.integer("min_count", minimum=1)  # 5
        mapping.finish()
    """

    def __init__(self, values: dict[str, Any], place: str):
        self._values = values
        self._known: list[str] = []
        self.place = place

    @classmethod
    def load(cls, path: str | Path) -> "Mapping":
        """Reads a YAML file whose top level is a mapping."""
        try:
            text = storage.read(os.fspath(path)).decode()
        except UnicodeDecodeError:
            raise UserError(f"{path}: is not UTF-8 text; save it as UTF-8.") from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, place: str) -> "Mapping":
        """Reads YAML text whose top level is a mapping; `place` names it in errors."""
        try:
            values = yaml.load(text, Loader=_Loader)
        except yaml.YAMLError as error:
            raise UserError(f"{place}: is not valid YAML: {error}") from None
        if not isinstance(values, dict):
            raise UserError(f"{place}: expected a mapping of keys to values at the top level.")
        return cls(values, place)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def keys(self) -> list[str]:
        """The keys in the order of the file."""
        return list(self._values)

    def text(
        self, key: str, default: Any = _REQUIRED, choices: tuple[str, ...] | None = None
    ) -> Any:
        """A single value as it is written."""
        value = self._get(key, default)
        if value is default:
            return default
        if not isinstance(value, str):
            raise self.error(key, "expected a single value", value)
        if choices is not None and value not in choices:
            raise UserError(
                f"{self.place}: `{key}`: expected one of {', '.join(choices)}"
                f"{nearest(value, choices)} Received: {value!r}."
            )
        return value

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        """`true` or `false`."""
        value = self.text(key, default)
        if value is default:
            return default
        if value.lower() not in ("true", "false"):
            raise self.error(key, "expected true or false", value)
        return value.lower() == "true"

    def integer(self, key: str, default: Any = _REQUIRED, minimum: int | None = None) -> Any:
        """A whole number."""
        value = self.text(key, default)
        return default if value is default else self._integer(key, value, minimum)

    def integers(self, key: str, default: Any = _REQUIRED, minimum: int | None = None) -> Any:
        """One or several whole numbers."""
        values = self.texts(key, default)
        if values is default:
            return default
        return tuple(self._integer(key, value, minimum) for value in values)

    def number(
        self,
        key: str,
        default: Any = _REQUIRED,
        minimum: float = -math.inf,
        maximum: float = math.inf,
    ) -> Any:
        """A number between `minimum` and `maximum`."""
        value = self.text(key, default)
        if value is default:
            return default
        number = self._number(key, value)
        if not minimum <= number <= maximum:
            raise self.error(key, f"expected a number from {minimum:g} to {maximum:g}", value)
        return number

    def numbers(self, key: str, default: Any = _REQUIRED) -> Any:
        """One or several numbers."""
        values = self.texts(key, default)
        return default if values is default else tuple(self._number(key, v) for v in values)

    def texts(self, key: str, default: Any = _REQUIRED) -> Any:
        """One value or a list of values, as a tuple."""
        value = self._get(key, default)
        if value is default:
            return default
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in values):
            raise self.error(key, "expected one value or a list of values", value)
        return tuple(values)

    def mapping(self, key: str) -> "Mapping":
        """The mapping below `key`; an empty one if the key is absent."""
        value = self._get(key, {})
        if value in ("", None):
            value = {}
        if not isinstance(value, dict):
            raise self.error(key, "expected keys and values below it", value)
        return Mapping(value, f"{self.place}: {key}")

    def finish(self) -> None:
        """Refuses keys that no accessor asked for."""
        for key in self._values:
            if key not in self._known:
                raise UserError(
                    f"{self.place}: unknown key `{key}`{nearest(key, self._known)} "
                    f"Known keys: {', '.join(self._known)}."
                )

    def error(self, key: str, expected: str, received: Any) -> UserError:
        """The error for a value of `key` that is not as expected."""
        return UserError(f"{self.place}: `{key}`: {expected}. Received: {received!r}.")

    def _get(self, key: str, default: Any) -> Any:
        if key not in self._known:
            self._known.append(key)
        if key in self._values:
            return self._values[key]
        if default is _REQUIRED:
            raise UserError(f"{self.place}: the key `{key}` is missing; add it.")
        return default

    def _integer(self, key: str, value: str, minimum: int | None) -> int:
        try:
            number = int(value.replace("_", ""))
        except ValueError:
            raise self.error(key, "expected a whole number", value) from None
        if minimum is not None and number < minimum:
            raise self.error(key, f"expected at least {minimum}", value)
        return number

    def _number(self, key: str, value: str) -> float:
        try:
            return float(value)
        except ValueError:
            raise self.error(key, "expected a number", value) from None
