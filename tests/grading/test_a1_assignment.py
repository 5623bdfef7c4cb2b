"""Assignment 1: notebook and description agree, hidden tests are sound, solutions get all and stubs none."""

from __future__ import annotations

import re

import a1
import nbformat
import numpy as np
import pytest
from scipy import optimize

from lmcourse_grader import assignment, grade, overlay
from lmcourse_grader.notebook import Cell
from lmcourse_grader.release import student_notebook

QUESTIONS = [q["id"] for q in a1.CODE]
MARKS = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.DOTALL)


def release():
    """Make the student's notebook."""
    return nbformat.reads(student_notebook(assignment.load(a1.SOURCE)), as_version=4)


# ---------------------------------------------------------------- notebook and description


def test_points_add_up():
    assert sum(q["points"] for q in a1.CODE) == 80
    assert sum(q["points"] for q in a1.WRITTEN) == 20


def test_each_question_has_its_cells():
    for q in a1.DESCRIPTION["question"]:
        mark = a1.cell(q["cell"]).metadata["nbgrader"]
        assert mark["grade_id"] == q["cell"]
        assert mark["solution"]
        assert not mark["locked"]
        if q["kind"] == "written":
            assert mark["grade"]
            assert mark["points"] == q["points"]
            continue
        assert f"def {q['function']}(" in a1.cell(q["cell"]).source
        tests = a1.cell(q["cell"] + "-tests").metadata["nbgrader"]
        assert (tests["grade"], tests["locked"], tests["points"]) == (True, True, 0)


def test_the_table_says_what_the_description_says():
    story = a1.cell("opening-story").source
    rows = re.findall(r"^\| \d+ \| (?:\*(Proof):\* )?(.+?) \| (\d+) \| (\d+) \|$", story, re.MULTILINE)
    titles = [f"Proof: {title}" if proof else title for proof, title, *_ in rows]
    assert titles == [q["title"] for q in a1.DESCRIPTION["question"]]
    assert [int(points) for *_, points, _ in rows] == [q["points"] for q in a1.DESCRIPTION["question"]]
    assert sum(int(minutes) for *_, minutes in rows) == 60 * a1.DESCRIPTION["hours"]
    headings = re.findall(
        r"^### Question (\d+)\. (.+) \((\d+) points\)$",
        "\n".join(c.source for c in a1.notebook().cells if c.cell_type == "markdown"),
        re.MULTILINE,
    )
    expected = [(str(n), q["title"], str(q["points"])) for n, q in enumerate(a1.DESCRIPTION["question"], 1)]
    assert headings == expected


def test_docstrings_are_contracts():
    for question, answer in a1.functions(a1.notebook().cells).items():
        for part in ("Parameters\n", "Returns\n", "shape (" if question != "promise" else "float"):
            assert part in answer.__doc__, f"{question} does not say its {part.strip()}"


def test_the_notebook_is_tidy():
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert dict(a1.notebook().metadata.kernelspec) == kernel
    nbformat.validate(a1.notebook())
    ids = [c.id for c in a1.notebook().cells]
    assert len(set(ids)) == len(ids)
    for c in a1.notebook().cells:
        assert c.metadata.get("nbgrader", {}).get("grade_id", c.id) == c.id
        assert re.fullmatch("[a-z]+(-[a-z]+)*", c.id)
        assert not c.get("outputs")
        assert c.get("execution_count") is None


def test_the_source_runs_from_top_to_bottom(capsys):
    names: dict[str, object] = {}
    for c in a1.notebook().cells:
        if c.cell_type == "code":
            exec(compile(c.source, c.id, "exec"), names)
    assert "a coin: 0.6931" in capsys.readouterr().out


# ---------------------------------------------------------------- what students receive


def test_the_release_holds_no_solution():
    sources = [c.source for c in release().cells]
    for c in a1.notebook().cells:
        for solution in MARKS.findall(c.source):
            lines = {line.strip() for line in solution.split("\n") if len(line.strip()) >= 20}
            assert lines, f"{c.id} has a solution"
            leaked = [line for line in lines for source in sources if line in source]
            assert leaked == [], f"lines of the solution of {c.id} in the release"
    assert not any("SOLUTION" in source for source in sources)
    assert sum("raise NotImplementedError" in source for source in sources) == len(a1.CODE)
    assert sum("Write your proof here" in source for source in sources) == len(a1.WRITTEN)


@pytest.mark.parametrize("question", QUESTIONS)
def test_public_tests_say_what_is_wrong_in_words(question):
    model = a1.functions(a1.notebook().cells)[question]
    messages = [message for message, *_ in a1.public_tests(question, model)]
    assert len(messages) >= 5
    assert all(len(message) > 10 for message in messages), "each assertion has its message"


# ---------------------------------------------------------------- grades


def grades(notebook):
    """Grade a notebook's code questions, as the grader does; ours, so not confined."""
    given = assignment.load(a1.SOURCE)
    tests = overlay.load(a1.OVERLAY, given)
    cells = []
    for c in notebook.cells:
        mark = c.metadata.get("nbgrader", {})
        is_test = bool(mark.get("grade")) and not mark.get("solution")
        cells.append(Cell(c.cell_type, c.source, mark.get("grade_id"), is_test))
    return [grade.grade(q, cells, tests.get(q.id), "none") for q in given.questions]


def test_the_model_solution_gets_every_point_and_the_release_none():
    full, empty = grades(a1.notebook()), grades(release())
    assert sum(g.score for g in full if g.score is not None) == 80
    assert [g.id for g in full if g.score is None] == [q["id"] for q in a1.WRITTEN]
    assert {str(g.status) for g in full} == {"right", "to grade by hand"}
    assert sum(g.score for g in empty if g.score is not None) == 0
    assert {str(g.status) for g in empty} == {"not attempted"}


# ---------------------------------------------------------------- hidden tests

GARBAGE = [
    None,
    "inf",
    0.5,
    True,
    [],
    (),
    {},
    {"p": 1},
    (None, None),
    (1.0, "x"),
    ("a", "b", "c", "d", "e"),
    ([0.5, 0.5], [[1, 2], [3]], [1, -1], [[1]], [[1]]),
    [[1.0], [2.0, 3.0]],
    np.zeros(0),
    np.full((5, 6), np.nan),
    np.full(5, np.inf),
    np.ones((5, 6), dtype=complex) / 6,
    np.ones((2, 2), dtype=bool),
    tuple(np.full((2, 2), np.nan) for _ in range(5)),
    (np.array([0.5, 0.5]), np.eye(2), np.array([1, -1]), np.eye(2), np.eye(2)),
    1e308,
    -(10**400),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_check_stumbles_over_an_odd_answer(question):
    for case in a1.cases(question, 0):
        for answer in GARBAGE:
            complaint = a1.overlay().QUESTIONS[question].check(case, answer)
            if complaint is None:  # a coverage of 1 is also True; nothing else here is right
                assert isinstance(answer, float | bool)
            else:
                assert isinstance(complaint, str)
                assert len(complaint) > 10


@pytest.mark.parametrize("question", QUESTIONS)
def test_cases_keep_to_the_docstring(question):
    for seed in a1.SEEDS:
        for case in a1.cases(question, seed):
            given = case.arguments
            for name in ("p", "q", "truth", "model", "p_L"):
                if name in given:
                    assert (given[name] >= 0).all()
                    assert np.abs(given[name].sum(axis=-1) - 1).max() < 1e-12
                    assert given[name][given[name] > 0].min() >= 1e-300
            if "p_T" in given:
                assert given["p_T"].min() >= 0
                assert abs(given["p_T"].sum() - 1) < 1e-12
                assert (given["p_T"].sum(axis=0) > 0).all(), "both labels occur"
            if question == "best-weights":
                assert 0 <= given["B"] <= 50
                assert given["model"].shape <= (40, 30)
            if question == "task-loss":
                assert np.abs(given["model"] @ given["v"]).max() <= 1e4 + 1e-6
            if question == "next-word-law":
                assert 0 <= given["text"].min() <= given["text"].max() < given["n_words"]
            if question == "spoil":
                assert 1e-5 <= given["eps"] <= 10, "the check's tolerance is argued for these"
            if question == "promise":
                assert abs(np.log(2) - given["tau"]) > 1e-3, "the check's tolerance is argued for these"


@pytest.mark.parametrize("fault", ["none", "backwards", "mass where the truth has none"])
def test_a_spoiled_model_is_tilted_the_right_way_and_keeps_its_zeros(fault):
    """Faults that leave the excess as it is, so that only their own part of the check can see them."""
    hidden = a1.overlay()
    given = {
        "truth": np.array([[0.5, 0.5, 0.0]]),
        "p_L": np.ones(1),
        "direction": np.array([[1.0, -1.0, 0.0]]),
        "eps": float(np.log(np.cosh(1))),
    }
    answer = np.array([[np.exp(-1), np.exp(1), 0]]) / (2 * np.cosh(1))
    if fault == "backwards":
        answer = answer[:, [1, 0, 2]]
    if fault == "mass where the truth has none":
        answer = answer * (1 - 1e-10) + [[0, 0, 1e-10]]
    complaint = hidden.spoil_check(hidden.Case("two words", given), answer)
    assert (complaint is None) == (fault == "none")


def test_the_lowest_loss_is_that_of_another_solver():
    """The barrier method of the hidden tests against L-BFGS-B, on all their cases."""
    for seed in a1.SEEDS:
        for case in a1.cases("best-weights", seed):
            model, p_T, B = (case.arguments[k] for k in ("model", "p_T", "B"))

            def loss(v, model=model, p_T=p_T):
                score = model @ v
                slope = p_T[:, 0] / (1 + np.exp(-score)) - p_T[:, 1] / (1 + np.exp(score))
                return a1.overlay().loss(model, p_T, v), slope @ model

            n_words = model.shape[1]
            options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 50_000, "maxfun": 50_000}
            found = optimize.minimize(
                loss, np.zeros(n_words), jac=True, bounds=[(-B, B)] * n_words, options=options
            )
            # Both are attained in the box. The barrier promises 1e-6; the other is as good as its gap.
            value, slope = loss(found.x)
            gap = slope @ found.x + B * np.abs(slope).sum()
            assert value - gap <= a1.overlay().lowest_loss(model, p_T, B) <= value + 1e-6


# ---------------------------------------------------------------- the page for instructors


def test_the_example_of_the_page_for_instructors_works():
    page = (a1.ASSIGNMENTS.parent / "book" / "instructors.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL).group(1), names)
    question = names["QUESTIONS"]["perplexity"]
    cases = question.cases(np.random.default_rng(0))

    def perplexity(p):
        return np.exp(-sum(x * np.log(x) for x in p if x > 0))

    assert [question.check(case, perplexity(case.arguments["p"])) for case in cases] == [None, None]
    assert all(question.check(case, 1 + perplexity(case.arguments["p"])) for case in cases)


@pytest.mark.parametrize("excess", [0.1, 0.3, 0.6])
def test_the_model_solution_whatever_the_direction_says_of_words_that_never_come(excess):
    """Zero times an overflow is not a number."""
    solution = a1.functions(a1.notebook().cells)["spoil"]
    answer = solution(np.array([[0.5, 0.5, 0.0]]), np.ones(1), np.array([[1.0, -1.0, -1000.0]]), excess)
    odds = np.exp(np.arccosh(np.exp(excess)) * np.array([-1, 1]))  # two words: the excess is log cosh t
    np.testing.assert_allclose(answer, [[*(odds / odds.sum()), 0]], rtol=1e-5)
