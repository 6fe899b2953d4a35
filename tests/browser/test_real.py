"""The page of a real run."""

import numpy as np
import pytest

from fives_tf.crosses import derive, edge_probabilities

pytestmark = pytest.mark.browser

QUICK = {"dim": 4, "batch": 256, "lr_epochs": 2, "search_epochs": 2, "epochs": 2, "xla": False}


@pytest.fixture(scope="module")
def report(small_dataset, tmp_path_factory):
    import fives_tf
    from fives_tf.report.data import build

    directory = tmp_path_factory.mktemp("shown") / "run"
    run = fives_tf.search(small_dataset, directory, **QUICK).run
    return build(run, run.dataset())


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
