"""Softmax laws over words, and the one that fits a given law best.

Word ``w`` has the vector ``phi_w``, column ``w`` of ``Phi`` (shape (d, V)); a context has a vector ``theta``
(shape (d,)); the model's next-word law is ``p(w) = exp(theta . phi_w) / Z(theta)``. Everything is in nats.
See Saunshi, Malladi and Arora (2021).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse import probability
from lmcourse.faces import smallest_face

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
        If Newton's method or the linear program fails, or the face cannot be told.

    Notes
    -----
    The face depends only on the support of ``p*``: see `lmcourse.faces.smallest_face`, also for what is
    guaranteed. The moments are matched to 1e-12 of the size of the face.
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
        face[s] = smallest_face(row > 0, vectors)
        theta[s], law[s, face[s]] = _newton(row[face[s]], vectors[:, face[s]])
    shape = p.shape[:-1]
    return SoftmaxFit(
        law.reshape(p.shape),
        theta.reshape((*shape, len(vectors))),
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


def _newton(p: Array, vectors: Array) -> tuple[Array, Array]:
    """Fit ``theta`` so that the softmax law has the mean vector of ``p``, which lies inside the hull."""
    reference = int(p.argmax())
    offsets = vectors - vectors[:, [reference]]
    # Coordinates in the span of the hull, so that the Hessian is regular.
    basis, sizes, _ = np.linalg.svd(offsets, full_matrices=False)
    basis = basis[:, sizes > 1e-10 * max(float(sizes.max(initial=0.0)), 1e-300)]
    points = basis.T @ offsets
    # From the uniform law, and if that leads astray from regressions of the log-probabilities.
    seen = p > 0
    odds = np.log(p[seen] / p[reference])
    for power in (np.inf, 0.5, 1.0, 0.0):
        theta = np.zeros(len(points))
        if np.isfinite(power):
            weights = p[seen] ** (power / 2)
            theta = np.linalg.lstsq(points[:, seen].T * weights[:, None], odds * weights)[0]
        theta, law, gradient = _climb(theta, p, points)
        if np.all(np.abs(gradient) <= 1e-12 * np.abs(points).max(initial=0.0)):
            return basis @ theta, law
    raise RuntimeError("Newton's method did not match the moments: the word vectors are nearly dependent")


def _climb(theta: Array, p: Array, points: Array, *, steps: int = 500) -> tuple[Array, Array, Array]:
    """Newton's method with a line search from ``theta``: where it ends, the law there, the moments missed."""
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
        with np.errstate(over="ignore"):  # points too close together for the square of their distance
            axes = axes[:, kept] / spread[kept]
        step = -axes @ (axes.T @ gradient)
        if not np.isfinite(step).all():
            break
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
    return theta, law, gradient


def _mismatch(theta: Array, points: Array, p: Array) -> float:
    """Cross-entropy from ``p`` to the softmax law, the function that Newton's method minimises."""
    return float(log_partition(theta, points) - theta @ (points @ p))
