"""Look for solutions, hidden tests and model answers in what students can read.

A secret and a document are cut into runs of tokens. A document leaks a secret if it holds a large share of
the secret's runs as they stand (a copy), or with every name replaced by its place in the run (a near copy,
renamed); or if it holds a name that stands in secrets alone. Pages of the site are read without their
markup; a search index has words only, so there the names count.
"""

from __future__ import annotations

import html
import json
import keyword
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from lmcourse_grader.assignment import Assignment

TOKEN = re.compile(r"[^\W\d]\w*|\d+\.?\d*|[^\w\s]")
IMPORTS = re.compile(r"^(from|import) .*$", re.MULTILINE)
RUN = 8
COPY, RENAMED = 0.3, 0.7
TEXT = (".py", ".md", ".txt", ".toml", ".csv", ".json", ".js", ".html", ".ipynb", ".inv", ".xml")


@dataclass(frozen=True)
class Secret:
    """A text that students must not read before the assignment is over; `code` or prose."""

    name: str
    text: str
    code: bool = True


@dataclass(frozen=True)
class Document:
    """A text that students can read."""

    name: str
    text: str


@dataclass(frozen=True)
class Leak:
    """A secret found in a document, and how."""

    document: str
    secret: str
    how: str


SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)
HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.DOTALL)


def visible(assignment: Assignment) -> Document:
    """Return what the source notebook shows to everyone: all of it but solutions and hidden tests."""
    kept = []
    for cell in nbformat.read(assignment.notebook, as_version=4).cells:
        marked = cell.metadata.get("nbgrader", {}).get("solution")
        if not (marked and cell.cell_type == "markdown"):
            kept.append(HIDDEN.sub("", SOLUTION.sub("", cell.source)))
    return Document(str(assignment.notebook), "\n".join(kept))


def secrets(assignment: Assignment, overlay: Path | None, *, taught: bool = True) -> list[Secret]:
    """List the solutions, the model answers and the hidden tests of an assignment.

    Without `taught`, the solutions that the course itself shows are left out (`taught` in assignment.toml).
    """
    found = []
    shown = {question.cell for question in assignment.questions if question.taught and not taught}
    book = nbformat.read(assignment.notebook, as_version=4)
    for cell in book.cells:
        marks = cell.metadata.get("nbgrader", {})
        code = cell.cell_type == "code"
        if marks.get("solution") and marks["grade_id"] not in shown:
            for text in SOLUTION.findall(cell.source) or ([] if code else [cell.source]):
                found.append(Secret(f"solution of {marks['grade_id']}", text, code))
        found += [
            Secret(f"hidden test of {marks.get('grade_id')}", text) for text in HIDDEN.findall(cell.source)
        ]
    instructor = assignment.folder / "instructor.md"
    if instructor.exists():
        paragraphs = re.split(r"\n\s*\n", instructor.read_text(encoding="utf-8"))
        found += [
            Secret(f"instructor.md, paragraph {number}", text, code=False)
            for number, text in enumerate(paragraphs, 1)
        ]
    folder = overlay / assignment.name if overlay and (overlay / assignment.name).is_dir() else overlay
    for path in sorted(folder.glob("*.py")) if folder else []:
        blocks = re.split(r"\n(?=def |class |@|[A-Z_]+ = )", path.read_text(encoding="utf-8"))
        found += [Secret(f"{path.name}: {text.strip().splitlines()[0][:60]}", text) for text in blocks]
    return [secret for secret in found if len(TOKEN.findall(secret.text)) >= RUN + 4]


def documents(path: Path) -> Iterator[Document]:
    """Read a file, a zip, or a folder of them, text by text; a notebook is one text a cell."""
    if path.is_dir():
        for inner in sorted(path.rglob("*")):
            if inner.is_file() and inner.suffix in (*TEXT, ".zip"):
                yield from documents(inner)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if Path(member).suffix in TEXT:
                    yield from _read(f"{path}:{member}", archive.read(member))
    else:
        yield from _read(str(path), path.read_bytes())


def _read(name: str, data: bytes) -> Iterator[Document]:
    text = data.decode("utf-8", "replace")
    if name.endswith(".ipynb"):
        for number, cell in enumerate(json.loads(text)["cells"], 1):
            source = cell["source"]
            outputs = json.dumps(cell.get("outputs", ""))
            yield Document(f"{name}, cell {number}", "".join(source) + "\n" + outputs)
            yield Document(f"{name}, metadata of cell {number}", json.dumps(cell["metadata"]))
    elif name.endswith(".html"):
        yield Document(name, html.unescape(re.sub(r"<[^>]*>", "", text)))
        yield Document(f"{name}, markup", html.unescape(text))
    else:
        yield Document(name, text)


def scan(hidden: Iterable[Secret], public: Iterable[Document], known: Iterable[Document] = ()) -> list[Leak]:
    """Look for secrets in public texts.

    Parameters
    ----------
    hidden, public
        What to look for, and where.
    known
        Texts that are public anyway (the student's notebook, the package): a name that stands there, or a
        run of tokens, is no secret.
    """
    known = list(known)
    free_names = {name for text in known for name in _names(text.text)}
    free_runs = {run for text in known for run in _runs(TOKEN.findall(text.text))}
    looked_for = []
    for secret in hidden:
        tokens = TOKEN.findall(secret.text)
        copies = _runs(tokens) - free_runs
        own_text = IMPORTS.sub("", secret.text)
        long = {name for name in _names(own_text) if "_" in name and len(name) >= 8}
        names = long - free_names if secret.code else set()
        looked_for.append((secret, copies, _runs(tokens, rename=True), names))
    leaks = []
    for document in public:
        tokens = TOKEN.findall(document.text)
        runs, renamed, names = _runs(tokens), _runs(tokens, rename=True), set(_names(document.text))
        for secret, copies, shapes, own in looked_for:
            if len(copies) >= 4 and (share := len(copies & runs) / len(copies)) >= COPY:
                leaks.append(Leak(document.name, secret.name, f"{share:.0%} of it, word for word"))
            elif len(shapes) >= 24 and (share := len(shapes & renamed) / len(shapes)) >= RENAMED:
                leaks.append(Leak(document.name, secret.name, f"{share:.0%} of it, with other names"))
            elif seen := own & names or (_stemmed(own, names) if "searchindex" in document.name else set()):
                leaks.append(Leak(document.name, secret.name, f"the name {min(seen)}"))
    return leaks


def _names(text: str) -> list[str]:
    return re.findall(r"[^\W\d]\w*", text)


def _stemmed(own: set[str], words: set[str]) -> set[str]:
    """Return the names that a search index holds, in small letters and without the last word's ending."""
    found = set()
    for name in own:
        shortest = max(len(name) - 6, name.rindex("_") + 2)
        if {name.lower()[:end] for end in range(shortest, len(name) + 1)} & words:
            found.add(name)
    return found


def _runs(tokens: list[str], *, rename: bool = False) -> set[tuple[str, ...]]:
    """Cut tokens into overlapping runs; with `rename`, names become their order of appearance."""
    found = set()
    for start in range(len(tokens) - RUN + 1):
        run = tokens[start : start + RUN]
        if rename:
            places: dict[str, str] = {}
            run = [
                places.setdefault(token, f"n{len(places)}")
                if token.isidentifier() and not keyword.iskeyword(token)
                else token
                for token in run
            ]
        found.add(tuple(run))
    return found
