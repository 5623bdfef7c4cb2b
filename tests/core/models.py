"""Small models and batches for the tests."""

import numpy as np

from lmcourse.hmm import HMM, MASK


def draw_model(rng, n_states=3, n_symbols=3, zeros=0.0):
    """A random model; `zeros` is the chance of an entry to vanish."""

    def rows(*shape):
        weights = rng.exponential(size=shape) * (rng.random(shape) >= zeros)
        weights[..., 0] += weights.sum(axis=-1) == 0
        return weights / weights.sum(axis=-1, keepdims=True)

    return HMM(rows(n_states), rows(n_states, n_states), rows(n_states, n_symbols))


def draw_symbols(rng, model, n_sequences=4, length=5, masks=0.2):
    """Symbols with no regard to the model, some of them masked."""
    symbols = rng.integers(0, model.n_symbols, (n_sequences, length))
    symbols[rng.random(symbols.shape) < masks] = MASK
    return symbols


def two_sources(rare=1e-3):
    """The state never changes: source 0 shows mostly symbol 0, source 1 mostly symbol 1."""
    return HMM([0.5, 0.5], np.eye(2), [[1 - rare, rare], [rare, 1 - rare]])


def cycle():
    """States 0, 1, 2, 0, ... in turn, each with its own symbol, starting anywhere."""
    return HMM(np.ones(3) / 3, np.roll(np.eye(3), 1, axis=1), np.eye(3))
