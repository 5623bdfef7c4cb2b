"""Finite languages whose true next-word laws are known, and models that depart from them on purpose.

A language is a law over contexts and, for each context, a law over the next word. A *model* is any array of
next-word laws of the same shape. All quantities are in nats. The definitions are those of Saunshi, Malladi
and Arora (2021).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse import probability

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Language:
    """A finite language with a known truth.

    Parameters
    ----------
    contexts : array_like, shape (S,)
        The law of contexts ``p_L(s)``.
    truth : array_like, shape (S, V)
        The true next-word laws ``p*(w | s)``, one row a context.
    words : tuple of str, optional
        Names of the ``V`` words.
    context_names : tuple of str, optional
        The text of each of the ``S`` contexts.

    Raises
    ------
    ValueError
        If a row is not a law, or the shapes or the number of names disagree.
    """

    contexts: Array
    truth: Array
    words: tuple[str, ...] | None = None
    context_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        contexts = np.array(probability.as_distribution(self.contexts, "contexts"), dtype=np.float64)
        truth = np.array(probability.as_distribution(self.truth, "truth"), dtype=np.float64)
        if contexts.ndim != 1 or truth.ndim != 2 or len(truth) != len(contexts):
            raise ValueError(
                f"contexts must have shape (S,) and truth (S, V); got {contexts.shape} and {truth.shape}"
            )
        for names, size, what in (
            (self.words, truth.shape[1], "words"),
            (self.context_names, len(contexts), "context_names"),
        ):
            if names is not None and len(names) != size:
                raise ValueError(f"{what} has {len(names)} names, but the language has {size}")
        contexts.setflags(write=False)
        truth.setflags(write=False)
        object.__setattr__(self, "contexts", contexts)
        object.__setattr__(self, "truth", truth)

    @property
    def n_contexts(self) -> int:
        """Number of contexts ``S``."""
        return len(self.truth)

    @property
    def n_words(self) -> int:
        """Vocabulary size ``V``."""
        return int(self.truth.shape[1])


def as_model(language: Language, model: ArrayLike, name: str = "model") -> Array:
    """Check a model of this language.

    Parameters
    ----------
    language : Language
        The language that the model is meant for.
    model : array_like, shape (S, V)
        Next-word laws ``p(w | s)``.
    name : str
        What to call it in an error.

    Returns
    -------
    ndarray, shape (S, V)

    Raises
    ------
    ValueError
        If a row is not a law or the shape is not that of ``language.truth``.
    """
    p = probability.as_distribution(model, name)
    if p.shape != language.truth.shape:
        raise ValueError(f"{name} must have shape {language.truth.shape}, one law a context; got {p.shape}")
    return p


def cross_entropy(language: Language, model: ArrayLike) -> float:
    """Return the cross-entropy ``E_{p_L} sum_w -p*(w|s) log p(w|s)`` of a model, in nats a word.

    Parameters
    ----------
    language : Language
        The truth.
    model : array_like, shape (S, V)
        The model's next-word laws.

    Returns
    -------
    float
        ``inf`` if the model gives no mass to a word that the language uses.
    """
    seen = language.contexts > 0
    p = as_model(language, model)[seen]
    return float(language.contexts[seen] @ probability.cross_entropy(language.truth[seen], p))


def entropy(language: Language) -> float:
    """Entropy ``E_{p_L} H(p*(.|s))`` of the truth, in nats a word: the floor of every cross-entropy."""
    return float(language.contexts @ probability.entropy(language.truth))


def excess(language: Language, model: ArrayLike) -> float:
    """Excess cross-entropy ``eps = E_{p_L} KL(p*(.|s) || p(.|s))``, in nats a word.

    By Gibbs' inequality it is at least 0, and equals ``cross_entropy(language, model) - entropy(language)``;
    the sum of divergences used here keeps its accuracy when the difference of two large numbers would not.

    Parameters
    ----------
    language : Language
        The truth.
    model : array_like, shape (S, V)
        The model's next-word laws.

    Returns
    -------
    float
    """
    seen = language.contexts > 0
    p = as_model(language, model)[seen]
    return float(language.contexts[seen] @ probability.kl_divergence(language.truth[seen], p))


def interpolate(p: ArrayLike, q: ArrayLike, weight: float) -> Array:
    """Mix two laws, or two models row by row: ``(1 - weight) p + weight q``, ``weight`` in [0, 1]."""
    if not 0 <= weight <= 1:
        raise ValueError(f"weight must be in [0, 1]; got {weight}")
    first = probability.as_distribution(p, "p")
    second = probability.as_distribution(q, "q")
    mixed: Array = (1 - weight) * first + weight * second
    return mixed


def tilt(p: ArrayLike, direction: ArrayLike, scale: float = 1.0) -> Array:
    """Tilt laws to ``p(w|s) exp(-scale * direction(s, w))``, renormalised.

    Parameters
    ----------
    p : array_like, shape (..., V)
        Laws; a zero stays zero.
    direction : array_like, broadcastable to the shape of ``p``
        What is taken from the log-probabilities; finite.
    scale : float
        Its size, finite.

    Returns
    -------
    ndarray, shape (..., V)
    """
    if not np.isfinite(scale):
        raise ValueError(f"scale must be finite; got {scale}")
    return np.exp(_log_tilt(probability.as_distribution(p, "p"), _as_direction(direction), scale))


def interpolated_model(language: Language, other: ArrayLike, *, excess: float) -> Array:
    """Mix the truth with another model, at a given excess cross-entropy.

    Parameters
    ----------
    language : Language
        The truth.
    other : array_like, shape (S, V)
        The model to move towards, for example the same unigram law in every context.
    excess : float
        The excess cross-entropy wanted, in nats, at most that of ``other``.

    Returns
    -------
    ndarray, shape (S, V)

    Raises
    ------
    ValueError
        If ``other`` is closer to the truth than asked.
    """
    from scipy.optimize import brentq

    target = _check_excess(excess)
    end = as_model(language, other, "other")
    seen = language.contexts > 0
    weights, truth, far = language.contexts[seen], language.truth[seen], end[seen]

    def reached(weight: float) -> float:
        return float(weights @ probability.kl_divergence(truth, (1 - weight) * truth + weight * far))

    if target == 0:
        return language.truth.copy()
    most = reached(1.0)
    if target > most:
        raise ValueError(
            f"excess {target} asked, but `other` itself has only {most}: move towards a worse model"
        )
    top = 1.0 if most < np.inf else 1 - 2.0**-52
    if target > reached(top):
        raise ValueError(f"excess {target} is reached only within rounding of `other`: ask for less")
    weight = float(brentq(lambda w: reached(w) - target, 0.0, top, xtol=1e-300, rtol=1e-15, maxiter=500))
    return (1 - weight) * language.truth + weight * end


def aligned_model(language: Language, labels: ArrayLike, direction: ArrayLike, *, excess: float) -> Array:
    """Build a model whose errors point against a task: ``log p = log p* - t y(s) v``, renormalised.

    Parameters
    ----------
    language : Language
        The truth.
    labels : array_like, shape (S,)
        The label ``y(s)`` of each context, -1 or +1.
    direction : array_like, shape (V,)
        The word weights ``v`` of a classifier of the task.
    excess : float
        The excess cross-entropy wanted, in nats; ``t >= 0`` is solved for.

    Returns
    -------
    ndarray, shape (S, V)

    Raises
    ------
    ValueError
        If no tilt reaches that excess: ``v`` is constant on the support of every context.
    """
    y = np.asarray(labels, dtype=float)
    v = _as_direction(direction)
    if y.shape != (language.n_contexts,) or not np.all(np.abs(y) == 1):
        raise ValueError(f"labels must be -1 or +1, one for each of {language.n_contexts} contexts")
    if v.shape != (language.n_words,):
        raise ValueError(
            f"direction must have one weight for each of {language.n_words} words; got {v.shape}"
        )
    return tilted_model(language, y[:, None] * v, excess=excess)


def unrelated_model(language: Language, *, excess: float, rng: np.random.Generator) -> Array:
    """Build a model whose errors know nothing of any task: normal noise in the logits, scaled.

    Parameters
    ----------
    language : Language
        The truth.
    excess : float
        The excess cross-entropy wanted, in nats.
    rng : numpy.random.Generator
        Source of the noise.

    Returns
    -------
    ndarray, shape (S, V)
    """
    return tilted_model(language, rng.standard_normal(language.truth.shape), excess=excess)


def tilted_model(language: Language, direction: ArrayLike, *, excess: float) -> Array:
    """Tilt the truth along any direction (see `tilt`), by the scale ``t >= 0`` that gives this excess.

    The excess grows without bound in ``t``, convexly, unless the direction is constant on the support of
    every context; the root is found to the last digits.

    Parameters
    ----------
    language : Language
        The truth.
    direction : array_like, shape (S, V)
        What is taken from the log-probabilities; finite.
    excess : float
        The excess cross-entropy wanted, in nats.

    Returns
    -------
    ndarray, shape (S, V)

    Raises
    ------
    ValueError
        If ``excess`` is negative, the direction is not finite, or no scale reaches the excess.
    """
    from scipy.optimize import brentq

    target = _check_excess(excess)
    away = np.broadcast_to(_as_direction(direction), language.truth.shape)
    if target == 0:
        return language.truth.copy()
    seen = language.contexts > 0
    weights, truth = language.contexts[seen], language.truth[seen]
    reached = _tilt_excess(weights, truth, away[seen])
    top = 1.0
    while reached(top) < target:
        top *= 2
        if top > 1e12:
            raise ValueError(
                "no tilt reaches that excess: the direction is constant on every context's support"
            )
    scale = float(brentq(lambda t: reached(t) - target, 0.0, top, xtol=1e-300, rtol=1e-15, maxiter=500))
    return np.exp(_log_tilt(language.truth, away, scale))


def random_language(
    n_contexts: int,
    n_words: int,
    *,
    rng: np.random.Generator,
    concentration: float = 1.0,
    context_concentration: float = 1.0,
) -> Language:
    """Draw a language: Dirichlet contexts and Dirichlet next-word laws.

    Parameters
    ----------
    n_contexts, n_words : int
        Sizes ``S`` and ``V``, at least 1.
    rng : numpy.random.Generator
        Source of randomness.
    concentration : float
        Dirichlet parameter of the next-word laws: near 0 they are almost deterministic, large almost uniform.
    context_concentration : float
        The same for the law of contexts: near 0 most contexts are almost never met.

    Returns
    -------
    Language
    """
    return Language(
        contexts=probability.random_distribution(n_contexts, concentration=context_concentration, rng=rng),
        truth=probability.random_distribution((n_contexts, n_words), concentration=concentration, rng=rng),
    )


def wild_language(rng: np.random.Generator, *, max_contexts: int = 8, max_words: int = 8) -> Language:
    """Draw a language meant to hurt: sizes from 1 up, laws from almost deterministic to almost uniform.

    Each concentration is log-uniform, between 0.01 and 100. One language in four has exact zeros in its laws.
    """
    size = (int(rng.integers(1, max_contexts + 1)), int(rng.integers(1, max_words + 1)))
    flat, flat_contexts = 10.0 ** rng.uniform(-2, 2, size=2)
    found = random_language(*size, rng=rng, concentration=flat, context_concentration=flat_contexts)
    if rng.random() < 0.25:
        kept = np.where(rng.random(size) < 0.5, found.truth, 0.0)
        kept[np.arange(size[0]), found.truth.argmax(axis=1)] = 1e-3 + found.truth.max(axis=1)
        return Language(found.contexts, kept / kept.sum(axis=1, keepdims=True))
    return found


def _check_excess(excess: float) -> float:
    if not 0 <= excess < np.inf:
        raise ValueError(f"excess must be finite and at least 0 (Gibbs' inequality); got {excess}")
    return float(excess)


def _as_direction(direction: ArrayLike) -> Array:
    away = np.asarray(direction, dtype=np.float64)
    if not np.isfinite(away).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(away))[0])
        raise ValueError(f"direction must be finite; at {where} it is {away[where]}")
    return away


def _log_tilt(p: Array, direction: Array, scale: float) -> Array:
    with np.errstate(divide="ignore"):
        logits = np.log(p) - scale * direction
    logits = logits - logits.max(axis=-1, keepdims=True)
    log_law: Array = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return log_law


def _tilt_excess(weights: Array, truth: Array, direction: Array) -> Callable[[float], float]:
    """Excess of a tilt as a function of its scale: a sum of terms >= 0, finite where laws underflow."""
    support = truth > 0
    log_truth = np.log(truth, where=support, out=np.zeros_like(truth))

    def reached(scale: float) -> float:
        change = np.where(support, _log_tilt(truth, direction, scale) - log_truth, 0.0)
        return float(weights @ (truth * (np.expm1(change) - change)).sum(axis=1))

    return reached
