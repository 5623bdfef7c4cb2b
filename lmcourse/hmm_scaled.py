"""Forward and backward recursions in plain probabilities: fast, and they know where they are exact.

Messages are arrays (n, H), so that one matrix product moves n sequences one position on. Each function writes
its values to `out` and returns `sure` (n,): whether they are right up to rounding. All terms are
non-negative, so rounding is harmless; only underflow loses digits. A product that underflows is wrong by less
than `d`, the smallest normal number, 2e-308. There are two ways to know that this does not matter.

* The fit: the probability of the evidence, each likelihood divided by its largest entry, is above
  exp(`SAFE_FIT`) = 1e-261. Every factor is at most one, so T positions lose no more than about T H^2 d of it.
  The sums that laws are divided by are no smaller than it, and lose no more.
* The bound (`bounded`): each sequence stands in two rows, both divided by the sums of the first. The second
  has `FLOOR` added to the likelihoods and after every product. Let x be the truth, e the error of the first
  row, f the excess of the second over x. A step takes e and f through the same non-negative factors, or f
  through larger ones, and adds at most H d to |e|, at least FLOOR - H d to f. By induction, |e| <= r f in
  every entry, with r = 2 H d / FLOOR = 4e-18 H; so too for a product of two messages. Where the second row
  sums to less than twice the first, sum(x) + sum(f) < 2 (sum(x) + r sum(f)), so sum(f) is below about sum(x),
  and the error below about r sum(x). `sure` says that this held at every division, hence for every result; a
  sum that is zero, infinite or NaN fails.

Long sequences that the model itself produced pass: under its law, the expected ratio of f to x is no more
than the sum of what was added, about 1e-290 T H.
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


def log_likelihood(hmm: HMM, seen: ScaledEvidence, out: Array, bounded: bool) -> NDArray[np.bool_]:
    """Log probability of the evidence, (n,)."""
    run = _Run(hmm, seen, bounded)
    _forward(run, keep=False)
    np.add(run.fit, seen.log_scale, out=out)
    return run.sure()


def filter_states(hmm: HMM, seen: ScaledEvidence, out: Array, bounded: bool) -> NDArray[np.bool_]:
    """Law of the state given the evidence up to it, (n, T, H)."""
    run = _Run(hmm, seen, bounded)
    for t, state in enumerate(_forward(run)):
        run.update(state, t, state)
        np.divide(state, run.total(state), out=out[:, t])
    return run.sure()


def smooth_states(hmm: HMM, seen: ScaledEvidence, out: Array, bounded: bool) -> NDArray[np.bool_]:
    """Law of the state given all evidence, (n, T, H)."""
    run = _Run(hmm, seen, bounded)
    predicted = _forward(run)
    for t, _, updated in _backward(run, predicted):
        run.multiply(predicted[t], updated, out[:, t])
        if bounded:
            run.total(out[:, t])  # one up to rounding; compared with the bound
    return run.sure()


def masked_conditionals(hmm: HMM, seen: ScaledEvidence, out: Array, bounded: bool) -> NDArray[np.bool_]:
    """Law of the symbol given all evidence but its own, (n, T, X)."""
    run = _Run(hmm, seen, bounded)
    predicted = _forward(run)
    state = run.empty()
    for t, message, _ in _backward(run, predicted):
        run.multiply(predicted[t], message, state)
        np.divide(state @ hmm.emission, run.total(state), out=out[:, t])
    return run.sure()


def initial_posterior(hmm: HMM, seen: ScaledEvidence, out: Array, bounded: bool) -> NDArray[np.bool_]:
    """Law of the state one position before the first, given all evidence, (n, H)."""
    run = _Run(hmm, seen, bounded)
    message, updated = np.ones_like(run.empty()), run.empty()
    back = np.ascontiguousarray(hmm.transition.T)
    for t in reversed(range(seen.n_positions)):
        run.update(message, t, updated)
        if t % EVERY == 0:
            total = run.total(updated)
            updated /= total
            run.fit += np.log(np.minimum(total[:, 0], 1))
        run.move(updated, back, message)
    run.multiply(hmm.initial, message, updated)
    total = run.total(updated)
    np.divide(updated, total, out=out)
    run.fit += np.log(total[:, 0])
    return run.sure()


class _Run:
    """The steps of a recursion, in one row a sequence, or in two: the second half of the rows bounds it."""

    def __init__(self, hmm: HMM, seen: ScaledEvidence, bounded: bool) -> None:
        self.hmm, self.seen = hmm, seen
        self.fit = np.zeros(seen.n_sequences)
        self._half = seen.n_sequences // 2
        self._within = np.ones(self._half, dtype=bool)
        self._floor = np.repeat([0.0, FLOOR], self._half)[:, None] if bounded else None

    def empty(self) -> Array:
        """Room for a message."""
        return np.empty((self.seen.n_sequences, self.hmm.n_states))

    def multiply(self, message: Array, other: Array, out: Array) -> None:
        """Multiply entry by entry."""
        np.multiply(message, other, out=out)
        if self._floor is not None:
            out += self._floor

    def update(self, message: Array, t: int, out: Array) -> None:
        """Multiply a message by the likelihoods at `t`."""
        likely = self.seen.at(t)
        self.multiply(message, likely if self._floor is None else likely + self._floor, out)

    def move(self, message: Array, matrix: Array, out: Array) -> None:
        """Take a message one position on."""
        np.matmul(message, matrix, out=out)
        if self._floor is not None:
            out += self._floor

    def total(self, message: Array) -> Array:
        """Row sums, as a column: what to divide by. The bound is compared, and divided by the same."""
        total = message @ np.ones((message.shape[1], 1))
        if self._floor is not None:
            own, bound = total[: self._half], total[self._half :]
            self._within &= (bound < 2 * own)[:, 0]
            bound[:] = own
        return np.asarray(total)

    def sure(self) -> NDArray[np.bool_]:
        """Which sequences came out right: of all rows, or of the first half if the others bound them."""
        return np.asarray(self.fit > SAFE_FIT) if self._floor is None else self._within


def _forward(run: _Run, keep: bool = True) -> Array:
    """Laws of the state given the evidence before it, up to a factor, (T, n, H), or just the last."""
    length = run.seen.n_positions
    predicted = np.empty((length if keep else min(length, 1), *run.empty().shape))
    predicted[:1] = run.hmm.initial
    updated = run.empty()
    for t in range(length):
        run.update(predicted[t if keep else 0], t, updated)
        if t % EVERY == EVERY - 1 or t == length - 1:
            total = run.total(updated)
            updated /= total
            run.fit += np.log(total[:, 0])
        if t < length - 1:
            run.move(updated, run.hmm.transition, predicted[t + 1 if keep else 0])
    return predicted


def _backward(run: _Run, predicted: Array) -> Iterator[tuple[int, Array, Array]]:
    """Yield, last position first: `t`, the message from after `t`, and the same times the likelihood at `t`.

    The latter times `predicted[t]` sums to one: it is rescaled wherever the forward pass was.
    """
    message, updated, state = np.ones_like(run.empty()), run.empty(), run.empty()
    back = np.ascontiguousarray(run.hmm.transition.T)
    for t in reversed(range(run.seen.n_positions)):
        run.update(message, t, updated)
        if t % EVERY == EVERY - 1 or t == run.seen.n_positions - 1:
            run.multiply(predicted[t], updated, state)
            updated /= run.total(state)
        yield t, message, updated
        run.move(updated, back, message)
