"""The built pages in a browser that can reach nothing else. LMCOURSE_SHOTS=folder saves pictures of them."""

import os
from pathlib import Path

import pytest
import site_checks


@pytest.fixture(scope="session")
def look(site, browser_context):
    """Open a page once, however many tests ask about it."""
    shots = os.environ.get("LMCOURSE_SHOTS")
    seen = {}
    with site_checks.served(site) as address:

        def look_at(name):
            if name not in seen:
                seen[name] = site_checks.inspect(browser_context, address, name, site, shots and Path(shots))
            return seen[name]

        yield look_at


def test_page_asks_no_other_host(look, page_name):
    assert look(page_name).outside == []


def test_page_finds_all_it_asks_for(look, page_name):
    assert look(page_name).failed == []


def test_page_has_no_script_errors(look, page_name):
    assert look(page_name).errors == []


def test_page_shows_its_maths(look, page_name):
    assert look(page_name).maths == []


def test_page_has_live_figures(look, page_name):
    assert look(page_name).figures == []


def test_page_has_no_barriers(look, page_name):
    assert look(page_name).accessibility == []


def test_page_fits_its_window(look, page_name):
    assert look(page_name).overflow == []


def test_page_is_light(look, page_name):
    assert look(page_name).weight == []


@pytest.fixture
def served_page(site, browser_context):
    page = browser_context.new_page()
    with site_checks.served(site) as address:
        yield page, address
    page.close()


@pytest.mark.parametrize("width", site_checks.SIZES)
def test_the_icon_of_the_search_field_does_not_cover_what_is_typed(served_page, width):
    page, address = served_page
    page.set_viewport_size({"width": width, "height": site_checks.SIZES[width]})
    page.goto(address + "search.html?q=posterior")
    field = page.locator("form.bd-search input:visible")
    icon = field.locator("xpath=..").locator("i, svg").bounding_box()
    text_begins = field.bounding_box()["x"] + float(
        field.evaluate("(field) => getComputedStyle(field).paddingLeft").removesuffix("px")
    )
    assert icon["x"] + icon["width"] < text_begins
    assert page.locator(".search-results, #search-results").inner_text()


@pytest.mark.parametrize("name", ["book/notation.html", "chapters/09_hidden_markov_models.html"])
def test_the_download_button_downloads_or_says_what_to_do(served_page, site, name):
    page, address = served_page
    page.goto(address + name)
    page.click(".dropdown-download-buttons > button")
    with page.expect_download() as download:
        page.click(".btn-download-source-button")
    assert download.value.suggested_filename.startswith(name.split("/")[1].removesuffix(".html"))
    page.goto((site / name).as_uri())
    page.click(".dropdown-download-buttons > button")
    page.hover(".btn-download-source-button")
    assert page.locator(".tooltip").inner_text() == "Open the source file, then save it from there"
