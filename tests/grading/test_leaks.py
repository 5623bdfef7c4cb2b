"""Releases hold no solution, and the scan finds one that is planted."""

from __future__ import annotations

import json
import re
import zipfile

import a1
import nbformat
import pytest

from lmcourse_grader import assignment, leaks, release

TASK = assignment.load(a1.SOURCE)
OVERLAYS = a1.OVERLAY.parent


@pytest.fixture(scope="module")
def zips(tmp_path_factory):
    return release.release(TASK, tmp_path_factory.mktemp("zips"), OVERLAYS)


def names(path):
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1] for name in archive.namelist()}


def scan(*documents):
    return leaks.scan(leaks.secrets(TASK, OVERLAYS), documents, [leaks.visible(TASK)])


def test_three_zips(zips, tmp_path):
    student, instructor, grader = zips
    assert names(student) >= {"a1.ipynb", "requirements.txt", "instructions.md"}
    assert not names(student) & {"instructor.md", "assignment.toml"}
    assert names(instructor) >= {"a1.ipynb", "instructor.md", "assignment.toml"}
    assert names(grader) >= {"source/a1/a1.ipynb", "overlay-sample/a1/hidden.py", "grader/pyproject.toml"}
    again = release.release(TASK, tmp_path, OVERLAYS)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in zips]


def test_caches_are_not_packed(tmp_path):
    for name in (".mypy_cache/x", "a/.DS_Store", "a/__pycache__/x.pyc", "b.egg-info/PKG-INFO", "a/kept.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert set(release._files(tmp_path)) == {"a/kept.py"}


def test_students_get_nothing_they_must_not_see(zips):
    found = list(leaks.documents(zips[0]))
    assert len(found) > 50
    assert not scan(*found)
    book = nbformat.reads(release.student_notebook(TASK), as_version=4)
    nbformat.validate(book)
    assert "SOLUTION" not in nbformat.writes(book)


def test_there_is_something_to_look_for():
    found = {secret.name for secret in leaks.secrets(TASK, OVERLAYS)}
    for question in TASK.questions:
        assert any(name == f"solution of {question.cell}" for name in found), question.id
    assert sum(name.startswith("hidden.py") for name in found) > 20
    assert sum(name.startswith("instructor.md") for name in found) > 10


def solution(cell):
    return next(s.text for s in leaks.secrets(TASK, OVERLAYS) if s.name == f"solution of {cell}")


@pytest.mark.parametrize("question", TASK.questions, ids=lambda q: q.id)
def test_a_planted_solution_is_found(question):
    text = "A page of the course.\n" + solution(question.cell) + "\nAnd more of it.\n" * 50
    assert f"solution of {question.cell}" in {leak.secret for leak in scan(leaks.Document("page", text))}


def test_a_planted_hidden_test_is_found():
    for block in re.split(r"\n(?=def )", (a1.OVERLAY / "hidden.py").read_text())[1:]:
        if len(leaks.TOKEN.findall(block)) > 40:
            assert scan(leaks.Document("page", block)), block[:60]


def test_a_planted_model_answer_is_found():
    for paragraph in (a1.SOURCE / "instructor.md").read_text().split("\n\n"):
        if len(leaks.TOKEN.findall(paragraph)) > 40:
            assert scan(leaks.Document("page", f"Some prose.\n\n{paragraph}\n\nMore.")), paragraph[:60]


def test_a_near_copy_is_found():
    names = {
        name for name in re.findall(r"[a-z_]{2,}", solution("task-loss")) if name not in ("return", "np")
    }
    text = solution("task-loss")
    for number, name in enumerate(sorted(names)):
        text = re.sub(rf"\b{name}\b", f"renamed{number}", text)
    assert text != solution("task-loss")
    assert "solution of task-loss" in {leak.secret for leak in scan(leaks.Document("page", text))}


def test_a_planted_page_and_index_are_found(tmp_path):
    code = solution("next-word-law").replace("<", "&lt;")
    marked = re.sub(r"(\w+)", r'<span class="n">\1</span>', code)
    (tmp_path / "page.html").write_text(f"<html><body><pre>{marked}</pre></body></html>")
    assert scan(*leaks.documents(tmp_path))
    (tmp_path / "page.html").write_text(f"<html><!-- {solution('proof-coin')} --></html>")
    assert scan(*leaks.documents(tmp_path))
    (tmp_path / "page.html").unlink()
    assert not scan(*leaks.documents(tmp_path))
    (tmp_path / "searchindex.js").write_text('Search.setIndex({"terms": {"loss_and_differ": [3]}})')
    assert [leak.how for leak in scan(*leaks.documents(tmp_path))] == ["the name loss_and_differences"] * 2
    (tmp_path / "searchindex.js").write_text(
        '{"exact": [1], "loss": [2], "coverage": [3], "two_models": [4]}'
    )
    assert not scan(*leaks.documents(tmp_path))


def test_outputs_and_metadata_of_cells_are_read(tmp_path):
    book = json.loads(release.student_notebook(TASK))
    book["cells"][1]["metadata"]["kept"] = solution("scorecard")
    (tmp_path / "a1.ipynb").write_text(json.dumps(book))
    assert scan(*leaks.documents(tmp_path))


def test_a_release_that_was_not_cleared_is_found(monkeypatch):
    import nbgrader.preprocessors as steps

    monkeypatch.setattr(steps.ClearSolutions, "preprocess", lambda self, book, resources: (book, resources))
    text = json.loads(release.student_notebook(TASK))
    documents = [leaks.Document("cell", "".join(cell["source"])) for cell in text["cells"]]
    assert len({leak.secret for leak in scan(*documents)}) >= len(TASK.questions)
