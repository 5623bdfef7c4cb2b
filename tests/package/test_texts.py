"""Labelled texts: read, cleaned of repetitions, put into classes. On invented files, and on the real ones."""

from collections import Counter

import pytest

from lmcourse import data, texts

GRADED = (
    "1\t2.5\tRather  good. \r\n2\t-2.4\tBad\r\n3\t1.0\trather good\r\n4\t0\tAn hour\r\n"
    "5\t4\tThe best!\r\n6\t1\t!?\r\n"
)
QUESTIONS = "LOC:city Where is it ?\nHUM:ind Who was she ?\nLOC:other where is it?\nNUM:date When ?\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "graded").write_bytes(GRADED.encode())
    (tmp_path / "questions").write_text(QUESTIONS, encoding="utf-8")
    monkeypatch.setattr(data, "path", lambda name, _: tmp_path / ("graded" if name == "reviews" else name))


def test_graded_texts(files):
    found = texts.labelled_texts("movie")
    assert found.texts == ("Rather  good.", "Bad", "An hour", "The best!")
    assert found.scores == (2.5, -2.4, 0, 4)
    assert [found.classes[i] for i in found.labels] == ["very positive", "negative", "mixed", "very positive"]
    two = found.two_classes()
    assert two.texts == ("Rather  good.", "Bad", "The best!")
    assert [two.classes[i] for i in two.labels] == ["positive", "negative", "positive"]
    assert two.scores == (2.5, -2.4, 4)


def test_questions(files):
    found = texts.labelled_texts("questions")
    assert found.texts == ("Where is it ?", "Who was she ?", "When ?")
    assert [found.classes[i] for i in found.labels] == ["place", "person", "number"]
    with pytest.raises(ValueError, match="no grades"):
        found.two_classes()


def test_unknown_name():
    with pytest.raises(ValueError, match="there are movie, amazon, questions"):
        texts.labelled_texts("news")


def test_not_fetched(monkeypatch, tmp_path):
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path))
    with pytest.raises(data.DataError, match="run lmcourse data fetch reviews"):
        texts.labelled_texts("movie")


@pytest.mark.parametrize(
    ("name", "package", "size", "classes"),
    [("movie", "reviews", 10603, 5), ("amazon", "reviews", 3687, 5), ("questions", "questions", 5376, 6)],
)
def test_the_real_ones(name, package, size, classes):
    """Counted once with other tools: 10,605 and 3,708 sentences, 15,452 questions, before cleaning."""
    if data.problems(package):
        pytest.skip(f"lmcourse data fetch {package} first")
    found = texts.labelled_texts(name)
    assert len(found) == len(set(found.texts)) == size
    assert set(Counter(found.labels)) == set(range(classes))
