"""What every page of the site must satisfy. Each check returns its findings as sentences; none is a pass.

The checks of `test_site.py` and `test_browser.py` are here, apart from them, so that `test_checks.py` can
show each one a defect.
"""

import gzip
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from bs4 import BeautifulSoup, Tag

MAX_PAGE_BYTES = 1_500_000  # gzipped, everything that the page loads
SIZES = {1280: 900, 390: 844}


def pages(site: Path) -> list[str]:
    """Return the pages of a built site, as paths relative to it."""
    found = (path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return sorted(
        name for name in found if not name.startswith(("_static/", "_sources/")) and name != "index.html"
    )


# ---------------------------------------------------------------------- in the text of a page

_OUTSIDE = re.compile(r"^(?:https?:)?//", re.I)
_LOADING_LINKS = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "modulepreload",
    "manifest",
    "preconnect",
    "dns-prefetch",
}


def outside_in_css(css: str) -> list[str]:
    """Find addresses on other hosts in a style sheet."""
    found = re.findall(r"""(?:url\(\s*|@import\s+)['"]?((?:https?:)?//[^'")\s]+)""", css, re.I)
    return [f"style asks for {address}" for address in found]


def outside_in_html(html: str) -> list[str]:
    """Find what a page would load from other hosts: scripts, styles, pictures, fonts, frames."""
    soup = BeautifulSoup(html, "html.parser")
    findings = []
    for tag in soup.find_all(
        ["script", "img", "iframe", "source", "video", "audio", "embed", "object", "link", "use", "image"]
    ):
        if tag.name == "link" and not _LOADING_LINKS & set(tag.get("rel") or []):
            continue
        for attribute in ("src", "srcset", "href", "xlink:href", "data", "poster"):
            if _OUTSIDE.match(str(tag.get(attribute, ""))):
                findings.append(f"<{tag.name}> asks for {tag[attribute]}")
    for style in [*soup.find_all("style"), *soup.find_all(style=True)]:
        findings += outside_in_css(style.get("style") or style.get_text())
    return findings


def figures_without_words(html: str) -> list[str]:
    """Find figures without a title, and pictures without alternative text."""
    soup = BeautifulSoup(html, "html.parser")
    findings = []
    for number, figure in enumerate(soup.select("figure.lm-figure"), 1):
        title = figure.select_one(".lm-figure-title")
        if title is None or not title.get_text(strip=True):
            findings.append(f"figure {number} has no title")
        pictures = [p for p in figure.find_all(["svg", "img"]) if not p.find_parent("svg")]
        if not pictures and not figure.find("script"):
            findings.append(f"figure {number} has no picture")
        findings += [
            f"a picture in figure {number} has no alternative text" for p in pictures if not _words(p, soup)
        ]
    findings += [
        f"the output of a cell shows {str(img.get('src'))[:60]} without a title"
        for img in soup.select(".cell_output img")
        if not img.find_parent("figure", class_="lm-figure")
    ]
    outside_figures = (
        img for img in soup.select("article img") if not img.find_parent("figure", class_="lm-figure")
    )
    findings += [
        f"{img.get('src')} has no alternative text" for img in outside_figures if not _words(img, soup)
    ]
    return findings


def missing_figures(html: str) -> list[str]:
    """Find cells that make a figure which the page does not show."""
    findings = []
    for call, shown in {"figures.show(": "figure.lm-figure", "figures.explore(": ".lm-explore"}.items():
        for cell in BeautifulSoup(html, "html.parser").select("div.cell"):
            code, output = cell.select_one(".cell_input"), cell.select_one(".cell_output")
            if code and call in code.get_text() and (output is None or not output.select_one(shown)):
                findings.append(f"a cell with {call}) shows no figure")
    return findings


def _words(picture: Tag, soup: BeautifulSoup) -> str:
    """Return the alternative text of a picture, or of an element around it that has the role of one."""
    for tag in (picture, *picture.find_parents(attrs={"role": "img"})):
        labels = str(tag.get("aria-labelledby", "")).split()
        named = " ".join(
            found.get_text(" ", strip=True) for label in labels if (found := soup.find(id=label))
        )
        words = str(tag.get("alt", "")) or str(tag.get("aria-label", "")) or named
        if words.strip() and (tag.name == "img" or tag.get("role") == "img"):
            return words
    return ""


def broken_links(name: str, site: Path) -> list[str]:
    """Find links from a page to files or places of the site that do not exist."""
    here = site / name
    findings = []
    for tag in _soup(here).find_all(["a", "link", "script", "img"]):
        address = str(tag.get("href") or tag.get("src") or "")
        if not address or urlsplit(address).scheme or _OUTSIDE.match(address):
            continue
        path, place = urldefrag(address)
        path = unquote(urlsplit(path).path)
        target = (here.parent / path).resolve() if path else here
        if not target.is_file():
            findings.append(f"{address} does not exist")
        elif place and target.suffix == ".html" and unquote(place) not in _places(target):
            findings.append(f"{address} names a place that does not exist")
    return findings


@cache
def _soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def _places(path: Path) -> set[str]:
    return {str(tag["id"]) for tag in _soup(path).find_all(id=True)}


# ---------------------------------------------------------------------- in a browser

_ADVICE = (
    "No browser found for the tests of the site. Install Chromium (Debian: apt install chromium), or run "
    "`python -m playwright install chromium`, or set LMCOURSE_BROWSER to the program of a Chromium or Chrome."
)


def find_browser(own: str = "") -> str:
    """Return the program of a browser: LMCOURSE_BROWSER, one on the path, or Playwright's own."""
    chosen = os.environ.get("LMCOURSE_BROWSER")
    if chosen:
        program = shutil.which(chosen)
        if program is None:
            raise FileNotFoundError(f"LMCOURSE_BROWSER names {chosen}, which is not a program. {_ADVICE}")
        return program
    mac = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", mac):
        if program := shutil.which(name):
            return program
    if own and Path(own).exists():
        return own
    raise FileNotFoundError(_ADVICE)


def browser_or_exit() -> None:
    """End the program with advice where no browser is to be found; for a look before a long run."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        try:
            print(find_browser(playwright.chromium.executable_path))
        except FileNotFoundError as error:
            raise SystemExit(str(error)) from None


@contextmanager
def browser() -> Iterator:
    """Start a browser that contacts nobody by itself."""
    from playwright.sync_api import sync_playwright

    quiet = "--disable-gpu --disable-quic --no-first-run --disable-background-networking"
    flags = f"{quiet} --disable-component-update --disable-sync".split()
    if getattr(os, "geteuid", lambda: 1)() == 0:
        flags.append("--no-sandbox")  # Chromium refuses to run as root without
    with sync_playwright() as playwright:
        program = find_browser(playwright.chromium.executable_path)
        chromium = playwright.chromium.launch(executable_path=program, args=flags)
        yield chromium
        chromium.close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a folder on the loopback interface and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()


@dataclass
class Findings:
    """What is wrong with a page, one list for each thing that may not be wrong."""

    outside: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    maths: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    accessibility: list[str] = field(default_factory=list)
    overflow: list[str] = field(default_factory=list)
    weight: list[str] = field(default_factory=list)
    total_bytes: int = 0


def inspect(context, address: str, name: str, site: Path, shots: Path | None = None) -> Findings:
    """Open a page with every other host blocked, look at it in both colours and both widths, and use it."""
    findings = Findings()
    asked: set[str] = set()
    page = context.new_page()

    def admit(route):
        url = route.request.url
        if url.startswith((address, "data:", "blob:")):
            asked.add(url)
            route.continue_()
        else:
            findings.outside.append(f"asks for {url}")
            route.abort()

    page.route("**/*", admit)
    page.on(
        "requestfailed", lambda r: findings.failed.append(f"{r.url}: {r.failure}") if r.url in asked else None
    )
    page.on("response", lambda r: findings.failed.append(f"{r.url}: {r.status}") if r.status >= 400 else None)
    page.on("console", lambda m: findings.errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: findings.errors.append(str(error)))
    page.set_viewport_size({"width": 1280, "height": SIZES[1280]})
    page.goto(address + name)
    page.evaluate("() => window.MathJax?.startup?.promise")
    findings.maths = unreadable_maths(page)
    if shots:
        take_shots(page, shots, name.removesuffix(".html").replace("/", "-"))
    findings.figures = frozen_figures(page)
    page.add_style_tag(content="* { transition: none !important; animation: none !important; }")
    page.evaluate("document.querySelectorAll('.toggle-button-hidden').forEach((button) => button.click())")
    for width, height in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        findings.overflow += overflow(page)
        findings.overflow += hidden_columns(page)
        findings.overflow += covered_titles(page)
        findings.figures += narrow_pictures(page)
        for colours in ("light", "dark") if width == 1280 else ("light",):
            page.emulate_media(color_scheme=colours)
            found = barriers(page, contrast=width == 1280)  # which does not depend on the width
            findings.accessibility += [f"{width} px, {colours}: {finding}" for finding in found]
    page.wait_for_load_state("networkidle")
    findings.total_bytes, findings.weight = weigh(asked, address, site)
    page.close()
    return findings


def unreadable_maths(page) -> list[str]:
    """Find formulas that failed, formulas that were left alone, and signs of formulas in the text."""
    return page.evaluate(
        r"""() => {
          const findings = [];
          for (const e of document.querySelectorAll("mjx-merror, [data-mjx-error]"))
            findings.push("formula with an error: " + (e.getAttribute("data-mjx-error") ?? e.textContent));
          for (const e of document.querySelectorAll("article .math"))
            if (!e.querySelector("mjx-container"))
              findings.push("formula not shown: " + e.textContent.trim().slice(0, 80));
          const text = (document.querySelector("article") ?? document.body).cloneNode(true);
          text.querySelectorAll("pre, code, script, style, .math, mjx-container").forEach((e) => e.remove());
          for (const found of text.textContent.matchAll(/.{0,40}(?:\$|\\\(|\\\[|\\begin\{).{0,40}/g))
            findings.push("raw formula in the text: " + found[0].trim());
          return findings;
        }"""
    )


def frozen_figures(page) -> list[str]:
    """Move each slider through its range with the arrow keys; find what does not follow it."""
    state = """(root) => ({
      title: root.querySelector(".lm-figure-title")?.textContent ?? "",
      value: [...root.querySelectorAll("output")].map((o) => o.textContent).join(),
      picture: [...root.querySelectorAll(".lm-figure-picture, .lm-explore-picture")]
        .filter((picture) => picture.offsetParent).map((picture) => picture.innerHTML).join(),
    })"""
    findings = []
    roots = page.locator(".lm-explore")
    for number, root in enumerate(roots.all(), 1):
        sliders = root.locator("input[type=range]").all()
        if not sliders:
            findings.append(f"interactive figure {number} has no slider")
        for slider in sliders:
            slider.focus()
            page.keyboard.press("Home")
            seen = [root.evaluate(state)]
            for _ in range(60):
                before = slider.input_value()
                page.keyboard.press("ArrowRight")
                if slider.input_value() == before:
                    break
                seen.append(root.evaluate(state))
            name = slider.get_attribute("id")
            for part in ("title", "value", "picture"):
                if len({moment[part] for moment in seen}) < 2:
                    findings.append(f"interactive figure {number}: its {part} does not follow {name}")
    return findings


def barriers(page, *, contrast: bool = True) -> list[str]:
    """Find what keeps people out, as axe-core does: its findings that are serious or critical."""
    # No formulas: MathJax makes thousands of elements, and answers for them itself. No `preload`: axe looks
    # for the style sheets that style sheets import in the wrong folder.
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    options = {"resultTypes": ["violations"], "preload": False}
    options["rules"] = {"color-contrast": {"enabled": contrast}}
    ask = "async (options) => (await axe.run({exclude: ['mjx-container']}, options)).violations"
    found = page.evaluate(ask, options)
    return [
        f"{rule['id']}: {rule['help']}: {rule['nodes'][0]['html'][:200]} ({len(rule['nodes'])} times)"
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]


def overflow(page) -> list[str]:
    """Find out whether the page as a whole scrolls sideways."""
    extra, width = page.evaluate("[document.documentElement.scrollWidth - innerWidth, innerWidth]")
    return [f"{extra} px wider than a window of {width} px"] if extra > 0 else []


def hidden_columns(page) -> list[str]:
    """Find tables that scroll sideways: any on a desk, and on a phone those whose rows should be blocks."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".pst-scrollable-table-container")]
          .filter((box) => innerWidth > 768 || box.querySelector(".lm-rows"))
          .filter((box) => box.scrollWidth > box.clientWidth + 1)
          .map((box) => `a table (${box.textContent.trim().slice(0, 40)}) hides `
            + `${box.scrollWidth - box.clientWidth} px of its width in a window of ${innerWidth} px`)"""
    )


def covered_titles(page) -> list[str]:
    """Find titles of folded boxes that run under their button."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".admonition.toggle > .admonition-title")].filter((title) => {
            const button = title.querySelector(".toggle-button")?.getBoundingClientRect();
            const words = document.createTreeWalker(title, NodeFilter.SHOW_TEXT,
              (node) => node.parentElement.closest(".toggle-button") ? NodeFilter.FILTER_REJECT : 1);
            const range = document.createRange();
            while (button && words.nextNode()) {
              range.selectNodeContents(words.currentNode);
              for (const box of range.getClientRects())
                if (box.right > button.left && box.bottom > button.top && box.top < button.bottom)
                  return true;
            }
          }).map((title) => title.textContent.trim().slice(0, 60))
            .map((title) => `a button covers “${title}” in a window of ${innerWidth} px`)"""
    )


def narrow_pictures(page) -> list[str]:
    """Find pictures of cells that leave a part of a phone's width unused, and so are too small to read."""
    return page.evaluate(
        """() => innerWidth > 768 ? [] :
          [...document.querySelectorAll(".cell_output .lm-figure-picture > svg")]
          .map((picture) => [picture.getBoundingClientRect().width, picture.closest(".solution") ? 0.85 : 1])
          .filter(([width, share]) => width > 0 && width < share * innerWidth - 1) // a box has its margins
          .map(([width]) => `a picture is ${width} px wide in a window of ${innerWidth} px`)"""
    )


def weigh(asked: set[str], address: str, site: Path) -> tuple[int, list[str]]:
    """Add up the files that a page asked for, each gzipped."""
    paths = {unquote(urlsplit(url).path).lstrip("/") for url in asked if url.startswith(address)}
    sizes = {path: _gzipped(site / path) for path in paths if (site / path).is_file()}
    total = sum(sizes.values())
    heaviest = ", ".join(f"{path} {sizes[path]}" for path in sorted(sizes, key=sizes.__getitem__)[:-4:-1])
    return total, [
        f"{total} bytes gzipped, {MAX_PAGE_BYTES} allowed: {heaviest}"
    ] if total > MAX_PAGE_BYTES else []


@cache
def _gzipped(path: Path) -> int:
    return len(gzip.compress(path.read_bytes(), 6))


def take_shots(page, folder: Path, name: str) -> None:
    """Save the whole page in both colours and both widths."""
    folder.mkdir(parents=True, exist_ok=True)
    for width, height in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for colours in ("light", "dark"):
            page.emulate_media(color_scheme=colours)
            path = folder / f"{name}-{colours}-{width}.png"
            page.screenshot(path=path, full_page=True, animations="disabled")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": SIZES[1280]})
