"""A second build shows what a first one would: a new chapter, title or style sheet reaches every page.

Sphinx writes only the pages whose source changed, but each page carries the table of contents, and the style
sheets are copied only when something is written. Writing all pages is quick; running them is what takes time,
and that is cached.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def read_contents(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """Read the page that holds the table of contents again when there are other pages than before."""
    return [env.config.root_doc] if added or removed else []


def write_all(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """Write every page."""
    return env.found_docs


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("env-get-outdated", read_contents)
    app.connect("env-updated", write_all)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
