"""Distributions over a finite set: checking them, comparing them, drawing them.

Everything is in nats (natural logarithms), acts on one axis and broadcasts over the others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, rel_entr, xlogy

SUM_TOLERANCE = 1e-8
SINGLE_PRECISION_TOLERANCE = 1e-5


def as_distribution(p: ArrayLike, name: str = "p") -> NDArray[np.float64]:
    """Check that the last axis of an array holds probability distributions.

    Parameters
    ----------
    p : array_like, shape (..., K)
        Probabilities: finite, not negative, each row of the last axis summing to one within 1e-8.
        Rows in single or half precision may miss one by 1e-5, and are divided by their sum.
    name : str
        What to call the array in an error message.

    Returns
    -------
    ndarray of float64, shape (..., K)
        The same values; a float64 array is returned as it is, not copied.

    Raises
    ------
    ValueError
        If an entry is NaN, infinite or negative, or a row does not sum to one: the message says which. Also
        if the array is masked, since the mask would be lost.
    """
    if np.ma.isMaskedArray(p):
        raise ValueError(
            f"{name} is a masked array; fill its masked entries, say with p.filled(0), and normalise"
        )
    given = np.asarray(p)
    if given.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {given.dtype} values; give it real numbers")
    if given.ndim == 0 or given.shape[-1] == 0:
        raise ValueError(f"{name} has shape {given.shape}; its last axis must hold at least one probability")
    values: NDArray[np.float64] = given.astype(np.float64, copy=False)
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name}{_at(where)} is {values[where]}; probabilities must be finite and not negative. "
            "For scores or logits, apply a softmax first"
        )
    total = values.sum(axis=-1)
    single = given.dtype.kind == "f" and given.dtype.itemsize < 8
    off = np.abs(total - 1) > (SINGLE_PRECISION_TOLERANCE if single else SUM_TOLERANCE)
    if off.any():
        where = tuple(int(i) for i in np.argwhere(off)[0])
        row = f"{name}{_at(where)}" if where else name
        raise ValueError(f"{row} sums to {total[where]:.10g}, not 1; divide each row by its sum")
    return values / total[..., None] if single else values


def entropy(p: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """Entropy of `p` in nats, with 0 log 0 = 0.

    Parameters
    ----------
    p : array_like
        Probabilities along `axis`.
    axis : int
        The axis that holds the distributions.

    Returns
    -------
    ndarray
        Shape of `p` without `axis`; between 0 and log K.

    Raises
    ------
    ValueError
        If `p` does not hold distributions along `axis`.
    """
    return np.asarray(entr(_along(p, axis, "p")).sum(axis=-1), dtype=np.float64)


def cross_entropy(p: ArrayLike, q: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """Cross-entropy `-E_p log q` in nats; infinite where `p` is positive and `q` is zero.

    Parameters
    ----------
    p, q : array_like
        Probabilities along `axis`, of shapes that broadcast. The expectation is under `p`.
    axis : int
        The axis that holds the distributions.

    Returns
    -------
    ndarray
        Broadcast shape without `axis`.

    Raises
    ------
    ValueError
        If `p` or `q` does not hold distributions along `axis`, or their sizes differ.
    """
    p, q = _pair(p, q, axis)
    return np.asarray(-xlogy(p, q).sum(axis=-1), dtype=np.float64) + 0.0  # no negative zero


def kl_divergence(p: ArrayLike, q: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """Kullback-Leibler divergence `KL(p || q)` in nats; infinite where `p` is positive and `q` is zero.

    Summed as `p log(p/q) - p + q`, whose terms are never negative, and with `log1p` where `q` is close
    to `p`: two nearly equal distributions keep their digits.

    Parameters
    ----------
    p, q : array_like
        Probabilities along `axis`, of shapes that broadcast. The expectation is under `p`.
    axis : int
        The axis that holds the distributions.

    Returns
    -------
    ndarray
        Broadcast shape without `axis`; not negative.

    Raises
    ------
    ValueError
        If `p` or `q` does not hold distributions along `axis`, or their sizes differ.
    """
    p, q = _pair(p, q, axis)
    p, q = np.broadcast_arrays(p, q)
    terms = rel_entr(p, q) - p + q
    near = np.abs(q - p) < p / 2
    change = (q[near] - p[near]) / p[near]
    terms[near] = p[near] * (change - np.log1p(change))
    return np.asarray(np.maximum(terms, 0).sum(axis=-1), dtype=np.float64)


def total_variation(p: ArrayLike, q: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """Total variation distance, half the 1-norm of `p - q`: the largest difference over all events.

    Parameters
    ----------
    p, q : array_like
        Probabilities along `axis`, of shapes that broadcast.
    axis : int
        The axis that holds the distributions.

    Returns
    -------
    ndarray
        Broadcast shape without `axis`; between 0 and 1.

    Raises
    ------
    ValueError
        If `p` or `q` does not hold distributions along `axis`, or their sizes differ.
    """
    p, q = _pair(p, q, axis)
    return np.asarray(0.5 * np.abs(p - q).sum(axis=-1), dtype=np.float64)


def random_distribution(
    shape: int | tuple[int, ...], *, concentration: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw distributions from the symmetric Dirichlet law.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of the result; its last entry is the number of outcomes.
    concentration : float
        Dirichlet parameter, positive: 1 is uniform on the simplex, smaller is sparser.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray, shape `shape`
        Rows of the last axis sum to one.

    Raises
    ------
    ValueError
        If `concentration` is not a positive number, or `shape` has no outcome.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if not shape or shape[-1] < 1:
        raise ValueError(f"shape is {shape}; its last entry, the number of outcomes, must be at least 1")
    if not (np.isfinite(concentration) and concentration > 0):
        raise ValueError(f"concentration is {concentration}; it must be a positive number")
    return rng.dirichlet(np.full(shape[-1], float(concentration)), size=shape[:-1])


def _pair(p: ArrayLike, q: ArrayLike, axis: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    p, q = _along(p, axis, "p"), _along(q, axis, "q")
    if p.shape[-1] != q.shape[-1]:
        raise ValueError(f"p has {p.shape[-1]} outcomes, q has {q.shape[-1]}; give both over the same set")
    return p, q


def _along(p: ArrayLike, axis: int, name: str) -> NDArray[np.float64]:
    p = np.asanyarray(p)  # a masked array stays one, to be refused
    if axis in (-1, p.ndim - 1):
        return as_distribution(p, name)
    return as_distribution(np.moveaxis(p, axis, -1), f"moveaxis({name}, {axis}, -1)")


def _at(where: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, where))}]" if where else ""
