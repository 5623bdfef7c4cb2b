"""A teacher's private overlay: the hidden tests and the seed they draw from.

``overlay.toml`` holds ``seed`` (an integer or a string) and, if wanted, ``rounds``: how many times each
question's cases are drawn. ``hidden.py`` holds ``QUESTIONS``. All students get the same cases.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import sys
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmcourse_grader import __version__, hidden
from lmcourse_grader.assignment import Assignment
from lmcourse_grader.inside import slicing, values


@dataclass(frozen=True)
class HiddenQuestion:
    """A question's drawn cases, its check, and a key that changes when any of these does."""

    question: hidden.Question
    cases: tuple[hidden.Case, ...]
    arguments: tuple[Any, ...]
    key: str


def load(folder: Path, assignment: Assignment, *, seed: int | str | None = None) -> dict[str, HiddenQuestion]:
    """Load the hidden tests of an assignment's code questions, cases drawn.

    Parameters
    ----------
    folder
        Holds `hidden.py` and `overlay.toml`, or a folder of the assignment's name that does.
    assignment
        Whose questions are tested.
    seed
        Taken instead of the overlay's own.
    """
    folder = folder / assignment.name if (folder / assignment.name).is_dir() else folder
    path = folder / "hidden.py"
    if not path.is_file():
        raise ValueError(f"{folder} has no hidden.py: it is not an overlay of {assignment.name}")
    settings = tomllib.loads((folder / "overlay.toml").read_text(encoding="utf-8"))
    seed = settings.get("seed") if seed is None else seed
    if not isinstance(seed, int | str):
        raise ValueError(f"{folder / 'overlay.toml'} has no seed")
    with _blamed(path, "imported"):
        questions = _import(path).QUESTIONS
    code = [question for question in assignment.questions if question.kind == "code"]
    if missing := [question.id for question in code if question.id not in questions]:
        raise ValueError(f"{path} tests nothing of {', '.join(missing)}")
    if unknown := set(questions) - {question.id for question in code}:
        raise ValueError(f"{path} tests {', '.join(sorted(unknown))}, which {assignment.name} does not ask")
    found = {}
    for question in code:
        test = questions[question.id]
        if not isinstance(test, hidden.Question):
            raise ValueError(f"{path}: {question.id} is of type {type(test).__name__}, not a Question")
        with _blamed(path, f"the cases of {question.id}"):
            cases = draw(test, question.id, seed, int(settings.get("rounds", 1)))
        try:
            arguments = tuple(values.encode(dict(case.arguments)) for case in cases)
        except values.NotPlain as error:
            raise ValueError(f"{path}: a case of {question.id} has an argument that is {error}") from None
        told = [[case.label, case.hint, case.weight] for case in cases]
        content = [__version__, asdict(question), source(path, question.id), told, arguments]
        key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        found[question.id] = HiddenQuestion(test, cases, arguments, key)
    return found


@contextmanager
def _blamed(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a teacher's own code raises into one line that says where."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
        place = f"line {lines[-1]}, " if lines else ""
        raise ValueError(f"{path}: {place}{what}: {type(error).__name__}: {error}") from error


def draw(test: hidden.Question, name: str, seed: int | str, rounds: int = 1) -> tuple[hidden.Case, ...]:
    """Draw a question's cases: the same seed and name always give the same."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    rng = np.random.default_rng(np.frombuffer(digest, dtype=np.uint32))
    cases = tuple(case for _ in range(rounds) for case in test.cases(rng))
    if not cases or any(case.weight <= 0 for case in cases):
        raise ValueError(f"{name} needs cases, of positive weight")
    return cases


def source(path: Path, name: str) -> str:
    """Return the part of `hidden.py` that a question's test depends on, and the files beside it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    beside = [
        hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.parent.rglob("*"))
        if file.is_file()
        and file.name not in (path.name, "overlay.toml")
        and not any(part.startswith((".", "__pycache__")) for part in file.relative_to(path.parent).parts)
    ]
    table = next((node for node in tree.body if _assigns_questions(node)), None)
    entry = _entry(table, name)
    if entry is None:  # not written as a plain dictionary: any change counts
        return "\n".join([ast.unparse(tree), *beside])
    names = {node.id for node in ast.walk(entry) if isinstance(node, ast.Name)}
    kept = slicing.needed([node for node in tree.body if node is not table], names)
    return "\n".join([ast.unparse(entry), *(ast.unparse(node) for node in kept), *beside])


def _assigns_questions(node: ast.stmt) -> bool:
    targets: Sequence[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return any(isinstance(target, ast.Name) and target.id == "QUESTIONS" for target in targets)


def _entry(table: ast.stmt | None, name: str) -> ast.expr | None:
    if isinstance(table, ast.Assign | ast.AnnAssign) and isinstance(table.value, ast.Dict):
        for key, value in zip(table.value.keys, table.value.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                return value
    return None


def _import(path: Path) -> Any:
    """Import `hidden.py` under a name of its own, with its folder on the path meanwhile."""
    name = f"hidden_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    if not isinstance(getattr(module, "QUESTIONS", None), dict):
        raise ValueError(f"{path} defines no dictionary QUESTIONS")
    return module
