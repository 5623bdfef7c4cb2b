"""Exact inference in hidden Markov models, for batches of sequences.

The law and its samples (`hmm_model`) are here too, so that this is the one module to import. Results are
float64 and exact up to rounding, at any length: the fast recursion (`hmm_scaled`) answers where it can prove
that underflow cost it nothing, and all other sequences are redone in logarithms (`hmm_logspace`).
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
Fast = Callable[[HMM, ScaledEvidence, Array, bool], NDArray[np.bool_]]
Exact = Callable[[HMM, Array], Array]

CACHE = 2**18  # bytes of one message for a block of sequences
MEMORY = 2**25  # bytes of the messages at all positions for a block


class ImpossibleSequenceError(ValueError):
    """A sequence has probability zero under the model, so nothing can be conditioned on it.

    Attributes
    ----------
    index : int
        The first such sequence.
    position : int
        The first position at which the evidence so far has probability zero. From `masked_conditionals`, the
        first position whose *other* positions have probability zero together.
    """

    def __init__(self, index: int, position: int, reason: str, remedy: str) -> None:
        super().__init__(index, position, reason, remedy)
        self.index = index
        self.position = position

    def __str__(self) -> str:
        return (
            f"sequence {self.index} is impossible under the model: {self.args[2]} probability zero. "
            f"Mask or drop what is at fault, or use a model without zeros{self.args[3]}"
        )


def log_likelihood(
    hmm: HMM,
    symbols: ArrayLike | None = None,
    *,
    evidence: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    impossible: Literal["raise", "-inf"] = "raise",
) -> Array:
    """Log probability of each sequence.

    Parameters
    ----------
    hmm : HMM
        The law.
    symbols : array_like of int, shape (N, T)
        Symbols 0..X-1, or `MASK` where the symbol is not known.
    evidence : array_like, shape (N, T, H)
        In place of `symbols`: likelihoods of the states, non-negative, on any scale.
    lengths : array_like of int, shape (N,), optional
        How many positions of each sequence count; what stands beyond is ignored.
    impossible : {"raise", "-inf"}
        What to do about a sequence of probability zero.

    Returns
    -------
    ndarray, shape (N,)
        In nats. For `evidence`, the logarithm of the expected product of the likelihoods along the chain.

    Raises
    ------
    ImpossibleSequenceError
        For the first sequence of probability zero, unless `impossible="-inf"`.
    ValueError
        For an argument that is out of range or has the wrong shape or type.
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
    """Law of each state given the evidence up to it, `P[H_i | x_1..x_i]`.

    Parameters
    ----------
    hmm, symbols, evidence, lengths
        As in `log_likelihood`.

    Returns
    -------
    ndarray, shape (N, T, H)
        Probabilities over the last axis; NaN at positions beyond a sequence's length.

    Raises
    ------
    ImpossibleSequenceError
        For the first sequence of probability zero.
    ValueError
        For an argument that is out of range or has the wrong shape or type.
    """
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
    """Law of each state given all the evidence, `P[H_i | x]`.

    Parameters
    ----------
    hmm, symbols, evidence, lengths
        As in `log_likelihood`.

    Returns
    -------
    ndarray, shape (N, T, H)
        Probabilities over the last axis; NaN at positions beyond a sequence's length.

    Raises
    ------
    ImpossibleSequenceError
        For the first sequence of probability zero.
    ValueError
        For an argument that is out of range or has the wrong shape or type.
    """
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
    """Law of each symbol given the evidence at all other positions, `G_i(x) = P[X_i | x_{-i}]`.

    Parameters
    ----------
    hmm, symbols, evidence, lengths
        As in `log_likelihood`.

    Returns
    -------
    ndarray, shape (N, T, X)
        Probabilities over the last axis; NaN at positions beyond a sequence's length.

    Raises
    ------
    ImpossibleSequenceError
        Where some `x_{-i}` has probability zero. What stands at `i` plays no part in row `i`, so a sequence
        that is impossible as a whole may have all its rows. Where it has only some, mask the position at
        fault.
    ValueError
        For an argument that is out of range or has the wrong shape or type.
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
    """Law of the state at a mask prepended to the sequence, `P[H_0 | x]`.

    `initial` is the law of that state, one transition before the first position of the sequence. The result
    equals `smooth_states` of the longer sequence at its first position, and takes the backward pass alone.

    Parameters
    ----------
    hmm, symbols, evidence, lengths
        As in `log_likelihood`.

    Returns
    -------
    ndarray, shape (N, H)
        Probabilities over the last axis.

    Raises
    ------
    ImpossibleSequenceError
        For the first sequence that has probability zero after a mask.
    ValueError
        For an argument that is out of range or has the wrong shape or type.
    """
    seen = as_evidence(hmm, symbols, evidence, lengths)
    return _infer(hmm, seen, (hmm.n_states,), hmm_scaled.initial_posterior, hmm_logspace.initial_posterior)


def _infer(
    hmm: HMM, seen: Evidence, shape: tuple[int, ...], fast: Fast, exact: Exact, raises: bool = True
) -> Array:
    """Answer by the fast recursion, block by block, and by the exact one where the fast is not sure."""
    out = np.empty((seen.n_sequences, *shape))
    for rows in _blocks(np.arange(seen.n_sequences), 8 * hmm.n_states, seen.n_positions):
        block = out[rows[0] : rows[-1] + 1]
        for few in _blocks(_unsure(hmm, seen, rows, block, fast), 8 * hmm.n_states**2, seen.n_positions):
            block[few] = exact(hmm, seen.logarithms(rows[few]))
            defined = np.isfinite(block[few])
            if len(shape) == 2:
                defined[seen.beyond(rows[few])] = True
            failed = ~defined.reshape(few.size, -1).all(axis=1)
            if raises and failed.any():
                raise _impossible(hmm, seen, int(rows[few][failed][0]), exact)
        if len(shape) == 2:
            block[seen.beyond(rows)] = np.nan
    return out


def _unsure(hmm: HMM, seen: Evidence, rows: NDArray[np.int64], block: Array, fast: Fast) -> NDArray[np.int64]:
    """Fill a block by the fast recursion; return which of its sequences may have lost digits."""
    with np.errstate(all="ignore"):
        sure = fast(hmm, seen.scaled(rows), block, False)
        for few in _blocks(np.flatnonzero(~sure), 2 * 8 * hmm.n_states, seen.n_positions):
            twice = np.empty((2 * few.size, *block.shape[1:]))
            sure[few] = fast(hmm, seen.scaled(np.tile(rows[few], 2)), twice, True)
            block[few] = twice[: few.size]
    return np.flatnonzero(~sure)


def _blocks(rows: NDArray[np.int64], width: int, n_positions: int) -> Iterator[NDArray[np.int64]]:
    """Split sequences that need `width` bytes a position, to stay within `CACHE` a position and `MEMORY`."""
    size = max(1, min(CACHE // width, MEMORY // (width * max(n_positions, 1))))
    for begin in range(0, rows.size, size):
        yield rows[begin : begin + size]


def _impossible(hmm: HMM, seen: Evidence, index: int, exact: Exact) -> ImpossibleSequenceError:
    """Say where a sequence became impossible."""
    logs = seen.logarithms(np.array([index]))
    if exact is hmm_logspace.masked_conditionals:
        position = int(np.argmax(np.isnan(exact(hmm, logs)[0, :, 0])))
        return ImpossibleSequenceError(index, position, f"the evidence without position {position} has", "")
    prepended = int(exact is hmm_logspace.initial_posterior)
    logs = np.concatenate([np.zeros((1, prepended, hmm.n_states)), logs], axis=1)
    position = int(np.argmax(np.isneginf(hmm_logspace.running_log_likelihood(hmm, logs)))) - prepended
    remedy = ". log_likelihood(..., impossible='-inf'), {}finds all such sequences".format(
        "of the sequences with a mask prepended, " * prepended
    )
    reason = f"the evidence up to position {position} has"
    return ImpossibleSequenceError(index, position, reason, remedy)
