import copy

import pytest
from playwright.sync_api import expect

from tests import report_sample

pytestmark = pytest.mark.browser


def background(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def legend_colour(page, selector):
    """The colour of the texts in a chart's legend."""
    return page.evaluate(
        """(selector) => echarts.getInstanceByDom(document.querySelector(selector))
            .getOption().legend[0].textStyle.color""",
        selector,
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1440])
def test_the_page_fits_its_window(show, sample, draw_all, artefacts, theme, width):
    page = show(sample, width=width, theme=theme)
    page.locator("#crosses .opener").first.click()
    draw_all(page)
    scroll = page.evaluate("document.documentElement.scrollWidth")
    assert scroll == width
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=artefacts / f"report-{theme}-{width}.png", full_page=True)


def test_the_theme_follows_the_system_and_the_button(show, sample):
    page = show(sample, theme="dark")
    page.locator("#calibration canvas").first.wait_for()
    dark, dark_chart = background(page), legend_colour(page, "#calibration .chart")
    page.get_by_role("button", name="Light theme").click()
    light, light_chart = background(page), legend_colour(page, "#calibration .chart")
    assert (dark, dark_chart) != (light, light_chart)
    assert background(show(sample, theme="light")) == light
    page.get_by_role("button", name="Dark theme").click()
    assert (background(page), legend_colour(page, "#calibration .chart")) == (dark, dark_chart)
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_charts_wait_until_they_are_in_sight(show, sample):
    page = show(sample)
    page.locator("#calibration canvas").first.wait_for()
    assert page.locator("#scatter canvas").count() == 0
    page.locator("#scatter").scroll_into_view_if_needed()
    page.locator("#scatter canvas").first.wait_for()


def test_it_prints_with_all_charts_in_the_light_theme(show, sample, artefacts):
    page = show(sample, theme="dark")
    page.evaluate(
        """addEventListener('beforeprint', () => {
          window.printed = [document.documentElement.dataset.theme,
            document.querySelectorAll('.chart:not(:has(canvas))').length];
        })"""
    )
    pdf = page.pdf(path=artefacts / "report.pdf")
    assert pdf.startswith(b"%PDF")
    assert page.evaluate("window.printed") == ["light", 0]
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_a_report_without_most_parts_says_so(show, artefacts):
    page = show(report_sample.empty())
    assert page.locator("main .note").count() > 8
    assert page.get_by_text("Nothing was found that needs your attention.").is_visible()
    page.screenshot(path=artefacts / "report-empty.png", full_page=True)


def test_a_run_of_order_two_has_one_layer(show, draw_all):
    report = report_sample.make(order=2)
    page = show(report)
    draw_all(page)
    assert page.locator("#graph-body svg.layer").count() == 1
    assert page.locator("#adjacency .chart").count() == 1


def test_figures_that_are_not_known_are_dashes(show, sample, draw_all):
    report = copy.deepcopy(sample)
    for model in report["headline"]["models"]:
        model.update(auc_interval=None)
    report["headline"]["models"][0].update(auc=None, log_loss=None)
    report["history"]["epochs"] = [None] * len(report["history"]["epochs"])
    for field in report["data"]["fields"]:
        field.update(auc=None, drift=None, values=[])
    for cross in report["crosses"]:
        cross.update(auc=None, gain=None, lift=None, values=[])
    report["layers"]["auc"][0] = None
    page = show(report)
    page.locator("#crosses .opener").first.click()
    page.locator("#data .opener").first.click()
    draw_all(page)
    assert page.locator("#models tbody td").nth(1).inner_text() == "\u2013"
    text = page.locator("main").inner_text()
    assert not [word for word in ("NaN", "undefined", "Infinity", "null") if word in text]


def test_a_large_report_stays_small_and_opens(show, tmp_path, draw_all):
    page = show(report_sample.make(fields=100, order=4, crosses=300))
    (file,) = tmp_path.glob("*.html")
    assert file.stat().st_size < 5_000_000
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 1440


def test_the_commands_are_copied(show, sample):
    page = show(sample)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.locator("#reproduce").get_by_text("Copied.").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == "\n".join(sample["reproduce"]["commands"])


def test_stages_of_the_curves_can_be_chosen(show, sample):
    page = show(sample)
    charts = page.locator("#curves .chart")
    assert "Loss of the edges ends at" in charts.first.get_attribute("aria-label")
    page.get_by_label("Stage").select_option(label="lr")
    assert "Loss of the edges" not in charts.first.get_attribute("aria-label")
    assert "Penalty 1" in charts.nth(1).get_attribute("aria-label")
    without = next(
        curve["stage"] for curve in sample["curves"] if curve["points"][-1].get("auc") is None
    )
    page.get_by_label("Stage").select_option(label=without)
    assert page.locator("#curves").get_by_text("Not recorded in this stage.").count() == 1
