"""The checks of the site and of the notation find a defect when there is one."""

import sys
from pathlib import Path

import pytest
import site_checks
from site_checks import figures_without_words, outside_in_css, outside_in_html

sys.path.insert(0, str(Path(__file__).parents[2] / "book" / "_ext"))
import notation

GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>A page</title></head>
<body><main><article><h1>A page</h1>{}</article></main></body></html>"""
FIGURE = """<figure class="lm-figure"><p class="lm-figure-title">{title}</p>
<div class="lm-figure-picture"><svg viewBox="0 0 9 9" role="img" {words}></svg></div></figure>"""
SLIDER = """<figure class="lm-figure"><div class="lm-explore"><p class="lm-figure-title">At 0</p>
<label for="s">Size</label><input id="s" type="range" min="0" max="3" value="0"><output>0</output>
<div class="lm-explore-picture"><svg role="img" aria-label="Bar"><rect width="1"/></svg></div></div>
<script>document.getElementById("s").oninput = (event) => {{ const v = event.target.value; {moves} }}</script>
</figure>"""
MOVES = {
    "title": 'document.querySelector(".lm-figure-title").textContent = "At " + v;',
    "value": 'document.querySelector("output").textContent = v;',
    "picture": 'document.querySelector("rect").setAttribute("width", v);',
}


# ---------------------------------------------------------------------- the text of a page


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://example.org/x.js"></script>',
        '<script src="//example.org/x.js"></script>',
        '<link rel="stylesheet" href="https://example.org/x.css">',
        '<img src="https://example.org/x.png">',
        "<style>@import 'https://example.org/x.css';</style>",
        '<p style="background: url(https://example.org/x.png)">x</p>',
        "<style>@font-face { src: url('https://example.org/x.woff2'); }</style>",
    ],
)
def test_a_request_to_another_host_is_found_in_html(html):
    assert outside_in_html(html)


def test_a_link_to_another_host_is_allowed():
    assert (
        outside_in_html(
            '<a href="https://example.org">x</a><link rel="canonical" href="https://example.org">'
        )
        == []
    )


def test_a_font_from_another_host_is_found_in_css():
    assert outside_in_css("@font-face { src: url(//example.org/x.woff2) }")
    assert (
        outside_in_css("a { background: url(data:image/png;base64,AA) } b { background: url(../x.png) }")
        == []
    )


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("", 'aria-label="A curve"'),
        ("It falls", ""),
        ("It falls", 'aria-label=" "'),
        ("It falls", 'aria-labelledby="nowhere"'),
    ],
)
def test_a_figure_without_title_or_alternative_text_is_found(title, words):
    assert figures_without_words(FIGURE.format(title=title, words=words))


def test_a_picture_that_a_cell_leaves_behind_is_found():
    cell = '<div class="cell"><div class="cell_output"><img src="x.png" alt="../_images/x.png"></div></div>'
    assert figures_without_words(cell)


def test_a_figure_with_both_passes():
    assert figures_without_words(FIGURE.format(title="It falls", words='aria-label="A curve"')) == []


@pytest.mark.parametrize(
    ("output", "found"),
    [("", 1), ('<figure class="lm-figure"></figure>', 1), ('<div class="lm-explore"></div>', 0)],
)
def test_a_figure_that_the_page_does_not_show_is_found(output, found):
    code = '<div class="cell_input">figures.explore(draw)</div>'
    cell = f'<div class="cell">{code}<div class="cell_output">{output}</div></div>'
    assert len(site_checks.missing_figures(cell)) == found


@pytest.mark.parametrize("address", ["missing.html", "a.html#missing", "#missing"])
def test_a_broken_link_is_found(tmp_path, address):
    (tmp_path / "a.html").write_text(
        f'<h1 id="here">A</h1><a href="{address}">x</a><a href="a.html#here">y</a>'
    )
    assert site_checks.broken_links("a.html", tmp_path) == [
        f"{address} does not exist"
        if address == "missing.html"
        else f"{address} names a place that does not exist"
    ]


# ---------------------------------------------------------------------- a page in a browser


@pytest.fixture
def look_at(tmp_path, browser_context):
    def look(body):
        (tmp_path / "page.html").write_text(GOOD.format(body), encoding="utf-8")
        with site_checks.served(tmp_path) as address:
            return site_checks.inspect(browser_context, address, "page.html", tmp_path)

    return look


def problems(findings):
    return {name for name, found in vars(findings).items() if isinstance(found, list) and found}


def test_a_sound_page_passes(look_at):
    moving = SLIDER.format(moves=" ".join(MOVES.values()))
    assert problems(look_at("<p>All is well.</p>" + moving)) == set()


def test_an_outside_script_is_found(look_at):
    assert "outside" in problems(look_at('<script src="https://example.org/x.js"></script>'))


def test_a_missing_file_is_found(look_at):
    assert "failed" in problems(look_at('<img src="missing.png" alt="Nothing">'))


@pytest.mark.parametrize("script", ["console.error('no')", "undefined.x", "setTimeout(() => { throw 1 })"])
def test_a_script_error_is_found(look_at, script):
    assert "errors" in problems(look_at(f"<script>{script}</script>"))


@pytest.mark.parametrize(
    "maths", ["$$x^2$$", r"\(x^2\)", "a $x$ b", '<span class="math">x</span>', "<mjx-merror>"]
)
def test_unreadable_maths_is_found(look_at, maths):
    assert problems(look_at(f"<p>{maths}</p>")) == {"maths"}


@pytest.mark.parametrize("frozen", MOVES)
def test_a_frozen_figure_is_found(look_at, frozen):
    moves = " ".join(script for part, script in MOVES.items() if part != frozen)
    findings = look_at(SLIDER.format(moves=moves))
    assert findings.figures == [f"interactive figure 1: its {frozen} does not follow s"]


@pytest.mark.parametrize(
    "barrier", ['<p style="color: #ccc">pale</p>', '<input type="range">', "<button></button>"]
)
def test_a_barrier_is_found(look_at, barrier):
    assert problems(look_at(barrier)) == {"accessibility"}


def test_a_page_wider_than_a_phone_is_found(look_at):
    assert look_at('<div style="width: 600px">wide</div>').overflow == [
        "218 px wider than a window of 390 px"
    ]


WIDE = '<table class="{}"><tr>' + "<td><p style='width: 150px'>x</p></td>" * 10 + "</tr></table>"


@pytest.mark.parametrize(("rows", "windows"), [("", ["1280"]), ("lm-rows", ["1280", "390"])])
def test_a_table_that_hides_columns_is_found(look_at, rows, windows):
    box = '<div class="pst-scrollable-table-container" tabindex="0" style="overflow-x: auto">{}</div>'
    found = look_at(box.format(WIDE.format(rows))).overflow
    assert [finding.split()[-2] for finding in found] == windows


@pytest.mark.parametrize(("room", "found"), [("9rem", 0), ("0", 2)])
def test_a_button_over_a_title_is_found(look_at, room, found):
    style = f"position: relative; padding-right: {room}; box-sizing: border-box; width: 300px"
    button = '<button class="toggle-button" style="position: absolute; right: 0">Click to show</button>'
    title = f'<p class="admonition-title" style="{style}">Solution to an exercise with a name{button}</p>'
    assert len(look_at(f'<div class="admonition toggle">{title}</div>').overflow) == found


def test_a_picture_that_wastes_the_width_of_a_phone_is_found(look_at):
    figure = FIGURE.format(title="It falls", words='aria-label="A curve" style="width: 100%"')
    page = '<style>body {{ margin: 0 }}</style><div class="cell_output" style="padding: {}">' + figure
    page = page.replace('<figure class="lm-figure">', '<figure class="lm-figure" style="margin: 0">')
    assert problems(look_at(page.format(0) + "</div>")) == set()
    assert look_at(page.format("9px") + "</div>").figures == [
        "a picture is 372 px wide in a window of 390 px"
    ]


def test_a_heavy_page_is_found(look_at, tmp_path):
    (tmp_path / "heavy.js").write_bytes(b"/*" + bytes(range(256)) * 0 + b"*/")
    assert problems(look_at('<script src="heavy.js"></script>')) == set()
    noise = "".join(f"{n * n * 2654435761 % 2**32:08x}" for n in range(800_000))
    (tmp_path / "heavy.js").write_text(f"/*{noise}*/")
    site_checks._gzipped.cache_clear()
    assert problems(look_at('<script src="heavy.js"></script>')) == {"weight"}


def test_a_missing_browser_is_explained(monkeypatch):
    monkeypatch.setenv("LMCOURSE_BROWSER", "no-such-browser")
    with pytest.raises(FileNotFoundError, match="no-such-browser, which is not a program"):
        site_checks.find_browser()
    monkeypatch.delenv("LMCOURSE_BROWSER")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="Install Chromium"):
        site_checks.find_browser()


# ---------------------------------------------------------------------- notation


@pytest.mark.parametrize(
    ("latex", "symbols"),
    [
        (r"p_L(s) \ge p^*(w)", ["p_L", "s", "p^*", "w"]),
        (r"\mathbb P[H_i \mid x_{-i}]", [r"\mathbb{P}", "H", "i", "x", "i"]),
        (r"\mathrm{KL}(p^{\star} \,\|\, \hat{q})", [r"\mathrm{KL}", "p^*", r"\hat", "q"]),
        (r"\operatorname{supp}(r) \text{ if } \log x \le \frac{1}{2}", [r"\mathrm{supp}", "r", "x"]),
        (r"p_f^* H^*_{i}", ["p^*", "f", "H^*", "i"]),
    ],
)
def test_formulas_are_read_symbol_by_symbol(latex, symbols):
    assert list(notation.symbols_in(latex, {"p_L", "p_f", "H^*"})) == symbols


@pytest.mark.parametrize("latex", [r"\zeta", r"\mathcal{X}", "q^*", r"\check{p}", r"\mathrm{gap}", "K"])
def test_an_unlisted_symbol_is_found(latex):
    listed = notation.listed_tokens(notation.load_table())
    assert notation.unlisted(f"p(w) + {latex}", listed)
    assert notation.unlisted(r"p^*(w \mid s) + \varepsilon", listed) == []


def test_each_symbol_is_listed_once_and_belongs_to_a_part():
    table = notation.load_table()
    names = [entry["latex"] for entry in table]
    assert len(names) == len(set(names))
    assert {entry["part"] for entry in table} <= set(notation.PARTS)
