"""Moment matching and Pythagoras' identity for softmax laws.

One side looks only at values of the cross-entropy, written out here and minimised with difference quotients;
the other uses the moments, through `lmcourse.softmax`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lmcourse import softmax
from lmcourse.theorems.registry import Instance, Sides, Theorem

Array = NDArray[np.float64]

# A search by difference quotients of step 1e-8 finds a minimum to about 1e-8 in the gradient, less if flat.
MOMENT_TOLERANCE = 2e-5
VALUE_TOLERANCE = 1e-6


def _array(i: Instance, name: str) -> Array:
    return np.asarray(i[name], dtype=float)


def _cross_entropy(p: Array, phi: Array, allowed: Array) -> Callable[[Array], float]:
    """Cross-entropy of ``p`` and a softmax law as a function of ``theta``; words count as allowed."""

    def value(theta: Array) -> float:
        logits = theta @ phi
        top = logits.max()
        return float(top + np.log((allowed * np.exp(logits - top)).sum()) - p @ logits)

    return value


def _search(i: Instance) -> tuple[Array, float]:
    """Smallest cross-entropy within the radius, and where, from values alone."""
    from scipy.optimize import minimize

    value = _cross_entropy(_array(i, "truth"), _array(i, "phi"), _array(i, "allowed"))
    start = np.zeros(len(_array(i, "phi")))
    best = minimize(value, start, method="BFGS", options={"gtol": 1e-8})
    for _ in range(3):
        again = minimize(value, best.x, method="BFGS", options={"gtol": 1e-8})
        if again.fun >= best.fun - 1e-14:
            break
        best = again
    theta = np.asarray(best.x, dtype=float)
    length = float(np.linalg.norm(theta))
    if length > i["radius"]:
        theta = theta * (i["radius"] / length)
        ball = {"type": "ineq", "fun": lambda t: i["radius"] ** 2 - t @ t}
        theta = minimize(value, theta, method="SLSQP", constraints=[ball]).x
    return theta, value(theta)


def _sample(rng: np.random.Generator) -> Instance:
    words = int(rng.integers(1, 7))
    d = int(rng.integers(1, 4))
    truth = rng.dirichlet(np.full(words, 10.0 ** rng.uniform(-0.3, 1.5)))
    truth = np.maximum(truth, 1e-3)
    if words > 2 and rng.random() < 0.2:
        truth[rng.integers(words)] = 0
    truth /= truth.sum()
    phi = rng.standard_normal((d, words))
    model = np.exp(rng.standard_normal(d) @ phi)
    return {
        "truth": truth,
        "phi": phi,
        "model": model / model.sum(),
        "allowed": np.ones(words),
        "radius": 1e6,
    }


def _free(i: Instance) -> bool:
    return bool(i["radius"] >= 1e6)


def _all_words(i: Instance) -> bool:
    return bool(np.all(_array(i, "allowed") == 1))


def _softmax_model(i: Instance) -> bool:
    """Whether ``log model`` is a combination of the rows of ``Phi`` and a constant."""
    logs = np.log(_array(i, "model"))
    rows = np.vstack([_array(i, "phi"), np.ones(len(logs))])
    return bool(np.abs(logs - np.linalg.lstsq(rows.T, logs, rcond=None)[0] @ rows).max() < 1e-9)


def _moments(i: Instance, *, blur: float = 0.0) -> Sides:
    """Moments and cross-entropy of the best law: found from values alone, and as the theorem says."""
    truth, phi = _array(i, "truth"), _array(i, "phi")
    theta, least = _search(i)
    weights = _array(i, "allowed") * np.exp(theta @ phi - (theta @ phi).max())
    target = (1 - blur) * truth + blur / len(truth)
    law = softmax.fit_softmax_law(target, phi).law
    used = truth > 0
    predicted = -(truth[used] @ np.log(np.maximum(law[used], 1e-300)))
    left = np.append(phi @ (weights / weights.sum()), least)
    right = np.append(softmax.conditional_mean_features(target, phi), predicted)
    size = 1 + np.abs(phi).max()
    return Sides(left, right, np.append(np.full(len(phi), MOMENT_TOLERANCE * size), VALUE_TOLERANCE * size))


def _without(i: Instance, **changes: object) -> Instance:
    return {**i, **changes}


def _example() -> Instance:
    phi = np.array([[0.0, 1.0, 3.0], [1.0, 0.0, 1.0]])
    model = np.exp(np.array([0.5, -0.3]) @ phi)
    return {
        "truth": np.array([0.2, 0.5, 0.3]),
        "phi": phi,
        "model": model / model.sum(),
        "allowed": np.ones(3),
        "radius": 1e6,
    }


MOMENT_MATCHING = Theorem(
    name="moment-matching",
    label="thm-moment-matching",
    statement="the best softmax law p_f* has Phi p_f* = Phi p*, and its cross-entropy is the infimum",
    hypotheses={"free_context_vector": _free, "partition_over_all_words": _all_words},
    sample=_sample,
    sides=_moments,
    counterexamples={
        "free_context_vector": lambda: _without(_example(), radius=0.1),
        "partition_over_all_words": lambda: _without(_example(), allowed=np.array([1.0, 1.0, 0.5])),
    },
    perturbations={"moments of a law blurred by one part in fifty": lambda i: _moments(i, blur=0.02)},
    identity=True,
)


def _pythagoras(i: Instance, *, swapped: bool = False) -> Sides:
    truth, phi, model = _array(i, "truth"), _array(i, "phi"), _array(i, "model")
    excess = -(truth @ np.log(model)) - _search(i)[1]
    best = softmax.fit_softmax_law(truth, phi).law
    first, second = (model, np.maximum(best, 1e-300)) if swapped else (best, model)
    used = first > 0
    divergence = first[used] @ (np.log(first[used]) - np.log(second[used]))
    return Sides(excess, divergence, VALUE_TOLERANCE * (1 + np.abs(phi).max()))


PYTHAGORAS = Theorem(
    name="pythagoras",
    label="thm-pythagoras",
    statement="xent(theta) - inf xent = KL(p_f* || p_theta), attained or not",
    hypotheses={
        "free_context_vector": _free,
        "partition_over_all_words": _all_words,
        "model_is_softmax_with_these_vectors": _softmax_model,
    },
    sample=_sample,
    sides=_pythagoras,
    counterexamples={
        "free_context_vector": lambda: _without(_example(), radius=0.1),
        "partition_over_all_words": lambda: _without(_example(), allowed=np.array([1.0, 1.0, 0.5])),
        "model_is_softmax_with_these_vectors": lambda: {
            "truth": np.array([0.2, 0.5, 0.3]),
            "phi": np.array([[0.0, 1.0, 3.0]]),
            "model": np.array([0.6, 0.1, 0.3]),
            "allowed": np.ones(3),
            "radius": 1e6,
        },
    },
    perturbations={"divergence the other way round": lambda i: _pythagoras(i, swapped=True)},
    identity=True,
)

THEOREMS = (MOMENT_MATCHING, PYTHAGORAS)
