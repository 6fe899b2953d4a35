"""Examples in docstrings are code: an extension of griffe, by which the site reads docstrings."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:\n(?P<code>(?:[ ]{4}.*\n?|\n(?=[ ]{4}))+)", re.MULTILINE)


class Examples(griffe.Extension):
    """Puts the example of a docstring between fences."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Changes the docstring of an object that was read."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(example: re.Match) -> str:
    return f"Example:\n    ```python\n{example['code'].rstrip()}\n    ```\n"
