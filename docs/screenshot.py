"""Makes a picture of the top of a report: `python docs/screenshot.py REPORT.html PICTURE.png`.

It needs Chromium on the PATH and the Python package playwright.
"""

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

WIDTH, HEIGHT = 1440, 1600
MARGIN = 24  # below the summary
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# Nothing but the page is to be loaded, and root has no sandbox.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """The path of Chromium, or None if it is not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextlib.contextmanager
def headless(chromium: str) -> Iterator[Browser]:
    """A Chromium without a window.

    Args:
        chromium: The path of the program.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        yield browser
        browser.close()


def take(report: Path, picture: Path) -> None:
    """Writes a PNG of the top of a report in the light theme.

    Args:
        report: An HTML file.
        picture: Where the PNG goes.
    """
    chromium = find_chromium()
    if chromium is None:
        sys.exit(f"none of {', '.join(PROGRAMS)} is on the PATH; install Chromium.")
    with headless(chromium) as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(report.resolve().as_uri())
        page.locator("#calibration canvas").first.wait_for()
        picture.parent.mkdir(parents=True, exist_ok=True)
        summary = page.locator("#summary").bounding_box()
        end = min(HEIGHT, summary["y"] + summary["height"] + MARGIN)
        page.screenshot(path=picture, clip={"x": 0, "y": 0, "width": WIDTH, "height": end})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    take(Path(sys.argv[1]), Path(sys.argv[2]))
