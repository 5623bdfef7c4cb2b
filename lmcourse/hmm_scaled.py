"""Forward and backward recursions in plain probabilities: fast, and nearly always exact.

Messages are arrays (n, H), so that one matrix product moves n sequences one position on. Each function writes
its values to `out` and returns `fit` (n,): the log probability of the evidence after each likelihood is
divided by its largest entry. Every number that matters to the result then lies between exp(fit) and 1, so
while `fit` is above `SAFE_FIT`, nothing is lost with what floating point cuts off, near exp(-708). Below
that, a second run with `FLOOR` added to every state at every step decides: it bounds from above what the
first bounds from below, and where they agree, both are right.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lmcourse.hmm_evidence import ScaledEvidence
from lmcourse.hmm_model import HMM

SAFE_FIT = -600.0
FLOOR = 1e-290
EVERY = 4  # positions between two normalisations

Array = NDArray[np.float64]


def log_likelihood(hmm: HMM, seen: ScaledEvidence, out: Array, floor: float) -> Array:
    """Log probability of the evidence, (n,)."""
    _, fit = _forward(hmm, seen, floor, keep=False)
    np.add(fit, seen.log_scale, out=out)
    return fit


def filter_states(hmm: HMM, seen: ScaledEvidence, out: Array, floor: float) -> Array:
    """Law of the state given the evidence up to it, (n, T, H)."""
    predicted, fit = _forward(hmm, seen, floor)
    for t, state in enumerate(predicted):
        state *= seen.at(t)
        np.divide(state, _total(state), out=out[:, t])
    return fit


def smooth_states(hmm: HMM, seen: ScaledEvidence, out: Array, floor: float) -> Array:
    """Law of the state given all evidence, (n, T, H)."""
    predicted, fit = _forward(hmm, seen, floor)
    for t, _, updated in _backward(hmm, seen, predicted, floor):
        np.multiply(predicted[t], updated, out=out[:, t])
    return fit


def masked_conditionals(hmm: HMM, seen: ScaledEvidence, out: Array, floor: float) -> Array:
    """Law of the symbol given all evidence but its own, (n, T, X)."""
    predicted, fit = _forward(hmm, seen, floor)
    for t, message, _ in _backward(hmm, seen, predicted, floor):
        state = predicted[t] * message
        np.divide(state @ hmm.emission, _total(state), out=out[:, t])
    return fit


def initial_posterior(hmm: HMM, seen: ScaledEvidence, out: Array, floor: float) -> Array:
    """Law of the state one position before the first, given all evidence, (n, H)."""
    message = np.ones((seen.n_sequences, hmm.n_states))
    updated = np.empty_like(message)
    back = np.ascontiguousarray(hmm.transition.T)
    fit = np.zeros(seen.n_sequences)
    for t in reversed(range(seen.n_positions)):
        np.multiply(message, seen.at(t), out=updated)
        if t % EVERY == 0:
            total = _total(updated)
            updated /= total
            fit += np.log(np.minimum(total[:, 0], 1))
        np.matmul(updated, back, out=message)
        if floor:
            message += floor
    np.multiply(hmm.initial, message, out=updated)
    total = _total(updated)
    np.divide(updated, total, out=out)
    return np.asarray(fit + np.log(total[:, 0]))


def _forward(hmm: HMM, seen: ScaledEvidence, floor: float, keep: bool = True) -> tuple[Array, Array]:
    """Laws of the state given the evidence before it, up to a factor, (T, n, H) or just the last; `fit`."""
    n, length = seen.n_sequences, seen.n_positions
    predicted = np.empty((length if keep else min(length, 1), n, hmm.n_states))
    predicted[:1] = hmm.initial + floor
    updated = np.empty((n, hmm.n_states))
    fit = np.zeros(n)
    for t in range(length):
        np.multiply(predicted[t if keep else 0], seen.at(t), out=updated)
        if t % EVERY == EVERY - 1 or t == length - 1:
            total = _total(updated)
            updated /= total
            fit += np.log(total[:, 0])
        if t < length - 1:
            following = predicted[t + 1 if keep else 0]
            np.matmul(updated, hmm.transition, out=following)
            if floor:
                following += floor
    return predicted, fit


def _backward(
    hmm: HMM, seen: ScaledEvidence, predicted: Array, floor: float
) -> Iterator[tuple[int, Array, Array]]:
    """Yield, last position first: `t`, the message from after `t`, and the same times the likelihood at `t`.

    The latter times `predicted[t]` sums to one: it is rescaled wherever the forward pass was.
    """
    message = np.ones(predicted.shape[1:])
    updated, state = np.empty_like(message), np.empty_like(message)
    back = np.ascontiguousarray(hmm.transition.T)
    for t in reversed(range(seen.n_positions)):
        np.multiply(message, seen.at(t), out=updated)
        if t % EVERY == EVERY - 1 or t == seen.n_positions - 1:
            np.multiply(predicted[t], updated, out=state)
            updated /= _total(state)
        yield t, message, updated
        np.matmul(updated, back, out=message)
        if floor:
            message += floor


def _total(message: Array) -> Array:
    """Row sums, kept as a column."""
    return np.asarray(message @ np.ones((message.shape[1], 1)))
