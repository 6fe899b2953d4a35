"""Pages of reports in a real browser."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from docs.screenshot import PROGRAMS, find_chromium, headless
from fives_tf.report.page import render
from pipelines.job_server import cache_directory
from tests import report_sample

ROOT = Path(__file__).parents[2]
AXE = "4.14.0"  # the release of axe-core


@pytest.fixture(scope="session")
def browser():
    chromium = find_chromium()
    if chromium is None:
        pytest.skip(
            f"none of {', '.join(PROGRAMS)} is on the PATH; `make test-browser` installs Chromium "
            "on Debian as root, else `apt-get install chromium` does"
        )
    with headless(chromium) as running:
        yield running


@pytest.fixture(scope="session")
def artefacts() -> Path:
    """Where pictures are kept."""
    directory = Path(os.environ.get("FIVES_ARTEFACTS") or Path(__file__).parent / "artefacts")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, fetched by npm once."""
    directory = cache_directory() / f"axe-core-{AXE}"
    source = directory / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is not on the PATH: axe-core cannot be fetched")
        command = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", directory]
        subprocess.run([*command, f"axe-core@{AXE}"], check=True, capture_output=True, timeout=120)
    return source.read_text(encoding="utf-8")


@pytest.fixture(scope="session", params=["made up", "of the demo"])
def sample(request) -> dict:
    """A report that all its parts can be seen on."""
    if request.param == "made up":
        return report_sample.make()
    file = Path(os.environ.get("FIVES_DEMO") or ROOT / "demo") / "run" / "report.json"
    if not file.exists():
        pytest.skip(f"{file} is not there; `make demo` makes it, and `make test-browser` too")
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.fixture
def show(browser, tmp_path):
    """Opens the page of a report from disk; whatever goes wrong in it fails the test."""
    problems, contexts = [], []

    def listen(message):
        if message.type in ("error", "warning"):
            problems.append(f"{message.type}: {message.text}")

    def check(request):
        if not request.url.startswith("file://"):
            problems.append(f"request of {request.url}")

    def dismiss(dialog):
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def run(report, width=1440, height=900, theme="light"):
        file = tmp_path / f"report-{len(contexts)}.html"
        file.write_text(render(report), encoding="utf-8")
        contexts.append(
            browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        )
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", listen)
        page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
        page.on("request", check)
        page.on("dialog", dismiss)
        page.goto(file.as_uri())
        return page

    yield run
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def draw_all():
    """Scrolls through a page, so that all its charts are drawn."""

    def run(page):
        for chart in page.locator(".chart").all():
            chart.scroll_into_view_if_needed()
            chart.locator("canvas").first.wait_for()

    return run
