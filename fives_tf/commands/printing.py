"""What the commands share that print a result: `--json`, for programs."""

import json
import math
from typing import Any


def add_json_flag(parser: Any) -> None:
    """Adds `--json` to the parser of a command, or to a group of its flags."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the result as one JSON document, and nothing else on standard output",
    )


def print_json(document: dict[str, Any]) -> None:
    """Prints a result for programs."""
    print(json.dumps(_finite(document), indent=1, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    """The same with null for numbers that JSON does not have, such as NaN."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
