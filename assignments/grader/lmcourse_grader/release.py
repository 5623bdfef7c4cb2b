"""From one source notebook to what students, instructors and the grader get: three zips.

nbgrader's preprocessors clear the solutions. A zip's bytes depend on its content alone.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import nbformat

from lmcourse_grader.assignment import Assignment
from lmcourse_grader.notebook import TEXT_STUB

EPOCH = (2020, 1, 1, 0, 0, 0)


def student_notebook(assignment: Assignment) -> str:
    """Return the notebook that students get: without solutions, hidden tests and outputs."""
    from nbgrader.preprocessors import (
        CheckCellMetadata,
        ClearHiddenTests,
        ClearOutput,
        ClearSolutions,
        LockCells,
    )

    book = nbformat.read(assignment.notebook, as_version=4)
    resources: dict[str, object] = {}
    steps = [
        CheckCellMetadata(),
        LockCells(),
        ClearSolutions(code_stub={"python": "raise NotImplementedError"}, text_stub=TEXT_STUB),
        ClearHiddenTests(),
        ClearOutput(),
    ]
    for step in steps:
        book, resources = step.preprocess(book, resources)
    for cell in book.cells:
        cell.metadata.get("nbgrader", {}).pop("checksum", None)
    text: str = nbformat.writes(book, version=4)
    return text + "\n"


def check_source(assignment: Assignment) -> None:
    """Raise `ValueError` if notebook and `assignment.toml` disagree."""
    book = nbformat.read(assignment.notebook, as_version=4)
    marks = {cell.metadata.nbgrader.grade_id: cell for cell in book.cells if "nbgrader" in cell.metadata}
    for question in assignment.questions:
        cell = marks.get(question.cell)
        if cell is None or not cell.metadata.nbgrader.solution:
            raise ValueError(f"{assignment.notebook} has no solution cell {question.cell}")
        if question.kind == "code" and f"def {question.function}(" not in cell.source:
            raise ValueError(f"the cell {question.cell} does not define {question.function}")
        if "BEGIN SOLUTION" not in cell.source and question.kind == "code":
            raise ValueError(f"the cell {question.cell} has no solution to clear")


def release(assignment: Assignment, out: Path, overlay: Path) -> list[Path]:
    """Write the student's, the instructor's and the grader's zip; return their paths."""
    check_source(assignment)
    out.mkdir(parents=True, exist_ok=True)
    name, folder = assignment.name, assignment.folder
    notebook = {f"{name}.ipynb": student_notebook(assignment).encode()}
    public = notebook | {
        path: data
        for path, data in _files(folder).items()
        if path in ("instructions.md", "requirements.txt") or path.startswith("data/")
    }
    grader = Path(__file__).parents[1]
    bundle = {f"source/{name}/{path}": data for path, data in _files(folder).items()}
    bundle |= {f"overlay-sample/{name}/{path}": data for path, data in _files(overlay / name).items()}
    bundle |= {f"grader/{path}": data for path, data in _files(grader).items()}
    written = []
    for kind, files in (("student", public), ("instructor", _files(folder)), ("grader", bundle)):
        path = out / f"{name}-{kind}.zip"
        _pack(path, f"{name}-{kind}" if kind != "student" else name, files)
        written.append(path)
    return written


def _files(folder: Path) -> dict[str, bytes]:
    """Read a folder, without caches and what else a tool or a system keeps in it."""
    files = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name.as_posix(): path.read_bytes()
        for name, path in files.items()
        if not any(part.startswith((".", "__pycache__")) or part.endswith(".egg-info") for part in name.parts)
    }


def _pack(path: Path, root: str, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(f"{root}/{name}", EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
