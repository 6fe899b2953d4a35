"""README and docs agree with the program."""

import dataclasses
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from fives_tf import config
from fives_tf.cli import VERBS
from fives_tf.run import FILES, LOCK
from fives_tf.schema import DISCRETIZE_KINDS, FORMATS, SPLIT_KINDS, Schema, SplitRule

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
FORMATS_PAGE = (ROOT / "docs/formats.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def walk(fives, tmp_path_factory):
    """Runs every `fives` command of the README, in order, on a generated log."""
    directory = tmp_path_factory.mktemp("readme")
    fives("synth", "--rows", 3000, "--out", directory / "synth")
    (directory / "synth/log.csv").rename(directory / "log.csv")
    lines = [line for block in blocks(README, "sh") for line in block.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("fives ")]
    runs = [fives(*command[1:], cwd=directory) for command in commands]
    return directory, commands, runs


def test_the_commands_of_the_readme_run(walk):
    _, commands, runs = walk
    # A benchmark takes too long, and `tests/fives_tf/bench` runs it.
    assert {command[1] for command in commands} == set(VERBS) - {"synth", "bench"}
    for command, run in zip(commands, runs, strict=True):
        assert run.returncode == 0, (command, run.stderr)


def test_the_make_targets_of_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make ([a-z-]+)", "\n".join(blocks(README, "sh")), re.MULTILINE)
    assert targets == ["demo", "test"]
    # Any other line would be run by no test.
    assert all(
        line.startswith(("fives ", "make "))
        for block in blocks(README, "sh")
        for line in block.splitlines()
    )
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    checked = (ROOT / ".ci/run").read_text()
    assert "make test" in checked
    assert "make docs" in checked


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_verb_is_in_the_readme():
    for verb in VERBS:
        assert f"fives {verb}" in README


def test_the_example_schema_of_the_docs_is_valid():
    [example] = blocks(FORMATS_PAGE, "yaml")
    schema = Schema.parse(example)
    assert schema.field_names() == ("age", "price@10", "price@100", "city", "device_id")


def test_the_docs_name_every_key_and_kind_of_the_schema():
    fields = {field.name for field in dataclasses.fields(SplitRule)} - {"by"}
    keys = fields | {"hash_buckets", "overrides", "min_count", "max_vocab", "comment", "trim"}
    for word in (*keys, *FORMATS, *DISCRETIZE_KINDS, *SPLIT_KINDS):
        assert f"`{word}`" in FORMATS_PAGE, word


def test_the_docs_name_every_key_of_the_files(walk):
    directory, *_ = walk
    manifest = json.loads((directory / "dataset/dataset.json").read_text())
    encoding = json.loads((directory / "dataset/encoding.json").read_text())
    keys = {*manifest, *encoding, *(key for field in encoding["fields"] for key in field)}
    keys |= {key for split in manifest["splits"].values() for key in split["shards"][0]}
    for key in keys:
        assert f"`{key}`" in FORMATS_PAGE, key


def test_the_docs_name_every_file_of_a_dataset(walk):
    directory, *_ = walk
    for path in (directory / "dataset").iterdir():
        assert path.name in FORMATS_PAGE, path.name


def test_the_docs_name_every_file_of_a_run(walk):
    directory, *_ = walk
    for name in {LOCK, *FILES} | {path.name for path in (directory / "run").iterdir()}:
        assert re.search(rf"^{re.escape(name)}\b", FORMATS_PAGE, re.MULTILINE), name


def test_the_docs_name_every_key_of_the_files_of_a_run(walk):
    directory = walk[0] / "run"
    manifest = json.loads((directory / "run.json").read_text())
    crosses = json.loads((directory / "crosses.json").read_text())
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    keys = {*manifest, *manifest["fingerprint"], *crosses, *crosses["crosses"][0]}
    keys |= {key for line in lines for key in line}
    with np.load(directory / "adjacency.npz") as arrays:
        keys |= set(arrays.files)
    for key in keys:
        assert f"`{key}`" in FORMATS_PAGE, key
    for stage in {line["stage"] for line in lines}:
        assert f"`{stage}`" in FORMATS_PAGE, stage


def test_the_docs_list_the_settings_of_a_search_in_order():
    table = FORMATS_PAGE.partition("### config.yaml")[2].partition("###")[0]
    names = re.findall(r"^\| `([a-z_0-9]+)` \|", table, re.MULTILINE)
    assert names == ["version", *(setting.name for setting in config.settings())]
    for setting in config.settings():
        for choice in setting.metadata.get("choices", ()):
            assert f"`{choice}`" in table, choice


@pytest.mark.parametrize("verb", VERBS)
def test_flags_that_the_pages_mention_exist(verb, fives):
    actions = [("schema", "infer"), *(("launch", name) for name in ("local", "k8s", "slurm"))]
    known = "".join(fives(*words, "--help").stdout for words in ([verb], *actions))
    for text in (README, FORMATS_PAGE):
        for line in re.findall(rf"fives {verb} [^`\n#]*", text):
            # What stands behind two dashes alone is for another program.
            for flag in re.findall(r"--[a-z_]+", line.partition(" -- ")[0]):
                assert flag in known, f"{flag} in {line!r}"
