"""Forward and backward recursions in plain probabilities, many sequences at once: fast, and rarely not enough.

Messages are arrays (n, H), so that a step of the recursion is one matrix product. Each function writes its values to
`out` and returns `fit` (n,): the log probability of the evidence when every likelihood is divided by its largest entry.
As all numbers in hand stay between `exp(fit)` and 1 wherever they matter, what the smallest floating-point number
(about exp(-708)) cuts off cannot be felt while `fit` is above `SAFE_FIT`. Below it, a second run with `FLOOR` added
to every state at every step tells: if the values are the same, nothing that small mattered.
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
    for t, message in enumerate(predicted):
        message *= seen.at(t)
        np.divide(message, _total(message), out=out[:, t])
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
    message = np.ones((seen.log_scale.size, hmm.n_states))
    updated = np.empty_like(message)
    back = np.ascontiguousarray(hmm.transition.T)
    fit = np.zeros(seen.log_scale.size)
    for t in reversed(range(seen.n_positions)):
        np.multiply(message, seen.at(t), out=updated)
        if t % EVERY == 0:
            total = _total(updated) / hmm.n_states
            updated /= total
            fit += np.log(total[:, 0])
        np.matmul(updated, back, out=message)
        if floor:
            message += floor
    state = hmm.initial * message
    total = _total(state)
    np.divide(state, total, out=out)
    return fit + np.log(total[:, 0])


def _forward(hmm: HMM, seen: ScaledEvidence, floor: float, keep: bool = True) -> tuple[Array, Array]:
    """Predictions of the state from the evidence before it, up to a factor: (T, n, H) if kept."""
    n, length = seen.log_scale.size, seen.n_positions
    predicted = np.empty((length if keep else min(length, 1), n, hmm.n_states))
    updated = np.empty((n, hmm.n_states))
    fit = np.zeros(n)
    predicted[:1] = hmm.initial + floor
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
    """Yield `t`, the message from after `t`, and it times the likelihood at `t`, last position first.

    The message is scaled so that the second times `predicted[t]` sums to one.
    """
    message = np.ones(predicted.shape[1:])
    updated = np.empty_like(message)
    state = np.empty_like(message)
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
    """Row sums, as a column."""
    return message @ np.ones((message.shape[1], 1))
