"""Which cells of a submitted notebook belong to a question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lmcourse_grader.assignment import Question

TEXT_STUB = "*Write your proof here.*"  # what a written question's cell holds when it is handed out


@dataclass(frozen=True)
class Cell:
    """A cell as it came out of the sandbox."""

    type: str
    source: str
    grade_id: str | None
    test: bool


@dataclass(frozen=True)
class Chosen:
    """The code cells that may run for a question, which of them is its own, and what was odd."""

    sources: tuple[str, ...]
    own: int
    note: str = ""


def cells(reply: dict[str, Any]) -> list[Cell]:
    """Read the cells that the sandbox sent; raise `ValueError` if they are not cells."""
    found = []
    for cell in reply["cells"]:
        kept = Cell(cell["type"], cell["source"], cell["grade_id"], cell["test"])
        if not (
            isinstance(kept.type, str)
            and isinstance(kept.source, str)
            and isinstance(kept.grade_id, str | None)
            and isinstance(kept.test, bool)
        ):
            raise ValueError("not a cell")
        found.append(kept)
    return found


def code_for(question: Question, notebook: list[Cell]) -> Chosen | None:
    """Choose the code for a question; None if its function is nowhere.

    It is all code up to the question's cell and on to the next marked one, test cells left out: what a
    student who runs the notebook from the top has at that point. Of several cells with the question's mark
    the last counts, as it would there; if the mark is gone, the last cell that defines the function.
    """
    code = [cell for cell in notebook if cell.type == "code"]
    own = [place for place, cell in enumerate(code) if cell.grade_id == question.cell and not cell.test]
    note = f"The question's cell is there {len(own)} times; the last one counts." if len(own) > 1 else ""
    if not own:
        defines = re.compile(
            rf"^(async\s+)?def\s+{re.escape(question.function)}\b|^{question.function}\s*=", re.M
        )
        own = [place for place, cell in enumerate(code) if not cell.test and defines.search(cell.source)]
        note = "The question's own cell is gone; its function was found by name."
    if not own:
        return None
    end = own[-1] + 1
    while end < len(code) and code[end].grade_id is None:
        end += 1
    kept = [(place, cell.source) for place, cell in enumerate(code[:end]) if not cell.test]
    return Chosen(tuple(source for _, source in kept), [place for place, _ in kept].index(own[-1]), note)


def text_for(question: Question, notebook: list[Cell]) -> str:
    """Return the text of a written question: its cells, or all text if their mark is gone."""
    own = [cell.source for cell in notebook if cell.grade_id == question.cell]
    if own:
        return "\n\n".join(own)
    texts = [cell.source for cell in notebook if cell.type == "markdown" and cell.grade_id is None]
    return "\n\n".join(["[The question's own cell is gone. All text of the notebook:]", *texts])
