"""Assignment 1 as the tests see it: its notebook, its description, the sample overlay."""

from __future__ import annotations

import ast
import copy
import importlib.util
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import numpy as np

from lmcourse_grader.overlay import draw

ASSIGNMENTS = Path(__file__).parents[2] / "assignments"
SOURCE = ASSIGNMENTS / "source" / "a1"
OVERLAY = ASSIGNMENTS / "overlay-sample" / "a1"
DESCRIPTION = tomllib.loads((SOURCE / "assignment.toml").read_text(encoding="utf-8"))
CODE = [q for q in DESCRIPTION["question"] if q["kind"] == "code"]
WRITTEN = [q for q in DESCRIPTION["question"] if q["kind"] == "written"]
SEEDS = range(20)


@cache
def overlay() -> ModuleType:
    """Import the hidden tests of the sample overlay."""
    spec = importlib.util.spec_from_file_location("a1_hidden", OVERLAY / "hidden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def notebook() -> nbformat.NotebookNode:
    """Read the source notebook, solutions included."""
    return nbformat.read(SOURCE / "a1.ipynb", as_version=4)


def cell(name: str) -> nbformat.NotebookNode:
    """Find a cell of the source notebook by its id."""
    return next(c for c in notebook().cells if c.id == name)


def functions(cells: list[nbformat.NotebookNode]) -> dict[str, Callable[..., Any]]:
    """Run the imports and the solution cells of a notebook; return the functions, by question."""
    names: dict[str, Any] = {}
    for c in cells:
        if c.cell_type == "code" and (
            c.id == "setup-imports" or c.metadata.get("nbgrader", {}).get("solution")
        ):
            exec(compile(c.source, c.id, "exec"), names)
    return {q["id"]: names[q["function"]] for q in CODE}


@cache
def cases(question: str, seed: int) -> list[Any]:
    """Draw the hidden cases of a question."""
    return list(draw(overlay().QUESTIONS[question], question, seed))


def faults(question: str, answer: Callable[..., Any], seed: int) -> list[str]:
    """Say what the hidden tests find wrong, a line a case."""
    found = []
    for case in cases(question, seed):
        try:
            result = answer(**copy.deepcopy(dict(case.arguments)))
        except Exception as error:
            found.append(f"{case.label}: {error!r}")
            continue
        complaint = overlay().QUESTIONS[question].check(case, result)
        if complaint:
            found.append(f"{case.label}: {complaint}")
    return found


def public_tests(question: str, answer: Callable[..., Any]) -> list[tuple[str, bool, bool]]:
    """Run a public test cell statement by statement: (message, is about type or shape, passed) for each."""
    description = next(q for q in CODE if q["id"] == question)
    names: dict[str, Any] = {"np": np, description["function"]: answer}
    found: list[tuple[str, bool, bool]] = []

    def run(statements: list[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.For):
                for item in eval(compile(ast.Expression(statement.iter), question, "eval"), names):
                    names[ast.unparse(statement.target)] = item
                    run(statement.body)
                continue
            try:
                exec(compile(ast.Module([statement], []), question, "exec"), names)
                passed = True
            except Exception:
                passed = False
            if isinstance(statement, ast.Assert):
                code = ast.unparse(statement.test)
                about_form = any(word in code for word in ("isinstance", "shape", "ndim", "len("))
                found.append((ast.unparse(statement.msg) if statement.msg else "", about_form, passed))

    run(ast.parse(cell(description["cell"] + "-tests").source).body)
    return found
