"""Gibbs' inequality, as the identity behind it, and Pinsker's inequality."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from lmcourse.theorems.registry import Instance, Sides, Theorem

Array = NDArray[np.float64]
EPS = float(np.finfo(float).eps)


def _draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Laws between almost deterministic and almost uniform, without zeros."""
    law = rng.dirichlet(np.full(shape[-1], 10.0 ** rng.uniform(-1.5, 2)), size=shape[:-1])
    law = np.maximum(law, 1e-300)
    normalised: Array = law / law.sum(axis=-1, keepdims=True)
    return normalised


def _get(instance: Instance, *names: str) -> list[Array]:
    return [np.asarray(instance[name], dtype=float) for name in names]


def _sums_to_one(name: str) -> Callable[[Instance], bool]:
    """Make the predicate that the rows of an array of the instance sum to one."""
    return lambda i: bool(np.allclose(np.asarray(i[name]).sum(axis=-1), 1, rtol=0, atol=1e-9))


def _sample_gibbs(rng: np.random.Generator) -> Instance:
    shape = (int(rng.integers(1, 6)), int(rng.integers(1, 8)))
    truth, other = _draw(rng, shape), _draw(rng, shape)
    model = truth + 10.0 ** rng.uniform(-6, 0) * (other - truth)
    return {"contexts": _draw(rng, shape[:1]), "truth": truth, "drawn_from": truth, "model": model}


def _gibbs(instance: Instance, *, gaps: bool = True) -> Sides:
    contexts, truth, drawn_from, model = _get(instance, "contexts", "truth", "drawn_from", "model")
    model_loss = sum(
        w * p * -np.log(q)
        for w, ps, qs in zip(contexts, drawn_from, model, strict=True)
        for p, q in zip(ps, qs, strict=True)
        if p > 0
    )
    true_loss = sum(
        w * p * -np.log(q)
        for w, ps, qs in zip(contexts, drawn_from, truth, strict=True)
        for p, q in zip(ps, qs, strict=True)
        if p > 0
    )
    change = np.log(model) - np.log(truth)
    terms = truth * (np.expm1(change) - change) if gaps else -truth * np.expm1(change)
    # Each of the S V terms of a sum carries a few rounding errors of its own size; laws sum to 1 + O(V eps).
    tolerance = 8 * EPS * (truth.size + 2) * (1 + abs(model_loss) + abs(true_loss))
    return Sides(model_loss - true_loss, contexts @ terms.sum(axis=1), tolerance)


GIBBS = Theorem(
    name="gibbs",
    label="thm-gibbs",
    statement="xent(p) - xent(p*) = E_{p_L} KL(p* || p), a sum of terms that are at least 0",
    hypotheses={
        "model_normalised": _sums_to_one("model"),
        "words_drawn_from_truth": lambda i: bool(np.array_equal(i["drawn_from"], i["truth"])),
    },
    sample=_sample_gibbs,
    sides=_gibbs,
    counterexamples={
        "model_normalised": lambda: {
            "contexts": [1.0], "truth": [[0.5, 0.5]], "drawn_from": [[0.5, 0.5]], "model": [[1.0, 1.0]],
        },
        "words_drawn_from_truth": lambda: {
            "contexts": [1.0], "truth": [[0.5, 0.5]], "drawn_from": [[0.9, 0.1]], "model": [[0.9, 0.1]],
        },
    },
    perturbations={"divergence without its logarithm": lambda i: _gibbs(i, gaps=False)},
    identity=True,
)  # fmt: skip


def _sample_pinsker(rng: np.random.Generator) -> Instance:
    size = int(rng.integers(1, 8))
    q = _draw(rng, (size,)) if rng.random() < 0.5 else np.full(size, 1 / size)
    other = _draw(rng, (size,))
    p = q + 10.0 ** rng.uniform(-3, 0) * (other - q)
    return {"p": p, "q": q}


def _vary_pinsker(instance: Instance, rng: np.random.Generator) -> Instance:
    p, q = _get(instance, "p", "q")
    size = 10.0 ** rng.uniform(-2, 0)
    p, q = (x * np.exp(size * rng.standard_normal(x.shape)) for x in (p, q))
    p, q = p / p.sum(), q / q.sum()
    return {"p": q + rng.uniform(0.5, 1) * (p - q), "q": q}


def _pinsker(instance: Instance, factor: float = 2.0) -> Sides:
    p, q = _get(instance, "p", "q")
    distance = sum(abs(a - b) for a, b in zip(p, q, strict=True))
    # The terms of the divergence are of the size of the distance and cancel: this is their rounding.
    return Sides(distance**2, factor * rel_entr(p, q).sum(), 4 * EPS * (len(p) + distance))


PINSKER = Theorem(
    name="pinsker",
    label="thm-pinsker",
    statement="|p - q|_1^2 <= 2 KL(p || q)",
    hypotheses={"first_is_a_law": _sums_to_one("p"), "second_is_a_law": _sums_to_one("q")},
    sample=_sample_pinsker,
    vary=_vary_pinsker,
    sides=_pinsker,
    counterexamples={
        "first_is_a_law": lambda: {"p": [0.1, 0.1], "q": [0.5, 0.5]},
        "second_is_a_law": lambda: {"p": [0.5, 0.5], "q": [0.6, 0.6]},
    },
    perturbations={"1.9 in place of 2": lambda i: _pinsker(i, 1.9)},
)

THEOREMS = (GIBBS, PINSKER)
