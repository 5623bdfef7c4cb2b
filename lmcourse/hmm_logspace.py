"""Forward and backward recursions in logarithms: slow, exact however small the probabilities are.

`seen` holds log likelihoods (n, T, H), where minus infinity stands for zero. Where the evidence has
probability zero, log probabilities are minus infinity and laws are NaN.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmcourse.hmm_model import HMM

Array = NDArray[np.float64]


def log_likelihood(hmm: HMM, seen: Array) -> Array:
    """Log probability of the evidence, (n,)."""
    return running_log_likelihood(hmm, seen)[:, -1] if seen.shape[1] else np.zeros(seen.shape[0])


def running_log_likelihood(hmm: HMM, seen: Array) -> Array:
    """Log probability of the evidence up to each position, (n, T)."""
    predicted, log_scale = _predicted(hmm, seen)
    return _log_sum(predicted + seen) + log_scale


def filter_states(hmm: HMM, seen: Array) -> Array:
    """Law of the state given the evidence up to it, (n, T, H)."""
    return _normalised(_predicted(hmm, seen)[0] + seen)


def smooth_states(hmm: HMM, seen: Array) -> Array:
    """Law of the state given all evidence, (n, T, H)."""
    return _normalised(_predicted(hmm, seen)[0] + seen + _message(hmm, seen)[:, 1:])


def masked_conditionals(hmm: HMM, seen: Array) -> Array:
    """Law of the symbol given all evidence but its own, (n, T, X)."""
    state = _normalised(_predicted(hmm, seen)[0] + _message(hmm, seen)[:, 1:])
    return np.asarray(state @ hmm.emission)


def initial_posterior(hmm: HMM, seen: Array) -> Array:
    """Law of the state one position before the first, given all evidence, (n, H)."""
    return _normalised(_log(hmm.initial) + _message(hmm, seen)[:, 0])


def _predicted(hmm: HMM, seen: Array) -> tuple[Array, Array]:
    """Log joint probability of each state and the evidence before it, (n, T, H), less a log scale (n, T)."""
    out = np.empty_like(seen)
    log_scale = np.zeros(seen.shape[:2])
    out[:, :1] = _log(hmm.initial)
    transition = _log(hmm.transition)
    for t in range(1, seen.shape[1]):
        updated = out[:, t - 1] + seen[:, t - 1]
        largest = _finite_max(updated)
        out[:, t] = _log_product(updated - largest, transition)
        log_scale[:, t] = log_scale[:, t - 1] + largest[:, 0]
    return out, log_scale


def _message(hmm: HMM, seen: Array) -> Array:
    """Log probability of the evidence from t on given the state at t - 1, up to a scale, (n, T + 1, H)."""
    out = np.zeros((seen.shape[0], seen.shape[1] + 1, hmm.n_states))
    back = _log(hmm.transition).T
    for t in reversed(range(seen.shape[1])):
        updated = out[:, t + 1] + seen[:, t]
        out[:, t] = _log_product(updated - _finite_max(updated), back)
    return out


def _log_product(vector: Array, matrix: Array) -> Array:
    """Logarithm of exp(vector) @ exp(matrix)."""
    return _log_sum(vector[:, None, :] + matrix.T)


def _log_sum(values: Array) -> Array:
    """Logarithm of the sum of exp(values) over the last axis."""
    largest = _finite_max(values)
    return np.asarray(_log(np.exp(values - largest).sum(axis=-1)) + largest[..., 0])


def _normalised(values: Array) -> Array:
    """Divide exp(values) by its sum over the last axis; NaN where that is zero."""
    with np.errstate(invalid="ignore"):
        weights = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _finite_max(values: Array) -> Array:
    """Maximum over the last axis, kept as an axis; 0 where all entries are minus infinity."""
    largest = values.max(axis=-1, keepdims=True)
    largest[np.isneginf(largest)] = 0
    return np.asarray(largest)


def _log(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))
