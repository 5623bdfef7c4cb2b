"""Small repairs to what other extensions write, so that pages are valid and can be used by everybody."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def repair_proofs(app: Sphinx, document: nodes.document) -> None:
    """Give each theorem's content an id of its own, and set the word that opens a proof in italics.

    Every content has the id `proof-content` and every proof the id `proof`, which may not occur twice on a
    page; the word "Proof." is joined to the first sentence as plain text.
    """
    for section in document.findall(nodes.section):
        if section["ids"] == ["proof-content"] and section.parent["ids"]:
            section["ids"] = [f"{section.parent['ids'][0]}-content"]
    for proof in document.findall(nodes.admonition):
        if proof["ids"] != ["proof"]:
            continue
        proof["ids"] = []
        first = next(iter(proof.findall(nodes.Text)))
        if first.startswith("Proof."):
            rest = nodes.Text(first.removeprefix("Proof."))
            first.parent.replace(first, [nodes.emphasis("", "Proof."), rest])


def repair_citations(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Take the role of a list from a bibliography, whose entries docutils does not mark as its items."""
    if "body" in context:
        context["body"] = context["body"].replace(
            '<div role="list" class="citation-list">', '<div class="citation-list">'
        )


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", repair_proofs)
    app.connect("html-page-context", repair_citations)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
