import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from importlib import resources

import pytest

from fives_tf.report.page import _SCRIPTS, render
from tests import report_sample

ASSETS = resources.files("fives_tf.report") / "assets"


class Parts(HTMLParser):
    """What a browser finds in a page: title, scripts, styles, policy and all addresses."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.styles, self.titles, self.addresses = [], [], [], []
        self.policy = ""
        self._open = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        self.addresses += [attributes[name] for name in ("src", "href") if name in attributes]
        kept = {"script": self.scripts, "style": self.styles, "title": self.titles}.get(tag)
        if kept is not None:
            kept.append([attributes, ""])
            self._open = kept[-1]

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open is not None:
            self._open[1] += data


def source_hash(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


@pytest.fixture(scope="module")
def hostile():
    return report_sample.hostile()


@pytest.fixture(scope="module")
def parts(hostile):
    return Parts(render(hostile))


def test_the_data_comes_back_as_it_was(parts, hostile):
    attributes, content = parts.scripts[0]
    assert attributes == {"type": "application/json", "id": "report"}
    assert json.loads(content) == hostile
    assert not set("<>&\u2028\u2029") & set(content)


def test_the_title_is_text(parts, hostile):
    assert parts.titles == [[{}, f"{hostile['title']} - FIVES report"]]


def test_a_title_that_no_encoding_can_write_is_no_error():
    report = report_sample.empty() | {"title": "\udcff<b>"}
    ((_, title),) = Parts(render(report)).titles
    assert title.endswith("<b> - FIVES report")
    render(report).encode()


def test_nothing_is_loaded(parts):
    assert all(address.startswith("#") for address in parts.addresses)
    ((_, style),) = parts.styles
    assert "url(" not in style
    assert "@import" not in style
    program = parts.scripts[2][1]
    # The one address is the name of SVG's elements.
    assert set(re.findall(r"https?://[^\s'\"]+", program)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\b *\(", program)


def test_the_program_makes_no_markup_of_data(parts):
    program = parts.scripts[2][1]
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in program


def test_the_policy_allows_exactly_the_scripts_and_styles_of_the_page(parts):
    policy = dict(part.strip().split(" ", 1) for part in parts.policy.split(";"))
    assert policy["default-src"] == "'none'"
    scripts = [content for attributes, content in parts.scripts if not attributes]
    assert policy["script-src"].split() == [source_hash(script) for script in scripts]
    assert policy["style-src"].split() == [source_hash(content) for _, content in parts.styles]
    assert "unsafe" not in parts.policy


def test_every_script_is_part_of_the_page():
    names = {entry.name for entry in ASSETS.iterdir() if entry.name.endswith(".js")}
    assert names == set(_SCRIPTS)


def test_numbers_that_json_does_not_know_are_refused():
    report = report_sample.empty()
    report["headline"]["ids"] = float("nan")
    with pytest.raises(ValueError, match="not JSON compliant"):
        render(report)


def test_the_vendored_library_is_the_one_that_its_readme_names():
    readme = (ASSETS / "vendor" / "README.md").read_text()
    library = (ASSETS / "vendor" / "echarts.min.js").read_bytes()
    assert hashlib.sha256(library).hexdigest() in readme


def test_a_large_report_is_less_than_five_megabytes():
    report = report_sample.make(fields=100, order=4, crosses=300)
    assert len(report["crosses"]) == 300
    assert len(render(report).encode()) < 5_000_000
