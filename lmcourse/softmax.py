"""Softmax laws over words, and the one that fits a given law best.

Word ``w`` has the vector ``phi_w``, column ``w`` of ``Phi`` (shape (d, V)); a context has a vector ``theta``
(shape (d,)); the model's next-word law is ``p(w) = exp(theta . phi_w) / Z(theta)``. Everything is in nats.
See Saunshi, Malladi and Arora (2021).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse import probability

Array = NDArray[np.float64]


def log_partition(theta: ArrayLike, phi: ArrayLike) -> Array:
    """Log-partition function ``log Z(theta) = log sum_w exp(theta . phi_w)``, stable for any ``theta``.

    Parameters
    ----------
    theta : array_like, shape (..., d)
        Context vectors.
    phi : array_like, shape (d, V)
        Word vectors as columns.

    Returns
    -------
    ndarray, shape (...)
    """
    logits = _logits(theta, phi)
    top = logits.max(axis=-1)
    value: Array = top + np.log(np.exp(logits - top[..., None]).sum(axis=-1))
    return value


def softmax_law(theta: ArrayLike, phi: ArrayLike) -> Array:
    """Next-word laws ``p_theta(w) = exp(theta . phi_w) / Z(theta)``.

    Parameters
    ----------
    theta : array_like, shape (..., d)
        Context vectors.
    phi : array_like, shape (d, V)
        Word vectors as columns.

    Returns
    -------
    ndarray, shape (..., V)
    """
    logits = _logits(theta, phi)
    law: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    law /= law.sum(axis=-1, keepdims=True)
    return law


def conditional_mean_features(law: ArrayLike, phi: ArrayLike) -> Array:
    """Mean word vector ``Phi p`` under next-word laws: the gradient of ``log Z`` where ``p = p_theta``.

    Parameters
    ----------
    law : array_like, shape (..., V)
        Next-word laws.
    phi : array_like, shape (d, V)
        Word vectors as columns.

    Returns
    -------
    ndarray, shape (..., d)
    """
    p = probability.as_distribution(law, "law")
    mean: Array = p @ _word_vectors(phi, p.shape[-1]).T
    return mean


def features_covariance(law: ArrayLike, phi: ArrayLike) -> Array:
    """Covariance of the word vector under next-word laws: the Hessian of ``log Z`` where ``p = p_theta``.

    Parameters are those of `conditional_mean_features`.

    Returns
    -------
    ndarray, shape (..., d, d)
    """
    p = probability.as_distribution(law, "law")
    vectors = _word_vectors(phi, p.shape[-1])
    centred = vectors - conditional_mean_features(p, vectors)[..., None]
    covariance: Array = np.einsum("...w,...iw,...jw->...ij", p, centred, centred)
    return covariance


class SoftmaxFit(NamedTuple):
    """Best softmax laws for given laws: see `fit_softmax_law`."""

    law: Array
    theta: Array
    attained: NDArray[np.bool_]
    face: NDArray[np.bool_]


def fit_softmax_law(p_star: ArrayLike, phi: ArrayLike) -> SoftmaxFit:
    """Find the best law for ``p*`` among softmax laws and their limits: its moments are those of ``p*``.

    It maximises ``E_{p*} log p_theta(w)``. The maximum is attained when ``Phi p*`` lies in the relative
    interior of the hull of the word vectors. Otherwise it lies on a face of the hull, and the best law is
    the limit of softmax laws that give all mass to the words of that face.

    Parameters
    ----------
    p_star : array_like, shape (V,) or (S, V)
        Laws to fit.
    phi : array_like, shape (d, V)
        Word vectors as columns.

    Returns
    -------
    SoftmaxFit
        ``law``, shape (..., V), with ``Phi law = Phi p*``; ``theta``, shape (..., d), which gives ``law`` on
        the words of the face (one of many if the vectors do not span); ``attained``, shape (...), whether
        ``softmax_law(theta, phi)`` is ``law``; ``face``, shape (..., V), the words of the smallest face that
        holds ``Phi p*``.

    Raises
    ------
    RuntimeError
        If Newton's method or the linear program fails.

    Notes
    -----
    The face depends only on the support of ``p*``: a word outside it is on the face iff some signed weights,
    negative only on the support, sum to zero, have zero mean vector, and are positive at that word. One
    linear program finds all.
    """
    p = probability.as_distribution(p_star, "p_star")
    if p.ndim > 2:
        raise ValueError(f"p_star must have shape (V,) or (S, V); got {p.shape}")
    vectors = _word_vectors(phi, p.shape[-1])
    rows = np.atleast_2d(p)
    theta = np.zeros((len(rows), len(vectors)))
    law = np.zeros(rows.shape)
    face = np.zeros(rows.shape, dtype=bool)
    for s, row in enumerate(rows):
        face[s] = _smallest_face(row > 0, vectors)
        theta[s], law[s, face[s]] = _newton(row[face[s]], vectors[:, face[s]])
    shape = p.shape[:-1]
    return SoftmaxFit(
        law.reshape(p.shape),
        theta.reshape((*shape, -1)),
        np.asarray(face.all(axis=1).reshape(shape)),
        face.reshape(p.shape),
    )


class Pythagoras(NamedTuple):
    """The three divergences of Pythagoras' identity, ``to_model = to_best + best_to_model``, in nats."""

    to_model: Array
    to_best: Array
    best_to_model: Array


def pythagoras(p_star: ArrayLike, phi: ArrayLike, theta: ArrayLike) -> Pythagoras:
    """Divergences between the truth, its best softmax law ``p_f*`` and a softmax model ``p_theta``.

    The excess of ``theta`` over the best softmax model, ``to_model - to_best``, equals ``best_to_model``,
    whether the best law is attained or a limit.

    Parameters
    ----------
    p_star : array_like, shape (V,) or (S, V)
        True laws.
    phi : array_like, shape (d, V)
        Word vectors as columns.
    theta : array_like, shape (d,) or (S, d)
        Context vectors of the model.

    Returns
    -------
    Pythagoras
        Three arrays, shape () or (S,).
    """
    p = probability.as_distribution(p_star, "p_star")
    vectors = _word_vectors(phi, p.shape[-1])
    best = fit_softmax_law(p, vectors)
    # Log-probabilities, so that laws which underflow do no harm.
    log_model = _log_law(_logits(theta, vectors))
    log_best = _log_law(np.where(best.face, _logits(best.theta, vectors), -np.inf))
    log_truth = np.log(p, where=p > 0, out=np.zeros_like(p))
    return Pythagoras(
        _divergence(p, log_truth, log_model),
        _divergence(p, log_truth, log_best),
        _divergence(best.law, log_best, log_model),
    )


def _log_law(logits: Array) -> Array:
    top = logits.max(axis=-1, keepdims=True)
    log_law: Array = logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    return log_law


def _divergence(p: Array, log_p: Array, log_q: Array) -> Array:
    """Divergence ``sum p (log p - log q)`` as a sum of terms that are at least 0, each accurate."""
    change = np.subtract(log_q, log_p, where=p > 0, out=np.zeros_like(p))
    return np.asarray(np.where(p > 0, p * (np.expm1(change) - change), np.exp(log_q)).sum(axis=-1))


def _word_vectors(phi: ArrayLike, n_words: int | None = None) -> Array:
    vectors = np.asarray(phi, dtype=np.float64)
    if vectors.ndim != 2 or (n_words is not None and vectors.shape[1] != n_words):
        raise ValueError(f"phi must have shape (d, {n_words or 'V'}), words as columns; got {vectors.shape}")
    if not np.isfinite(vectors).all():
        raise ValueError("phi has entries that are not finite")
    return vectors


def _logits(theta: ArrayLike, phi: ArrayLike) -> Array:
    vectors = _word_vectors(phi)
    context = np.asarray(theta, dtype=np.float64)
    if context.shape[-1:] != vectors.shape[:1] or not np.isfinite(context).all():
        raise ValueError(f"theta must be finite, of shape (..., {len(vectors)}); got shape {context.shape}")
    logits: Array = context @ vectors
    return logits


def _smallest_face(support: NDArray[np.bool_], vectors: Array) -> NDArray[np.bool_]:
    """Words on the smallest face of the hull that holds every law with this support."""
    if support.all():
        return support
    from scipy.optimize import linprog

    scale = np.abs(vectors).max(axis=1, keepdims=True)
    rows = np.vstack([vectors / np.where(scale > 0, scale, 1.0), np.ones(vectors.shape[1])])
    n_on, n_off = int(support.sum()), int((~support).sum())
    # Weights r: free on the support, r >= t >= 0 off it, with t <= 1 and sum(t) as large as possible.
    split = np.hstack([rows[:, support], rows[:, ~support], np.zeros((len(rows), n_off))])
    order = np.hstack([np.zeros((n_off, n_on)), -np.eye(n_off), np.eye(n_off)])
    solution = linprog(
        np.concatenate([np.zeros(n_on + n_off), -np.ones(n_off)]),
        A_ub=order,
        b_ub=np.zeros(n_off),
        A_eq=split,
        b_eq=np.zeros(len(rows)),
        bounds=[(None, None)] * n_on + [(0, None)] * n_off + [(0, 1)] * n_off,
        method="highs",
    )
    if solution.status != 0:
        raise RuntimeError(f"the linear program for the face failed: {solution.message}")
    face = support.copy()
    face[~support] = solution.x[n_on + n_off :] > 0.5
    return face


def _newton(p: Array, vectors: Array, *, steps: int = 500) -> tuple[Array, Array]:
    """Fit ``theta`` so that the softmax law has the mean vector of ``p``, which lies inside the hull."""
    reference = int(p.argmax())
    offsets = vectors - vectors[:, [reference]]
    # Coordinates in the span of the hull, so that the Hessian is regular.
    basis, sizes, _ = np.linalg.svd(offsets, full_matrices=False)
    basis = basis[:, sizes > 1e-10 * max(float(sizes.max(initial=0.0)), 1e-300)]
    points = basis.T @ offsets
    theta = np.zeros(len(points))
    law = softmax_law(theta, points)
    # Differences from the likeliest word keep the gradient accurate when all other words are rare; what
    # rounding leaves is then small against the sizes of the terms that it sums.
    gradient = points @ (law - p)
    for _ in range(steps):
        noise = np.abs(points) @ (law + p)
        if np.all(np.abs(gradient) <= 1e-14 * noise):
            break
        # The Hessian is A A^T: working with A does not square its condition number.
        half = (points - (points @ law)[:, None]) * np.sqrt(law)
        axes, spread, _ = np.linalg.svd(half, full_matrices=False)
        kept = spread > 1e-15 * spread.max(initial=0.0)
        axes = axes[:, kept] / spread[kept]
        step = -axes @ (axes.T @ gradient)
        slope, value = float(gradient @ step), _mismatch(theta, points, p)
        # Far from the answer the step can be huge: let no log-probability change by more than 20 at once.
        length = min(1.0, 20 / max(float(np.ptp(step @ points)), 1e-300))
        while True:
            trial = softmax_law(theta + length * step, points)
            trial_gradient = points @ (trial - p)
            drop = _mismatch(theta + length * step, points, p) - value
            if (trial_gradient @ step <= -0.5 * slope and drop <= 1e-13) or length < 1e-15:
                break
            length /= 2
        before, after = np.abs(gradient).max(), np.abs(trial_gradient).max()
        if after == before or (after > before and np.all(np.abs(gradient) <= 1e-11 * noise)):
            break
        theta, law, gradient = theta + length * step, trial, trial_gradient
    if np.any(np.abs(gradient) > 1e-12 * np.abs(points).max(initial=0.0)):
        raise RuntimeError("Newton's method did not match the moments: the word vectors are nearly dependent")
    return basis @ theta, law


def _mismatch(theta: Array, points: Array, p: Array) -> float:
    """Cross-entropy from ``p`` to the softmax law, the function that Newton's method minimises."""
    return float(log_partition(theta, points) - theta @ (points @ p))
