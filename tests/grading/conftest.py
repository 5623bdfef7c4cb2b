"""The tiny assignment, and a machine that can confine code: without one these tests fail, not skip."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lmcourse_grader import marks, run, sandbox, submissions

HERE = Path(__file__).parent
TINY = HERE / "tiny" / "source" / "tiny"
OVERLAY = HERE / "tiny" / "overlay"

Results = dict[str, marks.Result]


@pytest.fixture(scope="session")
def way() -> sandbox.Way:
    try:
        return sandbox.detect()
    except sandbox.NoSandbox as problem:
        pytest.fail(f"the grader's tests need a sandbox: {problem}", pytrace=False)


def graded(plan: run.Plan, folder: Path, names: str = "plain") -> tuple[list[run.Graded], Results]:
    """Grade a folder; return what was done, and the results by student."""
    grader = run.Grader(plan)
    found = submissions.discover(folder, grader.assignment.name, names)
    done = run.run(plan, found, jobs=2, watch=lambda _: None)
    hand = marks.read_hand(plan.out / "by-hand.csv", grader.assignment)
    results = [marks.result(each, grader.assignment, hand) for each in done]
    return done, {result.student: result for result in results}


@pytest.fixture
def grade(way, tmp_path) -> Callable[..., Results]:
    """Grade notebooks of the tiny assignment, given as `{student: notebook}`."""
    from notebooks import save

    def do(**books) -> Results:
        for student, book in books.items():
            save(tmp_path / "in" / f"{student}.ipynb", book)
        return graded(run.Plan(TINY, OVERLAY, tmp_path / "out", way), tmp_path / "in")[1]

    return do
