"""Static files: MathJax comes from a package, not from another host, and a changed style sheet is copied."""

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


def copy_static_files(app: Sphinx, exception: Exception | None) -> None:
    """Put MathJax where `mathjax_path` points, and copy book/_static even if no page has changed."""
    if exception is not None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    copy_mathjax(static / "mathjax")
    shutil.copytree(Path(app.srcdir) / "book" / "_static", static, dirs_exist_ok=True)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", copy_static_files)
    # Jupyter Book sets this option of sphinx_comments, which is not loaded.
    app.add_config_value("comments_config", {}, "html")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
