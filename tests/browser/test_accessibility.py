import itertools

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 1440), ("light", 375)])
def test_axe_finds_nothing_grave(show, sample, axe, draw_all, theme, width):
    page = show(sample, theme=theme, width=width)
    page.locator("#crosses .opener").first.click()
    page.locator("#data .opener").first.click()
    page.locator("#graph-body ol button").first.click()
    for summary in page.locator("summary").all():
        summary.click()
    draw_all(page)
    page.evaluate(axe)
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    grave = [
        (found["id"], [node["target"] for node in found["nodes"]][:5])
        for found in result["violations"]
        if found["impact"] in ("serious", "critical")
    ]
    assert grave == []


def test_a_heat_map_is_read_by_keyboard(show, sample):
    page = show(sample)
    adjacency = sample["adjacency"]
    fields, columns = adjacency["fields"], adjacency["columns"]

    def told(kind, start, end):
        value = f"{adjacency['layers'][1][kind][start][end]:.2f}"
        if columns[start] == columns[end]:
            value = "never crossed, same column"
        return f"layer 2, {fields[start]} to {fields[end]}: {value}"

    away = next(place for place, column in enumerate(columns) if column != columns[0])
    chart = page.locator("#adjacency .chart").nth(1)
    chart.focus()
    chart.locator("canvas").first.wait_for()
    spoken = page.locator("#adjacency-cell")
    page.keyboard.press("ArrowRight")  # to the first cell
    assert spoken.inner_text() == f"layer 2, {fields[0]} to {fields[0]}: never crossed, same column"
    for _ in range(away):
        page.keyboard.press("ArrowRight")
    assert spoken.inner_text() == told("strength", 0, away)
    value = told("strength", 0, away).rpartition(": ")[2]
    assert value in page.locator("#adjacency .tip").inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert spoken.inner_text() == told("strength", 1, away - 1)
    page.get_by_label("After re-scaling (temperature 0.02)").check(force=True)
    chart.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    assert spoken.inner_text() == told("soft", 0, away)


def test_every_chart_has_words(show, sample):
    page = show(sample)
    page.locator("#crosses .opener").first.click()
    labels = page.evaluate(
        """() => [...document.querySelectorAll('.chart, svg.layer')].map(
            (chart) => chart.getAttribute('aria-label'))"""
    )
    assert len(labels) > 10
    assert all(label and len(label) > 20 for label in labels)


def test_headings_do_not_skip_a_level(show, sample):
    page = show(sample)
    page.locator("#data .opener").first.click()
    levels = page.evaluate(
        "() => [...document.querySelectorAll('h1, h2, h3, h4')].map((h) => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
