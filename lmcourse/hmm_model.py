"""Hidden Markov models: the law itself, the random models of Wei, Xie and Ma (2021), and sampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmcourse.probability import as_distribution


@dataclass(frozen=True, eq=False)
class HMM:
    """A hidden Markov model with finitely many states and symbols, in the conventions of hmmlearn.

    Parameters
    ----------
    initial : array_like, shape (H,)
        Law of the state at the first position.
    transition : array_like, shape (H, H)
        `transition[h, k]` is the probability that state `k` follows state `h`.
    emission : array_like, shape (H, X)
        `emission[h, x]` is the probability that state `h` shows symbol `x`.

    Raises
    ------
    ValueError
        If a row is not a distribution, or the shapes do not fit.

    Notes
    -----
    The arrays are copied, converted to float64 and made read-only. `dataclasses.replace(hmm, initial=...)`
    makes a model that differs in one of them.
    """

    initial: NDArray[np.float64]
    transition: NDArray[np.float64]
    emission: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name, ndim in (("initial", 1), ("transition", 2), ("emission", 2)):
            values = np.array(as_distribution(getattr(self, name), name), order="C")
            if values.ndim != ndim:
                raise ValueError(f"{name} has shape {values.shape}; it must have {ndim} axes")
            values.flags.writeable = False
            object.__setattr__(self, name, values)
        n = self.n_states
        if self.transition.shape != (n, n):
            raise ValueError(
                f"transition has shape {self.transition.shape}; for {n} states it must be ({n}, {n})"
            )
        if self.emission.shape[0] != n:
            raise ValueError(f"emission has {self.emission.shape[0]} rows; for {n} states it must have {n}")

    def __reduce__(self) -> tuple[type[HMM], tuple[NDArray[np.float64], ...]]:
        """Copy and pickle by way of the constructor, whose arrays are read-only."""
        return type(self), (self.initial, self.transition, self.emission)

    @property
    def n_states(self) -> int:
        """Number of states, H."""
        return int(self.initial.shape[0])

    @property
    def n_symbols(self) -> int:
        """Number of symbols, X."""
        return int(self.emission.shape[1])


class Sample(NamedTuple):
    """Sequences drawn from a hidden Markov model.

    Attributes
    ----------
    states : ndarray of int, shape (N, T)
        Hidden states.
    symbols : ndarray of int, shape (N, T)
        Symbols shown.
    """

    states: NDArray[np.int64]
    symbols: NDArray[np.int64]


def random_hmm(
    n_states: int,
    n_symbols: int,
    *,
    transition_temperature: float,
    emission_temperature: float,
    rng: np.random.Generator,
) -> HMM:
    """Draw a model as the synthetic experiments of Wei, Xie and Ma (2021) do.

    With `U` uniform on (-1/2, 1/2): `initial` is softmax(U / 10), near uniform; `transition` a mixture of
    H random permutation matrices with weights softmax(U / transition_temperature); each row of `emission` is
    softmax(U / emission_temperature). At temperature 0.01 both are nearly deterministic.

    Parameters
    ----------
    n_states, n_symbols : int
        H and X, at least 1.
    transition_temperature, emission_temperature : float
        Positive; smaller is more deterministic.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    HMM
        The model drawn.

    Raises
    ------
    ValueError
        If a size is below 1 or a temperature is not positive.
    """
    for name, size in (("n_states", n_states), ("n_symbols", n_symbols)):
        if size < 1:
            raise ValueError(f"{name} is {size}; it must be at least 1")
    temperatures = {"transition": transition_temperature, "emission": emission_temperature}
    for name, temperature in temperatures.items():
        if not (np.isfinite(temperature) and temperature > 0):
            raise ValueError(f"{name}_temperature is {temperature}; it must be a positive number")

    def softmax_of_uniform(shape: tuple[int, ...], temperature: float) -> NDArray[np.float64]:
        scores = (rng.random(shape) - 0.5) / temperature
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    initial = softmax_of_uniform((n_states,), 10.0)
    transition = np.zeros((n_states, n_states))
    rows = np.arange(n_states)
    for weight in softmax_of_uniform((n_states,), transition_temperature):
        transition[rows, rng.permutation(n_states)] += weight
    return HMM(initial, transition, softmax_of_uniform((n_states, n_symbols), emission_temperature))


def sample(hmm: HMM, n_sequences: int, length: int, rng: np.random.Generator) -> Sample:
    """Draw sequences of states and symbols.

    Parameters
    ----------
    hmm : HMM
        The law.
    n_sequences, length : int
        N and T.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Sample
        `states` and `symbols`, each (N, T).

    Raises
    ------
    ValueError
        If a size is negative.

    Notes
    -----
    Each draw costs one uniform number and two look-ups, whatever the number of outcomes: Walker's alias
    method (1977). The chain runs over all sequences at once; the symbols of all positions come last.
    """
    if n_sequences < 0 or length < 0:
        raise ValueError(f"n_sequences is {n_sequences} and length is {length}; neither may be negative")
    states = np.empty((n_sequences, length), dtype=np.int64)
    symbols = np.empty((n_sequences, length), dtype=np.int64)
    first, step, show = (_AliasTable(rows) for rows in (hmm.initial[None], hmm.transition, hmm.emission))
    for begin in range(0, n_sequences, _BLOCK):
        block = slice(begin, min(begin + _BLOCK, n_sequences))
        path = np.empty((length, block.stop - begin), dtype=np.int64)
        row = np.zeros(path.shape[1:], dtype=np.int64)
        for t in range(length):
            row = path[t] = (step if t else first).draw(row, rng)
        states[block] = path.T
        stride = _BLOCK // path.shape[1]
        for t in range(0, length, stride):
            path[t : t + stride] = show.draw(path[t : t + stride], rng)
        symbols[block] = path.T
    return Sample(states, symbols)


_BLOCK = 4096  # sequences drawn together, so that the numbers in hand stay in the processor's cache


class _AliasTable:
    """Walker's alias method for several distributions at once, one a row.

    A row of K probabilities becomes K columns of mass 1/K, each shared between its own outcome and one alias.
    A point uniform on (0, K) falls in a column; below the column's `threshold` it means the column's own
    outcome, above it the alias.
    """

    def __init__(self, rows: NDArray[np.float64]) -> None:
        n_rows, size = rows.shape
        mass = np.take_along_axis(rows, order := np.argsort(rows, axis=1), axis=1)
        mass *= size / mass.sum(axis=1, keepdims=True)
        share = np.ones((n_rows, size))
        alias = np.tile(np.arange(size), (n_rows, 1))
        # Columns are in order of mass. `small` is the next light one to fill up, `large` the heavy one that
        # gives, `left` what it still holds; once that is below one, the next heavy column fills it up in
        # turn.
        every = np.arange(n_rows)
        n_small = np.minimum((mass < 1).sum(axis=1), size - 1)
        small, large = np.zeros(n_rows, dtype=np.int64), n_small.copy()
        left = mass[every, large]
        for _ in range(size - 1):
            spent = (left < 1) & (large < size - 1)
            row = every[spent | (small < n_small)]
            turn = spent[row]
            filled = np.where(turn, large[row], small[row])
            held = np.where(turn, left[row], mass[row, filled])
            large[row] += turn
            small[row] += ~turn
            share[row, filled] = np.clip(held, 0, 1)
            alias[row, filled] = large[row]
            left[row] = np.where(turn, mass[row, large[row]], left[row]) - (1 - held)
        self.size = size
        self.threshold = np.empty((n_rows, size))
        self.alias = np.empty((n_rows, size), dtype=np.int64)
        np.put_along_axis(self.threshold, order, share, axis=1)
        np.put_along_axis(self.alias, order, np.take_along_axis(order, alias, axis=1), axis=1)
        self.threshold += np.arange(size)

    def draw(self, row: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """One outcome from each of the given rows."""
        point = rng.random(row.shape)
        point *= self.size
        column = point.astype(np.int64)
        cell = row * self.size
        cell += column
        own = point < self.threshold.take(cell)
        return np.where(own, column, self.alias.take(cell))
