"""The build and the architecture check, each seen to fail on a planted defect.

Other plants stand beside the checks that catch them: outputs left in a notebook in `tests/package`, an
outside script and a figure without description beside the checks of the site.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import ROOT, TinyCourse

BIN = Path(sys.executable).parent

COMPUTATION = """
def answer(seed):
    return {"answer": 40 + seed}
"""
CHAPTER = """
from lmcourse import results
from lmcourse.computation import answer
assert results.stored("the-answer", answer, seed=2).values["answer"] == 42
"""


@pytest.fixture
def course(tmp_path):
    course = TinyCourse(tmp_path)
    course.add("01_fine", "# Fine", "assert 1 + 1 == 2")
    return course


def test_a_wrong_assertion_fails_the_build_and_nbval(course):
    course.add("02_wrong", "# Wrong", "x = 1", "# Then", "assert x + 1 == 3, 'it is two'\nprint(x)")
    result = course.build()
    assert result.returncode != 0
    assert result.stdout.count("executed 01_fine.ipynb") == 1
    *_, blank, where, why, advice = result.stderr.splitlines()  # the last word, below all tracebacks
    assert where == "02_wrong.ipynb, cell [2], which begins `assert x + 1 == 3, 'it is two'`:"
    assert (blank, why) == ("", "    AssertionError: it is two")
    assert advice.startswith("No page was written.")
    nbval = [sys.executable, "-m", "pytest", "-q", "chapters", "--nbval-lax", "--nbval-current-env"]
    result = subprocess.run(nbval, cwd=course.folder, capture_output=True, text=True)
    assert result.returncode == 1
    assert "1 failed, 2 passed" in result.stdout


def test_a_stale_result_fails_the_strict_build(course):
    module = course.folder / "lmcourse" / "computation.py"
    module.write_text(COMPUTATION)
    course.add("02_stored", "# Stored", CHAPTER)
    store = "from lmcourse import results, computation as c; results.stored('the-answer', c.answer, seed=2)"
    course.run("-c", store, LMCOURSE_STRICT="")
    assert (course.folder / "results" / "the-answer.smoke.json").is_file()
    result = course.build()
    assert result.returncode == 0, result.stdout + result.stderr

    module.write_text(COMPUTATION.replace("40 + seed", "2 * seed + 38"))
    result = course.build()
    assert result.returncode != 0
    assert (
        "stale results (the-answer: the code that lmcourse.computation:answer uses has changed)"
        in result.stderr
    )
    course.run("-m", "lmcourse.cli", "results", "refresh", "the-answer")
    result = course.build()
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("probability", "from lmcourse.hmm import HMM"),  # upwards
        ("figures", "import lmcourse.results"),  # sideways
        ("new_module", "x = 1"),  # a module that has no place yet
    ],
)
def test_an_import_against_the_arrows_is_caught(tmp_path, module, line):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "lmcourse", tmp_path / "lmcourse", ignore=shutil.ignore_patterns("__pycache__"))

    def lint():
        command = [str(BIN / "lint-imports"), "--no-cache"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    before = lint()
    assert before.returncode == 0, before.stdout
    path = tmp_path / "lmcourse" / f"{module}.py"
    path.write_text((path.read_text() if path.exists() else "") + f"\n{line}\n")
    after = lint()
    assert after.returncode != 0
    assert "BROKEN" in after.stdout
