"""The execution cache: a chapter is executed again when something that it uses has changed, and only then."""

import re
import sys
from pathlib import Path

import pytest
from jupyter_cache.executors.utils import single_nb_execution
from tiny import ROOT, TinyCourse, notebook

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import execution

EXECUTED = re.compile(r"executed (\S+\.ipynb)")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    course = TinyCourse(tmp_path_factory.mktemp("course"))
    (course.folder / "lmcourse" / "answer.py").write_text("def answer():\n    return 'first answer'\n")
    course.add("02_uses", "# Uses it", "from lmcourse.answer import answer\nprint(answer())")
    course.add("07_does_not", "# Does not", "from lmcourse.profiles import profile\nprint(profile(), 'here')")
    result = course.build()
    assert result.returncode == 0, result.stdout + result.stderr
    assert sorted(EXECUTED.findall(result.stdout)) == ["02_uses.ipynb", "07_does_not.ipynb"]
    assert "first answer" in course.page("02_uses")
    return course


def rebuild(course, **environment):
    result = course.build(**environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return sorted(EXECUTED.findall(result.stdout))


def test_a_changed_function_changes_its_page_and_no_other(course):
    (course.folder / "lmcourse" / "answer.py").write_text("def answer():\n    return 'second answer'\n")
    assert rebuild(course) == ["02_uses.ipynb"]
    assert "second answer" in course.page("02_uses")
    assert "first answer" not in course.page("02_uses")


def test_the_command_line_re_runs_nothing(course):
    path = course.folder / "lmcourse" / "cli.py"
    path.write_text(path.read_text() + "\n# changed\n")
    assert rebuild(course) == []


def test_the_profile_and_the_requirements_re_run_everything(course):
    assert rebuild(course, LMCOURSE_PROFILE="cpu") == ["02_uses.ipynb", "07_does_not.ipynb"]
    assert "cpu here" in course.page("07_does_not")
    assert rebuild(course) == []
    assert "smoke here" in course.page("07_does_not")
    path = course.folder / "requirements.txt"
    path.write_text(path.read_text() + "# changed\n")
    assert rebuild(course) == ["02_uses.ipynb", "07_does_not.ipynb"]


def test_prose_changes_the_page_without_running_it(course):
    course.add(
        "07_does_not", "# Another title", "from lmcourse.profiles import profile\nprint(profile(), 'here')"
    )
    assert rebuild(course) == []
    assert "Another title" in course.page("07_does_not")


def test_the_page_says_what_ran(course):
    assert re.search(
        r"Executed in \d+ s with profile smoke, lmcourse \S+, Python 3\.\d+", course.page("02_uses")
    )


def test_chapters_keep_their_numbers(course):
    assert re.search(r"<h1><span[^>]*>2\. </span>Uses it", course.page("02_uses"))
    assert re.search(r"<h1><span[^>]*>7\. </span>", course.page("07_does_not"))


def test_a_chapter_that_takes_too_long_is_named(tmp_path):
    slow = notebook("# Slow", "x = 1", "import time\ntime.sleep(30)")
    outcome = single_nb_execution(slow, cwd=str(tmp_path), timeout=1, allow_errors=False)
    where, why = execution.failure(Path("chapters/03_slow.ipynb"), slow, outcome.err).splitlines()
    assert where == "03_slow.ipynb, cell [2], which begins `import time`:"
    assert why.strip().startswith("CellTimeoutError: A cell timed out")
