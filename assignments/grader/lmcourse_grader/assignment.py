"""An assignment as its `assignment.toml` describes it: questions, points, limits."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lmcourse_grader.sandbox import Limits


@dataclass(frozen=True)
class Question:
    """A question's place in the notebook, its points and what it may use.

    `taught` says where the course itself shows the solution, if it does.
    """

    id: str
    title: str
    kind: Literal["code", "written"]
    points: float
    cell: str
    function: str = ""
    needs: tuple[str, ...] = ()
    taught: str = ""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Assignment:
    """The questions of an assignment, in order."""

    name: str
    title: str
    folder: Path
    hours: float
    questions: tuple[Question, ...]

    @property
    def points(self) -> float:
        """The points of all questions together."""
        return sum(question.points for question in self.questions)

    @property
    def notebook(self) -> Path:
        """The instructor's source notebook."""
        return self.folder / f"{self.name}.ipynb"


def load(folder: Path) -> Assignment:
    """Read `assignment.toml` in a folder; raise `ValueError` that says what is wrong with it."""
    path = folder / "assignment.toml"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{folder} has no assignment.toml") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from None
    shared = table.get("limits", {})
    questions = tuple(_question(entry, shared, path) for entry in table.get("question", []))
    ids = [question.id for question in questions]
    if not ids or len(set(ids)) != len(ids):
        raise ValueError(f"{path}: needs [[question]] tables with different ids")
    for question in questions:
        if unknown := set(question.needs) - set(ids):
            raise ValueError(
                f"{path}: {question.id} needs {', '.join(sorted(unknown))}, which is no question"
            )
    title, hours = str(table.get("title", folder.name)), float(table.get("hours", 0))
    return Assignment(folder.name, title, folder, hours, questions)


def _question(entry: dict[str, Any], shared: dict[str, Any], path: Path) -> Question:
    known = {"id", "title", "kind", "points", "cell", "function", "needs", "taught", "limits"}
    if unknown := set(entry) - known:
        raise ValueError(f"{path}: a question has unknown keys: {', '.join(sorted(unknown))}")
    try:
        limits = Limits(**(shared | entry.get("limits", {})))
        question = Question(
            **{key: entry[key] for key in ("id", "title", "kind", "cell")},
            points=float(entry["points"]),
            function=entry.get("function", ""),
            taught=entry.get("taught", ""),
            needs=tuple(entry.get("needs", ())),
            limits=limits,
        )
    except KeyError as error:
        raise ValueError(f"{path}: a question has no {error}") from None
    except TypeError as error:
        raise ValueError(f"{path}: limits of {entry.get('id')}: {error}") from None
    if question.kind not in ("code", "written") or (question.kind == "code") != bool(question.function):
        raise ValueError(f"{path}: {question.id} is either code with a function, or written without one")
    return question
