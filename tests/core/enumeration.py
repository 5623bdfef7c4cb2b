"""Every question about a hidden Markov model answered by adding up all state paths: the oracle of the tests."""

import itertools

import numpy as np


def joint(initial, transition, likelihoods):
    """All state paths (K, T) and the weight of each, given likelihoods (T, H)."""
    n_positions, n_states = likelihoods.shape
    paths = list(itertools.product(range(n_states), repeat=n_positions))
    weights = []
    for path in paths:
        weight = 1.0
        for t, state in enumerate(path):
            weight *= initial[state] if t == 0 else transition[path[t - 1], state]
            weight *= likelihoods[t, state]
        weights.append(weight)
    return np.array(paths, dtype=int).reshape(len(paths), n_positions), np.array(weights)


def likelihoods(emission, symbols):
    """One row a symbol; ones for a mask (-1)."""
    return np.array([np.ones(len(emission)) if x < 0 else emission[:, x] for x in symbols]).reshape(
        len(symbols), len(emission)
    )


def log_likelihood(initial, transition, seen):
    return np.log(joint(initial, transition, seen)[1].sum())


def state_law(initial, transition, seen, t):
    paths, weights = joint(initial, transition, seen)
    total = np.array([weights[paths[:, t] == h].sum() for h in range(len(initial))])
    return total / total.sum()


def filter_states(initial, transition, seen):
    return np.array([state_law(initial, transition, seen[: t + 1], t) for t in range(len(seen))])


def smooth_states(initial, transition, seen):
    return np.array([state_law(initial, transition, seen, t) for t in range(len(seen))])


def masked_conditionals(initial, transition, emission, seen):
    rows = []
    for t in range(len(seen)):
        others = seen.copy()
        others[t] = 1
        rows.append(state_law(initial, transition, others, t) @ emission)
    return np.array(rows)


def initial_posterior(initial, transition, seen):
    return state_law(initial, transition, np.vstack([np.ones(len(initial)), seen]), 0)
