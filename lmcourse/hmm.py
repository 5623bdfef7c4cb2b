"""Exact inference in hidden Markov models, for batches of sequences.

All functions share their arguments:

hmm : HMM
    The law. Its `initial` is the law of the state at the first position given.
symbols : array_like of int, shape (N, T)
    Symbols 0..X-1, or `MASK` where nothing is known.
evidence : array_like, shape (N, T, H)
    In place of `symbols`: a likelihood for each state at each position, non-negative, on any scale. Ones are
    a mask, `emission[:, x]` is the symbol `x`, anything else is a soft prompt.
lengths : array_like of int, shape (N,), optional
    Number of positions that count in each sequence; what stands beyond is ignored, and NaN in the result.

They raise ValueError for arguments out of range, saying where, and `ImpossibleSequenceError` for evidence of
probability zero. Results are float64, exact up to rounding at any length: sequences whose probabilities are
too small for ordinary floating point are found and redone in logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse import hmm_logspace, hmm_scaled
from lmcourse.hmm_evidence import MASK, Evidence, ScaledEvidence, as_evidence
from lmcourse.hmm_model import HMM, Sample, random_hmm, sample

__all__ = [
    "HMM",
    "MASK",
    "ImpossibleSequenceError",
    "Sample",
    "filter_states",
    "initial_posterior",
    "log_likelihood",
    "masked_conditionals",
    "random_hmm",
    "sample",
    "smooth_states",
]

Array = NDArray[np.float64]
Scaled = Callable[[HMM, ScaledEvidence, Array, float], Array]
Exact = Callable[[HMM, Array], Array]

CACHE = 2**18  # bytes of one message of a block of sequences
MEMORY = 2**25  # bytes of all messages of a block


class ImpossibleSequenceError(ValueError):
    """A sequence has probability zero under the model, so nothing can be conditioned on it.

    Attributes
    ----------
    index : int
        The first such sequence.
    position : int
        The first position at which the evidence so far has probability zero; for `masked_conditionals`, the
        first position whose *other* positions have probability zero together.
    """

    def __init__(self, index: int, position: int, message: str) -> None:
        super().__init__(message)
        self.index = index
        self.position = position


def log_likelihood(
    hmm: HMM,
    symbols: ArrayLike | None = None,
    *,
    evidence: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    impossible: Literal["raise", "-inf"] = "raise",
) -> Array:
    """Log probability of each sequence, in nats: (N,).

    `impossible="-inf"` returns minus infinity for a sequence of probability zero, in place of an error. With
    `evidence` it is the logarithm of the expected product of the likelihoods.
    """
    if impossible not in ("raise", "-inf"):
        raise ValueError(f"impossible is {impossible!r}; it must be 'raise' or '-inf'")
    seen = as_evidence(hmm, symbols, evidence, lengths)
    return _infer(
        hmm, seen, (), hmm_scaled.log_likelihood, hmm_logspace.log_likelihood, impossible == "raise"
    )


def filter_states(
    hmm: HMM,
    symbols: ArrayLike | None = None,
    *,
    evidence: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Array:
    """Law of each state given the evidence up to it, `P[H_i | x_1..x_i]`: (N, T, H)."""
    seen = as_evidence(hmm, symbols, evidence, lengths)
    shape = (seen.n_positions, hmm.n_states)
    return _infer(hmm, seen, shape, hmm_scaled.filter_states, hmm_logspace.filter_states)


def smooth_states(
    hmm: HMM,
    symbols: ArrayLike | None = None,
    *,
    evidence: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Array:
    """Law of each state given all the evidence, `P[H_i | x]`: (N, T, H)."""
    seen = as_evidence(hmm, symbols, evidence, lengths)
    shape = (seen.n_positions, hmm.n_states)
    return _infer(hmm, seen, shape, hmm_scaled.smooth_states, hmm_logspace.smooth_states)


def masked_conditionals(
    hmm: HMM,
    symbols: ArrayLike | None = None,
    *,
    evidence: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Array:
    """Law of each symbol given the evidence at all other positions, `P[X_i | x_{-i}]`: (N, T, X).

    What stands at a position plays no part in its own row, so the sequence as a whole may have probability
    zero. `ImpossibleSequenceError` is raised where some `x_{-i}` has; to ask for the other rows of such a
    sequence, mask the position at fault.
    """
    seen = as_evidence(hmm, symbols, evidence, lengths)
    shape = (seen.n_positions, hmm.n_symbols)
    return _infer(hmm, seen, shape, hmm_scaled.masked_conditionals, hmm_logspace.masked_conditionals)


def initial_posterior(
    hmm: HMM,
    symbols: ArrayLike | None = None,
    *,
    evidence: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
) -> Array:
    """Law of the state at a mask prepended to the sequence, `P[H_0 | x]`: (N, H).

    That is `smooth_states` of the longer sequence at its first position, where `initial` is the law of the
    state before seeing anything. The backward pass alone gives it, in less than half the time.
    """
    seen = as_evidence(hmm, symbols, evidence, lengths)
    return _infer(hmm, seen, (hmm.n_states,), hmm_scaled.initial_posterior, hmm_logspace.initial_posterior)


def _infer(
    hmm: HMM, seen: Evidence, shape: tuple[int, ...], scaled: Scaled, exact: Exact, raises: bool = True
) -> Array:
    """Run the fast recursion block by block, and the exact one for the sequences where that is not safe."""
    out = np.empty((seen.n_sequences, *shape))
    for rows in _blocks(np.arange(seen.n_sequences), 8 * hmm.n_states, seen.n_positions):
        block = out[rows[0] : rows[-1] + 1]
        with np.errstate(all="ignore"):
            fit = scaled(hmm, seen.scaled(rows), block, 0.0)
            doubtful = np.flatnonzero(~(fit > hmm_scaled.SAFE_FIT))
            if doubtful.size:
                floored = np.empty((doubtful.size, *shape))
                scaled(hmm, seen.scaled(rows[doubtful]), floored, hmm_scaled.FLOOR)
                same = np.isclose(floored, block[doubtful], rtol=1e-13, atol=1e-13)
                doubtful = doubtful[~same.reshape(doubtful.size, -1).all(axis=1)]
        for few in _blocks(doubtful, 8 * hmm.n_states**2, seen.n_positions):
            block[few] = exact(hmm, seen.logarithms(rows[few]))
            if raises and not np.isfinite(block[few]).all():
                bad = ~np.isfinite(block[few]).reshape(few.size, -1).all(axis=1)
                raise _impossible(hmm, seen, int(rows[few[bad][0]]), exact)
        if len(shape) == 2:
            block[seen.beyond(rows)] = np.nan
    return out


def _blocks(rows: NDArray[np.int64], width: int, n_positions: int) -> Iterator[NDArray[np.int64]]:
    """Split so that a step fits in the processor's cache (`width` bytes a sequence) and a block in little memory."""
    size = max(1, min(CACHE // width, MEMORY // (width * max(n_positions, 1))))
    for begin in range(0, rows.size, size):
        yield rows[begin : begin + size]


def _impossible(hmm: HMM, seen: Evidence, index: int, exact: Exact) -> ImpossibleSequenceError:
    """Find out where a sequence became impossible."""
    logs = seen.logarithms(np.array([index]))
    if exact is hmm_logspace.masked_conditionals:
        position = int(np.argmax(np.isnan(exact(hmm, logs)[0, :, 0])))
        what = f"the evidence at all positions but {position} has probability zero"
    else:
        prepended = int(exact is hmm_logspace.initial_posterior)
        logs = np.concatenate([np.zeros((1, prepended, hmm.n_states)), logs], axis=1)
        position = int(np.argmax(np.isneginf(hmm_logspace.log_likelihoods_so_far(hmm, logs)))) - prepended
        what = f"the evidence up to position {position} has probability zero"
    return ImpossibleSequenceError(
        index,
        position,
        f"sequence {index} is impossible under the model: {what}. Drop or mask what is at fault, "
        "or use a model without zeros; log_likelihood(..., impossible='-inf') finds all such sequences",
    )
