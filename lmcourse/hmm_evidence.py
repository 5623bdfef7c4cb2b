"""What is known at each position of a batch of sequences, as likelihoods over states.

A symbol `x` says `emission[:, x]`, a mask says nothing (all ones), a soft prompt says any non-negative vector.
Everything downstream sees only these vectors. A position beyond a sequence's length is a mask.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse.hmm_model import HMM

MASK = -1


@dataclass(frozen=True, eq=False)
class Evidence:
    """Checked input of an inference: either `symbols` with a `table` of their likelihoods, or `likelihoods`."""

    lengths: NDArray[np.int64]  # (N,)
    n_positions: int  # T
    table: NDArray[np.float64]  # (1 + X, H): ones for a mask, then a row for each symbol
    symbols: NDArray[np.integer] | None  # (N, T)
    likelihoods: NDArray[np.float64] | None  # (N, T, H)

    @property
    def n_sequences(self) -> int:
        """Number of sequences, N."""
        return int(self.lengths.shape[0])

    def beyond(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Positions beyond the length of the given sequences: (n, T)."""
        return np.arange(self.n_positions) >= self.lengths[rows, None]

    def logarithms(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log likelihoods of the given sequences: (n, T, H)."""
        with np.errstate(divide="ignore"):
            if self.symbols is not None:
                return np.asarray(np.log(self.table)[self._table_rows(rows)])
            return np.log(self._likelihoods(rows))

    def scaled(self, rows: NDArray[np.int64]) -> ScaledEvidence:
        """Likelihoods of the given sequences, each divided by its largest entry."""
        if self.symbols is not None:
            table, log_scale = _divided_by_largest(self.table)
            index = self._table_rows(rows)
            return ScaledEvidence(table, np.ascontiguousarray(index.T), log_scale.take(index).sum(axis=1))
        steps, log_scale = _divided_by_largest(self._likelihoods(rows))
        return ScaledEvidence(np.ascontiguousarray(steps.swapaxes(0, 1)), None, log_scale.sum(axis=1))

    def _table_rows(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        assert self.symbols is not None
        index = self.symbols[rows].astype(np.intp)
        index += 1
        index[self.beyond(rows)] = 0
        return index

    def _likelihoods(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        assert self.likelihoods is not None
        values = np.array(self.likelihoods[rows], dtype=np.float64)
        values[self.beyond(rows)] = 1
        return values


class ScaledEvidence:
    """Likelihoods of n sequences, largest entry one, to be read position by position.

    `log_scale` (n,) is the sum of the logarithms of what the likelihoods were divided by.
    """

    def __init__(
        self, values: NDArray[np.float64], index: NDArray[np.intp] | None, log_scale: NDArray[np.float64]
    ) -> None:
        self._values = values
        self._index = index
        self.log_scale = log_scale
        self.n_positions = int((values if index is None else index).shape[0])
        self._row = np.empty((log_scale.shape[0], values.shape[-1]))

    def at(self, t: int) -> NDArray[np.float64]:
        """Likelihoods at position `t`: (n, H), valid until the next call."""
        if self._index is None:
            return self._values[t]
        # mode="clip" skips the bounds check (symbols are checked on entry) and its copy.
        return self._values.take(self._index[t], axis=0, out=self._row, mode="clip")


def as_evidence(
    hmm: HMM, symbols: ArrayLike | None, evidence: ArrayLike | None, lengths: ArrayLike | None
) -> Evidence:
    """Check the arguments that all inferences share; see `lmcourse.hmm` for what they are."""
    if (symbols is None) == (evidence is None):
        raise ValueError("give exactly one of symbols (N, T) and evidence (N, T, H)")
    if symbols is not None:
        given = np.asarray(symbols)
        if given.ndim != 2:
            raise ValueError(
                f"symbols has shape {given.shape}, expected (N, T); for one sequence pass symbols[None]"
            )
        if given.dtype.kind not in "iu":
            raise ValueError(
                f"symbols holds {given.dtype} values; give integers 0..{hmm.n_symbols - 1}, or {MASK} for a mask. "
                "Likelihoods go in evidence="
            )
    else:
        given = np.asarray(evidence)
        if given.ndim != 3 or given.shape[2] != hmm.n_states:
            raise ValueError(
                f"evidence has shape {given.shape}, expected (N, T, {hmm.n_states}): a likelihood a state"
            )
        if given.dtype.kind not in "fiub":
            raise ValueError(f"evidence holds {given.dtype} values; give non-negative real numbers")
    n, length = given.shape[:2]
    n_known = _as_lengths(lengths, n, length)
    inside = np.arange(length) < n_known[:, None]
    if symbols is not None:
        wrong = ((given < MASK) | (given >= hmm.n_symbols)) & inside
        if wrong.any():
            i, t = np.argwhere(wrong)[0]
            raise ValueError(
                f"symbols[{i}, {t}] is {given[i, t]}; symbols are 0..{hmm.n_symbols - 1}, or {MASK} for a mask"
            )
    else:
        for i in range(n):
            row = given[i, : n_known[i]]
            wrong = ~((row >= 0) & (row < np.inf))
            if wrong.any():
                t, h = np.argwhere(wrong)[0]
                raise ValueError(
                    f"evidence[{i}, {t}, {h}] is {row[t, h]}; likelihoods are finite and not negative"
                )
    table = np.vstack([np.ones((1, hmm.n_states)), hmm.emission.T])
    return Evidence(n_known, length, table, *((given, None) if symbols is not None else (None, given)))


def _as_lengths(lengths: ArrayLike | None, n: int, length: int) -> NDArray[np.int64]:
    if lengths is None:
        return np.full(n, length, dtype=np.int64)
    given = np.asarray(lengths)
    if given.shape != (n,):
        raise ValueError(f"lengths has shape {given.shape}, expected ({n},): one length a sequence")
    if given.dtype.kind not in "iu":
        raise ValueError(f"lengths holds {given.dtype} values; give integers from 0 to {length}")
    wrong = (given < 0) | (given > length)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"lengths[{i}] is {given[i]}; the sequences have {length} positions")
    return given.astype(np.int64)


def _divided_by_largest(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    largest = values.max(axis=-1)
    largest[largest == 0] = 1
    return values / largest[..., None], np.log(largest)
