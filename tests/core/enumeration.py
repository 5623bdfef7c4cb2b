"""Every question about a hidden Markov model answered by adding up all state paths: the oracle of the tests.

Works on arrays of floats, and on arrays of `fractions.Fraction`, exactly, however small the numbers are.
"""

import itertools
import math
from fractions import Fraction

import numpy as np


def exactly(values):
    """The same numbers as fractions."""
    return np.vectorize(Fraction, otypes=[object])(values)


def likelihoods(emission, symbols):
    """One row (H,) a symbol; ones for a mask (-1)."""
    return np.array([emission[:, x] if x >= 0 else 0 * emission[:, 0] + 1 for x in symbols])


def joint(initial, transition, seen):
    """All state paths (K, T), and the weight of each under likelihoods `seen` (T, H)."""
    paths = list(itertools.product(range(len(initial)), repeat=len(seen)))
    weights = []
    for path in paths:
        weight = initial[path[0]] * seen[0, path[0]]
        for t in range(1, len(path)):
            weight *= transition[path[t - 1], path[t]] * seen[t, path[t]]
        weights.append(weight)
    return np.array(paths), np.array(weights)


def log_likelihood(initial, transition, seen):
    total = Fraction(joint(initial, transition, seen)[1].sum())
    if not total:
        return -math.inf
    power = total.numerator.bit_length() - total.denominator.bit_length()
    return math.log(total / Fraction(2) ** power) + power * math.log(2)


def state_law(initial, transition, seen, t):
    paths, weights = joint(initial, transition, seen)
    mass = np.array([weights[paths[:, t] == h].sum() for h in range(len(initial))])
    return mass / mass.sum()


def filter_states(initial, transition, seen):
    return np.array([state_law(initial, transition, seen[: t + 1], t) for t in range(len(seen))], dtype=float)


def smooth_states(initial, transition, seen):
    return np.array([state_law(initial, transition, seen, t) for t in range(len(seen))], dtype=float)


def masked_conditionals(initial, transition, emission, seen):
    rows = []
    for t in range(len(seen)):
        others = seen.copy()
        others[t] = 0 * others[t] + 1
        rows.append(state_law(initial, transition, others, t) @ emission)
    return np.array(rows, dtype=float)


def initial_posterior(initial, transition, seen):
    prepended = np.vstack([0 * seen[:1] + 1, seen])
    return state_law(initial, transition, prepended, 0).astype(float)
