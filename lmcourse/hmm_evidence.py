"""What is known at each position of a batch of sequences, as likelihoods over states.

A symbol `x` says `emission[:, x]`, a mask says nothing (all ones), a soft prompt any non-negative vector.
Nothing downstream sees more than these vectors. Positions beyond a sequence's length are masks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse.hmm_model import HMM

MASK = -1


@dataclass(frozen=True, eq=False)
class Evidence:
    """Checked arguments of an inference: `symbols` and the `table` of their likelihoods, or `likelihoods`."""

    lengths: NDArray[np.int64]  # (N,)
    n_positions: int  # T
    table: NDArray[np.float64]  # (1 + X, H): ones for a mask, then a row for each symbol
    symbols: NDArray[np.integer[Any]] | None = None  # (N, T)
    likelihoods: NDArray[np.floating[Any]] | None = None  # (N, T, H)

    @property
    def n_sequences(self) -> int:
        """Number of sequences, N."""
        return int(self.lengths.shape[0])

    def beyond(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mark the positions beyond the lengths of the given sequences, (n, T)."""
        return np.asarray(np.arange(self.n_positions) >= self.lengths[rows, None])

    def logarithms(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Log likelihoods of the given sequences, (n, T, H)."""
        values = self._values(rows) if self.symbols is None else self.table[self._table_rows(rows)]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(values))

    def scaled(self, rows: NDArray[np.int64]) -> ScaledEvidence:
        """Likelihoods of the given sequences, each divided by its largest entry."""
        values, log_scale = _divided_by_largest(self._values(rows) if self.symbols is None else self.table)
        if self.symbols is None:
            return ScaledEvidence(values.swapaxes(0, 1), None, log_scale.sum(axis=1))
        index = self._table_rows(rows)
        return ScaledEvidence(values, np.ascontiguousarray(index.T), log_scale.take(index).sum(axis=1))

    def _table_rows(self, rows: NDArray[np.int64]) -> NDArray[np.intp]:
        assert self.symbols is not None
        index = self.symbols[rows].astype(np.intp)
        index += 1
        index[self.beyond(rows)] = 0
        return index

    def _values(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        assert self.likelihoods is not None
        values = self.likelihoods[rows].astype(np.float64)
        values[self.beyond(rows)] = 1
        return values


class ScaledEvidence:
    """Likelihoods of n sequences, largest entry one, to be read position by position.

    Either `values` (T, n, H), or `values` (K, H) with `index` (T, n) into its rows. `log_scale` (n,) is the
    sum of the logarithms of what the likelihoods were divided by.
    """

    def __init__(
        self, values: NDArray[np.float64], index: NDArray[np.intp] | None, log_scale: NDArray[np.float64]
    ) -> None:
        self.log_scale = log_scale
        self.n_sequences = log_scale.shape[0]
        self.n_positions = int((values if index is None else index).shape[0])
        self._values = values
        self._index = index
        self._row = np.empty((self.n_sequences, values.shape[-1]))

    def at(self, t: int) -> NDArray[np.float64]:
        """Likelihoods at position `t`, (n, H), valid until the next call."""
        if self._index is None:
            return np.asarray(self._values[t])
        # mode="clip" leaves out a second check of the symbols, which costs a copy.
        return self._values.take(self._index[t], axis=0, out=self._row, mode="clip")


def as_evidence(
    hmm: HMM, symbols: ArrayLike | None, evidence: ArrayLike | None, lengths: ArrayLike | None
) -> Evidence:
    """Check the arguments that all inferences share (`lmcourse.hmm` says what they are)."""
    table = np.vstack([np.ones((1, hmm.n_states)), hmm.emission.T])
    if symbols is not None and evidence is None:
        given = _as_symbols(symbols)
        known = _as_lengths(lengths, *given.shape)
        _check_symbols(given, known, hmm.n_symbols)
        return Evidence(known, given.shape[1], table, symbols=given)
    if evidence is not None and symbols is None:
        given = _as_likelihoods(evidence, hmm.n_states)
        known = _as_lengths(lengths, *given.shape[:2])
        _check_likelihoods(given, known)
        return Evidence(known, given.shape[1], table, likelihoods=given)
    raise ValueError("give exactly one of symbols (N, T) and evidence (N, T, H)")


def _as_array(values: ArrayLike, name: str, blank: int) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array; its mask would be lost. Pass {name}.filled({blank})")
    return np.asarray(values)


def _as_symbols(symbols: ArrayLike) -> NDArray[Any]:
    given = _as_array(symbols, "symbols", MASK)
    if given.ndim != 2:
        hint = "; for one sequence pass symbols[None]" if given.ndim == 1 else ""
        raise ValueError(f"symbols has shape {given.shape}, not (N, T){hint}")
    if given.size and given.dtype.kind not in "iu":
        raise ValueError(
            f"symbols has dtype {given.dtype}; give integers, {MASK} for a mask. Likelihoods go in evidence="
        )
    return given.astype(np.int64, copy=False) if given.size == 0 else given


def _check_symbols(given: NDArray[Any], lengths: NDArray[np.int64], n_symbols: int) -> None:
    wrong = (given < MASK) | (given >= n_symbols)
    wrong &= np.arange(given.shape[1]) < lengths[:, None]
    if wrong.any():
        i, t = np.argwhere(wrong)[0]
        raise ValueError(
            f"symbols[{i}, {t}] is {given[i, t]}; a symbol is from 0 to {n_symbols - 1}, or {MASK} for a mask"
        )


def _as_likelihoods(evidence: ArrayLike, n_states: int) -> NDArray[Any]:
    given = _as_array(evidence, "evidence", 1)
    if given.ndim != 3 or given.shape[2] != n_states:
        raise ValueError(
            f"evidence has shape {given.shape}, not (N, T, {n_states}): a likelihood for each state"
        )
    if given.dtype.kind not in "fiub":
        raise ValueError(f"evidence has dtype {given.dtype}; give real numbers")
    return given


def _check_likelihoods(given: NDArray[Any], lengths: NDArray[np.int64]) -> None:
    for i, length in enumerate(lengths):
        likely = given[i, :length]
        wrong = ~((likely >= 0) & (likely < np.inf))
        if wrong.any():
            t, h = np.argwhere(wrong)[0]
            raise ValueError(
                f"evidence[{i}, {t}, {h}] is {likely[t, h]}; a likelihood is finite and not negative. "
                "For log likelihoods, take the exponential first"
            )
        with np.errstate(over="ignore", under="ignore"):
            kept = likely.astype(np.float64)
        wrong = np.isinf(kept) | ((kept == 0) & (likely > 0))
        if wrong.any():
            t, h = np.argwhere(wrong)[0]
            raise ValueError(
                f"evidence[{i}, {t}, {h}] is {likely[t, h]!s}, beyond the range of float64; "
                "rescale the likelihoods at that position, or make those that are too small zero"
            )


def _as_lengths(lengths: ArrayLike | None, n_sequences: int, n_positions: int) -> NDArray[np.int64]:
    if lengths is None:
        return np.full(n_sequences, n_positions, dtype=np.int64)
    given = _as_array(lengths, "lengths", 0)
    if given.shape != (n_sequences,):
        raise ValueError(f"lengths has shape {given.shape}; give ({n_sequences},), one for each sequence")
    if given.size and given.dtype.kind not in "iu":
        raise ValueError(f"lengths has dtype {given.dtype}; give integers")
    wrong = (given < 0) | (given > n_positions)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"lengths[{i}] is {given[i]}; a length is from 0 to {n_positions}, the positions given"
        )
    return given.astype(np.int64)


def _divided_by_largest(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All zeros become NaN, which the fast recursion carries on and the exact one resolves."""
    largest = values.max(axis=-1)
    return values / largest[..., None], np.log(largest)
