"""The table of theorems: numbers, links, uses and outcomes; a false theorem stops the strict build."""

import re

import pytest
from tiny import TinyCourse

CHAPTER = """# First

```{prf:theorem} Gibbs
:label: thm-gibbs

A statement.
```

## More

```{prf:lemma} Needs it
:label: lem-needs-it

Another statement.
```

```{prf:proof}
By {prf:ref}`thm-gibbs`.
```
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    course = TinyCourse(tmp_path_factory.mktemp("theorems"))
    course.add("03_first", CHAPTER, "assert True")
    course.add("05_second", "# Second\n\nRecall {prf:ref}`thm-gibbs`.", "assert True")
    toc = course.folder / "book" / "_toc.yml"
    toc.write_text(toc.read_text() + "  - chapters:\n      - file: book/theorems\n")
    (course.folder / "book" / "theorems.md").write_text("# Theorems\n\n```{theorem-table}\n```\n")
    result = course.build()
    assert result.returncode == 0, result.stdout + result.stderr
    return course


def rows(course):
    page = (course.folder / "_build" / "html" / "book" / "theorems.html").read_text(encoding="utf-8")
    body = page[page.index("<tbody") : page.index("</tbody")]
    return [re.findall(r"<td.*?</td>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]


def text(cell):
    return " ".join(re.sub(r"<[^>]+>", " ", cell).split())


def test_a_statement_of_the_book_is_linked_numbered_and_checked(course):
    statement, checker, hypotheses, outcome, users = rows(course)[0]
    assert 'href="../chapters/03_first.html#thm-gibbs"' in statement
    assert text(statement) == "Theorem 3.1 Gibbs"
    assert text(checker) == "gibbs"
    assert text(hypotheses)
    assert re.match(r"holds on \d+ instances; worst ratio \S+; \d+% informative", text(outcome))
    assert text(users) == "Lemma 3.1 , Second"


def test_a_statement_without_checker_says_where_it_is_checked(course):
    [row] = [row for row in rows(course) if "lem-needs-it" in row[0]]
    assert [text(cell) for cell in row[:2]] == ["Lemma 3.1 Needs it", "its chapter’s cells"]


def test_every_registered_theorem_is_there(course):
    from lmcourse import theorems

    assert {text(row[1]) for row in rows(course)} >= set(theorems.names())


def test_a_false_theorem_stops_the_strict_build(course):
    path = course.folder / "lmcourse" / "theorems" / "__init__.py"
    false = '_ALL["gibbs"] = _ALL["gibbs"].perturbed(next(iter(_ALL["gibbs"].perturbations)))\n'
    path.write_text(path.read_text().replace("def names()", false + "\n\ndef names()"))
    result = course.build()
    assert result.returncode != 0
    assert "the check of gibbs fails" in result.stderr
