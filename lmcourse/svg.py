"""A matplotlib figure as inline SVG that belongs to the page around it.

Its ink is the colour of the surrounding text, its ids are its own, and it shrinks with the screen.
"""

from __future__ import annotations

import hashlib
import html
import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Drawn by matplotlib, and replaced by the colour of the text around the picture.
INK = "#010203"


def draw_svg(fig: Figure) -> str:
    """Draw and close a figure; return the bare `<svg>` element, its ink the surrounding text's colour."""
    import matplotlib.pyplot as plt

    buffer = io.StringIO()
    fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(fig)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    # matplotlib's style sheet names every element, and would reach the whole page.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, count=1, flags=re.DOTALL)
    width = re.search(r'viewBox="\S+ \S+ (\S+) ', svg)
    assert width is not None
    style = f"width: {float(width[1]) / 11:.1f}rem; max-width: 100%; height: auto; stroke-linejoin: round"
    svg = re.sub(r'<svg ([^>]*?)width="[^"]*"', f'<svg style="{style}" \\1', svg, count=1)
    svg = re.sub(r'(<svg [^>]*?)height="\d[^"]*pt"', r"\1", svg, count=1)
    return svg.replace(INK, "currentColor").strip()


def label(svg: str, alt: str) -> str:
    """Give a picture its alternative text."""
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)


def unique_id(*parts: str) -> str:
    """Return an id for a page's element, the same whenever its content is."""
    return "lm" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


def prefix_ids(svg: str, uid: str) -> str:
    """Make the ids of a picture its own, since many share one page."""
    svg = re.sub(r'\bid="', f'id="{uid}-', svg)
    svg = re.sub(r'href="#', f'href="#{uid}-', svg)
    return svg.replace("url(#", f"url(#{uid}-")
