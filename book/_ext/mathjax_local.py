"""MathJax comes from a package, and not from another host."""

from __future__ import annotations

import importlib.resources
import shutil
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

# What MathJax may ask for while it shows a page: itself, fonts, TeX extensions, what its menu offers.
MATHJAX_PARTS = [
    "tex-chtml.js",
    "output/chtml/fonts/woff-v2",
    "input/tex/extensions",
    "input/mml",
    "a11y",
    "sre",
]


def copy_mathjax(target: Path) -> None:
    """Copy the parts of MathJax that pages use from the package django-static-mathjax."""
    source = Path(str(importlib.resources.files("mathjax"))) / "static" / "mathjax" / "es5"
    target.mkdir(parents=True, exist_ok=True)
    for part in MATHJAX_PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
        else:
            shutil.copy2(source / part, target / part)


def add_mathjax(app: Sphinx, exception: Exception | None) -> None:
    """Put MathJax where `mathjax_path` in _config.yml points."""
    if exception is None and app.builder.format == "html":
        copy_mathjax(Path(app.outdir) / "_static" / "mathjax")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", add_mathjax)
    # Jupyter Book sets this option of sphinx_comments, which is not loaded.
    app.add_config_value("comments_config", {}, "html")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
