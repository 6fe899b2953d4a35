import copy

import pytest

pytestmark = pytest.mark.browser

# The number of a column, and what it is sorted by.
NUMBERS = {
    1: "order",
    2: "score",
    3: "auc",
    4: "mutual_information",
    5: "coverage",
    6: "gain",
    7: "lift",
    8: "used",
}


@pytest.fixture(scope="module")
def numbered(sample):
    """A report whose crosses have short names with numbers in them."""
    report = copy.deepcopy(sample)
    for place, cross in enumerate(report["crosses"]):
        cross["name"] = f"{'ba'[place % 2]}{place}"
    return report


def names(page):
    return page.locator("#crosses .opener").all_inner_texts()


def percent(share):
    return f"{share:.2%}" if 0 < share < 0.01 else f"{share:.1%}"


def show_all(page, what):
    page.get_by_role("button", name=f"Show all {what}").click()


def sort_button(page, label):
    return page.locator("#crosses thead").get_by_role("button", name=label, exact=True)


@pytest.fixture
def page(show, numbered):
    page = show(numbered)
    show_all(page, f"{len(numbered['crosses'])} crosses")
    return page


def test_numbers_sort_as_numbers_with_unknown_ones_last(page, numbered):
    crosses = numbered["crosses"]
    header = page.locator("#crosses-body thead th")
    sort_button(page, "Cross").click()  # away from the one it is sorted by
    for place, key in NUMBERS.items():
        for direction, sign in (("descending", -1), ("ascending", 1)):
            header.nth(place).get_by_role("button").click()
            assert header.nth(place).get_attribute("aria-sort") == direction
            before = names(page)
            expected = sorted(
                crosses, key=lambda cross: (cross[key] is None, sign * (cross[key] or 0))
            )
            values = {cross["name"]: cross[key] for cross in crosses}
            assert [values[name] for name in before] == [cross[key] for cross in expected], key
    assert header.nth(0).get_attribute("aria-sort") == "none"


def test_names_sort_from_a_on_with_their_numbers_as_numbers(page, numbered):
    sort_button(page, "Cross").click()
    count = len(numbered["crosses"])
    expected = [f"a{place}" for place in range(1, count, 2)]
    expected += [f"b{place}" for place in range(0, count, 2)]
    assert names(page) == expected
    sort_button(page, "Cross").click()
    assert names(page) == expected[::-1]


def test_headers_sort_by_keyboard(page, numbered):
    sort_button(page, "Score").focus()
    page.keyboard.press("Enter")
    assert names(page)[0] == max(numbered["crosses"], key=lambda cross: cross["score"])["name"]
    page.keyboard.press("Space")
    assert names(page)[0] == min(numbered["crosses"], key=lambda cross: cross["score"])["name"]


def test_crosses_are_filtered_by_text_order_and_use(page, numbered):
    crosses = numbered["crosses"]
    text, order = page.get_by_label("Name contains"), page.locator("#crosses").get_by_label("Order")
    status = page.locator("#crosses").get_by_role("status")
    text.fill(" B1")
    assert sorted(names(page)) == sorted(c["name"] for c in crosses if "b1" in c["name"])
    order.select_option("3")
    text.fill("")
    assert sorted(names(page)) == sorted(c["name"] for c in crosses if c["order"] == 3)
    page.get_by_label("Used ones only").check()
    wanted = sorted(c["name"] for c in crosses if c["order"] == 3 and c["used"])
    assert sorted(names(page)) == wanted
    assert status.inner_text() == f"{len(wanted)} of {len(crosses)} crosses"
    text.fill("no such cross")
    assert names(page) == []
    assert page.get_by_text("No crosses to show.").is_visible()


def test_the_first_crosses_are_shown_until_all_are_asked_for(show, sample):
    page = show(sample)
    assert len(names(page)) == 20
    count = len(sample["crosses"])
    show_all(page, f"{count} crosses")
    assert len(names(page)) == count


@pytest.mark.parametrize("way", ["click", "row", "Enter"])
def test_a_cross_opens_and_closes(show, sample, way):
    page = show(sample)
    opener = page.locator("#crosses .opener").nth(2)
    name = opener.inner_text()
    cross = next(cross for cross in sample["crosses"] if cross["name"] == name)

    def act():
        if way == "click":
            opener.click()
        elif way == "row":
            page.locator("#crosses-body tbody > tr:not(.details)").nth(2).locator(
                "td"
            ).first.click()
        else:
            opener.focus()
            page.keyboard.press("Enter")

    act()
    details = page.locator("#crosses .details")
    assert opener.get_attribute("aria-expanded") == "true"
    assert opener.get_attribute("aria-controls") == details.get_attribute("id")
    rows = details.locator("tbody tr")
    assert rows.count() == len(cross["values"])
    first = cross["values"][0]
    assert rows.first.locator("td").all_inner_texts() == [
        " · ".join(first["values"]),
        f"{first['rows']:,}",
        percent(first["rate"]),
        " to ".join(map(percent, first["interval"])),
        percent(first["expected"]),
    ]
    details.locator("canvas").first.wait_for()
    assert " · ".join(first["values"]) in details.get_by_role("img").get_attribute("aria-label")
    act()
    assert opener.get_attribute("aria-expanded") == "false"
    assert details.count() == 0


def test_a_field_opens_with_values_and_edges_of_buckets(show, sample):
    page = show(sample)
    fields = sample["data"]["fields"]
    field = next(field for field in fields if field["bucket_edges"])
    if len(fields) > 20:
        show_all(page, f"{len(fields)} fields")
    page.locator("#data").get_by_role("button", name=field["name"], exact=True).click()
    details = page.locator("#data .details")
    assert details.locator(".bars .name").all_inner_texts() == [
        value["value"] for value in field["values"]
    ]
    edges = ", ".join(f"{edge:,.4g}" for edge in field["bucket_edges"][:3])
    assert edges in details.inner_text()
