"""CSV files: the grades, what Canvas and Gradescope import, and what is to be graded by hand.

A student's name may look like a spreadsheet formula; every text cell that does is written with a quote
before it, so that no spreadsheet runs it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

from lmcourse_grader.assignment import Assignment
from lmcourse_grader.grade import Status
from lmcourse_grader.marks import HAND_COLUMNS, Hand, Result, guarded, name_of
from lmcourse_grader.whole import whole


def write(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[object]], encoding: str = "utf-8"
) -> None:
    """Write a table, whole or not at all; None is an empty cell."""
    with whole(path) as draft, draft.open("w", newline="", encoding=encoding) as stream:
        csv.writer(stream).writerows([_cell(value) for value in row] for row in (header, *rows))


def _cell(value: object) -> object:
    if isinstance(value, str):
        return guarded(value.replace("\t", " ").replace("\r", " "))
    return format(value, ".10g") if isinstance(value, float) else value


def write_all(
    out: Path,
    assignment: Assignment,
    results: list[Result],
    roster: Path | None = None,
    hand: Hand | None = None,
) -> list[str]:
    """Write `grades.csv`, `canvas.csv`, `gradescope.csv` and `by-hand.csv`.

    Return the students whom the roster does not have. Marks given by hand (`hand`) to students who are not
    among the results are kept.
    """
    ids = [question.id for question in assignment.questions]
    header = [
        "student",
        "name",
        "status",
        "total",
        "out of",
        "seconds",
        *ids,
        *(f"{name} status" for name in ids),
    ]
    write(
        out / "grades.csv",
        [*header, "note"],
        (
            [
                *(r.student, r.name, r.status, r.total, r.out_of, round(r.seconds, 2)),
                *_scores(r, ids),
                *_statuses(r, ids),
                " ".join(part for part in (r.problem, *r.notes) if part),
            ]
            for r in results
        ),
    )
    header, rows, strangers = _canvas(assignment, results, roster)
    write(out / "canvas.csv", header, rows)
    write(
        out / "gradescope.csv",
        [
            "Name",
            "SID",
            "Email",
            "Total Score",
            "Max Points",
            "Status",
            *(f"{q.id} ({q.points:g} pts)" for q in assignment.questions),
        ],
        (
            [
                *(r.name or r.student, r.student, r.student if "@" in r.student else ""),
                *(r.total, r.out_of, r.status),
                *_scores(r, ids),
            ]
            for r in results
        ),
    )
    points = {question.id: question.points for question in assignment.questions}
    by_hand: list[list[object]] = [
        [
            *(r.student, mark.grade.id, mark.score, points[mark.grade.id], mark.comment),
            name_of(mark.grade.text),
        ]
        for r in results
        for mark in r.marks
        if mark.grade.status is Status.HAND
    ]
    listed = {(row[0], row[1]) for row in by_hand}
    by_hand += [
        [student, question, given.points, points[question], given.comment, given.answer]
        for (student, question), given in (hand or {}).items()
        if (student, question) not in listed
    ]
    write(out / "by-hand.csv", HAND_COLUMNS, by_hand, "utf-8-sig")  # Excel takes it for UTF-8 then
    return strangers


def _scores(result: Result, ids: list[str]) -> list[float | None]:
    found = {mark.grade.id: mark.score for mark in result.marks}
    return [found.get(name) for name in ids]


def _statuses(result: Result, ids: list[str]) -> list[str | None]:
    found = {mark.grade.id: mark.grade.status.value for mark in result.marks}
    return [found.get(name) for name in ids]


CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


def _canvas(
    assignment: Assignment, results: list[Result], roster: Path | None
) -> tuple[list[str], list[list[object]], list[str]]:
    """Canvas's gradebook: with a roster (its own export) the rows it knows, else a row for each student.

    The third list names the students whom the roster does not have.
    """
    title = assignment.title
    if roster is None:
        rows: list[list[object]] = [["    Points Possible", "", "", "", "", assignment.points]]
        for r in results:
            canvas_id = r.student if r.student.isdigit() else ""
            rows.append([r.name or r.student, canvas_id, "", "" if canvas_id else r.student, "", r.total])
        return [*CANVAS, title], rows, []
    with roster.open(newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream)
        people = list(reader)
    if not people or not set(CANVAS) <= set(reader.fieldnames or ()):
        raise ValueError(
            f"{roster} is not Canvas's gradebook export: it needs the columns {', '.join(CANVAS)}"
        )
    column = next((name for name in reader.fieldnames or () if name.split(" (")[0] == title), title)
    known = {r.student.casefold(): r for r in results}
    rows, strangers = [], set(known)
    for person in people:
        keys = [(person[name] or "").strip().casefold() for name in ("ID", "SIS Login ID", "SIS User ID")]
        row: list[object] = [person[name] for name in CANVAS]
        if "points possible" in (person["Student"] or "").lower():
            rows.append([*row, assignment.points])
            continue
        found = next((known[key] for key in keys if key in known), None)
        rows.append([*row, found.total if found else None])
        strangers -= set(keys)
    return [*CANVAS, column], rows, sorted(known[key].student for key in strangers)
