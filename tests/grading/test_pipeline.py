"""Assignment 1 through the whole grader: release, sandbox, comparison, table."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import a1
import a1_bank
import nbformat
import pytest
from conftest import graded

from lmcourse_grader import assignment, release, run
from lmcourse_grader.grade import Status

TASK = assignment.load(a1.SOURCE)
CODE = [question for question in TASK.questions if question.kind == "code"]
BANK = Path(a1_bank.__file__).read_text(encoding="utf-8")


def with_answers(answers):
    """The student's notebook with the bank in a cell and its answers in the questions' cells."""
    book = nbformat.reads(release.student_notebook(TASK), as_version=4)
    book.cells.insert(1, nbformat.v4.new_code_cell(BANK))
    for question in CODE:
        cell = next(
            c
            for c in book.cells
            if c.get("metadata", {}).get("nbgrader", {}).get("grade_id") == question.cell
        )
        cell.source = f"{question.function} = {answers[question.id].__name__}"
    return nbformat.writes(book)


@pytest.fixture(scope="module")
def marks(way, tmp_path_factory):
    """Grade the model solution, the release, and the bank's answers by number."""
    folder = tmp_path_factory.mktemp("a1")
    books = {"model": json.dumps(copy.deepcopy(a1.notebook())), "release": release.student_notebook(TASK)}
    for kind, bank in (("right", a1_bank.RIGHT), ("wrong", a1_bank.WRONG)):
        for number in range(3):
            books[f"{kind}-{number}"] = with_answers({name: bank[name][number] for name in bank})
    (folder / "in").mkdir()
    for name, text in books.items():
        (folder / "in" / f"{name}.ipynb").write_text(text, encoding="utf-8")
    _, results = graded(run.Plan(a1.SOURCE, a1.OVERLAY, folder / "out", way), folder / "in")
    return {name: {mark.grade.id: mark.grade for mark in result.marks} for name, result in results.items()}


@pytest.mark.parametrize("student", ["model", "right-0", "right-1", "right-2"])
def test_right_answers_get_all_points(marks, student):
    for question in CODE:
        grade = marks[student][question.id]
        assert (grade.status, grade.score) == (Status.RIGHT, question.points), grade


@pytest.mark.parametrize("student", ["wrong-0", "wrong-1", "wrong-2"])
def test_wrong_answers_lose_points(marks, student):
    for question in CODE:
        grade = marks[student][question.id]
        assert grade.score < question.points, grade
        assert grade.status in (Status.WRONG, Status.PARTLY, Status.ERROR), grade


def test_what_was_handed_out_gets_nothing(marks):
    assert {grade.status for grade in marks["release"].values()} == {Status.UNDONE}
    assert sum(grade.score for grade in marks["release"].values()) == 0


def test_proofs_wait_for_a_reader(marks):
    for question in TASK.questions:
        if question.kind == "written":
            assert marks["model"][question.id].status == Status.HAND
            assert marks["model"][question.id].score is None
