"""Forward and backward recursions in logarithms: slow, exact however small the probabilities are.

Arguments are log likelihoods (n, T, H); a log probability of minus infinity means zero. Results carry NaN where
the evidence has probability zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmcourse.hmm_model import HMM

Array = NDArray[np.float64]


def log_likelihoods_so_far(hmm: HMM, seen: Array) -> Array:
    """Log probability of the evidence up to each position, (n, T)."""
    return _log_sum(_predicted(hmm, seen) + seen)


def log_likelihood(hmm: HMM, seen: Array) -> Array:
    """Log probability of the evidence, (n,)."""
    return log_likelihoods_so_far(hmm, seen)[:, -1] if seen.shape[1] else np.zeros(seen.shape[0])


def filter_states(hmm: HMM, seen: Array) -> Array:
    """Law of the state given the evidence up to it, (n, T, H)."""
    return _normalised(_predicted(hmm, seen) + seen)


def smooth_states(hmm: HMM, seen: Array) -> Array:
    """Law of the state given all evidence, (n, T, H)."""
    return _normalised(_predicted(hmm, seen) + seen + _message(hmm, seen)[:, 1:])


def masked_conditionals(hmm: HMM, seen: Array) -> Array:
    """Law of the symbol given all evidence but its own, (n, T, X)."""
    return _normalised(_predicted(hmm, seen) + _message(hmm, seen)[:, 1:]) @ hmm.emission


def initial_posterior(hmm: HMM, seen: Array) -> Array:
    """Law of the state one position before the first, given all evidence, (n, H)."""
    return _normalised(_log(hmm.initial) + _message(hmm, seen)[:, 0])


def _predicted(hmm: HMM, seen: Array) -> Array:
    """Log joint probability of each state and the evidence before it, (n, T, H)."""
    out = np.empty_like(seen)
    out[:, :1] = _log(hmm.initial)
    transition = _log(hmm.transition)
    for t in range(1, seen.shape[1]):
        out[:, t] = _log_product(out[:, t - 1] + seen[:, t - 1], transition)
    return out


def _message(hmm: HMM, seen: Array) -> Array:
    """Log probability of the evidence from position t on, given the state at t - 1: (n, T + 1, H)."""
    out = np.zeros((seen.shape[0], seen.shape[1] + 1, hmm.n_states))
    back = _log(hmm.transition).T
    for t in reversed(range(seen.shape[1])):
        out[:, t] = _log_product(out[:, t + 1] + seen[:, t], back)
    return out


def _log_product(vector: Array, matrix: Array) -> Array:
    """Logarithm of exp(vector) @ exp(matrix)."""
    return _log_sum(vector[:, None, :] + matrix.T)


def _log_sum(values: Array) -> Array:
    """Logarithm of the sum of exp(values) over the last axis; minus infinity for a sum of zeros."""
    largest = values.max(axis=-1, keepdims=True)
    largest[np.isneginf(largest)] = 0
    return _log(np.exp(values - largest).sum(axis=-1)) + largest[..., 0]


def _normalised(values: Array) -> Array:
    """exp(values), divided by its sum over the last axis."""
    with np.errstate(invalid="ignore"):
        values = np.exp(values - values.max(axis=-1, keepdims=True))
    return values / values.sum(axis=-1, keepdims=True)


def _log(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(values)
