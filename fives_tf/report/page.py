"""A report as one HTML page that needs no network: styles, scripts and data are all in it."""

import base64
import hashlib
import html
import json
import re
from importlib import resources
from typing import Any

# The scripts share one scope and are joined in this order: what runs at once uses only what
# stands before it.
_SCRIPTS = (
    "dom.js",
    "controls.js",
    "format.js",
    "theme.js",
    "tooltip.js",
    "charts.js",
    "lines.js",
    "table.js",
    "headline.js",
    "warnings.js",
    "crosses.js",
    "paths.js",
    "drawing.js",
    "graph.js",
    "heatmap.js",
    "history.js",
    "curves.js",
    "scatter.js",
    "fields.js",
    "reproduce.js",
    "main.js",
)
# What could end the script element, or a line of it.
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def render(report: dict[str, Any]) -> str:
    """The page of a report.

    Whatever the names and values in the report are, they are shown as text: the data is no script,
    and the scripts make no markup of it. Only the scripts and styles that are part of the page run,
    by their hashes.

    Args:
        report: The content of `report.json`.
    """
    library = _asset("vendor/echarts.min.js")
    script = "(() => {\n'use strict';\n" + "\n".join(map(_asset, _SCRIPTS)) + "\n})();"
    style = _asset("report.css")
    data = json.dumps(report, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    parts = {
        "policy": _policy([library, script], style),
        "title": _markup(report["title"]),
        "style": style,
        "library": library,
        "script": script,
        # Paths may hold bytes that no encoding has; as escapes JSON can have them.
        "data": data.translate(_ESCAPES).encode("utf-8", "backslashreplace").decode(),
    }
    # One pass, so that nothing in a part is taken for the place of another one.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _asset("page.html"))


def _policy(scripts: list[str], style: str) -> str:
    """A Content-Security-Policy that allows these scripts and this style, and nothing else."""
    allowed = " ".join(map(_source_hash, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_source_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source_hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _markup(text: str) -> str:
    """A text as markup; a path of odd bytes may hold what no encoding can write."""
    return html.escape(text).encode("ascii", "xmlcharrefreplace").decode()


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
