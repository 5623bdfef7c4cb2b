"""HTML pages: one for each student, and for each written question one with all answers for the teacher."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from lmcourse_grader.assignment import Assignment
from lmcourse_grader.grade import CaseGrade, QuestionGrade, Status
from lmcourse_grader.marks import Mark, Result


@dataclass(frozen=True)
class _Case:
    label: str
    passed: bool
    message: str
    hint: str
    times: int


@dataclass(frozen=True)
class _Shown:
    grade: QuestionGrade
    score: float | None
    comment: str
    cases: list[_Case]
    needs: list[str]


def write_all(out: Path, assignment: Assignment, results: list[Result]) -> None:
    """Write `feedback/STUDENT.html` and `by-hand/QUESTION.html`; every text from outside is escaped."""
    templates = Environment(
        loader=PackageLoader("lmcourse_grader"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = templates.get_template("feedback.html")
    folder = out / "feedback"
    folder.mkdir(parents=True, exist_ok=True)
    questions = {question.id: question for question in assignment.questions}
    for result in results:
        marks = {mark.grade.id: mark for mark in result.marks}
        rows = [(questions[mark.grade.id], _shown(mark, assignment, marks)) for mark in result.marks]
        waiting = sum(question.points for question, mark in rows if mark.score is None)
        text = page.render(assignment=assignment, result=result, rows=rows, waiting=waiting)
        (folder / f"{result.safe}.html").write_text(text, encoding="utf-8")
    for question in assignment.questions:
        if question.kind == "written":
            answers = [
                (result.student, mark.grade.text)
                for result in results
                for mark in result.marks
                if mark.grade.id == question.id and mark.grade.status is Status.HAND
            ]
            (out / "by-hand").mkdir(exist_ok=True)
            text = templates.get_template("written.html").render(question=question, answers=answers)
            (out / "by-hand" / f"{question.id}.html").write_text(text, encoding="utf-8")


def _shown(mark: Mark, assignment: Assignment, marks: dict[str, Mark]) -> _Shown:
    question = next(question for question in assignment.questions if question.id == mark.grade.id)
    titles = {other.id: other.title for other in assignment.questions}
    needs = []
    if mark.grade.status not in (Status.RIGHT, Status.HAND):
        for name in question.needs:
            if name in marks and marks[name].grade.status is not Status.RIGHT:
                needs.append(f"This question builds on “{titles[name]}”, which lost points too.")
    return _Shown(mark.grade, mark.score, mark.comment, _merged(mark.grade.cases), needs)


def _merged(cases: tuple[CaseGrade, ...]) -> list[_Case]:
    """Say the same thing once."""
    if (
        len(cases) > 1
        and len({case.message for case in cases}) == 1
        and not any(case.passed for case in cases)
    ):
        hints = dict.fromkeys(case.hint for case in cases if case.hint)
        return [_Case("in every case", False, cases[0].message, " ".join(hints), 1)]
    counted = Counter((case.label, case.passed, case.message, case.hint) for case in cases)
    return [_Case(*said, times) for said, times in counted.items()]
