"""The hostile bank: every attack ends with the right grade and harms nobody else."""

from __future__ import annotations

import csv
import hashlib
import os
import socket

import pytest
from conftest import OVERLAY, TINY, graded
from hostile import ATTACKS
from notebooks import save, tiny
from spoils import SPOILS

from lmcourse_grader import assignment, feedback, run, tables

HONEST = ("aa-first", "mm-middle", "zz-last")


@pytest.fixture(scope="module")
def graded_bank(way, tmp_path_factory):
    """Grade all attacks and all spoilt files in one run, with honest submissions between them."""
    folder = tmp_path_factory.mktemp("bank")
    (folder / "in").mkdir()
    os.environ["SECRET"] = "a secret of the teacher"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0.01)
        port = str(listener.getsockname()[1])
        for name in HONEST:
            save(folder / "in" / f"{name}.ipynb", tiny())
        for name, attack in ATTACKS.items():
            save(folder / "in" / f"{name}.ipynb", tiny(entropy=attack.source.replace("PORT", port)))
        for spoil in SPOILS.values():
            spoil.write(folder / "in")
        before = fingerprint(folder / "in")
        plan = run.Plan(TINY, OVERLAY, folder / "out", way)
        done, results = graded(plan, folder / "in")
        with pytest.raises(TimeoutError):
            listener.accept()
    del os.environ["SECRET"]
    assert fingerprint(folder / "in") == before
    task = assignment.load(TINY)
    tables.write_all(folder / "out", task, list(results.values()))
    feedback.write_all(folder / "out", task, list(results.values()))
    return folder / "out", done, results


def fingerprint(folder):
    return {
        path: hashlib.sha256(path.read_bytes()).digest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def page(out, result):
    return (out / "feedback" / f"{result.safe}.html").read_text()


@pytest.mark.parametrize("name", ATTACKS)
def test_attack(graded_bank, name):
    out, _, results = graded_bank
    double, entropy, _ = results[name].marks
    attack = ATTACKS[name]
    assert double.score == 4, double
    assert entropy.grade.status in attack.statuses, entropy.grade
    assert entropy.score == attack.score, entropy.grade
    told = entropy.grade.note + " ".join(case.message for case in entropy.grade.cases)
    assert attack.says in told
    assert "a secret" not in page(out, results[name])


@pytest.mark.parametrize("name", SPOILS, ids=lambda name: name[:30])
def test_spoilt_file(graded_bank, name):
    _, _, results = graded_bank
    spoil, result = SPOILS[name], results[name]
    assert (result.status, result.total) == (spoil.status, spoil.total), result
    told = " ".join([result.problem, *result.notes, *(mark.grade.note for mark in result.marks)])
    assert spoil.says in told


def test_a_proof_without_its_mark_is_still_read(graded_bank):
    _, _, results = graded_bank
    assert "By inspection." in results["unmarked"].marks[2].grade.text
    assert "By inspection." not in results["all-deleted"].marks[2].grade.text


@pytest.mark.parametrize("name", HONEST)
def test_honest_submissions_are_untouched(graded_bank, name):
    _, _, results = graded_bank
    assert [mark.score for mark in results[name].marks] == [4, 6, None]


def test_nobody_is_lost_and_nobody_shares_a_file(graded_bank):
    out, done, results = graded_bank
    assert set(results) == {*HONEST, *ATTACKS, *SPOILS}
    assert not [each.error for each in done if each.error]
    assert len({result.safe.casefold() for result in results.values()}) == len(results)
    pages = sorted((out / "feedback").iterdir())
    assert len(pages) == len(results)
    assert all(path.parent == out / "feedback" and path.suffix == ".html" for path in pages)


def test_no_cell_is_a_formula(graded_bank):
    out, _, results = graded_bank
    for name in ("grades.csv", "canvas.csv", "gradescope.csv", "by-hand.csv"):
        with (out / name).open(newline="") as stream:
            rows = list(csv.reader(stream))
        assert not [cell for row in rows for cell in row if cell.lstrip()[:1] in tuple("=+-@")]
        assert {len(row) for row in rows} == {len(rows[0])}
    assert "=cmd|' 'C calc'!A0" in results


def test_pages_escape_what_students_write(graded_bank):
    out, _, results = graded_bank
    text = page(out, results["<img src=x onerror=alert(1)>"])
    assert "<img" not in text
    assert "&lt;img src=x" in text
