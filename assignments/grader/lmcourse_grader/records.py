"""A submission's grades on disk, so that a second run does only what changed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmcourse_grader.grade import CaseGrade, QuestionGrade, Status
from lmcourse_grader.whole import whole


@dataclass(frozen=True)
class Record:
    """All grades of a submission.

    `key` stands for the file and every hidden test; `keys` has one for each question: the code that ran
    for it and its hidden test.
    """

    student: str
    name: str
    safe: str
    key: str
    problem: str
    notes: tuple[str, ...]
    keys: dict[str, str]
    grades: tuple[QuestionGrade, ...]


def save(folder: Path, record: Record) -> None:
    """Write a record, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.safe}.json"
    with whole(path) as draft:
        draft.write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")


def load(folder: Path, safe: str) -> Record | None:
    """Read a record; None if there is none, or none that can be read."""
    try:
        table: dict[str, Any] = json.loads((folder / f"{safe}.json").read_text(encoding="utf-8"))
        grades = tuple(
            QuestionGrade(
                **grade
                | {
                    "status": Status(grade["status"]),
                    "cases": tuple(CaseGrade(**case) for case in grade["cases"]),
                }
            )
            for grade in table["grades"]
        )
        return Record(**table | {"notes": tuple(table["notes"]), "grades": grades})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
