"""Put a submission's grades together: its total, its status, marks given by hand."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from lmcourse_grader.assignment import Assignment
from lmcourse_grader.grade import QuestionGrade, Status
from lmcourse_grader.run import Graded

Hand = dict[tuple[str, str], tuple[float, str]]  # points and comment by student and question
HAND_COLUMNS = ("student", "question", "points", "out of", "comment")


@dataclass(frozen=True)
class Mark:
    """What a student gets for a question; `score` is None while a hand grade is missing."""

    grade: QuestionGrade
    score: float | None
    comment: str = ""


@dataclass(frozen=True)
class Result:
    """A student's marks. `total` is None where there is nothing that can be graded yet."""

    student: str
    name: str
    safe: str
    status: str
    total: float | None
    out_of: float
    seconds: float
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]
    problem: str


def result(graded: Graded, assignment: Assignment, hand: Hand) -> Result:
    """Combine a record with the marks given by hand."""
    submission, record = graded.submission, graded.record
    who = submission.student, submission.name, submission.safe
    if record is None or record.problem:
        status = "needs a decision" if submission.problem else "cannot be read"
        problem = record.problem if record else f"The grader failed: {graded.error}"
        if record is None:
            status = "grader failed: look"
        total = 0.0 if record and not submission.problem else None
        return Result(*who, status, total, assignment.points, graded.seconds, (), (), problem)
    marks = []
    for grade in record.grades:
        score, comment = grade.score, ""
        if grade.status is Status.HAND and (record.student, grade.id) in hand:
            score, comment = hand[record.student, grade.id]
        marks.append(Mark(grade, score, comment))
    known = [mark.score for mark in marks if mark.score is not None]
    status = "graded"
    if any(mark.score is None for mark in marks):
        status = "some left to grade by hand"
    if any(mark.grade.status is Status.LOOK for mark in marks):
        status = Status.LOOK.value
    seconds = sum(grade.seconds for grade in record.grades)
    return Result(
        *who, status, round(sum(known), 4), assignment.points, seconds, tuple(marks), record.notes, ""
    )


def read_hand(path: Path, assignment: Assignment) -> Hand:
    """Read marks given by hand; rows without points are still to do. Raise `ValueError` at a wrong row."""
    if not path.exists():
        return {}
    most = {question.id: question.points for question in assignment.questions}
    found: Hand = {}
    with path.open(newline="", encoding="utf-8-sig") as stream:
        for number, row in enumerate(csv.DictReader(stream), start=2):
            text = (row.get("points") or "").strip().replace(",", ".")
            if not text:
                continue
            question = row.get("question") or ""
            try:
                points = float(text)
            except ValueError:
                points = -1.0
            if question not in most or not 0 <= points <= most[question]:
                raise ValueError(f"{path}, line {number}: {question} cannot have {text} points")
            found[_plain(row.get("student") or ""), question] = points, _plain(row.get("comment") or "")
    return found


def _plain(text: str) -> str:
    """Undo the guard against formulas."""
    return text[1:] if text[:1] == "'" and text[1:2] in "=+-@\t\r" else text
