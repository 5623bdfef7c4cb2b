"""Which statements run for a question."""

from __future__ import annotations

import ast

import pytest

from lmcourse_grader.inside import slicing


def kept(source, *names):
    return [ast.unparse(node) for node in slicing.needed(slicing.parse(source).body, names)]


def test_only_what_the_name_needs():
    source = (
        "import numpy as np\nEPS = 1e-9\nother = slow()\n"
        "def f(x):\n    y = x\n    return np.abs(y) + EPS\nf(3)\nprint(other)\ny = x = slow()"
    )
    assert kept(source, "f") == [
        "import numpy as np",
        "EPS = 1e-09",
        "def f(x):\n    y = x\n    return np.abs(y) + EPS",
    ]


def test_imports_stand_alone():
    assert kept("from scipy import optimize, special\nimport os, sys\nf = lambda: special", "f")[:1] == [
        "from scipy import special"
    ]


@pytest.mark.parametrize(
    "line",
    [
        "TABLE[0] = 1",
        "TABLE.append(1)",
        "TABLE += [1]",
        "for k in range(3):\n    TABLE.append(k)",
        "if True:\n    TABLE = [2]",
        "with open('x') as TABLE:\n    pass",
        "try:\n    import fast as TABLE\nexcept ImportError:\n    TABLE = None",
        "from math import *",
        "del TABLE",
        "(TABLE, x) = (1, 2)",
    ],
)
def test_what_changes_a_name_is_kept(line):
    source = f"TABLE = []\n{line}\ndef f():\n    return TABLE"
    assert len(kept(source, "f")) == 3


@pytest.mark.parametrize(
    "line",
    ["np.testing.assert_allclose(f(1), 2)", "f(1)", "assert f(1) == 1", "print(f)", "x = f(1)", "1 / 0"],
)
def test_trials_are_left_out(line):
    assert kept(f"import numpy as np\ndef f(x):\n    return np.abs(x)\n{line}", "f")[2:] == []


def test_the_last_definition_counts_and_wrappers_are_kept():
    source = "def f(x):\n    return 1\nf = cache(f)\ndef cache(g):\n    return g\ndef f(x):\n    return 2"
    assert len(kept(source, "f")) == 4


def test_recursion_and_classes():
    source = (
        "class A:\n    def go(self):\n        return b()\ndef b():\n    return A\n"
        "def f():\n    return A().go()\nself = slow()"
    )
    assert len(kept(source, "f")) == 3


def test_magics():
    assert slicing.parse("%%time\nx = 1").body == []
    assert [ast.unparse(node) for node in slicing.parse("%time x\n!ls\nf?\nx = 1 % 2").body] == ["x = 1 % 2"]
    assert len(slicing.parse("files = !ls\nfor x in files:\n    %time f(x)\n    ?x").body) == 1
    with pytest.raises(SyntaxError):
        slicing.parse("def f(:")


def test_what_only_looks_like_a_magic_is_code():
    source = "def f(x):\n    y = (x\n    % 7)\n    return y  # or 5?"
    assert ast.unparse(slicing.parse(f"%time x\n{source}")) == ast.unparse(ast.parse(source))


@pytest.mark.parametrize(
    "trial",
    ["def g(a, a):\n    pass", "nonlocal x", "def g():\n    from math import *", "y = 1" + "+1" * 700],
)
def test_a_trial_that_does_not_compile_sinks_nothing(trial):
    statements = [*slicing.parse(trial).body, *slicing.parse("def f():\n    return 1").body]
    assert slicing.needed(statements, ["f"]) == statements[1:]
