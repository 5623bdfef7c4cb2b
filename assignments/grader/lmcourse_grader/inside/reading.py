"""Read a submission, a notebook or a zip with one in it, down to its cells; standard library only.

A submission is hostile until read: this runs inside the sandbox, under its limits, and nothing is unpacked
to disk.
"""

from __future__ import annotations

import io
import json
import stat
import zipfile
from pathlib import PurePosixPath
from typing import Any

MAX_MEMBERS = 2_000
MAX_NOTEBOOK = 300_000_000
MAX_SOURCE = 2_000_000


class Unreadable(Exception):
    """A submission that cannot be graded; the message is a sentence for its student."""


def read(data: bytes, assignment: str) -> dict[str, Any]:
    """Return the cells of a submission and notes on what was odd about it."""
    notes: list[str] = []
    if not data.strip():
        raise Unreadable("The file is empty.")
    if data[:2] == b"PK":
        data = _from_zip(data, assignment, notes)
    book = _json(data, notes)
    if not isinstance(book, dict):
        raise Unreadable("The file is JSON, but not a Jupyter notebook.")
    if "worksheets" in book:
        raise Unreadable(
            "The notebook is in Jupyter's format of 2013: open it in JupyterLab and save it again."
        )
    cells = book.get("cells")
    if not isinstance(cells, list):
        raise Unreadable("The file is JSON, but not a Jupyter notebook.")
    kernel = _get(book, "metadata", "kernelspec", "name")
    language = _get(book, "metadata", "kernelspec", "language")
    if isinstance(language, str) and language.lower() != "python":
        notes.append(f"The notebook names a kernel for {language[:40]}; it was read as Python.")
    elif isinstance(kernel, str) and kernel != "python3":
        notes.append(f"The notebook names the kernel {kernel[:40]!r}; it was graded with Python 3.")
    found = [slim for cell in cells if (slim := _cell(cell)) is not None]
    if not found:
        raise Unreadable("The notebook has no cells.")
    if sum(len(cell["source"]) for cell in found) > MAX_SOURCE:
        raise Unreadable("The notebook's cells hold more than two million characters.")
    return {"cells": found, "notes": notes}


def _json(data: bytes, notes: list[str]) -> Any:
    for encoding in ("utf-8-sig", "utf-16", "cp1252"):
        if encoding == "utf-16" and data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            continue
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        try:
            book = json.loads(text)
        except (ValueError, RecursionError):
            raise Unreadable("The file is not a notebook: it is not JSON.") from None
        if encoding != "utf-8-sig":
            notes.append(f"The file was not UTF-8; it was read as {encoding}.")
        return book
    raise Unreadable("The file is not text in any encoding that a notebook has.")


def _get(node: Any, *keys: str) -> Any:
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def _cell(cell: Any) -> dict[str, Any] | None:
    """Keep a cell's type, source and nbgrader's marks."""
    if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        return None
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        return None
    marks = _get(cell, "metadata", "nbgrader")
    grade_id = _get(marks, "grade_id")
    return {
        "type": cell["cell_type"],
        "source": source.encode("utf-8", "replace").decode(),
        "grade_id": grade_id if isinstance(grade_id, str) else None,
        "test": _get(marks, "grade") is True and _get(marks, "solution") is not True,
    }


def _from_zip(data: bytes, assignment: str, notes: list[str]) -> bytes:
    """Return the one notebook of a zip."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        raise Unreadable("The zip file is damaged.") from None
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise Unreadable(f"The zip file holds {len(members)} files.")
    notebooks = []
    for member in members:
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if path.suffix.lower() != ".ipynb" or "__MACOSX" in path.parts or ".ipynb_checkpoints" in path.parts:
            continue
        if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
            raise Unreadable("A file in the zip has a path that leads out of it.")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise Unreadable("A notebook in the zip is a symbolic link.")
        notebooks.append((path, member))
    named = [pair for pair in notebooks if pair[0].stem.lower() == assignment.lower()]
    if len(named or notebooks) > 1:
        raise Unreadable(
            f"The zip holds {len(named or notebooks)} notebooks that could be meant: hand in one."
        )
    if not notebooks:
        raise Unreadable("The zip holds no notebook.")
    path, member = (named or notebooks)[0]
    if len(notebooks) > 1:
        notes.append(f"The zip holds {len(notebooks)} notebooks; {path.name[:60]} was graded.")
    try:
        with archive.open(member) as stream:
            book = stream.read(MAX_NOTEBOOK + 1)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError, ValueError):
        raise Unreadable("The notebook in the zip cannot be unpacked.") from None
    except Exception as error:  # zlib.error, lzma.LZMAError: their modules may be missing
        raise Unreadable(f"The notebook in the zip cannot be unpacked ({type(error).__name__}).") from None
    if len(book) > MAX_NOTEBOOK:
        raise Unreadable("The notebook in the zip unpacks to more than 300 MB: clear its outputs.")
    return book
