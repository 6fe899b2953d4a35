"""The site of the docs: it builds, needs no network, and holds what the program has."""

import ast
import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fives_tf.cli import VERBS, make_parser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# A page that is loaded loads these too; where a link leads is the reader's choice.
LOADED = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio|object|embed)\b[^>]*"
    r"\b(?:src|href|data|srcset)=[\"']?(?:https?:)?//[^>]*>"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site; a warning stops the build."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "default"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return directory


def article(site: Path, page: str) -> str:
    """The text of a page without its tags."""
    content = re.search(r"<article.*?</article>", (site / page).read_text(), re.DOTALL)[0]
    return html.unescape(re.sub(r"<[^>]+>", "", content))


def test_the_site_loads_nothing_from_the_network(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(list(DOCS.glob("*.md")))
    for page in pages:
        assert LOADED.findall(page.read_text()) == [], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import )[\"']?(?:https?:)?//", sheet.read_text()), sheet


def test_what_would_be_loaded_is_recognized():
    for text in (
        '<script src="https://unpkg.com/x">',
        '<link rel="stylesheet" href="//fonts.example/x">',
        "<img alt=x src=http://x/y.png>",
    ):
        assert LOADED.search(text), text
    for text in ('<a href="https://x.example">', '<script src="assets/x.js">', "<link href=x.css>"):
        assert not LOADED.search(text), text


def test_every_page_is_in_the_navigation():
    def paths(entry) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        entries = entry.values() if isinstance(entry, dict) else entry
        return [path for one in entries for path in paths(one)]

    listed = paths(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(listed) == sorted(page.name for page in DOCS.glob("*.md"))


@pytest.mark.parametrize("verb", VERBS)
def test_the_reference_has_every_flag_of_a_verb(verb, site):
    page = (site / "commands.html").read_text()
    part = re.search(rf'<h2 id="fives-{verb}">.*?(?=<h2 |</article>)', page, re.DOTALL)[0]
    told = subprocess.run(
        [sys.executable, "-m", "fives_tf.cli", verb, "--help"], capture_output=True, text=True
    ).stdout
    flags = set(re.findall(r"^  (--[a-z_0-9]+)", told, re.MULTILINE))
    listed = set(re.findall(r"<code>(--[a-z_0-9]+)", "".join(re.findall(r"<td>.*?</td>", part))))
    assert flags - {"--help", "--helpfull", "--debug"} <= listed
    assert "==SUPPRESS==" not in part


def test_the_reference_has_the_actions_of_verbs(site):
    text = article(site, "commands.html")
    for command in ("schema infer", "schema check", "schema tune", "launch local", "launch k8s"):
        assert f"fives {command}¶" in text


def test_the_page_on_python_shows_what_is_imported(site):
    page = (site / "api.html").read_text()
    for name in (
        "fives_tf.search.search",
        "fives_tf.fit.fit",
        "fives_tf.config.SearchConfig",
        "fives_tf.dataset.Dataset.read",
        "fives_tf.run.Run.crosses",
        "fives_tf.sklearn.FivesCrosses",
        "fives_tf.evaluate.evaluate",
        "fives_tf.generators.generate",
        "fives_tf.predictor.Predictor",
    ):
        assert f'id="{name}"' in page, name


def test_equations_are_mathml_with_the_numbers_of_the_paper(site):
    page = (site / "concepts.html").read_text()
    assert "$`" not in page
    assert "```" not in page
    assert re.findall(r'<span class="number">\((\d)\)', page) == list("12345678")
    assert page.count("<math ") == page.count("</math>") > 30


def test_links_that_leave_the_docs_become_paths(site):
    text = article(site, "formats.html")
    assert "fives_tf/bench/schemas" in text
    for page in site.rglob("*.html"):
        assert not re.search(r'href="\.\./[a-z]', page.read_text()), page.name


def messages() -> list[str]:
    """All texts of the program, with a sign in place of what is filled in."""
    found = []
    for path in (path for name in ("fives_tf", "pipelines", "launch") for path in files(name)):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (getattr(part, "value", None) for part in node.values)
                found.append("".join(part if isinstance(part, str) else "\0" for part in parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return [text.replace("`", "") for text in found]


def files(name: str) -> list[Path]:
    return sorted((ROOT / name).rglob("*.py"))


def test_the_errors_of_the_faq_are_those_of_the_program():
    known = messages()
    told = re.findall(r"^#### `(.+)`$", (DOCS / "faq.md").read_text(), re.MULTILINE)
    assert len(told) > 20
    for message in told:
        pattern = re.compile(".*".join(map(re.escape, message.split("..."))), re.DOTALL)
        assert any(pattern.search(text) for text in known), message


def test_the_flags_that_the_docs_mention_exist():
    """Of commands that hand no flags on: those of Beam and of a training job are not ours."""
    parser = make_parser()
    for page in DOCS.glob("*.md"):
        for verb in set(VERBS) - {"preprocess", "materialize", "predict", "generate", "launch"}:
            for line in re.findall(rf"fives {verb} [^`\n#|]*", page.read_text()):
                known = help_of(parser, verb, line.split()[2:3])
                for flag in re.findall(r"--[a-z_0-9]+", line):
                    assert re.search(rf"{flag}\b", known), f"{page.name}: {flag} in {line!r}"


def help_of(parser, verb: str, action: list[str]) -> str:
    """The help of a verb, and of its action if it has some."""
    choices = parser._subparsers._group_actions[0].choices
    text = choices[verb].format_help()
    if verb == "schema" and action:
        text += choices[verb]._subparsers._group_actions[0].choices[action[0]].format_help()
    return text
