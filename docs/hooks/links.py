"""Links from the docs to other files of the repository, which are no part of the site.

In a view of the repository such a link leads to the file. On the site the path takes its place, in
code; a path that leads nowhere is a warning, at which a strict build fails.
"""

import logging
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

_LOG = logging.getLogger("mkdocs.hooks.links")
_LINK = re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<path>\.\./[^)#\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Replaces the links of a page that leave the docs."""
    root = Path(config.config_file_path).parent
    text, missing = without_outside_links(markdown, page.file.src_uri, root)
    for path in missing:
        _LOG.warning("%s: the link to %s leads nowhere", page.file.src_uri, path)
    return text


def without_outside_links(markdown: str, page: str, root: Path) -> tuple[str, list[str]]:
    """The text with paths in place of links that leave the docs, and those that lead nowhere.

    Args:
        markdown: The text of a page.
        page: The path of the page within the docs.
        root: The top of the repository.
    """
    missing = []

    def replace(link: re.Match) -> str:
        place = PurePosixPath("docs", page).parent / link["path"]
        path = os.path.normpath(place)
        if path == "docs" or path.startswith("docs/"):
            return link[0]
        if path.startswith("..") or not (root / path).exists():
            missing.append(link["path"])
        same = link["text"].strip("`").rstrip("/") == path
        return f"`{path}`" if same else f"{link['text']} (`{path}`)"

    return _LINK.sub(replace, markdown), missing
