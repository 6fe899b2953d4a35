"""Equations become MathML when the site is built, so that a page needs no script for them.

Two forms, which views of repositories know too: a block that begins with ```` ```math ````, and
within a line a dollar sign and a backtick, `` $`x^2`$ ``.
"""

import re
from typing import Any

from latex2mathml.converter import convert

_BLOCK = re.compile(r"^```math\n(?P<latex>.*?)^```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"\$`(?P<latex>[^`]+)`\$")
_TAG = re.compile(r"\\tag\{(?P<number>[^}]*)\}")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Converts the equations of a page."""
    return _INLINE.sub(_inline, _BLOCK.sub(_block, markdown))


def _block(equation: re.Match) -> str:
    """An equation on its own, with its number at the right."""
    latex = " ".join(equation["latex"].split())
    number = _TAG.search(latex)
    told = f'<span class="number">({number["number"]})</span>' if number else ""
    formula = convert(_TAG.sub("", latex).strip(), display="block")
    return f'<div class="equation">{formula}{told}</div>'


def _inline(equation: re.Match) -> str:
    # A line that begins with the element itself would be taken for a block.
    return f"<span>{convert(equation['latex'], display='inline')}</span>"
