import numpy as np
import pytest
from playwright.sync_api import expect

from fives_tf.crosses import derive, edge_probabilities
from tests import report_sample

pytestmark = pytest.mark.browser


def listed(page):
    """The crosses in the list, as (name, score)."""
    return page.evaluate(
        """() => [...document.querySelectorAll('#graph-body ol button')].map(
            (button) => [...button.children].map((part) => part.textContent))"""
    )


def slide(page, threshold):
    page.get_by_label("Threshold").fill(f"{threshold}")
    expect(page.locator("#graph-body output")).to_have_text(f"{threshold:.2f}")


def layer_edges(page):
    return page.evaluate(
        """() => [...document.querySelectorAll('#graph-body svg.layer')].map(
            (layer) => layer.querySelectorAll('.edge').length)"""
    )


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_list_is_what_derive_finds(show, order, seed):
    random = np.random.default_rng(seed)
    size = 5 + seed
    columns = [f"c{index - (index == 3)}" for index in range(size)]  # two fields of one column
    may = np.array(columns)[:, None] != np.array(columns)[None, :]
    strength = np.round(random.uniform(0, 1, (order - 1, size, size)), 4) * may
    page = show(report_sample.with_adjacency(strength, columns))
    fields = [f"F{index}" for index in range(size)]
    for threshold in (0.5, 0.0, 0.13, 0.37, 0.62, 0.9, 1.0):
        slide(page, threshold)
        expected = derive(
            edge_probabilities(strength), fields, columns, edges=strength >= threshold
        )
        assert listed(page) == [[cross.name, f"{cross.score:.4f}"] for cross in expected]


def test_it_begins_with_the_edges_of_the_search_whatever_its_thresholds(show):
    columns = list("abcdef")
    strength = np.random.default_rng(0).uniform(0, 1, (2, 6, 6)).round(4) * (1 - np.eye(6))
    edges = strength >= np.array([0.3, 0.7])[:, None, None]
    report = report_sample.with_adjacency(strength, columns)
    for layer, own in zip(report["adjacency"]["layers"], edges, strict=True):
        layer["edges"] = own.astype(int).tolist()
    page = show(report)
    fields = [f"F{index}" for index in range(6)]
    expected = derive(edge_probabilities(strength), fields, columns, edges)
    assert [name for name, _ in listed(page)] == [cross.name for cross in expected]
    assert layer_edges(page) == [int(own.sum()) for own in edges]
    expect(page.locator("#graph-body output")).to_have_text("as in the search")


def test_ties_are_listed_in_the_order_of_the_fields(show):
    columns = list("abcde")
    strength = np.where(np.eye(5) == 1, 0, 0.3) * np.ones((3, 1, 1))
    page = show(report_sample.with_adjacency(strength, columns))
    slide(page, 0.2)
    fields = [f"F{index}" for index in range(5)]
    expected = derive(edge_probabilities(strength), fields, columns)
    assert [name for name, _ in listed(page)] == [cross.name for cross in expected]


def test_the_slider_changes_graph_and_list(show, sample):
    page = show(sample)
    layers = [np.array(layer["strength"]) for layer in sample["adjacency"]["layers"]]
    counts = []
    for threshold in (0.5, 0.7):
        slide(page, threshold)
        assert layer_edges(page) == [int((layer >= threshold).sum()) for layer in layers]
        counts.append(len(listed(page)))
    assert counts[0] > counts[1] > 0
    slide(page, 1)
    assert layer_edges(page) == [0, 0]
    assert listed(page) == []


def test_the_slider_moves_by_keyboard(show, sample):
    page = show(sample)
    page.get_by_label("Threshold").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#graph-body output")).to_have_text("0.51")


def test_a_start_field_shows_its_own_edges_and_crosses(show, sample):
    page = show(sample)
    strength = np.array(sample["adjacency"]["layers"][0]["strength"])
    start = int((strength >= 0.5).sum(axis=1).argmax())
    page.get_by_label("Start field").select_option(str(start))
    on = page.locator("#graph-body svg.layer").first.locator(".edge.on")
    assert on.count() == (strength[start] >= 0.5).sum()
    adjacency = sample["adjacency"]
    strength = np.array([layer["strength"] for layer in adjacency["layers"]])
    own = np.arange(len(adjacency["fields"]))[:, None] == start
    expected = derive(
        edge_probabilities(strength),
        adjacency["fields"],
        adjacency["columns"],
        edges=own & (strength >= 0.5),
    )
    assert listed(page) == [[cross.name, f"{cross.score:.4f}"] for cross in expected]
    page.locator("#graph-body svg.layer").first.locator(".node.chosen").click()
    assert page.get_by_label("Start field").input_value() == ""


def test_a_cross_of_the_list_shows_its_path_and_its_values(show, sample):
    sample = {**sample, "crosses": [dict(sample["crosses"][0])]}
    page = show(sample)
    button = page.locator("#graph-body ol[data-order='3'] button").first
    name = button.locator(".name").inner_text()
    sample["crosses"][0]["name"] = name
    page = show(sample)
    page.locator("#graph-body ol[data-order='3'] button").first.click()
    assert page.locator("#graph-body .edge.on").count() == 2
    assert "in layer 1" in page.locator(".chosen-cross").inner_text()
    page.get_by_role("button", name="Show its values").click()
    opener = page.locator("#crosses .opener")
    assert opener.get_attribute("aria-expanded") == "true"
    assert opener.evaluate("element => element === document.activeElement")


def test_too_many_paths_are_cut_short(show):
    page = show(report_sample.make(fields=100, order=4, crosses=3))
    milliseconds = page.evaluate(
        """() => {
          const slider = document.getElementById('threshold');
          slider.value = 0;
          slider.dispatchEvent(new Event('input'));
          const start = performance.now();
          return new Promise((resolve) => requestAnimationFrame(
            () => resolve(performance.now() - start)));
        }"""
    )
    assert milliseconds < 5000  # a wide bound: a full visit of all paths would take minutes
    assert "only the best ones" in page.locator("#graph-body > p[role=status]").inner_text()
    assert page.locator("#graph-body ol[data-order='4'] button").count() == 100
