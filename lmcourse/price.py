"""The price of an exact linear head: how large its weights must be, and which hidden states force that."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse.tuning import as_emission, as_state_weights

Array = NDArray[np.float64]


class HeadPrice(NamedTuple):
    """Price of an exact head and the two state laws that force it: see `price_of_head`."""

    price: float
    head: Array | None
    law: Array
    other_law: Array


def price_of_head(emission: ArrayLike, mu: ArrayLike, *, tolerance: float = 1e-10) -> HeadPrice:
    """Smallest half-range of an exact head: ``R* = max over laws of mu.(pi - pi') / |W pi - W pi'|_1``.

    The price of telling hidden states apart is the gap in label per distance between predictions. This
    duality is the course's; we have not found it in the papers.

    Parameters
    ----------
    emission : array_like, shape (H, X)
        Emission matrix, one law a state.
    mu : array_like, shape (H,)
        Weights of the states.
    tolerance : float
        Singular values of ``W`` below this fraction of the largest count as zero.

    Returns
    -------
    HeadPrice
        ``price``, infinite if there is no exact head; ``head``, shape (X,), of that half-range, with ``W^T
        head = mu``, or None; ``law`` and ``other_law``, shape (H,), which attain the maximum: for an
        infinite price they have one prediction and different labels; for price 0 (constant ``mu``) they are
        equal.

    Raises
    ------
    RuntimeError
        If a linear program fails.

    Notes
    -----
    The half-range has the polar ``|x|_1`` on vectors that sum to zero, so the dual of ``min { R(b) : W^T b =
    mu }`` is ``max { mu.c : |W c|_1 <= 1 }`` over ``c`` that sum to zero, that is, over multiples of ``pi -
    pi'``. The two programs are solved apart, in coordinates where all heads are the least-squares one plus a
    vector that every emission law is orthogonal to.
    """
    rows = as_emission(emission)
    n_states, n_symbols = rows.shape
    weights = as_state_weights(mu, n_states)
    size = float(np.abs(weights - weights.mean()).max())
    uniform = np.full(n_states, 1 / n_states)
    if size <= 1e-15 * float(np.abs(weights).max()):
        return HeadPrice(0.0, np.full(n_symbols, weights.mean()), uniform, uniform)
    unit = (weights - weights.mean()) / size
    left, spread, right = np.linalg.svd(rows)
    rank = int((spread > tolerance * spread[0]).sum())
    missed = left[:, rank:] @ (left[:, rank:].T @ unit)
    if np.linalg.norm(missed) > 1e-9 * np.linalg.norm(unit):
        return HeadPrice(np.inf, None, *_positive_and_negative(missed))
    from scipy.optimize import linprog

    inverse = (left[:, :rank] / spread[:rank]) @ right[:rank]
    least = unit @ inverse
    scale = float(np.abs(least).max())
    least, free = least / scale, right[rank:].T
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    # Primal: heads are least + free z; minimise R with |least + free z + k| <= R, k a free constant.
    moves = np.hstack([free, np.ones((n_symbols, 1))])
    primal = linprog(
        np.append(np.zeros(moves.shape[1]), 1.0),
        A_ub=np.vstack([np.hstack([sign * moves, -np.ones((n_symbols, 1))]) for sign in (1, -1)]),
        b_ub=np.concatenate([-least, least]),
        bounds=[(None, None)] * moves.shape[1] + [(0, None)],
        method="highs",
        options=options,
    )
    # Dual: y = W c = plus - minus, orthogonal to `free`, summing to zero, |y|_1 <= 1; maximise least.y.
    dual = linprog(
        np.concatenate([-least, least]),
        A_eq=np.hstack([moves.T, -moves.T]),
        b_eq=np.zeros(moves.shape[1]),
        A_ub=np.ones((1, 2 * n_symbols)),
        b_ub=[1.0],
        method="highs",
        options=options,
    )
    if dual.status != 0 or primal.status != 0:
        raise RuntimeError(f"a linear program for the price failed: {dual.message} {primal.message}")
    law, other = _positive_and_negative(inverse @ (dual.x[:n_symbols] - dual.x[n_symbols:]))
    price = float(weights @ (law - other) / np.abs((law - other) @ rows).sum())
    head = size * scale * (least + free @ primal.x[: free.shape[1]]) + weights.mean()
    return HeadPrice(price, head, law, other)


class StatePair(NamedTuple):
    """The pair of states that says most about the price of a head: see `price_of_pair`."""

    price: float
    state: int
    other_state: int


def price_of_pair(emission: ArrayLike, mu: ArrayLike) -> StatePair:
    """Largest ``(mu_a - mu_b) / |w_a - w_b|_1`` over pairs of states: a lower bound on `price_of_head`.

    Parameters are those of `price_of_head`.

    Returns
    -------
    StatePair
        ``price``, infinite if two states with equal emissions have different weights, and 0 for constant
        ``mu``.
    """
    rows = as_emission(emission)
    weights = as_state_weights(mu, len(rows))
    gap = weights[:, None] - weights
    distance = np.abs(rows[:, None] - rows).sum(axis=-1)
    with np.errstate(divide="ignore"):
        prices = np.divide(gap, distance, out=np.zeros_like(gap), where=gap > 0)
    state, other = np.unravel_index(int(prices.argmax()), prices.shape)
    return StatePair(float(prices[state, other]), int(state), int(other))


def _positive_and_negative(c: Array) -> tuple[Array, Array]:
    """Laws proportional to the positive and the negative part of a vector that sums to zero."""
    plus, minus = np.maximum(c, 0), np.maximum(-c, 0)
    return plus / plus.sum(), minus / minus.sum()
