"""nbgrader's gradebook: the grades as its SQLite database, for its formgrader and its exporters."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lmcourse_grader.assignment import Assignment
from lmcourse_grader.marks import Result
from lmcourse_grader.whole import whole


def write(path: Path, assignment: Assignment, results: list[Result]) -> None:
    """Write the grades of an assignment into a gradebook; what it held of this assignment is replaced."""
    with _quiet():
        from nbgrader.api import Gradebook, MissingEntry

    # In a folder whose name is no part of an address; a gradebook is then written whole or not at all.
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "gradebook.db"
        if path.exists():
            shutil.copyfile(path, draft)
        with _quiet(), Gradebook(f"sqlite:///{draft}") as book:
            _fill(book, assignment, results, MissingEntry)
        with whole(path) as copy:
            shutil.copyfile(draft, copy)


def _fill(book: Any, assignment: Assignment, results: list[Result], missing: type[Exception]) -> None:
    with suppress(missing):
        book.remove_assignment(assignment.name)
    book.add_assignment(assignment.name)
    book.add_notebook(assignment.name, assignment.name)
    for question in assignment.questions:
        place = (assignment.name, assignment.name)
        kind = "code" if question.kind == "code" else "markdown"
        book.add_grade_cell(question.cell, *place, max_score=question.points, cell_type=kind)
    cells = {question.id: question.cell for question in assignment.questions}
    for result in results:
        book.update_or_create_student(result.student)
        book.add_submission(assignment.name, result.student)
        for mark in result.marks:
            found = book.find_grade(cells[mark.grade.id], assignment.name, assignment.name, result.student)
            if mark.grade.score is None:
                found.manual_score = mark.score
                found.needs_manual_grade = mark.score is None
            else:
                found.auto_score = mark.score
                found.needs_manual_grade = False
    book.db.commit()


@contextmanager
def _quiet() -> Iterator[None]:
    """Let nbgrader find its `alembic`, which it starts by name, and keep SQLAlchemy's warnings to itself."""
    before = os.environ.get("PATH", "")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        os.environ["PATH"] = before
