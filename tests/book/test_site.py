"""The built pages as text: what they load, what they link to, what they say about their pictures."""

import site_checks


def test_page_loads_nothing_from_another_host(site, page_name):
    assert site_checks.outside_in_html((site / page_name).read_text(encoding="utf-8")) == []


def test_style_sheets_load_nothing_from_another_host(site):
    sheets = list(site.glob("_static/**/*.css"))
    assert sheets
    assert [
        finding for sheet in sheets for finding in site_checks.outside_in_css(sheet.read_text("utf-8"))
    ] == []


def test_every_figure_has_a_title_and_alternative_text(site, page_name):
    assert site_checks.figures_without_words((site / page_name).read_text(encoding="utf-8")) == []


def test_every_figure_is_on_the_page(site, page_name):
    assert site_checks.missing_figures((site / page_name).read_text(encoding="utf-8")) == []


def test_links_lead_somewhere(site, page_name):
    assert site_checks.broken_links(page_name, site) == []
