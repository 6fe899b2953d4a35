"""`fives report`: the files that it writes, and what it refuses."""

import json
import shutil

import pytest

import fives_tf
from fives_tf import storage

QUICK = {"dim": 2, "batch": 512, "lr_epochs": 1, "search_epochs": 1, "after": "nothing"}


@pytest.fixture(scope="module")
def searched(small_dataset, tmp_path_factory):
    directory = tmp_path_factory.mktemp("commanded") / "run"
    fives_tf.search(small_dataset, directory, xla=False, **QUICK)
    return directory


def test_the_page_and_its_data_are_written_into_the_run(cli, searched):
    done = cli("report", searched, "--title", "Clicks & co")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"report: {searched}/report.html\n"
    report = json.loads((searched / "report.json").read_text())
    assert report["headline"]["run"] == str(searched)
    page = (searched / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<title>Clicks &amp; co" in page
    assert cli("crosses", searched).returncode == 0  # it is a run as before


def test_the_page_can_be_written_elsewhere(cli, searched, tmp_path):
    done = cli("report", searched, "--out", tmp_path / "pages/ads.html", "--json")
    assert json.loads(done.stdout) == {
        "page": str(tmp_path / "pages/ads.html"),
        "data": str(tmp_path / "pages/ads.json"),
    }
    assert {path.name for path in (tmp_path / "pages").iterdir()} == {"ads.html", "ads.json"}


def test_paths_below_the_working_directory_are_told_from_there(cli, searched, monkeypatch):
    monkeypatch.chdir(searched.parent)
    assert cli("report", searched).returncode == 0
    report = json.loads((searched / "report.json").read_text())
    assert report["headline"]["run"] == "run"
    assert report["reproduce"]["commands"][1].endswith("--run run-again --config run/config.yaml")
    assert report["title"] == "dataset"  # which lies elsewhere


def test_a_dataset_that_moved_is_named(cli, searched, small_dataset, tmp_path):
    moved = shutil.copytree(searched, tmp_path / "run")
    manifest = json.loads((moved / "run.json").read_text()) | {"dataset": "/nowhere"}
    (moved / "run.json").write_text(json.dumps(manifest))
    done = cli("report", moved)
    assert (done.returncode, done.stdout) == (2, "")
    assert "/nowhere: no such directory" in done.stderr
    assert cli("report", moved, "--dataset", small_dataset).returncode == 0


def test_what_is_no_search_is_refused(cli, searched, small_dataset, tmp_path):
    fives_tf.fit(small_dataset, tmp_path / "fit", lr_epochs=1, batch=512, xla=False)
    done = cli("report", tmp_path / "fit")
    assert done.returncode == 2
    assert "is a fit, which has no adjacency tensor; name the run of a search" in done.stderr
    assert not (tmp_path / "fit/report.html").exists()


def test_a_page_has_the_ending_of_one(cli, searched, tmp_path):
    done = cli("report", searched, "--out", tmp_path / "page.pdf")
    assert done.returncode == 2
    assert "--out: expected a file that ends in .html" in done.stderr


def test_a_run_that_another_process_works_on_is_left_alone(cli, searched):
    with storage.lock(str(searched / "lock")):
        done = cli("report", searched)
    assert done.returncode == 2
    assert "another process is at work here" in done.stderr


def test_a_title_of_odd_bytes_is_no_obstacle(cli, searched, tmp_path):
    done = cli("report", searched, "--out", tmp_path / "page.html", "--title", "caf\udce9")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "page.json").read_text())["title"] == "caf\udce9"
