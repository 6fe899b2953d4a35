import pytest

from tests import report_sample

pytestmark = pytest.mark.browser


@pytest.fixture
def report():
    return report_sample.hostile()


def test_hostile_texts_are_shown_as_they_are(show, report, draw_all):
    page = show(report)
    assert page.locator("h1").text_content() == report["title"]
    shown = page.locator("#crosses .opener").all_text_contents()
    assert sorted(shown) == sorted(name or "(empty)" for name in report_sample.HOSTILE)
    for place in range(len(report_sample.HOSTILE)):
        page.locator("#crosses .opener").nth(place).focus()
        page.keyboard.press("Enter")
    for opener in page.locator("#data .opener").all():
        opener.focus()
        page.keyboard.press("Enter")
    warnings = page.locator("#warnings li p:first-of-type").all_text_contents()
    assert warnings == [warning["text"].replace("`", "") for warning in report["warnings"]]
    draw_all(page)
    for chart in page.locator(".chart").all():
        box = chart.bounding_box()
        for part in (0.3, 0.5, 0.7):
            chart.hover(position={"x": box["width"] * part, "y": box["height"] / 2}, force=True)
    assert page.evaluate("window.hacked") is None
    # The page's own: the data, the library, the program.
    assert page.locator("script").count() == 3
    assert page.locator("img, iframe, object, embed, [onerror], [onload]").count() == 0


@pytest.mark.parametrize("width", [375, 1440])
def test_long_names_do_not_widen_the_page(show, report, draw_all, width):
    page = show(report, width=width)
    page.locator("#crosses .opener").first.click()
    page.locator("#graph-body ol button").first.click()
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_tooltips_show_names_as_text(show, report):
    page = show(report)
    chart = page.locator("#adjacency .chart").first
    chart.focus()
    seen = []
    for _ in range(len(report["adjacency"]["fields"])):
        page.keyboard.press("ArrowRight")
        seen.append(page.locator("#adjacency .tip").text_content())
    fields = report["adjacency"]["fields"]
    assert any(fields[0] in text and fields[1] in text for text in seen)
    assert page.locator("#adjacency .tip script, #adjacency .tip img").count() == 0
    assert page.evaluate("window.hacked") is None


def test_the_policy_stops_what_is_not_part_of_the_page(browser, show, sample, tmp_path):
    show(sample)
    (file,) = tmp_path.glob("*.html")
    spoiled = tmp_path / "spoiled.html"
    text = file.read_text(encoding="utf-8")
    spoiled.write_text(text.replace("</body>", "<script>window.hacked=1</script></body>"))
    page = browser.new_page()
    page.goto(spoiled.as_uri())
    assert page.evaluate("window.hacked") is None
    page.close()
