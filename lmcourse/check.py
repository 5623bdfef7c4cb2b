"""Run an assignment's public tests on a student's notebook, in the student's own environment."""

from __future__ import annotations

import ast
import json
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNWRITTEN = "not written yet"
MAGIC = re.compile(r"(\s*)([%!?]|.*\?\s*$|[\w, ]+=\s*[%!])")


@dataclass(frozen=True)
class Checked:
    """A public test: its name in the notebook, and what is wrong; empty if nothing is."""

    name: str
    problem: str


def find_notebook(assignment: str, folder: Path) -> Path:
    """Return the notebook of an assignment in a folder or in its subfolder of that name.

    Raises
    ------
    ValueError
        If there is none; the message says where it was looked for.
    """
    places = [folder / f"{assignment}.ipynb", folder / assignment / f"{assignment}.ipynb"]
    for place in places:
        if place.is_file():
            return place
    raise ValueError(f"there is neither {places[0]} nor {places[1]}: name the notebook on the command line")


def check_notebook(path: Path) -> tuple[list[Checked], list[str]]:
    """Run a notebook's code from the top, without stopping at errors, and tell how its tests went.

    Parameters
    ----------
    path
        A notebook in nbgrader's format: tests are the cells that are marked to be graded.

    Returns
    -------
    list of Checked
        One for each test cell, in order.
    list of str
        Errors in other cells, a line each.

    Raises
    ------
    ValueError
        If the file is not a notebook.
    """
    try:
        cells = [
            ("".join(cell["source"]), cell["metadata"].get("nbgrader") or {})
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
            if cell["cell_type"] == "code"
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} is not a notebook of the present format") from None
    namespace: dict[str, Any] = {"__name__": "__main__", "display": print}
    tests, errors = [], []
    for number, (source, marks) in enumerate(cells, start=1):
        problem = _run(source, f"code cell {number}", namespace)
        if marks.get("grade") and not marks.get("solution"):
            tests.append(Checked(str(marks.get("grade_id")), problem))
        elif problem not in ("", UNWRITTEN):
            errors.append(f"code cell {number}: {problem}")
    return tests, errors


def _run(source: str, name: str, namespace: dict[str, Any]) -> str:
    """Run a cell without its magics; return the error's last line and place, or nothing.

    Ctrl-C ends the cell, not the command: a loop without end is told by its place.
    """
    if source.lstrip().startswith("%%"):
        return ""
    try:
        exec(compile(_without_magics(source), name, "exec"), namespace)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        if isinstance(error, NotImplementedError):
            return UNWRITTEN
        said = traceback.format_exception_only(error)[-1].strip()
        place = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
        where = f" (line {place[-1].lineno})" if place else ""
        return f"{said.removeprefix('AssertionError: ')}{where}"
    return ""


def _without_magics(source: str) -> str:
    """Take out the lines that look like IPython's magics and at which Python stumbles."""
    lines = source.split("\n")
    while True:
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            place = (error.lineno or 0) - 1
            magic = MAGIC.match(lines[place]) if 0 <= place < len(lines) else None
            if magic:
                lines[place] = magic[1] and f"{magic[1]}pass"
                continue
        return "\n".join(lines)
