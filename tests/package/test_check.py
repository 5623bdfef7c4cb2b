"""`lmcourse check`: the public tests of an assignment in the student's own environment."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from lmcourse.check import check_notebook, find_notebook
from lmcourse.cli import app


def code(source, grade_id=None):
    marks = {"nbgrader": {"grade": True, "solution": False, "grade_id": grade_id}} if grade_id else {}
    return {"cell_type": "code", "metadata": marks, "source": source}


def write(path, *cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "# A"}, *cells]}))
    return path


def test_tests_are_told_apart(tmp_path):
    path = write(
        tmp_path / "a1.ipynb",
        code("%matplotlib inline\ndef f(x):\n    return x\n"),
        code("1 / 0"),
        code("assert f(1) == 1", "right"),
        code("x = 2\nassert f(x) == 3, 'twice is wrong'", "wrong"),
        code("def g():\n    raise NotImplementedError"),
        code("g()", "unwritten"),
        code("import sys; sys.exit()", "leaves"),
        code(
            "files = !ls\nfor x in (1, 8):\n    %time f(x)\ny = (9\n    % 7)\nassert y == 2  # ok?", "magics"
        ),
        code("display(1)", "displays"),
        code("import signal\nsignal.raise_signal(signal.SIGINT)", "interrupted"),
    )
    tests, errors = check_notebook(path)
    assert {test.name: test.problem for test in tests} == {
        "right": "",
        "wrong": "twice is wrong (line 2)",
        "unwritten": "not written yet",
        "leaves": "SystemExit (line 1)",
        "magics": "",
        "displays": "",
        "interrupted": "KeyboardInterrupt (line 2)",
    }
    assert errors == ["code cell 2: ZeroDivisionError: division by zero (line 1)"]


def test_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a1" / "a1.ipynb", code("assert True", "right"))
    done = CliRunner().invoke(app, ["check", "a1"])
    assert done.exit_code == 0
    assert "All public tests pass" in done.output
    write(tmp_path / "a1.ipynb", code("assert False, 'no'", "wrong"))
    done = CliRunner().invoke(app, ["check", "a1"])
    assert done.exit_code == 1
    assert "1 of 1 public tests fail" in done.output


def test_errors(tmp_path):
    with pytest.raises(ValueError, match="name the notebook"):
        find_notebook("a1", tmp_path)


@pytest.mark.parametrize(
    "text",
    ["no JSON", "[]", '{"cells": [1]}', '{"cells": [{"source": ""}]}', '{"cells": [{"cell_type": "code"}]}'],
)
def test_what_is_no_notebook(tmp_path, text):
    (tmp_path / "a1.ipynb").write_text(text)
    with pytest.raises(ValueError, match="not a notebook"):
        check_notebook(tmp_path / "a1.ipynb")
