"""The import closure, against a made-up package and against grimp on the real one."""

import grimp
import pytest

import lmcourse
from lmcourse.closure import PACKAGE, closure_hash, import_closure


@pytest.fixture
def package(tmp_path):
    """A package in which `a` imports `b`, `b` imports `sub.c` inside a function, and `cli` imports all."""
    files = {
        "__init__.py": "",
        "a.py": "from pack.b import f\n",
        "b.py": "def f():\n    from .sub import c\n    return c.x\n",
        "sub/__init__.py": "",
        "sub/c.py": "import numpy\nx = 1\n",
        "cli.py": "from pack import a, b\nimport pack.sub.c\n",
    }
    for name, text in files.items():
        path = tmp_path / "pack" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path / "pack"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import pack.a", {"pack", "pack.a", "pack.b", "pack.sub", "pack.sub.c"}),
        ("from pack import b as other", {"pack", "pack.b", "pack.sub", "pack.sub.c"}),
        ("def g():\n    from pack.sub.c import x", {"pack", "pack.sub", "pack.sub.c"}),
        ("import importlib\nimportlib.import_module('pack.sub.c')", {"pack", "pack.sub", "pack.sub.c"}),
        ("import numpy", set()),
    ],
)
def test_follows_every_form_of_import(package, source, expected):
    assert set(import_closure(source, package)) == expected


def test_hash_changes_with_what_is_used_and_with_nothing_else(package):
    before = closure_hash("import pack.a", package)
    (package / "cli.py").write_text("import pack\n")
    assert closure_hash("import pack.a", package) == before
    (package / "sub" / "c.py").write_text("x = 2\n")
    assert closure_hash("import pack.a", package) != before


def test_agrees_with_grimp_on_the_package_itself():
    graph = grimp.build_graph("lmcourse")
    for module in sorted(graph.modules):
        expected: set[str] = set()
        waiting = {module}
        while waiting:  # importing a module also runs the packages around it
            expected |= waiting
            parents = {m.rpartition(".")[0] for m in waiting} - {""}
            upstream = {u for m in waiting for u in graph.find_modules_directly_imported_by(m)}
            waiting = (parents | upstream) - expected
        assert set(import_closure(f"import {module}")) == expected, module
    assert PACKAGE.samefile(lmcourse.__path__[0])
