"""`{theorem-table}`: every numbered statement of the book, how it is checked, and with what outcome.

Statements, their numbers and the references between them come from the pages; checkers, counter-examples and
outcomes from `lmcourse.theorems`. The checks run once for each state of that code.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from docutils import nodes
from execution import REQUIREMENTS
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.builders import Builder
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

from lmcourse import theorems
from lmcourse.closure import closure_hash
from lmcourse.folders import write_atomically
from lmcourse.profiles import choose

logger = logging.getLogger(__name__)

KINDS = ("theorem", "proposition", "lemma", "corollary")
COLUMNS = (
    "Statement and proof",
    "Checker",
    "Hypotheses, each with a counter-example",
    "In this build",
    "Used by",
)


class theorem_table(nodes.General, nodes.Element):  # type: ignore[misc]
    """Where the table goes, until all pages have been read."""


class TheoremTable(SphinxDirective):
    """The table of all numbered statements."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(__file__)
        return [theorem_table()]


def _check(name: str, n: int) -> dict[str, Any]:
    report = theorems.check(name, n=n)
    return {**report._asdict(), "worst_instance": None, "verdict": report.verdict}


def outcomes(folder: Path) -> dict[str, dict[str, Any]]:
    """Check every registered theorem, or recall the outcome for the same code and profile."""
    n = choose(smoke=40, cpu=200, gpu=1000)
    state = [closure_hash("import lmcourse.theorems"), REQUIREMENTS.read_text(encoding="utf-8"), str(n)]
    state += [platform.python_version()]
    path = folder / f"theorems-{hashlib.sha256(''.join(state).encode()).hexdigest()[:16]}.json"
    if not path.is_file():
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            names = theorems.names()
            found = dict(zip(names, pool.map(_check, names, [n] * len(names)), strict=True))
        write_atomically(path, lambda p: p.write_text(json.dumps(found), encoding="utf-8"))
    return dict(json.loads(path.read_text(encoding="utf-8")))


def collect(app: Sphinx, document: nodes.document) -> None:
    """Remember a page's statements, and which statement or page refers to which."""
    env = app.env
    if not hasattr(env, "statements"):
        env.statements, env.uses = {}, {}  # type: ignore[attr-defined]
    forget(app, env, env.docname)
    current = ""
    for node in document.findall():
        if isinstance(node, nodes.Element) and node.get("realtype") in KINDS:
            current = node["label"]
            title = node.next_node(nodes.title)
            env.statements[current] = (env.docname, node["realtype"], title.astext() if title else "")  # type: ignore[attr-defined]
        elif isinstance(node, nodes.section) and not any(c.endswith("-content") for c in node["classes"]):
            current = ""
        elif isinstance(node, pending_xref) and node.get("refdomain") == "prf":
            user = current if _inside(node, {"proof", *KINDS}) else ""
            env.uses.setdefault(env.docname, []).append((node["reftarget"], user))  # type: ignore[attr-defined]


def _inside(node: nodes.Node, classes: set[str]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, nodes.Element) and classes & set(node.get("classes", [])):
            return True
    return False


def forget(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Drop what is known of a page that is read again or gone."""
    statements = getattr(env, "statements", {})
    for label in [label for label, (where, *_) in statements.items() if where == docname]:
        del statements[label]
    getattr(env, "uses", {}).pop(docname, None)


def number(env: BuildEnvironment, label: str) -> str:
    """Return what a reader calls a statement: "Theorem 3.2"."""
    docname, kind, _ = env.statements[label]  # type: ignore[attr-defined]
    numbers = env.toc_fignumbers.get(docname, {}).get(kind, {}).get(label, ())
    return f"{kind.capitalize()} {'.'.join(map(str, numbers))}"


def fill(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the table in its place, now that every page is known."""
    for place in list(doctree.findall(theorem_table)):
        place.replace_self(_table(app.builder, docname, outcomes(Path(app.outdir).parent)))


def _table(builder: Builder, docname: str, checked: dict[str, dict[str, Any]]) -> nodes.Node:
    env = builder.env
    statements: dict[str, tuple[str, str, str]] = getattr(env, "statements", {})
    by_label = {theorems.get(name).label: name for name in theorems.names()}
    order = sorted(statements, key=lambda label: _sort_key(env, label))
    rows = [_row(builder, docname, label, by_label.get(label), checked) for label in order]
    rows += [
        _row(builder, docname, label, name, checked)
        for label, name in by_label.items()
        if label not in statements
    ]
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in COLUMNS), cols=len(COLUMNS))
    group += nodes.thead("", nodes.row("", *(_entry(nodes.Text(text)) for text in COLUMNS)))
    group += nodes.tbody("", *rows)
    return nodes.table("", group, classes=["theorem-table"])


def _sort_key(env: BuildEnvironment, label: str) -> tuple[Any, ...]:
    docname, kind, _ = env.statements[label]  # type: ignore[attr-defined]
    return docname, KINDS.index(kind), env.toc_fignumbers.get(docname, {}).get(kind, {}).get(label, ())


def _row(
    builder: Builder, docname: str, label: str, name: str | None, checked: dict[str, dict[str, Any]]
) -> nodes.row:
    env = builder.env
    statement: list[nodes.Node] = []
    if label in getattr(env, "statements", {}):
        statement += [_link(builder, docname, label), nodes.Text(env.statements[label][2])]  # type: ignore[attr-defined]
    if name is None:
        note = nodes.Text("its chapter’s cells")
        return nodes.row(
            "",
            _entry(*statement),
            _entry(note),
            _entry(),
            _entry(),
            _entry(*_users(builder, docname, label), between=", "),
        )
    theorem, outcome = theorems.get(name), checked[name]
    if not statement:  # its chapter is not in the book: the conclusion in one line
        statement.append(nodes.literal("", theorem.statement))
    checker = nodes.literal("", name)
    hypotheses = nodes.Text("; ".join(h.replace("_", " ") for h in theorem.counterexamples))
    if not outcome["passed"]:
        logger.warning(
            "the check of %s fails: worst ratio %s", name, outcome["worst_ratio"], location=docname
        )
    text = (
        f"{outcome['verdict']} on {outcome['instances']} instances; worst ratio "
        f"{outcome['worst_ratio']:.2g}; {outcome['informative']:.0%} informative"
    )
    return nodes.row(
        "",
        _entry(*statement),
        _entry(checker),
        _entry(hypotheses),
        _entry(nodes.Text(text)),
        _entry(*_users(builder, docname, label), between=", "),
    )


def _users(builder: Builder, docname: str, label: str) -> list[nodes.Node]:
    """Links to the statements whose text or proof refers to this one, and to the pages that do elsewhere."""
    env = builder.env
    found: dict[str, nodes.Node] = {}
    for page, references in sorted(getattr(env, "uses", {}).items()):
        for target, user in references:
            if target != label or user == label:
                continue
            if user in env.statements:  # type: ignore[attr-defined]
                found.setdefault(user, _link(builder, docname, user))
            elif page != env.statements.get(label, ("",))[0]:  # type: ignore[attr-defined]
                title = nodes.Text(env.titles[page].astext())
                found.setdefault(page, make_refnode(builder, docname, page, "", title))
    return list(found.values())


def _link(builder: Builder, docname: str, label: str) -> nodes.reference:
    env = builder.env
    page = env.statements[label][0]  # type: ignore[attr-defined]
    return make_refnode(builder, docname, page, label, nodes.Text(number(env, label)))


def _entry(*children: nodes.Node, between: str = " ") -> nodes.entry:
    spaced = [part for child in children for part in (nodes.Text(between), child)][1:]
    return nodes.entry("", nodes.paragraph("", "", *spaced))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_node(theorem_table)
    app.add_directive("theorem-table", TheoremTable)
    app.connect("doctree-read", collect)
    app.connect("env-purge-doc", forget)
    app.connect("doctree-resolved", fill)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
