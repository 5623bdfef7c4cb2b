"""The grading loop: what is graded again, what fails alone, what the teacher gets."""

from __future__ import annotations

import csv
import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from conftest import OVERLAY, TINY, graded
from notebooks import ENTROPY, save, tiny
from typer.testing import CliRunner

from lmcourse_grader import assignment, cli, feedback, gradebook, hidden, marks, overlay, run, sandbox, tables
from lmcourse_grader.grade import Status


@pytest.fixture
def world(tmp_path, way):
    """Two submissions, an overlay of their own, a plan."""
    save(tmp_path / "in" / "ann.ipynb", tiny())
    save(tmp_path / "in" / "bob.ipynb", tiny(double="import numpy as np\n\ndef double(x):\n    return x\n"))
    shutil.copytree(OVERLAY, tmp_path / "overlay")
    return tmp_path, run.Plan(TINY, tmp_path / "overlay", tmp_path / "out", way)


def scores(results):
    return {name: [mark.score for mark in result.marks] for name, result in results.items()}


def fresh(done):
    return {each.submission.student: each.fresh for each in done}


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_second_run_does_nothing_and_says_the_same(world):
    folder, plan = world
    done, first = graded(plan, folder / "in")
    assert fresh(done) == {"ann": 3, "bob": 3}
    assert scores(first) == {"ann": [4, 6, None], "bob": [2, 6, None]}
    done, second = graded(plan, folder / "in")
    assert fresh(done) == {"ann": 0, "bob": 0}
    assert second == first


def test_the_same_submission_gets_the_same_grade_from_nothing(world):
    folder, plan = world
    first = scores(graded(plan, folder / "in")[1])
    shutil.rmtree(plan.out)
    assert scores(graded(plan, folder / "in")[1]) == first


def test_a_new_submission_of_one_question_is_graded_there_only(world):
    folder, plan = world
    graded(plan, folder / "in")
    save(folder / "in" / "ann.ipynb", tiny(entropy=ENTROPY.replace("-np.sum", "np.sum")))
    done, results = graded(plan, folder / "in")
    assert fresh(done) == {"ann": 1, "bob": 0}
    assert scores(results)["ann"] == [4, 2, None]


@pytest.mark.parametrize(
    ("old", "new", "again"),
    [
        ('"Sum over the symbols."', '"Add over the symbols."', 1),
        ("return close(answer, -sum(", "return close(answer, +sum(", 1),
        ("rng.normal(size=5)", "rng.normal(size=6)", 1),
        ("import math", "import math  # another comment", 0),
    ],
)
def test_a_new_overlay_grades_only_what_it_changes(world, old, new, again):
    folder, plan = world
    graded(plan, folder / "in")
    edit(folder / "overlay" / "hidden.py", old, new)
    done, _ = graded(plan, folder / "in")
    assert fresh(done) == {"ann": again, "bob": again}


def test_a_new_seed_grades_all_code_again(world):
    folder, plan = world
    graded(plan, folder / "in")
    edit(folder / "overlay" / "overlay.toml", "seed = 7", 'seed = "eight"')
    done, _ = graded(plan, folder / "in")
    assert fresh(done) == {"ann": 2, "bob": 2}


def test_data_beside_the_hidden_tests_count(world):
    folder, plan = world
    keys = []
    for words in ("one", "one", "two"):
        (folder / "overlay" / "words.txt").write_text(words)
        keys.append(run.Grader(plan).hidden["double"].key)
    assert keys[0] == keys[1] != keys[2]


def test_a_damaged_record_is_graded_again(world):
    folder, plan = world
    _, first = graded(plan, folder / "in")
    (plan.out / "records" / "ann.json").write_text('{"student": "ann"')
    done, second = graded(plan, folder / "in")
    assert fresh(done) == {"ann": 3, "bob": 0}
    assert scores(second) == scores(first)


def test_a_check_that_fails_is_told_to_the_teacher(world):
    folder, plan = world
    edit(
        folder / "overlay" / "hidden.py",
        "def entropies(case, answer):\n",
        "def entropies(case, answer):\n    1 / 0\n",
    )
    _, results = graded(plan, folder / "in")
    assert results["ann"].status == Status.LOOK
    assert scores(results)["ann"] == [4, 0, None]


def test_a_check_that_hangs_ends(world, monkeypatch):
    from lmcourse_grader import grade

    monkeypatch.setattr(grade, "CHECK_SECONDS", 1)
    folder, plan = world
    edit(
        folder / "overlay" / "hidden.py",
        "def doubled(case, answer):\n",
        "def doubled(case, answer):\n    while True: pass\n",
    )
    grader = run.Grader(plan)
    done = grader.grade(run.Submission("ann", "", folder / "in" / "ann.ipynb"))
    assert done.record.grades[0].status == Status.LOOK


def test_a_check_that_takes_all_memory_ends(world):
    folder, plan = world
    old = "def doubled(case, answer):\n"
    edit(folder / "overlay" / "hidden.py", old, f"{old}    np.empty(6 * 10**9, dtype='u1')\n")
    _, results = graded(plan, folder / "in")
    assert results["ann"].marks[0].grade.status == Status.LOOK
    assert results["ann"].marks[1].score == 6


def test_a_grader_that_dies_in_one_submission_grades_the_others(world):
    folder, plan = world
    save(
        folder / "in" / "cy.ipynb", tiny(double="import numpy as np\n\ndef double(x):\n    return x + 1e9\n")
    )
    edit(
        folder / "overlay" / "hidden.py",
        "def doubled(case, answer):\n",
        "def doubled(case, answer):\n    if answer.sum() > 1e6:\n        import os\n        os._exit(1)\n",
    )
    done, results = graded(plan, folder / "in")
    assert results["cy"].status == "grader failed: look"
    assert results["cy"].total is None
    assert scores(results)["ann"] == [4, 6, None]
    assert scores(results)["bob"] == [2, 6, None]
    assert [each.submission.student for each in done] == ["ann", "bob", "cy"]


def test_all_or_nothing(world):
    folder, plan = world
    edit(folder / "overlay" / "hidden.py", 'an array of the shape of x")', 'x", all_or_nothing=True)')
    assert scores(graded(plan, folder / "in")[1]) == {"ann": [4, 6, None], "bob": [0, 6, None]}


def test_chance_is_the_same_twice(grade):
    source = (
        "import random\n\ndef entropy(p):\n"
        "    raise RuntimeError([random.random(), np.random.rand(), hash('a'), list({'x', 'y'})])\n"
    )
    told = grade(ann=tiny(entropy=source), bob=tiny(entropy=source))
    messages = [told[name].marks[1].grade.cases[0].message for name in ("ann", "bob")]
    assert messages[0] == messages[1]
    assert "RuntimeError: [0." in messages[0]


def test_seeds_draw_the_same_cases_for_everyone():
    def cases(rng):
        return [hidden.Case("a", {"x": rng.normal()})]

    test = hidden.Question(cases, lambda case, answer: None)
    draws = [
        overlay.draw(test, name, seed)[0].arguments["x"]
        for name, seed in [("q", 1), ("q", 1), ("q", 2), ("r", 1)]
    ]
    assert draws[0] == draws[1]
    assert len(set(draws)) == 3


def test_marks_given_by_hand(world):
    folder, plan = world
    task = assignment.load(TINY)
    _, results = graded(plan, folder / "in")
    assert results["ann"].status == "some left to grade by hand"
    tables.write_all(plan.out, task, list(results.values()))
    edit(plan.out / "by-hand.csv", "ann,proof,,5,", "ann,proof,4.5,5,=well argued")
    done, results = graded(plan, folder / "in")
    assert fresh(done) == {"ann": 0, "bob": 0}
    assert (results["ann"].status, results["ann"].total) == ("graded", 14.5)
    hand = marks.read_hand(plan.out / "by-hand.csv", task)
    tables.write_all(plan.out, task, [results["bob"]], hand=hand)  # ann is away, her mark is not
    assert marks.read_hand(plan.out / "by-hand.csv", task) == hand
    assert (hand["ann", "proof"].points, hand["ann", "proof"].comment) == (4.5, "=well argued")
    tables.write_all(plan.out, task, list(results.values()), hand=hand)
    assert graded(plan, folder / "in")[1] == results
    edit(plan.out / "by-hand.csv", "bob,proof,,5,", "bob,proof,6,5,")
    with pytest.raises(ValueError, match=r"line 3: proof cannot have 6 points"):
        graded(plan, folder / "in")


def test_feedback_says_what_is_wrong_and_never_the_answer(world):
    folder, plan = world
    wrong = "import numpy as np\n\ndef double(x):\n    return x\n"
    save(folder / "in" / "cy.ipynb", tiny(double=wrong, entropy="def entropy(p):\n    return 0.5\n"))
    _, results = graded(plan, folder / "in")
    feedback.write_all(plan.out, assignment.load(TINY), list(results.values()))
    text = (plan.out / "feedback" / "cy.html").read_text()
    assert "The answer is not the right number." in text
    assert "Sum over the symbols." in text
    tests = overlay.load(plan.overlay, assignment.load(TINY))
    for case in tests["entropy"].cases[::2]:
        p = case.arguments["p"]
        right = -sum(x * math.log(x) for x in p)
        assert f"{right:.4f}"[:6] not in text
    assert "builds on “Twice the numbers”" in text
    assert "builds on" not in (plan.out / "feedback" / "bob.html").read_text()


def test_the_gradebook_is_nbgraders(world):
    folder, plan = world
    _, results = graded(plan, folder / "in")
    task = assignment.load(TINY)
    path = plan.out / "what? 100%" / "gradebook.db"
    path.parent.mkdir()
    for _ in range(2):  # twice the same
        gradebook.write(path, task, list(results.values()))
    with sqlite3.connect(path) as book:
        found = book.execute(
            "select student.id, sum(grade.auto_score), max(grade.needs_manual_grade) from grade "
            "join submitted_notebook on grade.notebook_id = submitted_notebook.id "
            "join submitted_assignment on submitted_notebook.assignment_id = submitted_assignment.id "
            "join student on submitted_assignment.student_id = student.id group by student.id"
        ).fetchall()
    assert found == [("ann", 10.0, 1), ("bob", 8.0, 1)]


def test_the_command(world):
    folder, plan = world
    runner = CliRunner()
    options = ["--assignment", "tiny", "--source", str(TINY.parent), "--overlay", str(plan.overlay)]
    options += ["--out", str(plan.out), "--jobs", "1"]
    done = runner.invoke(cli.app, ["run", str(folder / "in"), *options])
    assert done.exit_code == 0, done.output
    made = {path.name for path in plan.out.iterdir()}
    assert made >= {"grades.csv", "canvas.csv", "gradescope.csv", "by-hand.csv", "feedback", "gradebook.db"}
    assert made >= {"distribution.svg", "questions.svg", "log.txt", "records", "by-hand"}
    with (plan.out / "grades.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["student"], row["total"], row["double status"]) for row in rows] == [
        ("ann", "10", "right"),
        ("bob", "8", "partly right"),
    ]
    assert "ann" in (plan.out / "log.txt").read_text()


def test_canvas_rows_come_from_its_own_export(world):
    folder, plan = world
    _, results = graded(plan, folder / "in")
    roster = folder / "roster.csv"
    roster.write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section,A tiny assignment (991)\n"
        "    Points Possible,,,,,15\nAnn A,17,s17,ann,one,\nCy C,18,s18,cy,one,\n"
    )
    assert tables.write_all(plan.out, assignment.load(TINY), list(results.values()), roster) == ["bob"]
    with (plan.out / "canvas.csv").open() as stream:
        rows = list(csv.reader(stream))
    assert rows[0][-1] == "A tiny assignment (991)"
    assert [(row[0], row[-1]) for row in rows[2:]] == [("Ann A", "10"), ("Cy C", "")]


def test_without_a_sandbox_nothing_is_graded(world, monkeypatch):
    folder, plan = world

    def none():
        raise sandbox.NoSandbox("bubblewrap is not installed")

    monkeypatch.setattr(sandbox, "detect", none)
    options = [
        "--assignment",
        "tiny",
        "--source",
        str(TINY.parent),
        "--overlay",
        str(plan.overlay),
        "--out",
        str(plan.out),
    ]
    done = CliRunner().invoke(cli.app, ["run", str(folder / "in"), *options])
    assert isinstance(done.exception, sandbox.NoSandbox)
    assert "Nothing was graded" in str(done.exception)
    assert not (plan.out / "grades.csv").exists()
    done = CliRunner().invoke(cli.app, ["run", str(folder / "in"), *options, "--unsafe"])
    assert done.exit_code == 0, done.output
    assert "NOT CONFINED" in (plan.out / "log.txt").read_text()


def test_an_overlay_that_students_could_read_is_refused(way, monkeypatch, tmp_path):
    monkeypatch.setattr(sandbox, "bound_folders", lambda: [tmp_path])
    with pytest.raises(ValueError, match="student code can read"):
        cli._keep_apart([tmp_path / "overlay"], way)


def test_canvas_file_names(tmp_path):
    from lmcourse_grader.submissions import discover

    for name in ("doejane_LATE_4711_99_a1-2.ipynb", "roejohn_4712_98_a1.ipynb"):
        save(tmp_path / name, tiny())
    assert [(s.student, s.name) for s in discover(tmp_path, "a1", "canvas")] == [
        ("4711", "doejane"),
        ("4712", "roejohn"),
    ]


def test_a_check_answers_none_or_a_sentence(world):
    folder, plan = world
    edit(
        folder / "overlay" / "hidden.py",
        "    return close(answer, -sum(",
        "    return not close(answer, -sum(",
    )
    _, results = graded(plan, folder / "in")
    assert results["ann"].marks[1].grade.status == Status.LOOK
    assert scores(results)["ann"] == [4, 0, None]


def test_a_check_cannot_spoil_the_case_of_the_next_student(world):
    folder, plan = world
    old = "def entropies(case, answer):\n"
    edit(folder / "overlay" / "hidden.py", old, f"{old}    case.arguments['p'][:] **= 2\n")
    grader = run.Grader(plan)
    before = [case.arguments["p"].copy() for case in grader.hidden["entropy"].cases]
    grader.grade(run.Submission("ann", "", folder / "in" / "ann.ipynb"))
    for p, case in zip(before, grader.hidden["entropy"].cases, strict=True):
        assert (case.arguments["p"] == p).all()


def test_another_cell_for_a_proof_is_read_anew(world):
    folder, plan = world
    shutil.copytree(TINY, folder / "source" / "tiny")
    plan = run.Plan(folder / "source" / "tiny", plan.overlay, plan.out, plan.way)
    graded(plan, folder / "in")
    edit(folder / "source" / "tiny" / "assignment.toml", 'cell = "proof"', 'cell = "double"')
    assert "def double" in graded(plan, folder / "in")[1]["ann"].marks[2].grade.text


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("rng.normal", "rng.abnormal", r"hidden.py: line 12, the cases of double: AttributeError"),
        ("import math", "import maths", r"line 3, imported: ModuleNotFoundError"),
        ("import math", "import", r"hidden.py: imported: SyntaxError"),
        (
            'Question(vectors, doubled, expects="an array of the shape of x")',
            "()",
            r"double is of type tuple",
        ),
    ],
)
def test_a_broken_overlay_is_told_in_a_line(world, old, new, says):
    folder, plan = world
    edit(folder / "overlay" / "hidden.py", old, new)
    with pytest.raises(ValueError, match=says):
        run.Grader(plan)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
@pytest.mark.parametrize("delimiter", ",;\t")
def test_marks_by_hand_survive_a_spreadsheet(tmp_path, encoding, delimiter):
    path = tmp_path / "by-hand.csv"
    with path.open("w", newline="", encoding=encoding) as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerows([marks.HAND_COLUMNS, ["Zoë", "proof", "4,5", "5", "schön; wirklich", "text-1"]])
    found = marks.read_hand(path, assignment.load(TINY))
    assert found == {("Zoë", "proof"): marks.HandMark(4.5, "schön; wirklich", "text-1")}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("student,points\nann,3\n", "no column question"),
        ("student,question,points\nann,double,3\n", "line 2: double is no question that is graded by hand"),
    ],
)
def test_marks_by_hand_that_cannot_count_are_refused(tmp_path, table, says):
    (tmp_path / "by-hand.csv").write_text(table)
    with pytest.raises(ValueError, match=says):
        marks.read_hand(tmp_path / "by-hand.csv", assignment.load(TINY))


def test_a_new_proof_does_not_keep_the_points_of_the_old(world):
    folder, plan = world
    path, task = plan.out / "by-hand.csv", assignment.load(TINY)
    tables.write_all(plan.out, task, list(graded(plan, folder / "in")[1].values()))
    edit(path, "ann,proof,,5,", "ann,proof,5,5,neat")
    assert graded(plan, folder / "in")[1]["ann"].status == "graded"
    save(folder / "in" / "ann.ipynb", tiny(proof="By intimidation."))
    _, results = graded(plan, folder / "in")
    assert (results["ann"].status, results["ann"].total) == ("some left to grade by hand", 10)
    tables.write_all(plan.out, task, list(results.values()), hand=marks.read_hand(path, task))
    assert "ann,proof,,5,An earlier answer had 5 points. neat," in path.read_text()


@pytest.mark.parametrize("text", ["=x", " =x", "'=x", "''+x", "＝x", "- 1", "plain", "'s"])
def test_the_guard_against_formulas_is_undone(text):
    assert marks.unguarded(marks.guarded(text)) == text
    assert (marks.guarded(text) == text) == (text in ("plain", "'s"))


def command(folder, plan, *more):
    options = ["--assignment", "tiny", "--source", str(TINY.parent), "--overlay", str(plan.overlay)]
    return ["run", str(folder / "in"), *options, "--out", str(plan.out), "--jobs", "1", *more]


def test_two_graders_do_not_share_a_folder(world):
    folder, plan = world
    plan.out.mkdir()
    with cli._alone(plan.out / "lock"):
        done = CliRunner().invoke(cli.app, command(folder, plan))
        assert isinstance(done.exception, ValueError)
        assert "another grader" in str(done.exception)
    assert CliRunner().invoke(cli.app, command(folder, plan)).exit_code == 0


def test_what_is_not_looked_at_is_named(world):
    folder, plan = world
    (folder / "in" / "cy.py").write_text("def double(x): return 2 * x")
    plan.out.mkdir()
    (plan.out / "by-hand.csv").write_text("student,question,points\nzoe,proof,3\n")
    done = CliRunner().invoke(cli.app, command(folder, plan))
    assert done.exit_code == 0
    assert "neither notebook nor zip: cy.py" in done.output
    assert "students not among these: zoe" in done.output


def test_workers_end_with_a_command_that_is_killed(world):
    folder, plan = world
    save(folder / "in" / "aa.ipynb", tiny(double="def double(x):\n    while True: pass\n"))
    command_line = [sys.executable, "-m", "lmcourse_grader.cli", *command(folder, plan)]
    process = subprocess.Popen(command_line, start_new_session=True)
    for _ in range(600):
        if (plan.out / "records").exists():
            break
        time.sleep(0.1)
    process.kill()
    process.wait()
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail("workers live on")
    assert CliRunner().invoke(cli.app, command(folder, plan)).exit_code == 0
