"""Instances for the bounds on classification: random, adversarial, and counter-examples.

An instance is a corpus law ``contexts``, true laws ``truth``, a ``model``, a task ``law`` over contexts and
labels, a comparator ``v``, and the numbers that the theorems speak of: ``bound``, ``half_range``, ``tau``,
``gamma``, ``eps``, ``second_moment``.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse import language
from lmcourse.theorems.registry import Instance

Array = NDArray[np.float64]


def array(instance: Instance, name: str) -> Array:
    """Return one entry of an instance as an array."""
    return np.asarray(instance[name], dtype=float)


def build(
    contexts: ArrayLike, truth: ArrayLike, model: ArrayLike, law: ArrayLike, v: ArrayLike, **given: Any
) -> Instance:
    """Complete an instance with the numbers that make its hypotheses hold with nothing to spare.

    Parameters
    ----------
    contexts, truth, model, law, v : array_like
        Shapes (S,), (S, V), (S, V), (S, 2) and (V,).
    **given
        Numbers to state in place of the right ones.
    """
    p_language, p, q, joint, weights = (np.asarray(x, dtype=float) for x in (contexts, truth, model, law, v))
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * (np.log(p) - np.log(q)), 0.0).sum(axis=1)
        covered = np.where(joint.sum(axis=1) > 0, p_language / joint.sum(axis=1), np.inf)
    score = p @ weights
    numbers = {
        "bound": np.abs(weights).max(),
        "half_range": (weights.max() - weights.min()) / 2,
        "tau": joint[:, 1] @ np.logaddexp(0, -score) + joint[:, 0] @ np.logaddexp(0, score),
        "gamma": min(1.0, covered.min()),
        "eps": max(0.0, p_language[p_language > 0] @ terms[p_language > 0]),
        "second_moment": joint.sum(axis=1) @ ((p + q) @ weights**2),
    }
    laws = {"contexts": p_language, "truth": p, "model": q, "law": joint, "v": weights}
    return {**laws, **{name: float(value) for name, value in (numbers | given).items()}}


def descend(model: Array, law: Array, bound: float, start: Array) -> tuple[float, Array]:
    """Nearly the best classifier in a box, by a local method that shares nothing with the convex program."""
    from scipy.optimize import minimize

    if bound == 0:
        return float(np.log(2)), np.zeros(model.shape[1])
    scaled = bound * model

    def loss(unit: Array) -> tuple[float, Array]:
        score = scaled @ unit
        value = law[:, 1] @ np.logaddexp(0, -score) + law[:, 0] @ np.logaddexp(0, score)
        pull = law[:, 0] / (1 + np.exp(-np.clip(score, -500, 500)))
        push = law[:, 1] / (1 + np.exp(np.clip(score, -500, 500)))
        return float(value), (pull - push) @ scaled

    limits = [(-1.0, 1.0)] * model.shape[1]
    options = {"ftol": 1e-14, "gtol": 1e-12, "maxiter": 200}
    begin = np.clip(start / bound, -1, 1)
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=limits, options=options)
    return float(found.fun), bound * found.x


def _logit_noise(p: Array, size: float, rng: np.random.Generator) -> Array:
    tilted = p * np.exp(size * rng.standard_normal(p.shape))
    law: Array = tilted / tilted.sum(axis=-1, keepdims=True)
    return law


def _tilted(p: Array, direction: Array) -> Array:
    logits = np.log(np.maximum(p, 1e-300)) + direction
    law = np.exp(logits - logits.max(axis=1, keepdims=True)) * (p > 0)
    tilted: Array = law / law.sum(axis=1, keepdims=True)
    return tilted


def _cover(p_task: Array, rng: np.random.Generator) -> Array:
    """Draw a corpus law that covers the task, from exactly to hardly."""
    gamma = rng.choice([1.0, 10.0 ** rng.uniform(-6, 0)])
    contexts: Array = gamma * p_task + (1 - gamma) * rng.dirichlet(np.ones(len(p_task)))
    contexts /= contexts.sum()
    return contexts


def sample(rng: np.random.Generator) -> Instance:
    """Draw from three kinds: wild laws, errors aligned with the task, and a family near the worst case."""
    kind = rng.choice(3, p=[0.2, 0.4, 0.4])
    if kind == 0:
        lang = language.wild_language(rng, max_contexts=5, max_words=6)
        truth, size = np.array(lang.truth), lang.n_contexts
        law = rng.dirichlet(np.full(2 * size, 10.0 ** rng.uniform(-1, 1))).reshape(size, 2)
        v = 10.0 ** rng.uniform(-2, 4) * rng.uniform(-1, 1, size=lang.n_words)
        model = _tilted(truth, 10.0 ** rng.uniform(-4, 0.5) * rng.standard_normal(truth.shape))
        blur = rng.choice([0.0, 10.0 ** rng.uniform(-6, 0)])
        model = (1 - blur) * model + blur / lang.n_words
        return _settle(build(_cover(law.sum(axis=1), rng), truth, model, law, v), rng)
    # Each label has half of the mass, and an optional last context belongs to the corpus alone.
    pairs, words = int(rng.integers(1, 4)), 2 * int(rng.integers(1, 4))
    y = np.repeat([1.0, -1.0], pairs)[:, None]
    p_task = np.append(np.tile(rng.dirichlet(np.ones(pairs)) / 2, 2), 0.0)
    law = p_task[:, None] * (np.append(y, 1.0)[:, None] == [-1, 1])
    gamma = rng.choice([1.0, 10.0 ** rng.uniform(-5, 0)])
    contexts = gamma * p_task + (1 - gamma) * np.append(np.zeros(2 * pairs), 1.0)
    v = np.resize([1.0, -1.0], words)
    base = np.full((2 * pairs, words), 1 / words)
    if kind == 1:
        v = v * rng.choice([1.0, rng.uniform()], size=words)
        base = rng.dirichlet(np.full(words, 10.0 ** rng.uniform(-1, 1.5)), size=2 * pairs)
    lean, left = 10.0 ** rng.uniform(-3.5, 0.5), rng.uniform()
    truth, model = (np.vstack([_tilted(base, x * lean * y * v), base[:1]]) for x in (1.0, left))
    bound = 10.0 ** rng.uniform(-2, 1.5)
    return _settle(build(contexts, truth, model, law, bound * v), rng)


def _settle(i: Instance, rng: np.random.Generator) -> Instance:
    """Give most instances the best comparator in its box; draw again where nothing is at stake."""
    if rng.random() < 0.8:
        v = descend(array(i, "truth"), array(i, "law"), i["bound"], array(i, "v"))[1]
        i = build(i["contexts"], i["truth"], i["model"], i["law"], v)
    at_stake = np.isfinite([i["tau"], i["eps"]]).all() and i["gamma"] > 1e-9 and i["eps"] > 1e-10
    return i if (at_stake and i["bound"] > 1e-6) or len(i["v"]) == 1 else sample(rng)


def vary(i: Instance, rng: np.random.Generator) -> Instance:
    """Change laws, task and comparator a little."""
    size = 10.0 ** rng.uniform(-3, 0)
    truth = _logit_noise(array(i, "truth"), size * rng.integers(2), rng)
    model = _logit_noise(array(i, "model"), size * rng.integers(2), rng)
    # Towards the truth: small errors are the worst for their size.
    model = model + rng.choice([0.0, rng.uniform(0, 0.9)]) * (truth - model)
    law = array(i, "law") * np.exp(size * rng.integers(2) * rng.standard_normal(array(i, "law").shape))
    contexts = _logit_noise(array(i, "contexts"), size * rng.integers(2), rng)
    stretch = np.exp(size * rng.integers(2) * rng.standard_normal(len(i["v"])) + rng.normal(0, size))
    return _settle(build(contexts, truth, model, law / law.sum(), array(i, "v") * stretch), rng)


def _displace(i: Instance, rng: np.random.Generator) -> Instance:
    """Stretch, shift and turn the comparator: a shift leaves its half-range alone, a wrong one pays most.

    A classifier that is right suffers from a model less sure than the truth; one that is wrong, from a surer.
    """
    truth, model, v = array(i, "truth"), array(i, "model"), 10.0 ** rng.uniform(0, 3) * array(i, "v")
    if rng.random() < 0.5:
        truth, model, v = model, truth, -v
    changed = build(i["contexts"], truth, model, i["law"], v + rng.normal(0, 3))
    at_stake = np.isfinite([changed["tau"], changed["eps"]]).all() and changed["eps"] > 1e-10
    return changed if at_stake and changed["half_range"] > 1e-6 else i


def sample_fixed(rng: np.random.Generator) -> Instance:
    """Draw an instance whose comparator may be any, also a bad one."""
    return _displace(sample(rng), rng)


def vary_fixed(i: Instance, rng: np.random.Generator) -> Instance:
    """Change an instance a little, keeping its comparator but for its size."""
    size = 10.0 ** rng.uniform(-3, 0)
    truth = _logit_noise(array(i, "truth"), size * rng.integers(2), rng)
    model = array(i, "model") + rng.choice([0.0, rng.uniform(0, 0.9)]) * (truth - array(i, "model"))
    v = array(i, "v") * np.exp(
        size * rng.integers(2) * rng.standard_normal(len(i["v"])) + rng.normal(0, size)
    )
    changed = build(i["contexts"], truth, model, i["law"], v)
    at_stake = np.isfinite([changed["tau"], changed["eps"]]).all() and changed["eps"] > 1e-10
    return changed if at_stake and changed["half_range"] > 1e-6 else i


# Counter-examples: each states one number, or one law, that is not so.

APART = np.array([[0.9, 0.1], [0.1, 0.9]])
LABELLED = np.array([[0.0, 0.5], [0.5, 0.0]])
EVEN = np.array([0.5, 0.5])
SIDES = np.array([1.0, -1.0])


def uncovered() -> Instance:
    """Train on restaurants, test on films: the model is perfect on the former only."""
    truth = np.vstack([APART, [[0.5, 0.5]]])
    model = np.full((3, 2), 0.5)
    law = np.vstack([LABELLED, [[0.0, 0.0]]])
    return build([0.0, 0.0, 1.0], truth, model, law, 5 * SIDES, gamma=1.0)


def not_natural() -> Instance:
    """Use sarcasm: the same next words for opposite labels."""
    return build(EVEN, np.full((2, 2), 0.5), np.full((2, 2), 0.5), LABELLED, 5 * SIDES, tau=0.1)


def not_bounded() -> Instance:
    """State a bound much smaller than the comparator."""
    return build(EVEN, APART, APART, LABELLED, 50 * SIDES, bound=0.1)


def not_optimal() -> Instance:
    """Call a model perfect that has learnt nothing."""
    return build(EVEN, APART, np.full((2, 2), 0.5), LABELLED, 5 * SIDES, eps=0.0)


def not_second_moment() -> Instance:
    """State that a classifier's words are rarer than they are."""
    return build(EVEN, APART, np.full((2, 2), 0.5), LABELLED, 5 * SIDES, second_moment=1e-6)


def not_half_range() -> Instance:
    """State that a classifier's weights spread less than they do."""
    return build(EVEN, APART, np.full((2, 2), 0.5), LABELLED, 5 * SIDES, half_range=1e-6)


def not_normalised() -> Instance:
    """Lose half of the mass: a constant classifier, of half-range 0, notices."""
    truth = np.full((1, 2), 0.5)
    return build([1.0], truth, truth / 2, [[0.0, 1.0]], [2.0, 2.0])
