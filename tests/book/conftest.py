"""The built site, and one browser for all tests of it."""

from pathlib import Path

import pytest
import site_checks

SITE = Path(__file__).parents[2] / "_build" / "html"


def pytest_generate_tests(metafunc):
    if "page_name" in metafunc.fixturenames:
        metafunc.parametrize("page_name", site_checks.pages(SITE) or ["the site"])


@pytest.fixture(scope="session")
def site():
    if not (SITE / "index.html").exists():
        pytest.fail("There is no site in _build/html. Build it first: make book", pytrace=False)
    return SITE


@pytest.fixture(scope="session")
def browser_context():
    with site_checks.browser() as browser:
        yield browser.new_context(color_scheme="light")
