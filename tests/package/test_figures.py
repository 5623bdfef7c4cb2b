"""Figures: a finding and a description are required; the picture follows the page; explorers move."""

import itertools
import json
import re
import xml.dom.minidom

import matplotlib as mpl
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from lmcourse import figures

WHITE, DARK = "#ffffff", "#121212"


@pytest.fixture(autouse=True)
def style():
    with plt.style.context("default"):
        figures.use_style()
        yield
    plt.close("all")


@pytest.fixture
def shown(monkeypatch):
    bundles = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: bundles.append(bundle))
    return bundles


def draw(height=1):
    fig, ax = plt.subplots()
    ax.plot([0, height])
    ax.set_xlabel("time (steps)")
    return fig


TITLE, ALT = "The line goes up by one", "A straight line from the lower left to the upper right."


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("colour", "page"), list(itertools.product(figures.CYCLE, (WHITE, DARK))))
def test_every_colour_is_legible_on_both_pages(colour, page):
    low, high = sorted((luminance(colour), luminance(page)))
    assert (high + 0.05) / (low + 0.05) >= 3


@pytest.mark.parametrize(
    ("title", "alt", "message"),
    [
        ("", ALT, "needs a title"),
        ("Result", ALT, "needs a title"),
        (TITLE, "", "needs a alt"),
        (TITLE, TITLE, "repeats the title"),
    ],
)
def test_a_figure_without_finding_or_description_is_refused(title, alt, message):
    with pytest.raises(ValueError, match=message):
        figures.show(draw(), title=title, alt=alt)
    with pytest.raises(ValueError, match=message):
        figures.explore(lambda k: draw(k), title=title, alt=alt, k=[1])


def test_the_picture_is_well_formed_and_belongs_to_the_page(shown):
    figures.show(draw(), title=TITLE + " $x_1$", alt='A "line" & more <here>')
    page = shown[0]["text/html"]
    xml.dom.minidom.parseString(page)
    assert "currentColor" in page
    assert figures.INK not in page
    assert "<style" not in page
    assert r"\(x_1\)" in page
    assert 'aria-label="A &quot;line&quot; &amp; more &lt;here&gt;"' in page
    assert plt.get_fignums() == []


def test_two_figures_share_no_id(shown):
    figures.show(draw(1), title=TITLE, alt=ALT)
    figures.show(draw(2), title=TITLE, alt=ALT)
    ids = [set(re.findall(r'\bid="([^"]*)"', bundle["text/html"])) for bundle in shown]
    assert ids[0]
    assert not ids[0] & ids[1]


def test_the_same_figure_is_the_same_text(shown):
    figures.show(draw(), title=TITLE, alt=ALT)
    figures.show(draw(), title=TITLE, alt=ALT)
    assert shown[0]["text/html"] == shown[1]["text/html"]


def explorer(shown):
    figures.explore(
        lambda k, scale: draw(k * scale),
        title=lambda k, scale: f"The line goes up by {k * scale}",
        alt=lambda k, scale: f"A straight line that ends at {k * scale}.",
        k=figures.Control("Height", [1, 2, 3], lambda v: f"{v} m", start=1),
        scale=[1, 10],
    )
    return shown[0]


def test_the_page_holds_every_picture(shown):
    page = explorer(shown)["text/html"]
    data = json.loads(
        re.search(r'application/json">(.*?)</script>', page, re.DOTALL)[1].replace("<\\/", "</")
    )
    assert data["titles"] == [f"The line goes up by {k * s}" for k in (1, 2, 3) for s in (1, 10)]
    assert data["texts"] == [["1 m", "2 m", "3 m"], ["1", "10"]]
    pictures = ["\n".join(data["lines"][i] for i in frame) for frame in data["frames"]]
    assert len(set(pictures)) == 6
    for picture in pictures:
        xml.dom.minidom.parseString(picture)
    assert pictures[2] in page  # the one shown first: height 2, scale 1
    assert 'aria-live="polite">The line goes up by 2<' in page


def test_the_widget_moves_with_its_sliders(shown):
    from ipywidgets.widgets.widget import _instances

    bundle = explorer(shown)
    model = bundle["application/vnd.jupyter.widget-view+json"]["model_id"]
    title, height, scale, picture = _instances[model].children
    assert "up by 2<" in title.value
    before = picture.value
    height.index, scale.index = 2, 1
    assert "up by 30<" in title.value
    assert picture.value != before


@pytest.mark.parametrize("controls", [{}, {"k": []}, {"k": range(15), "scale": range(15)}])
def test_too_few_or_too_many_pictures_are_refused(controls):
    with pytest.raises(ValueError, match="combinations"):
        figures.explore(draw, title=TITLE, alt=ALT, **controls)


def test_a_control_starts_at_one_of_its_values():
    with pytest.raises(ValueError, match="'k' starts at 3 of 3 values"):
        figures.Control("k", [1, 2, 3], start=3)


def test_a_refused_figure_is_closed():
    with pytest.raises(ValueError, match="needs a title"):
        figures.show(draw(), title="", alt=ALT)
    assert plt.get_fignums() == []


def test_no_text_breaks_out_of_the_page(shown):
    """Dollars, tags and script ends in titles, labels and values stay text."""
    evil = "</script><script>alert(1)</script><!--<script>"
    figures.explore(
        lambda k: draw(),
        title=rf"It costs \$5 and then \$6 {evil}",
        alt=f"A line {evil}",
        k=figures.Control(rf"$\alpha$ {evil}", [1, 2], lambda v: f"{v} {evil}"),
    )
    page = shown[0]["text/html"]
    assert page.count("<script") == page.count("</script>") == 2
    assert "<!--" not in page
    assert "It costs $5 and then $6" in page
    assert r"\(\alpha\)" in page
