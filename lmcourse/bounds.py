"""What an excess cross-entropy promises downstream: the right-hand sides, and nothing else.

Setting (Saunshi, Malladi and Arora 2021): some classifier with weights of at most ``B`` has loss at most
``tau`` on the true laws; a model has excess cross-entropy ``eps``, in nats; the corpus covers the task by
``gamma``. Each function returns an upper bound on the loss of the best classifier, of the same class, on the
model's laws. All take numbers or arrays, which broadcast. With ``gamma = 0`` nothing is promised: the bound
is ``inf``, whatever the rest. With ``gamma > 0``, no error (``eps = 0``) and no weights (``B = 0``) each mean
no price, even beside an infinite value.

The sharp, easy-task and indicative-words forms are this course's; we have not found them in the papers.
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def half_range(v: ArrayLike) -> float:
    """Half-range ``R(v) = (max v - min v)/2`` of a classifier's weights, shape (V,): at most ``|v|_inf``.

    Only ``v.(p - p*)`` matters in the unconstrained bound, and ``p - p*`` sums to zero, so ``R`` may take
    the place of ``B`` there.
    """
    weights = np.asarray(v, dtype=float)
    if weights.ndim != 1 or weights.size == 0 or not np.isfinite(weights).all():
        raise ValueError(f"v must be a vector of finite weights, one a word; got shape {weights.shape}")
    return float((weights.max() - weights.min()) / 2)


def deviation(bound: ArrayLike, eps: ArrayLike, gamma: ArrayLike) -> Array:
    """Deviation ``D = sqrt(2 B^2 eps / gamma)``, in which all bounds are written.

    Parameters
    ----------
    bound : array_like
        Bound ``B`` on the classifier's weights (or its half-range ``R``), at least 0.
    eps : array_like
        Excess cross-entropy, in nats, at least 0.
    gamma : array_like
        Coverage, in [0, 1].

    Returns
    -------
    ndarray
        ``inf`` where ``gamma = 0``; else 0 where ``eps = 0``, since the model is then the truth wherever the
        task goes, however large the weights, and where ``B = 0``, since the only classifier is then ``v =
        0``, whose loss is ``log 2`` on any laws.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    return _deviation(_at_least_zero(bound, "bound"), eps, _coverage(gamma))


def unconstrained_bound(tau: ArrayLike, bound: ArrayLike, eps: ArrayLike, gamma: ArrayLike) -> Array:
    """Unconstrained bound of Saunshi, Malladi and Arora (2021): ``tau + D``.

    Parameters
    ----------
    tau : array_like
        Loss of a classifier on the true laws, at least 0.
    bound, eps, gamma : array_like
        As in `deviation`.

    Returns
    -------
    ndarray
    """
    return _at_least_zero(tau, "tau") + deviation(bound, eps, gamma)


def half_range_bound(tau: ArrayLike, v: ArrayLike, eps: ArrayLike, gamma: ArrayLike) -> Array:
    """Unconstrained bound with the half-range of the classifier ``v``, shape (V,), in place of ``B``."""
    return unconstrained_bound(tau, half_range(v), eps, gamma)


def sharp_bound(tau: ArrayLike, bound: ArrayLike, eps: ArrayLike, gamma: ArrayLike) -> Array:
    """Sharp bound ``tau + D/2``: one half cannot be improved. Arguments as in `unconstrained_bound`."""
    return _at_least_zero(tau, "tau") + deviation(bound, eps, gamma) / 2


@cache
def easy_task_constant() -> float:
    """Largest value of ``sigma(-m)^2 / log(1 + exp(-m))`` over margins ``m``: about 0.407.

    With ``u = sigma(-m)`` the ratio is ``-u^2 / log(1 - u)``; its derivative vanishes where
    ``u / (1 - u) = -2 log(1 - u)``, which bisection finds.
    """
    low, high = 0.5, 0.9
    for _ in range(60):
        u = (low + high) / 2
        if u / (1 - u) < -2 * np.log1p(-u):
            low = u
        else:
            high = u
    return float(-(low**2) / np.log1p(-low))


def easy_task_bound(tau: ArrayLike, bound: ArrayLike, eps: ArrayLike, gamma: ArrayLike) -> Array:
    """Bound for easy tasks: ``tau + sqrt(c tau) D + D^2/8`` with ``c = easy_task_constant()``.

    As ``tau`` goes to 0 the price becomes linear in ``eps``. Arguments as in `unconstrained_bound`.
    """
    loss = _at_least_zero(tau, "tau")
    d = deviation(bound, eps, gamma)
    root = np.sqrt(easy_task_constant() * loss)
    first_order = _product(root, d)
    return loss + first_order + d**2 / 8


def indicative_words_bound(
    tau: ArrayLike, second_moment: ArrayLike, eps: ArrayLike, gamma: ArrayLike
) -> Array:
    """Bound for classifiers that live on few words: ``tau + sqrt(2 S eps / gamma)``.

    Parameters
    ----------
    tau : array_like
        Loss of the classifier ``v`` on the true laws, at least 0.
    second_moment : array_like
        ``S = E_T[sum_w p*(w|s) v_w^2 + sum_w p(w|s) v_w^2]``, at least 0; see `lmcourse.tasks.second_moment`.
    eps, gamma : array_like
        As in `deviation`.

    Returns
    -------
    ndarray
    """
    size = np.sqrt(_at_least_zero(second_moment, "second_moment"))
    return _at_least_zero(tau, "tau") + _deviation(size, eps, _coverage(gamma))


def softmax_bound(tau: ArrayLike, bound: ArrayLike, eps: ArrayLike, gamma: ArrayLike) -> Array:
    """Bound for softmax models: ``tau + D/2`` for classifiers ``v = Phi^T lam`` with ``|v|_inf <= B``.

    Here ``eps`` is the excess over the *best softmax model with this* ``Phi``, not over the truth, and
    ``gamma`` may be the transfer ``gamma_Phi``, which is at least the coverage and may exceed 1, up to
    ``inf``, where the errors do not touch the task. The other arguments are those of `unconstrained_bound`.
    """
    d = _deviation(_at_least_zero(bound, "bound"), eps, _at_least_zero(gamma, "gamma"))
    return _at_least_zero(tau, "tau") + d / 2


def non_vacuous_eps(tau: ArrayLike, bound: ArrayLike, gamma: ArrayLike, *, sharp: bool = True) -> Array:
    """Excess cross-entropy below which a bound beats a coin, that is, is below ``log 2``.

    Parameters
    ----------
    tau, bound, gamma : array_like
        As in `unconstrained_bound`.
    sharp : bool
        For the sharp bound, ``2 gamma (log 2 - tau)^2 / B^2``; otherwise for the unconstrained one, a
        quarter of it.

    Returns
    -------
    ndarray
        0 where ``tau >= log 2`` or ``gamma = 0``; ``inf`` where only the bound ``B`` is 0.
    """
    room = np.maximum(np.log(2) - _at_least_zero(tau, "tau"), 0.0)
    b = _at_least_zero(bound, "bound")
    allowed = (2.0 if sharp else 0.5) * _coverage(gamma) * room**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(allowed > 0, allowed / b**2, 0.0)


def _deviation(size: Array, eps: ArrayLike, gamma: Array) -> Array:
    """``size * sqrt(2 eps / gamma)``, by the rules for zeros and infinities of `deviation`."""
    root = np.sqrt(2 * _at_least_zero(eps, "eps"))
    spread = _product(root, np.divide(1.0, np.sqrt(gamma), out=np.zeros(gamma.shape), where=gamma > 0))
    return np.where(gamma > 0, _product(size, spread), np.inf)


def _product(a: Array, b: Array) -> Array:
    """Product in which 0 times infinity is 0."""
    a, b = np.broadcast_arrays(a, b)
    return np.multiply(a, b, out=np.zeros(a.shape), where=(a > 0) & (b > 0))


def _coverage(gamma: ArrayLike) -> Array:
    g = _at_least_zero(gamma, "gamma")
    if np.any(g > 1):
        raise ValueError(f"gamma is a coverage and must be at most 1; got {g.max()}")
    return g


def _at_least_zero(value: ArrayLike, name: str) -> Array:
    x = np.asarray(value, dtype=np.float64)
    if np.isnan(x).any() or np.any(x < 0):
        raise ValueError(f"{name} must be at least 0; got {x[~(x >= 0)].flat[0]}")
    return x
