"""Chapter 8: reviews and questions, classified by what a language model would say next.

The tasks, and the protocol that all numbers of the chapter share: splits whose test parts do not overlap, a
logistic regression whose strength is chosen by cross-validation, intervals that know of the splits.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lmcourse.neural import causal, features
from lmcourse.texts import labelled_texts

WAYS = ("alone", "prompted")
FOLDS = 5
# Inverse strengths of the penalty, on standardised features. A few logits rise and fall together, so what
# tells classes apart is their small differences, and these need large weights.
C_GRID = tuple(10.0**k for k in range(-4, 0))
C_GRID_FEW = tuple(10.0**k for k in range(-2, 3))
FEW = 64
C_GRID_WORDS = (1.0, 10.0, 100.0)

_PRAISE = " good great excellent wonderful perfect amazing best"
_BLAME = " bad terrible awful horrible poor worst"


def words(text: str) -> tuple[str, ...]:
    """Split text into words that carry their leading space, as most tokenizers have them."""
    return tuple(f" {word}" for word in text.split())


@dataclass(frozen=True)
class Task:
    """A classification task as a question about the next word.

    Attributes
    ----------
    collection : str
        Name for `lmcourse.texts.labelled_texts`.
    two : bool
        Whether graded texts are put into two classes, and not five.
    prompt : str
        Appended to each text.
    words : tuple of str
        Task words: those that somebody who knows the task expects next.
    class_words : tuple of str
        Words that name the classes.
    """

    collection: str
    two: bool
    prompt: str
    words: tuple[str, ...]
    class_words: tuple[str, ...]


MOVIE_WORDS = words(_PRAISE + " brilliant funny beautiful" + _BLAME + " boring dull stupid")
TASKS = {
    "movie": Task("movie", True, " This movie is", MOVIE_WORDS, words("positive negative")),
    "amazon": Task(
        "amazon",
        True,
        " This product is",
        words(_PRAISE + " easy reliable comfortable" + _BLAME + " useless cheap broken"),
        words("positive negative"),
    ),
    "grades": Task("movie", False, " This movie is", MOVIE_WORDS, words("positive negative mixed")),
    "questions": Task(
        "questions",
        False,
        " This question is about",
        words(
            "person man woman people company animal food word thing game place country city year date number "
            "amount meaning reason"
        ),
        words("person place number thing description abbreviation"),
    ),
}


@dataclass(frozen=True)
class Size:
    """Everything that a profile changes.

    Attributes
    ----------
    trained : bool
        Whether the page works with the trained model, or with a small one of the same class whose weights
        are random.
    reviews : int
        How many reviews the page reads itself.
    """

    trained: bool
    reviews: int


SIZES = {"smoke": Size(False, 80), "cpu": Size(True, 1200), "gpu": Size(True, 8000)}


def open_model(size: Size, seed: int) -> causal.CausalModel:
    """Load the trained model, or build the small one with random weights from `seed`."""
    if not size.trained:
        return causal.random_tiny_model(seed)
    return causal.load_model(device="cuda" if torch.cuda.is_available() else "cpu")


class Pool(NamedTuple):
    """Texts of a task, drawn once, with their labels."""

    texts: tuple[str, ...]
    labels: NDArray[np.int64]  # (N,), from 0; -1 where a text belongs to no class
    classes: tuple[str, ...]


def pool(task: str, size: int, seed: int) -> Pool:
    """Draw texts of a task.

    Texts of one collection are the same for all tasks on it, so that features can be shared. In two classes
    a graded text of grade 0 has the label -1.

    Raises
    ------
    ValueError
        If there is no such task, or its collection has fewer texts.
    """
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}; there are {', '.join(TASKS)}")
    found = labelled_texts(TASKS[task].collection)
    if not 0 < size <= len(found):
        raise ValueError(f"{size} texts of {found.name!r} were asked for, and there are {len(found)}")
    rows = np.random.default_rng(seed).permutation(len(found))[:size]
    texts = tuple(found.texts[i] for i in rows)
    if TASKS[task].two:
        labels = ((np.sign(np.array(found.scores)[rows]) + 2) // 2).astype(np.int64)
        labels[np.array(found.scores)[rows] == 0] = -1
        return Pool(texts, labels, ("negative", "positive"))
    return Pool(texts, np.array(found.labels)[rows], found.classes)


def read(
    model: causal.CausalModel, texts: Sequence[str], prompt: str, spent: list[float], **options: Any
) -> dict[str, features.Features]:
    """Return features of texts ``"alone"`` and ``"prompted"``, and note what they once cost.

    What the cache saved, the seconds of the pass less those of this call, is appended to `spent`.
    """
    start = time.perf_counter()
    found = features.text_features(model, texts, prompt=prompt, **options)
    assert found.prompted is not None
    spent.append(found.provenance.seconds - (time.perf_counter() - start))
    return dict(zip(WAYS, (found.plain, found.prompted), strict=True))


class Split(NamedTuple):
    """Rows of a pool to learn from and to test on."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]


def splits(labels: NDArray[np.int64], seed: int, n_splits: int = FOLDS) -> list[Split]:
    """Divide the texts that have a label at random: each is tested on once, and learnt from otherwise."""
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(labels >= 0))
    parts = np.array_split(rows, n_splits)
    return [
        Split(np.concatenate([part for j, part in enumerate(parts) if j != i]), parts[i])
        for i in range(n_splits)
    ]


def classify(
    x: Any, labels: NDArray[np.int64], split: Split, *, n_train: int | None = None
) -> NDArray[np.int64]:
    """Predict the labels of the test part by a logistic regression on given features.

    Features are standardised and the regression has an intercept; the strength of its penalty is chosen by
    five-fold cross-validation on the training part, among `C_GRID`, or `C_GRID_FEW` for up to 64 features.

    Parameters
    ----------
    x : array, (N, k)
        Features of all texts.
    labels : array, (N,)
        Of all texts; those of the test part are not looked at.
    split : Split
        Which rows are which.
    n_train : int, optional
        Learn from the first so many of the training part only.

    Returns
    -------
    array, (number of test rows,)
        Predicted labels.
    """
    given, train = np.asarray(x, float), split.train[:n_train]
    fitted = regression(given.shape[1]).fit(given[train], labels[train])
    return np.asarray(fitted.predict(given[split.test]))


def regression(n_features: int) -> Any:
    """Return an unfitted logistic regression with the protocol of `classify`: scaler, then classifier."""
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    grid = C_GRID_FEW if n_features <= FEW else C_GRID
    options: dict[str, Any] = {"Cs": list(grid), "cv": 5, "tol": 1e-3, "max_iter": 500}
    if "use_legacy_attributes" in inspect.signature(LogisticRegressionCV).parameters:  # scikit-learn 1.8
        options |= {"use_legacy_attributes": False, "l1_ratios": (0,)}
    return make_pipeline(StandardScaler(), LogisticRegressionCV(scoring="accuracy", **options))


def classify_by_words(
    texts: Sequence[str], labels: NDArray[np.int64], split: Split, *, n_train: int | None = None
) -> NDArray[np.int64]:
    """Predict the labels of the test part with no language model, by tf-idf and logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    train = split.train[:n_train]
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(tol=1e-3, max_iter=500))
    search = GridSearchCV(model, {"logisticregression__C": list(C_GRID_WORDS)}, cv=5)
    fitted = search.fit([texts[i] for i in train], labels[train])
    return np.asarray(fitted.predict([texts[i] for i in split.test]))


class Interval(NamedTuple):
    """A mean over splits and the half-width of its 95 % interval."""

    mean: float
    error: float


def interval(values: Sequence[float] | NDArray[np.float64]) -> Interval:
    """Return mean and interval of a number measured on each of several splits.

    Parameters
    ----------
    values : sequence of k floats
        An accuracy, or a difference of two on the same split.

    Notes
    -----
    Student's t with the correction of Nadeau and Bengio (2003): the training parts overlap, so the variance
    of the mean is taken as ``(1/k + n_test/n_train)`` of that of the values, and here
    ``n_test/n_train = 1/(k - 1)``.
    """
    from scipy.special import stdtrit

    found = np.asarray(values, float)
    k = len(found)
    if k < 2:
        raise ValueError("an interval needs at least two splits")
    spread = np.std(found, ddof=1) * np.sqrt(1 / k + 1 / (k - 1))
    return Interval(float(found.mean()), float(stdtrit(k - 1, 0.975) * spread))


def usual_words(model: causal.CausalModel) -> tuple[str, ...]:
    """Return the tokens that are a space and four or more plain letters: random words are of these."""
    pieces = (model.tokenizer.decode([i]) for i in range(model.vocabulary_size))
    return tuple(p for p in pieces if p[0:1] == " " and len(p) > 4 and p[1:].isascii() and p[1:].isalpha())
