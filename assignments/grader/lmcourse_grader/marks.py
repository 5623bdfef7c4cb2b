"""Put a submission's grades together: its total, its status, marks given by hand."""

from __future__ import annotations

import csv
import hashlib
import io
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from lmcourse_grader.assignment import Assignment
from lmcourse_grader.grade import QuestionGrade, Status
from lmcourse_grader.run import Graded

HAND_COLUMNS = ("student", "question", "points", "out of", "comment", "answer")


@dataclass(frozen=True)
class HandMark:
    """Points and comment that a teacher gave; `answer` names the text that she read, if she left it in."""

    points: float
    comment: str = ""
    answer: str = ""


Hand = dict[tuple[str, str], HandMark]  # by student and question


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
        given = hand.get((record.student, grade.id)) if grade.status is Status.HAND else None
        if given is not None and given.answer in ("", name_of(grade.text)):
            score, comment = given.points, given.comment
        elif given is not None:
            comment = f"An earlier answer had {given.points:g} points. {given.comment}".strip()
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


def name_of(text: str) -> str:
    """Return a short name of a written answer, which changes with it."""
    return "text-" + hashlib.sha256(text.encode()).hexdigest()[:8]


def read_hand(path: Path, assignment: Assignment) -> Hand:
    """Read marks given by hand; rows without points are still to do. Raise `ValueError` at a wrong row.

    A spreadsheet may have saved the file with semicolons or tabs, or not as UTF-8.
    """
    if not path.exists():
        return {}
    data = path.read_bytes()
    try:
        table = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        table = data.decode("cp1252", "replace")
    header = table.split("\n", 1)[0]
    rows = csv.DictReader(io.StringIO(table, newline=""), delimiter=max(",;\t", key=header.count))
    if missing := {"student", "question", "points"} - set(rows.fieldnames or ()):
        raise ValueError(f"{path} has no column {', '.join(sorted(missing))}")
    most = {question.id: question.points for question in assignment.questions if question.kind == "written"}
    found: Hand = {}
    for number, row in enumerate(rows, start=2):
        text = (row["points"] or "").strip().replace(",", ".")
        if not text:
            continue
        question = row["question"] or ""
        try:
            points = float(text)
        except ValueError:
            points = -1.0
        if question not in most:
            raise ValueError(f"{path}, line {number}: {question} is no question that is graded by hand")
        if not 0 <= points <= most[question]:
            raise ValueError(f"{path}, line {number}: {question} cannot have {text} points")
        student, comment = (unguarded(row.get(column) or "") for column in ("student", "comment"))
        found[student, question] = HandMark(points, comment, row.get("answer") or "")
    return found


def guarded(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if _formula(text) else text


def unguarded(text: str) -> str:
    """Undo `guarded`."""
    return text[1:] if text[:1] == "'" and _formula(text[1:]) else text


def _formula(text: str) -> bool:
    """Whether a text begins like a formula, after spaces and quotes; signs of full width are signs."""
    return unicodedata.normalize("NFKC", text[:200]).lstrip("' \t\r\n").startswith(("=", "+", "-", "@"))
