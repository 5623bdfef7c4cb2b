"""Head tuning: an exact head recovers the hidden state's margin.

The left side runs the model's own inference and the pseudo-inverse; the right side sums over all paths of
hidden states.
"""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmcourse import hmm, tuning
from lmcourse.theorems.registry import Instance, Sides, Theorem

Array = NDArray[np.float64]
EPS = float(np.finfo(float).eps)


def _array(i: Instance, name: str) -> Array:
    return np.asarray(i[name], dtype=float)


def _margins(i: Instance) -> Array:
    """``mu . P[H_0 | x]`` for each sequence, from all paths; ``x_0`` is used if it is not hidden."""
    initial, transition, emission = (_array(i, name) for name in ("initial", "transition", "emission"))
    mu, states = _array(i, "mu"), range(len(initial))
    margins = []
    for first, *rest in np.asarray(i["symbols"], dtype=int).tolist():
        weight = [0.0] * len(initial)
        for path in itertools.product(states, repeat=len(rest) + 1):
            p = initial[path[0]] * (emission[path[0], first] if first >= 0 else 1.0)
            for before, after, symbol in zip(path, path[1:], rest, strict=False):
                p *= transition[before, after] * emission[after, symbol]
            weight[path[0]] += p
        margins.append(sum(m * w for m, w in zip(mu, weight, strict=True)) / sum(weight))
    return np.array(margins)


def _scores(i: Instance, head: Array) -> Array:
    """``b . G_0(x)`` for each sequence, from the model's masked conditionals."""
    model = hmm.HMM(_array(i, "model_initial"), _array(i, "transition"), _array(i, "emission"))
    predictions = hmm.masked_conditionals(model, np.asarray(i["symbols"], dtype=int))[:, 0]
    scores: Array = predictions @ head
    return scores


def _sides(i: Instance, *, transposed: bool = False) -> Sides:
    emission, mu = _array(i, "emission"), _array(i, "mu")
    head = emission.T @ mu if transposed else tuning.exact_head(emission, mu)
    # A pseudo-inverse is accurate to rounding times its condition number, relative to |mu| / sigma_min; the
    # latter is capped, so that the tolerance means something where there is no inverse.
    spread = np.linalg.svd(emission, compute_uv=False)
    smallest = max(float(spread[-1]), 1e-5 * float(spread[0]))
    tolerance = 16 * EPS * sum(emission.shape) * np.linalg.norm(mu) * spread[0] / smallest**2
    return Sides(_scores(i, head), _margins(i), tolerance)


def _sample(rng: np.random.Generator) -> Instance:
    n_states = int(rng.integers(1, 5))
    n_symbols = n_states + int(rng.integers(0, 4))
    sharpness = 10.0 ** rng.uniform(-1, 1, size=3)
    initial = rng.dirichlet(np.full(n_states, sharpness[0]))
    emission = rng.dirichlet(np.full(n_symbols, sharpness[1]), size=n_states)
    instance: dict[str, Any] = {
        "initial": initial,
        "model_initial": initial,
        "transition": rng.dirichlet(np.full(n_states, sharpness[2]), size=n_states),
        "emission": emission,
        "mu": rng.standard_normal(n_states),
    }
    model = hmm.HMM(initial, instance["transition"], emission)
    symbols = hmm.sample(model, 8, 4, rng).symbols
    symbols[:, 0] = hmm.MASK
    instance["symbols"] = symbols
    return instance if _independent(instance) else _sample(rng)


def _independent(i: Instance) -> bool:
    emission = _array(i, "emission")
    spread = np.linalg.svd(emission, compute_uv=False)
    return bool(emission.shape[0] <= emission.shape[1] and spread[-1] > 1e-5 * spread[0])


def _same_prior(i: Instance) -> bool:
    return bool(np.array_equal(_array(i, "initial"), _array(i, "model_initial")))


def _hidden(i: Instance) -> bool:
    return bool(np.all(np.asarray(i["symbols"])[:, 0] == hmm.MASK))


def _example() -> dict[str, object]:
    return {
        "initial": np.array([0.5, 0.5]),
        "model_initial": np.array([0.5, 0.5]),
        "transition": np.array([[0.8, 0.2], [0.3, 0.7]]),
        "emission": np.array([[0.7, 0.3], [0.2, 0.8]]),
        "mu": np.array([1.0, -1.0]),
        "symbols": np.array([[hmm.MASK, 0, 1], [hmm.MASK, 1, 1]]),
    }


def _look_alike() -> Instance:
    model, mu = tuning.three_state_counterexample()
    return {
        "initial": model.initial,
        "model_initial": model.initial,
        "transition": model.transition,
        "emission": model.emission,
        "mu": mu,
        "symbols": np.array([[hmm.MASK, 0, 0], [hmm.MASK, 1, 1]]),
    }


HEAD_TUNING = Theorem(
    name="head-tuning",
    label="thm-head-tuning",
    statement="if W has independent columns, b = pinv(W)^T mu gives b.G_0(x) = mu.P[H_0 | x]",
    hypotheses={"independent_columns": _independent, "same_prior": _same_prior, "token_hidden": _hidden},
    sample=_sample,
    sides=_sides,
    counterexamples={
        "independent_columns": _look_alike,
        "same_prior": lambda: {**_example(), "model_initial": np.array([0.9, 0.1])},
        "token_hidden": lambda: {**_example(), "symbols": np.array([[0, 0, 1], [1, 1, 1]])},
    },
    perturbations={"transpose in place of the inverse": lambda i: _sides(i, transposed=True)},
    identity=True,
)

THEOREMS = (HEAD_TUNING,)
