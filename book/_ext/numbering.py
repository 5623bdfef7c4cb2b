"""A chapter keeps the number in its file name: `chapters/09_...` is chapter 9 whatever else has been written.

Sphinx numbers the documents of a numbered toctree in order of appearance, and everything else follows from
that: section numbers, theorems, exercises, and the references to them. So the numbers are changed right after
they are given and before anything reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles as TocTreeCollector

_Numbers = Callable[[TocTreeCollector, BuildEnvironment], list[str]]
_numbers_by_order: _Numbers = TocTreeCollector.assign_section_numbers


def chapter_number(docname: str) -> int | None:
    """Return the chapter number in a document's name, or None if it has none.

    >>> chapter_number("chapters/09_hidden_markov_models")
    9
    """
    found = re.match(r"(\d+)_", docname.rpartition("/")[2])
    return int(found[1]) if found else None


def assign_section_numbers(self: TocTreeCollector, env: BuildEnvironment) -> list[str]:
    """Number by order, then put the chapter's own number first; return the documents to rewrite."""
    before = env.toc_secnumbers
    _numbers_by_order(self, env)
    for docname, numbers in env.toc_secnumbers.items():
        chapter = chapter_number(docname)
        if chapter is None:
            continue
        for anchor, number in numbers.items():
            if number:
                numbers[anchor] = (chapter, *number[1:])
        for node in [env.titles[docname], *env.tocs[docname].findall(nodes.reference)]:
            if node.get("secnumber"):
                node["secnumber"] = [chapter, *node["secnumber"][1:]]
    return [docname for docname, numbers in env.toc_secnumbers.items() if numbers != before.get(docname)]


def setup(app: Sphinx) -> dict[str, Any]:
    TocTreeCollector.assign_section_numbers = assign_section_numbers  # type: ignore[method-assign]
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
