"""The tables of chapter 8 as one stored result: features by tasks, words by number, labels, log-partition."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmcourse.experiments import chapter08
from lmcourse.experiments.chapter08 import TASKS, WAYS, Pool, Split, classify, classify_by_words, read, splits
from lmcourse.neural import causal, features

NAME = "chapter08-table"
COMMAND = f"lmcourse results refresh {NAME}"
SEED = 8
INPUTS = {
    "sizes": {"movie": 2400, "amazon": 800, "questions": 800},
    "n_untrained": 400,
    "prompts": [" The capital of France is"],
    "n_for_prompts": 500,
}

Array = NDArray[np.floating[Any]]
Scores = list[float]  # one number for each of ten splits: five to show, five to check
Read = dict[str, features.Features]  # by way

N_WORDS = (1, 2, 4, 8, 12)
WORD_LISTS = {
    "opinions": chapter08.words(
        "good bad great terrible excellent awful wonderful boring brilliant dull perfect worst"
    ),
    "praise only": chapter08.words(
        "good great excellent wonderful brilliant perfect amazing best funny beautiful fun lovely"
    ),
    "blame only": chapter08.words(
        "bad terrible awful boring dull worst horrible poor stupid waste mess weak"
    ),
    "subjects of films": chapter08.words(
        "war love family police music school space history crime death money power"
    ),
    "small words": chapter08.words("the a not very so also one about just all still now"),
}
RANDOM = "random words"
N_LABELS = (20, 60, 200, 600, 1800)
N_DRAWS = 2  # of random words, for each split
N_DIRECTIONS = 32  # whose squares and products enter the quadratic fit


def table(
    *, seed: int, sizes: Mapping[str, int], n_untrained: int, prompts: Sequence[str], n_for_prompts: int
) -> dict[str, Any]:
    """Measure what the chapter shows of the trained model, except the noise ladder.

    Parameters
    ----------
    seed : int
        Of the texts that are drawn, of splits, random words and untrained weights.
    sizes : mapping
        Collection to number of texts.
    n_untrained : int
        How many of them the untrained model reads.
    prompts : sequence of str
        Tried on movies beside the task's own.
    n_for_prompts : int
        On how many texts.

    Returns
    -------
    dict
        Accuracies, each a list over ten splits: five to show, and five more on which the chapter's claims
        have to hold too.
    """
    start = time.perf_counter()
    spent: list[float] = []
    model = causal.load_model()
    untrained = causal.untrained_copy(model, seed)
    accuracy: dict[str, dict[str, dict[str, Scores]]] = {}
    details: dict[str, Any] = {}
    passes: dict[tuple[str, str], tuple[Read, Read]] = {}  # shared by the tasks on one collection
    for name, task in TASKS.items():
        drawn = chapter08.pool(name, sizes[task.collection], seed)
        some = first(drawn, n_untrained)
        if (key := (task.collection, task.prompt)) not in passes:
            passes[key] = (
                read(model, drawn.texts, task.prompt, spent),
                read(untrained, some.texts, task.prompt, spent),
            )
        found, before = passes[key]
        accuracy[name] = {
            "majority": {"alone": majority(drawn, seed)},
            "tfidf": {"alone": tfidf(drawn, seed)},
        }
        for way in WAYS:
            rows = by_feature(model, found[way], drawn, task, seed)
            rows["untrained"] = scores(before[way].hidden, some, seed)
            for feature, row in rows.items():
                accuracy[name].setdefault(feature, {})[way] = row
        if name == "movie":
            details = of_movies(model, drawn, found, seed)
            details["prompts"] = by_prompt(model, first(drawn, n_for_prompts), found, prompts, seed, spent)
    seconds = time.perf_counter() - start + sum(spent)
    return {"accuracy": accuracy, **details, "seconds": seconds}


def first(drawn: Pool, n: int) -> Pool:
    """Return the first n texts of a pool."""
    return Pool(drawn.texts[:n], drawn.labels[:n], drawn.classes)


def by_prompt(
    model: causal.CausalModel, some: Pool, found: Read, prompts: Sequence[str], seed: int, spent: list[float]
) -> dict[str, dict[str, Scores]]:
    """Accuracy on some texts behind no prompt, behind the task's own and behind others."""
    task, n = TASKS["movie"], len(some.texts)
    given = {"": found["alone"], task.prompt: found["prompted"]}
    given = {prompt: features.Features(*(x[:n] for x in whole)) for prompt, whole in given.items()}
    given |= {prompt: read(model, some.texts, prompt, spent)["prompted"] for prompt in prompts}
    return {
        prompt: {
            "hidden": scores(f.hidden, some, seed),
            "task_logits": scores(features.word_logits(model, f, task.words), some, seed),
        }
        for prompt, f in given.items()
    }


def over_splits(
    labels: NDArray[np.int64], seed: int, measure: Callable[[Split, np.random.Generator], float]
) -> Scores:
    """Measure something on five splits to show, and on five more to check."""
    return [
        float(measure(split, np.random.default_rng([seed, part, k])))
        for part in range(2)
        for k, split in enumerate(splits(labels, seed + 1000 * part))
    ]


def right(x: Array, drawn: Pool, split: Split, n_train: int | None = None) -> float:
    """Share of the test part that a logistic regression on the features `x` classifies rightly."""
    return float(np.mean(classify(x, drawn.labels, split, n_train=n_train) == drawn.labels[split.test]))


def scores(x: Array, drawn: Pool, seed: int, n_train: int | None = None) -> Scores:
    """Accuracy of a logistic regression on the features `x`."""
    return over_splits(drawn.labels, seed, lambda split, _: right(x, drawn, split, n_train))


def majority(drawn: Pool, seed: int) -> Scores:
    """Accuracy of the largest class."""

    def measure(split: Split, _: np.random.Generator) -> float:
        return float(np.mean(drawn.labels[split.test] == np.bincount(drawn.labels[split.train]).argmax()))

    return over_splits(drawn.labels, seed, measure)


def tfidf(drawn: Pool, seed: int, n_train: int | None = None) -> Scores:
    """Accuracy of words without a language model."""

    def measure(split: Split, _: np.random.Generator) -> float:
        predicted = classify_by_words(drawn.texts, drawn.labels, split, n_train=n_train)
        return float(np.mean(predicted == drawn.labels[split.test]))

    return over_splits(drawn.labels, seed, measure)


def random_words(
    model: causal.CausalModel, found: features.Features, drawn: Pool, n: int, seed: int
) -> Scores:
    """Accuracy of the logits of n random words: for each split the mean over some draws."""
    usual = chapter08.usual_words(model)

    def measure(split: Split, rng: np.random.Generator) -> float:
        draws = [rng.choice(usual, n, replace=False).tolist() for _ in range(N_DRAWS)]
        return float(
            np.mean([right(features.word_logits(model, found, draw), drawn, split) for draw in draws])
        )

    return over_splits(drawn.labels, seed, measure)


def by_feature(
    model: causal.CausalModel, found: features.Features, drawn: Pool, task: chapter08.Task, seed: int
) -> dict[str, Scores]:
    """Accuracy of each kind of feature."""
    given = {
        "hidden": found.hidden,
        "mean_embedding": found.mean_embedding,
        "projection": found.projection,
        "task_logits": features.word_logits(model, found, task.words),
        "task_probabilities": features.word_probabilities(model, found, task.words),
        "class_logits": features.word_logits(model, found, task.class_words),
    }
    rows = {name: scores(x, drawn, seed) for name, x in given.items()}
    rows["random_logits"] = random_words(model, found, drawn, len(task.words), seed)
    return rows


def of_movies(model: causal.CausalModel, drawn: Pool, found: Read, seed: int) -> dict[str, Any]:
    """Measure what is looked at on one task only."""
    prompted = found["prompted"]
    opinions = features.word_logits(model, prompted, TASKS["movie"].words)
    counts = [n for n in N_LABELS if n <= min(len(split.train) for split in splits(drawn.labels, seed))]
    by_number = {
        name: [scores(features.word_logits(model, prompted, chosen[:n]), drawn, seed) for n in N_WORDS]
        for name, chosen in WORD_LISTS.items()
    }
    by_number[RANDOM] = [random_words(model, prompted, drawn, n, seed) for n in N_WORDS]
    return {
        "pair": {way: by_pair(model, f, drawn) for way, f in found.items()},
        "by_number": by_number,
        "by_labels": {
            "counts": counts,
            "hidden": [scores(prompted.hidden, drawn, seed, n) for n in counts],
            "task_logits": [scores(opinions, drawn, seed, n) for n in counts],
            "tfidf": [tfidf(drawn, seed, n) for n in counts],
        },
        "words": {
            "weight": head_weights(model, prompted, drawn, TASKS["movie"].words),
            "ratio": ratios(model, prompted, drawn, TASKS["movie"].words),
        },
        "log_partition": log_partition(model, prompted, drawn, seed),
    }


def by_pair(model: causal.CausalModel, found: features.Features, drawn: Pool) -> dict[str, float]:
    """Share of reviews that "good" against "bad" classifies rightly, with no training.

    ``likelier`` takes the likelier word; ``usual`` asks if the odds are above their median over the reviews.
    """
    known = drawn.labels >= 0
    good, bad = features.word_logits(model, found, [" good", " bad"])[known].T
    odds, truth = good - bad, drawn.labels[known] == 1
    return {
        "likelier": float(np.mean((odds > 0) == truth)),
        "usual": float(np.mean((odds > np.median(odds)) == truth)),
    }


def head(x: Array, labels: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Return weights and constant of a logistic regression, for features as they are (not standardised)."""
    scaler, fitted = (step for _, step in chapter08.regression(x.shape[1]).fit(x.astype(float), labels).steps)
    weight = np.ravel(fitted.coef_) / scaler.scale_
    return weight, float(np.ravel(fitted.intercept_)[0] - weight @ scaler.mean_)


def head_weights(
    model: causal.CausalModel, found: features.Features, drawn: Pool, chosen: Sequence[str]
) -> dict[str, float]:
    r"""Return the weight `lambda . phi_w` that a head on `Phi p_f` gives to some words.

    Less the mean over all words, in units of their standard deviation.
    """
    known = drawn.labels >= 0
    of_all = model.embeddings.float().numpy() @ head(found.mean_embedding[known], drawn.labels[known])[0]
    some = (of_all[causal.word_ids(model, chosen)] - of_all.mean()) / of_all.std()
    return dict(zip(chosen, some.tolist(), strict=True))


def ratios(
    model: causal.CausalModel, found: features.Features, drawn: Pool, chosen: Sequence[str]
) -> dict[str, float]:
    """Return the log of the mean probability of words after positive reviews over that after others."""
    p = features.word_probabilities(model, found, chosen)
    positive, negative = (p[drawn.labels == label].mean(axis=0) for label in (1, 0))
    return dict(zip(chosen, np.log(positive / negative).tolist(), strict=True))


def log_partition(
    model: causal.CausalModel, found: features.Features, drawn: Pool, seed: int
) -> dict[str, Scores]:
    r"""Fit the log-partition function on one part of the texts and score it on the other.

    `Phi` is centred: `phi_w` less its mean over words. ``linear`` and ``quadratic`` are the R^2 of `log Z`
    from `f`, without and with squares and products of its first principal directions;
    ``mean_from_hidden`` and ``hidden_from_mean`` those of `Phi p_f` from `f` by an affine map, and the
    reverse. ``own`` is the accuracy of a head trained on `Phi p_f`, ``moved`` that of the same head carried
    over to `f` by the affine map, ``at_once`` that of a head trained on `f`.
    """
    centre = model.embeddings.float().numpy().astype(float).mean(axis=0)
    f = found.hidden.astype(float)
    mean = found.mean_embedding - centre
    log_z = (found.log_partition - f @ centre)[:, None]

    def measure(split: Split) -> dict[str, float]:
        x = standardised(f, split)
        directions = np.linalg.svd(f[split.train] - f[split.train].mean(axis=0), full_matrices=False)[2]
        z = standardised(f @ directions[:N_DIRECTIONS].T, split)
        i, j = np.triu_indices(z.shape[1])
        products = standardised(z[:, i] * z[:, j], split)
        known = Split(*(rows[drawn.labels[rows] >= 0] for rows in split))
        weight, bias = head(mean[known.train], drawn.labels[known.train])
        truth = drawn.labels[known.test] == 1
        carried, affine_r2 = affine(x, mean, split)
        return {
            "linear": affine(x, log_z, split)[1],
            "quadratic": affine(np.hstack([x, products]), log_z, split)[1],
            "mean_from_hidden": affine_r2,
            "hidden_from_mean": affine(standardised(mean, split), f, split)[1],
            "own": float(np.mean((mean[known.test] @ weight + bias > 0) == truth)),
            "moved": float(np.mean((carried[known.test] @ weight + bias > 0) == truth)),
            "at_once": right(f, drawn, known),
        }

    everything = np.zeros(len(f), dtype=np.int64)
    parts = [measure(split) for part in range(2) for split in splits(everything, seed + 1000 * part)]
    return {name: [part[name] for part in parts] for name in parts[0]}


def standardised(x: Array, split: Split) -> NDArray[np.float64]:
    """Shift and scale each column to mean 0 and variance 1 on the training part."""
    return np.asarray(
        (x - x[split.train].mean(axis=0)) / np.maximum(x[split.train].std(axis=0), 1e-12), float
    )


def affine(x: Array, y: Array, split: Split) -> tuple[NDArray[np.float64], float]:
    """Predict `y` from `x` by an affine map with a ridge penalty; return it for all texts, and its R^2.

    The map is fitted on the training part, its penalty chosen on a fifth of that. R^2 is the share of the
    variance over the test part, all coordinates of `y` together.
    """
    from sklearn.linear_model import Ridge

    cut = len(split.train) * 4 // 5
    inner = Split(split.train[:cut], split.train[cut:])

    def fit(part: Split, penalty: float) -> tuple[NDArray[np.float64], float]:
        found = Ridge(alpha=penalty, solver="cholesky").fit(x[part.train], y[part.train])
        predicted = np.asarray(found.predict(x)).reshape(y.shape)
        error = np.sum((y - predicted)[part.test] ** 2)
        return predicted, float(1 - error / np.sum((y[part.test] - y[part.train].mean(axis=0)) ** 2))

    best = max((10.0**k for k in range(1, 5)), key=lambda penalty: fit(inner, penalty)[1])
    return fit(split, best)
