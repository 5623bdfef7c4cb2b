"""Labelled texts for classification: graded sentences from reviews, and questions by kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from lmcourse import data

TWO = ("negative", "positive")
FIVE = ("very negative", "negative", "mixed", "positive", "very positive")
KINDS = {
    "ABBR": "abbreviation",
    "DESC": "description",
    "ENTY": "entity",
    "HUM": "person",
    "LOC": "place",
    "NUM": "number",
}


@dataclass(frozen=True)
class LabelledTexts:
    """Texts without repetitions, each with a class, and where they come from.

    Attributes
    ----------
    name
        Of the collection.
    texts
        N of them.
    labels
        For each text the index of its class.
    classes
        Names of the classes.
    scores
        For graded texts the mean of the raters' grades, from -4 to 4; empty for others.
    source, licence
        Of the texts.
    """

    name: str
    texts: tuple[str, ...]
    labels: tuple[int, ...]
    classes: tuple[str, ...]
    scores: tuple[float, ...]
    source: str
    licence: str

    def __len__(self) -> int:
        return len(self.texts)

    def two_classes(self) -> LabelledTexts:
        """Return graded texts as negative (0) and positive (1), without those of grade 0 exactly.

        Raises
        ------
        ValueError
            If the texts are not graded.
        """
        if not self.scores:
            raise ValueError(f"{self.name} has classes of its own ({', '.join(self.classes)}) and no grades")
        kept = [i for i, score in enumerate(self.scores) if score != 0]
        return replace(
            self,
            texts=tuple(self.texts[i] for i in kept),
            scores=tuple(self.scores[i] for i in kept),
            labels=tuple(int(self.scores[i] > 0) for i in kept),
            classes=TWO,
        )


def labelled_texts(name: str) -> LabelledTexts:
    """Read one of the collections that `lmcourse.data` fetches.

    Parameters
    ----------
    name
        ``"movie"`` or ``"amazon"``: graded sentences, in five classes that are equal parts of the scale from
        -4 to 4 (see also `LabelledTexts.two_classes`); ``"questions"``: six kinds.

    Raises
    ------
    ValueError
        If there is no collection of that name.
    lmcourse.data.DataError
        If it has not been fetched, or is damaged.

    Notes
    -----
    Texts that differ in case, spaces and punctuation only count as one: the first is kept. Texts without a
    letter are left out.
    """
    try:
        package, file, read = _COLLECTIONS[name]
    except KeyError:
        raise ValueError(f"there are no texts {name!r}; there are {', '.join(_COLLECTIONS)}") from None
    texts, values = _distinct(read(data.path(package, file)))
    pinned = data.package(package)
    scores: tuple[float, ...] = ()
    if package == "questions":
        labels, classes = tuple(list(KINDS).index(value) for value in values), tuple(KINDS.values())
    else:
        scores = tuple(float(value) for value in values)
        labels, classes = tuple(min(4, int((score + 4) / 1.6 + 1e-9)) for score in scores), FIVE
    return LabelledTexts(name, texts, labels, classes, scores, pinned.source, pinned.licence)


Rows = Iterable[tuple[str, str]]


def _read_graded(path: Path) -> Rows:
    """Yield text and grade from lines of identifier, grade and text, with tabs between."""
    for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        _, grade, text = line.split("\t")
        yield text, grade


def _read_questions(path: Path) -> Rows:
    """Yield text and kind from lines such as ``LOC:city What is the capital of Peru ?``."""
    for line in path.read_text(encoding="utf-8").rstrip("\n").split("\n"):
        label, _, text = line.partition(" ")
        yield text, label.partition(":")[0]


_COLLECTIONS: dict[str, tuple[str, str, Callable[[Path], Rows]]] = {
    "movie": ("reviews", "movieReviewSnippets_GroundTruth.txt", _read_graded),
    "amazon": ("reviews", "amazonReviewSnippets_GroundTruth.txt", _read_graded),
    "questions": ("questions", "question_labels.txt", _read_questions),
}


def _distinct(rows: Rows) -> tuple[tuple[str, ...], tuple[str, ...]]:
    found: dict[str, tuple[str, str]] = {}
    for text, value in rows:
        key = " ".join(re.findall(r"\w+", text.casefold()))
        if re.search(r"[^\W\d_]", text):
            found.setdefault(key, (text.strip(), value))
    texts, values = zip(*found.values(), strict=True)
    return texts, values
