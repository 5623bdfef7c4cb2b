"""A small book, built with the settings, extensions and style of the real one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[2]
CHAPTER = r"""
# {title}

## First section

(sec-{n})=
## Second section

```{{prf:theorem}} A claim
:label: thm-{n}

$p = p$
```

```{{prf:theorem}} Another claim
:label: thm-{n}-b

$p = p$
```

```{{prf:proof}}
Clear.
```

```{{exercise}} Try
:label: ex-{n}

Do it.
```
"""
REFERENCES = "{numref}`sec-%s`, {prf:ref}`thm-%s-b`, {ref}`ex-%s`.\n"


@pytest.fixture
def small_book(tmp_path):
    shutil.copytree(ROOT / "book", tmp_path / "book", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("_config.yml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "chapters").mkdir()
    for page in ("setup", "theorems", "ledger", "notation", "instructors", "bibliography"):
        (tmp_path / "book" / f"{page}.md").write_text(f"# {page}\n")
    (tmp_path / "book" / "intro.md").write_text("# Welcome\n\n" + REFERENCES % (("9",) * 3))
    write_chapter(tmp_path, 2, "Second")
    write_chapter(tmp_path, 9, "Ninth", REFERENCES % (("2",) * 3))
    return tmp_path


def write_chapter(book, number, title, more=""):
    text = CHAPTER.format(title=title, n=number) + "\n" + more
    (book / "chapters" / f"{number:02}_{title.lower()}.md").write_text(text)


def build(book):
    jupyter_book = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command = [*jupyter_book, "build", ".", "--toc", "book/_toc.yml", "-W", "-n", "--keep-going"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "LMCOURSE_STRICT": ""}
    return subprocess.run(command, cwd=book, env=env, capture_output=True, text=True, encoding="utf-8")


def page(book, name):
    return BeautifulSoup((book / "_build" / "html" / f"{name}.html").read_text("utf-8"), "html.parser")


def article(book, name):
    return re.sub(r"\s+", " ", page(book, name).article.get_text())


def assert_numbers(book, expected_chapters):
    result = build(book)
    assert result.returncode == 0, result.stdout + result.stderr
    welcome, ninth = article(book, "book/intro"), article(book, "chapters/09_ninth")
    assert "Section 9.2, Theorem 9.2, Exercise 9.1." in welcome
    assert "Section 2.2, Theorem 2.2, Exercise 2.1." in ninth
    for heading in ("9. Ninth", "9.1. First section", "9.2. Second section", "Theorem 9.1 ", "Exercise 9.1 "):
        assert heading in ninth
    assert page(book, "chapters/09_ninth").title.get_text().startswith("9. Ninth")
    for name in ("book/intro", "book/setup", "chapters/02_second"):
        sidebar = [link.get_text(strip=True) for link in page(book, name).select(".bd-sidenav a")]
        assert [entry for entry in sidebar if entry[0].isdigit()] == expected_chapters


def test_chapters_keep_the_numbers_in_their_names(small_book):
    assert_numbers(small_book, ["2. Second", "9. Ninth"])
    write_chapter(small_book, 5, "Fifth")  # and when only what changed is built again
    assert_numbers(small_book, ["2. Second", "5. Fifth", "9. Ninth"])
    (small_book / "book" / "setup.md").write_text("# setup\n\nChanged.\n")
    assert_numbers(small_book, ["2. Second", "5. Fifth", "9. Ninth"])


def test_anchors_on_a_page_are_unique(small_book):
    assert build(small_book).returncode == 0
    anchors = [tag["id"] for tag in page(small_book, "chapters/09_ninth").article.find_all(id=True)]
    assert len(anchors) == len(set(anchors))


def test_an_unlisted_symbol_stops_the_build(small_book):
    write_chapter(small_book, 9, "Ninth", r"Let $\zeta = 1$.")
    (small_book / "book" / "intro.md").write_text("# Welcome\n")
    result = build(small_book)
    assert result.returncode != 0
    assert r"the symbol \zeta is not in book/symbols.toml" in result.stdout + result.stderr
