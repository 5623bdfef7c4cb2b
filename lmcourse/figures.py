"""Figures that state their finding, say it in words, and read well in light and in dark.

`show` displays one picture; `explore` displays a picture for every value of a few sliders, alive in the
built page without a kernel and a live widget in a notebook. Both write SVG whose ink is the colour of the
surrounding text, so that one picture serves light, dark and print.
"""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lmcourse import svg
from lmcourse.svg import INK as INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# After Okabe and Ito: told apart with any kind of colour vision. Every one has a contrast of at least
# three to one against white and against the near-black of the dark theme.
BLUE = "#0072b2"
ORANGE = "#d55e00"
GREEN = "#009e73"
PURPLE = "#c9699f"
GREY = "#808080"
CYCLE = (BLUE, ORANGE, GREEN, PURPLE, GREY)
SEQUENTIAL = "cividis"

MAX_FRAMES = 200

_STYLE: dict[str, Any] = {
    "figure.figsize": (6.0, 3.5),
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "grid.color": GREY,
    "grid.alpha": 0.3,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.color": INK,
    "lines.linewidth": 1.8,
    "patch.edgecolor": INK,
    "hatch.color": INK,
    "boxplot.boxprops.color": INK,
    "font.size": 11,
    "image.cmap": SEQUENTIAL,
    "svg.fonttype": "path",
    "svg.hashsalt": "lmcourse",
}

Text = str | Callable[..., str]


def use_style() -> None:
    """Set matplotlib's defaults to the course's style: call it once, at the top of a chapter."""
    import matplotlib.pyplot as plt
    from cycler import cycler

    plt.style.use(_STYLE | {"axes.prop_cycle": cycler(color=CYCLE)})


@dataclass(frozen=True)
class Control:
    """A slider of `explore`.

    Parameters
    ----------
    label
        What the reader sees beside the slider.
    values
        The values it steps through, each passed to the drawing function.
    format
        Turns a value into the text beside the slider.
    start
        Index of the value shown first.
    """

    label: str
    values: Sequence[Any]
    format: Callable[[Any], str] = str
    start: int = 0

    def __post_init__(self) -> None:
        if self.values and not 0 <= self.start < len(self.values):
            raise ValueError(f"control {self.label!r} starts at {self.start} of {len(self.values)} values")


def show(fig: Figure, *, title: str, alt: str) -> None:
    r"""Display a figure under a title that states its finding, and close it.

    Parameters
    ----------
    fig
        The figure.
    title
        The finding, as a sentence. Mathematics in ``$...$``; a dollar is ``\$``. Interpolate numbers, do not
        type them.
    alt
        What somebody who cannot see the picture must know: axes, shape of the curves, what stands out.

    Raises
    ------
    ValueError
        If the title or the alternative text is empty, or one repeats the other.
    """
    from IPython.display import display

    drawn = svg.draw_svg(fig)
    _check_texts(title, alt)
    uid = svg.unique_id(title, drawn)
    picture = svg.label(svg.prefix_ids(drawn, uid), alt)
    display({"text/html": _page(uid, title, picture), "text/plain": f"{title}\n{alt}"}, raw=True)


def explore(
    draw: Callable[..., Figure], *, title: Text, alt: Text, **controls: Control | Sequence[Any]
) -> None:
    """Display ``draw(**values)`` for every combination of the controls' values.

    All pictures are drawn at once. In the built page a few lines of JavaScript exchange them; where a
    kernel lives the same sliders are an ipywidget.

    Parameters
    ----------
    draw
        Returns a new figure for one value of each control, passed by name.
    title, alt
        As in `show`, or functions of the same values that return them.
    controls
        A `Control`, or a sequence of values, for each argument of `draw`.

    Raises
    ------
    ValueError
        If there is no control, one has no values, there are more than `MAX_FRAMES` combinations, or a
        title or an alternative text is missing.
    """
    from IPython.display import display

    sliders = {name: _control(name, control) for name, control in controls.items()}
    n_frames = 1
    for slider in sliders.values():
        n_frames *= len(slider.values)
    if not sliders or not 0 < n_frames <= MAX_FRAMES:
        raise ValueError(
            f"explore: {n_frames if sliders else 0} pictures; give each control at least one value, "
            f"and at most {MAX_FRAMES} combinations in all"
        )
    titles, pictures = [], []
    for combination in itertools.product(*(slider.values for slider in sliders.values())):
        values = dict(zip(sliders, combination, strict=True))
        texts = [text(**values) if callable(text) else text for text in (title, alt)]
        _check_texts(*texts)
        titles.append(texts[0])
        pictures.append(svg.label(svg.draw_svg(draw(**values)), texts[1]))
    uid = svg.unique_id(*titles, *pictures)
    pictures = [svg.prefix_ids(picture, uid) for picture in pictures]
    bundle = {
        "text/html": _explorer_page(uid, sliders, titles, pictures),
        "text/plain": f"{titles[0]} (interactive: {', '.join(s.label for s in sliders.values())})",
    }
    display(bundle | _widget(sliders, titles, pictures), raw=True)


def _control(name: str, control: Control | Sequence[Any]) -> Control:
    if isinstance(control, Control):
        return control
    return Control(label=name.replace("_", " "), values=list(control))


def _check_texts(title: str, alt: str) -> None:
    for what, text in (("title", title), ("alt", alt)):
        if not isinstance(text, str) or len(text.split()) < 3:
            raise ValueError(f"a figure needs a {what} of at least three words, got {text!r}")
    if title.strip() == alt.strip():
        raise ValueError("the alternative text repeats the title; say what the picture shows")


def _title_html(title: str) -> str:
    r"""Return a title as HTML: ``$...$`` is mathematics, ``\$`` a dollar."""
    math = r'<span class="math notranslate nohighlight">\\(\1\\)</span>'
    return re.sub(r"(?<!\\)\$([^$]+)(?<!\\)\$", math, html.escape(title)).replace(r"\$", "$")


def _page(uid: str, title: str, inner: str) -> str:
    return (
        f'<figure class="lm-figure" aria-labelledby="{uid}-title">'
        f'<p class="lm-figure-title" id="{uid}-title">{_title_html(title)}</p>'
        f'<div class="lm-figure-picture">{inner}</div></figure>'
    )


def _explorer_page(uid: str, sliders: Mapping[str, Control], titles: list[str], pictures: list[str]) -> str:
    """Return the static page: the first picture, the sliders, all pictures as shared lines, a script."""
    lines: dict[str, int] = {}
    frames = [[lines.setdefault(line, len(lines)) for line in p.splitlines()] for p in pictures]
    data = {
        "titles": [_title_html(t) for t in titles],
        "lines": list(lines),
        "frames": frames,
        "texts": [[s.format(v) for v in s.values] for s in sliders.values()],
    }
    first = 0
    controls = []
    for name, slider in sliders.items():
        first = first * len(slider.values) + slider.start
        shown = slider.format(slider.values[slider.start])
        controls.append(
            f'<label class="lm-control" for="{uid}-{name}"><span>{_title_html(slider.label)}</span>'
            f'<input type="range" id="{uid}-{name}" min="0" max="{len(slider.values) - 1}" step="1"'
            f' value="{slider.start}" autocomplete="off">'
            f'<output for="{uid}-{name}">{html.escape(shown)}</output></label>'
        )
    payload = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", r"\u003c")
    return (
        f'<div class="lm-explore" id="{uid}"><figure class="lm-figure" aria-labelledby="{uid}-title">'
        f'<p class="lm-figure-title" id="{uid}-title" aria-live="polite">{_title_html(titles[first])}</p>'
        f'<div class="lm-explore-controls">{"".join(controls)}</div>'
        f'<div class="lm-figure-picture">{pictures[first]}</div></figure>'
        f'<script type="application/json">{payload}</script><script>{_SCRIPT}</script></div>'
    )


_SCRIPT = """(function () {
  const root = document.currentScript.parentElement;
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const inputs = Array.from(root.querySelectorAll("input"));
  const title = root.querySelector(".lm-figure-title"), picture = root.querySelector(".lm-figure-picture");
  function update() {
    let frame = 0;
    inputs.forEach(function (input, i) {
      const text = data.texts[i][input.value];
      frame = frame * data.texts[i].length + Number(input.value);
      input.setAttribute("aria-valuetext", text);
      input.parentElement.querySelector("output").textContent = text;
    });
    picture.innerHTML = data.frames[frame].map(function (i) { return data.lines[i]; }).join("\\n");
    if (title.dataset.frame !== String(frame)) {
      title.dataset.frame = frame;
      title.innerHTML = data.titles[frame];
      if (window.MathJax && MathJax.typesetPromise) MathJax.typesetPromise([title]);
    }
  }
  inputs.forEach(function (input) { input.addEventListener("input", update); });
  update();
})();"""


def _widget(sliders: Mapping[str, Control], titles: list[str], pictures: list[str]) -> dict[str, Any]:
    """Return the mimebundle of the same explorer as an ipywidget; empty where ipywidgets is missing."""
    try:
        import ipywidgets as widgets
    except ImportError:
        return {}
    inputs = [
        widgets.SelectionSlider(
            options=[(slider.format(value), i) for i, value in enumerate(slider.values)],
            index=slider.start,
            description=slider.label,
            style={"description_width": "initial"},
            layout={"width": "32em"},
        )
        for slider in sliders.values()
    ]
    title, picture = widgets.HTMLMath(), widgets.HTML()

    def update(_: object = None) -> None:
        frame = 0
        for widget in inputs:
            frame = frame * len(widget.options) + widget.index
        title.value = f"<b>{_title_html(titles[frame])}</b>"
        picture.value = pictures[frame]

    for widget in inputs:
        widget.observe(update, names="index")
    update()
    box: dict[str, Any] = widgets.VBox([title, *inputs, picture])._repr_mimebundle_()
    return {key: value for key, value in box.items() if key != "text/plain"}
