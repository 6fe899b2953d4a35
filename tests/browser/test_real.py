"""The pages of real runs."""

import csv
import random

import numpy as np
import pytest
import yaml

from fives_tf.crosses import derive, edge_probabilities
from fives_tf.schema import Schema
from pipelines.preprocess import Options, preprocess
from tests.report_sample import HOSTILE

pytestmark = pytest.mark.browser

QUICK = {"dim": 4, "batch": 256, "lr_epochs": 2, "search_epochs": 2, "epochs": 2, "xla": False}


def searched(dataset, directory):
    import fives_tf
    from fives_tf.report.data import build

    run = fives_tf.search(dataset, directory, **QUICK).run
    return build(run, run.dataset())


@pytest.fixture(scope="module")
def report(small_dataset, tmp_path_factory):
    return searched(small_dataset, tmp_path_factory.mktemp("shown") / "run")


@pytest.fixture(scope="module")
def hostile_report(tmp_path_factory):
    """The report of a log whose columns and categories try to break out of the page."""
    directory = tmp_path_factory.mktemp("hostile")
    rng = random.Random(0)
    columns = [f"{text}{place}" for place, text in enumerate(HOSTILE[:3])]
    with open(directory / "log.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["click", *columns])
        for _ in range(1500):
            writer.writerow([rng.randint(0, 1), *rng.choices(HOSTILE[:7], k=len(columns))])
    schema = Schema.parse(yaml.safe_dump({"label": {"column": "click"}, "categorical": columns}))
    preprocess([str(directory / "log.csv")], schema, str(directory / "dataset"), Options())
    return searched(directory / "dataset", directory / "run")


def test_it_shows_what_the_run_found(show, report, draw_all, artefacts):
    page = show(report)
    page.locator("#crosses .opener").first.click()
    page.locator("#data .opener").first.click()
    draw_all(page)
    models = report["headline"]["models"]
    shown = page.locator("#models tbody tr td:nth-child(2) strong").all_inner_texts()
    assert shown == [f"{model['auc']:.4f}" for model in models]
    names = page.locator("#crosses .opener").all_inner_texts()
    assert names
    assert set(names) <= {cross["name"] for cross in report["crosses"]}
    assert page.locator("#data .opener").count() == report["headline"]["fields"]
    assert page.locator("#curves select option").all_inner_texts() == [
        curve["stage"] for curve in report["curves"]
    ]
    text = page.locator("main").inner_text()
    assert not [word for word in ("NaN", "undefined", "Infinity") if word in text]
    page.screenshot(path=artefacts / "report-real.png", full_page=True)


def test_its_graph_lists_the_crosses_of_its_edges(show, report):
    page = show(report)
    adjacency = report["adjacency"]
    strength = np.array([layer["strength"] for layer in adjacency["layers"]])
    expected = derive(
        edge_probabilities(strength),
        adjacency["fields"],
        adjacency["columns"],
        edges=strength >= 0.5,
    )
    for order in (2, 3):
        listed = page.locator(f"#graph-body ol[data-order='{order}'] .name").all_text_contents()
        assert listed == [cross.name for cross in expected if cross.order == order][:100]


def test_a_log_of_hostile_names_injects_nothing(show, hostile_report, draw_all, artefacts):
    page = show(hostile_report)
    names = page.locator("#crosses .opener").all_text_contents()
    assert names == [cross["name"] for cross in hostile_report["crosses"]]
    page.locator("#crosses .opener").first.click()
    cells = page.locator("#crosses .details tbody tr td:first-child").all_text_contents()
    values = hostile_report["crosses"][0]["values"]
    assert cells == [" · ".join(one["values"]) for one in values]
    assert any("<" in cell for cell in cells)
    draw_all(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 3
    assert page.locator("img, iframe, object, embed, [onerror], [onload]").count() == 0
    page.screenshot(path=artefacts / "report-hostile.png", full_page=True)
