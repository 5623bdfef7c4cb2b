"""Faces of the hull of word vectors: where the best softmax law of a law with zeros puts its mass."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Directions of word vectors that differ by less count as one.
DIRECTIONS_AGREE = 1e-12


def smallest_face(support: NDArray[np.bool_], vectors: Array) -> NDArray[np.bool_]:
    """Find the smallest face of the hull of word vectors that holds the mean of every law with this support.

    Parameters
    ----------
    support : ndarray of bool, shape (V,)
        The words that have some mass; at least one.
    vectors : ndarray, shape (d, V)
        Word vectors as columns, finite.

    Returns
    -------
    ndarray of bool, shape (V,)
        The words on that face; among them those of the support.

    Raises
    ------
    RuntimeError
        If the linear program fails, or the face cannot be told.

    Notes
    -----
    A word outside the support is on the face iff some signed weights, negative only on the support, sum to
    zero, have zero mean vector, and are positive at that word. One linear program finds all.

    Seen from a word of the support only the directions of the others matter, so words may be as close
    together as rounding allows. A face that is returned is right for word vectors whose directions (with each
    coordinate scaled by its range) differ from the given ones by at most about 1e-12, which is checked. The
    linear program neglects entries of 1e-9: where that leads to no such face, there is an error.
    """
    if support.all():
        return support
    # Seen from a word of the support only directions matter, not lengths: words are brought to length 1.
    offsets = vectors - vectors[:, [int(support.argmax())]]
    largest = np.abs(offsets).max(axis=1, keepdims=True, initial=0.0)
    directions = _unit(offsets / np.where(largest > 0, largest, 1.0))
    span = _span(directions[:, support])
    # Words in the span of the support are on the face; others are if they balance one another.
    away = directions - span @ (span.T @ directions)
    away -= span @ (span.T @ away)
    face: NDArray[np.bool_] = support | (np.linalg.norm(away, axis=0) <= DIRECTIONS_AGREE)
    face[~face] = _balanced(_unit(away[:, ~face]))
    return face


def _balanced(directions: Array) -> NDArray[np.bool_]:
    """Columns that have a positive weight in some sum of columns, no weight negative, that is zero."""
    from scipy.optimize import linprog

    n = directions.shape[1]
    if n == 0:
        return np.zeros(0, dtype=bool)
    # Weights r >= t >= 0, with t <= 1 and sum(t) as large as possible.
    solution = linprog(
        np.append(np.zeros(n), -np.ones(n)),
        A_ub=np.hstack([-np.eye(n), np.eye(n)]),
        b_ub=np.zeros(n),
        A_eq=np.hstack([directions, np.zeros_like(directions)]),
        b_eq=np.zeros(len(directions)),
        bounds=[(0, None)] * n + [(0, 1)] * n,
        method="highs",
    )
    if solution.status != 0:
        raise RuntimeError(f"the linear program for the face failed: {solution.message}")
    # The solver meets its constraints only nearly: make the weights and the functional that proves the rest
    # to be off the face exact, and see that they remain what they were.
    positive: NDArray[np.bool_] = solution.x[n:] > 0.5
    weights, chosen = solution.x[:n][positive], directions[:, positive]
    span = _span(chosen)
    weights = weights - np.linalg.lstsq(span.T @ chosen, span.T @ (chosen @ weights), rcond=None)[0]
    functional = solution.eqlin.marginals
    rounding = DIRECTIONS_AGREE * np.linalg.norm(functional)
    functional = functional - span @ (span.T @ functional)
    heights = functional @ directions[:, ~positive]
    if np.any(weights < 0.1) or not (np.all(heights > rounding) or np.all(heights < -rounding)):
        raise RuntimeError(
            "the face that holds Phi p* cannot be told: word vectors are within rounding of being on it. "
            "Move them clearly on or off, or leave out those words"
        )
    return positive


def _unit(columns: Array) -> Array:
    """Columns divided by their lengths; those that are zero stay."""
    largest = np.abs(columns).max(axis=0, initial=0.0)
    scaled = columns / np.where(largest > 0, largest, 1.0)  # else the square of a small one underflows
    length = np.linalg.norm(scaled, axis=0)
    unit: Array = scaled / np.where(length > 0, length, 1.0)
    return unit


def _span(columns: Array) -> Array:
    """Orthonormal basis, as columns, of the span of columns of length 1."""
    basis, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    kept: Array = basis[:, sizes > DIRECTIONS_AGREE]
    return kept
