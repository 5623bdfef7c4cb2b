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
