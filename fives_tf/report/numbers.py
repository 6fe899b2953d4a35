"""Numbers as a report has them: with as many digits as tell something."""

import math
from typing import Any

import numpy as np

_DIGITS = 6


def rounded(value: Any, digits: int = _DIGITS) -> Any:
    """A value as JSON has it, with all its numbers rounded; None for what is not finite.

    Args:
        value: A number, a text, None, an array, or lists and dictionaries of such.
        digits: The digits behind the point of numbers from 1 on; smaller ones keep as many.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: rounded(one, digits) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one, digits) for one in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{value:.{digits}g}") if abs(value) < 1 else round(value, digits)
    return value
