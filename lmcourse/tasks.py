"""Classification tasks over contexts, and the best linear classifier on next-word laws.

A task is a law over contexts and labels -1 and +1. A classifier is one weight a word: it scores a context by
``v . p(.|s)`` and pays the logistic loss. How low the loss can go with weights of at most ``B`` on the
*true* laws says how natural the task is (Saunshi, Malladi and Arora 2021). The best weights come from a
convex program.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse import probability
from lmcourse.convex import BestLoss, LogisticProgram

Array = NDArray[np.float64]

LABELS = np.array([-1.0, 1.0])
LABELS.setflags(write=False)


@dataclass(frozen=True, eq=False)
class Task:
    """A binary classification task.

    Parameters
    ----------
    law : array_like, shape (S, 2)
        The law ``p_T(s, y)`` over contexts and labels: column 0 is ``y = -1``, column 1 is ``y = +1``.

    Raises
    ------
    ValueError
        If it is not a law over (S, 2).
    """

    law: Array

    def __post_init__(self) -> None:
        given = np.asanyarray(self.law, dtype=np.float64)  # a masked array stays one, to be refused
        if given.ndim != 2 or given.shape[1] != 2:
            raise ValueError(f"law must have shape (S, 2), one column a label; got {given.shape}")
        law = np.array(probability.as_distribution(given.reshape(-1), "law"), dtype=np.float64)
        law = law.reshape(given.shape)
        law.setflags(write=False)
        object.__setattr__(self, "law", law)

    @property
    def n_contexts(self) -> int:
        """Number of contexts ``S``."""
        return len(self.law)

    @property
    def contexts(self) -> Array:
        """The law of contexts ``p_T(s)``, shape (S,)."""
        marginal: Array = self.law.sum(axis=1)
        return marginal


def task_from_labels(contexts: ArrayLike, labels: ArrayLike) -> Task:
    """Make the task in which each context has one label.

    Parameters
    ----------
    contexts : array_like, shape (S,)
        The law of contexts ``p_T(s)``.
    labels : array_like, shape (S,)
        The label of each context, -1 or +1.

    Returns
    -------
    Task
    """
    p = probability.as_distribution(contexts, "contexts")
    y = np.asarray(labels, dtype=float)
    if p.ndim != 1 or y.shape != p.shape or not np.all(np.abs(y) == 1):
        raise ValueError(f"labels must be -1 or +1, one a context; got shape {y.shape} for {p.shape}")
    return Task(p[:, None] * (y[:, None] == LABELS))


def random_task(contexts: ArrayLike, *, rng: np.random.Generator, noise: float = 0.0) -> Task:
    """Draw a task: random, balanced labels on given contexts.

    Parameters
    ----------
    contexts : array_like, shape (S,)
        The law of contexts ``p_T(s)``.
    rng : numpy.random.Generator
        Draws one fair label a context.
    noise : float
        Probability, in [0, 1], with which the label of a context is flipped each time it is met.

    Returns
    -------
    Task
    """
    if not 0 <= noise <= 1:
        raise ValueError(f"noise must be a probability; got {noise}")
    p = probability.as_distribution(contexts, "contexts")
    clean = task_from_labels(p, rng.choice(LABELS, size=p.shape)).law
    return Task((1 - noise) * clean + noise * clean[:, ::-1])


def logistic_loss(score: ArrayLike, label: ArrayLike = 1.0) -> Array:
    """Logistic loss ``log(1 + exp(-label * score))``, elementwise, in nats; stable for scores of any size."""
    loss: Array = np.logaddexp(0.0, -np.asarray(label, dtype=float) * np.asarray(score, dtype=float))
    return loss


def task_loss(model: ArrayLike, task: Task, v: ArrayLike) -> float:
    """Loss ``E_T log(1 + exp(-y v.g(s)))`` of the linear classifier ``v`` on a representation ``g``.

    Parameters
    ----------
    model : array_like, shape (S, V)
        The representation of each context; for a language model, its next-word law.
    task : Task
        The task.
    v : array_like, shape (V,)
        The weights of the classifier, finite.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If a shape is wrong, or an entry of `model` or `v` is not finite.
    """
    scores = _scores(model, task, v)
    return float((task.law * logistic_loss(scores[:, None], LABELS)).sum())


def accuracy(model: ArrayLike, task: Task, v: ArrayLike) -> float:
    """Probability under the task that the sign of ``v.g(s)`` is the label; a score of 0 counts as +1.

    Parameters and errors are those of `task_loss`.
    """
    scores = _scores(model, task, v)
    return float(np.where(scores >= 0, task.law[:, 1], task.law[:, 0]).sum())


def coverage(p_language: ArrayLike, p_task: ArrayLike) -> float:
    """Coverage ``gamma``: the largest ``g <= 1`` with ``p_L(s) >= g p_T(s)`` for all ``s``, or 0.

    Parameters
    ----------
    p_language, p_task : array_like, shape (S,)
        The laws of contexts in the corpus and in the task.

    Returns
    -------
    float
        In [0, 1].
    """
    corpus = probability.as_distribution(p_language, "p_language")
    wanted = probability.as_distribution(p_task, "p_task")
    if corpus.ndim != 1 or corpus.shape != wanted.shape:
        raise ValueError(
            f"two laws over the same contexts are needed; got shapes {corpus.shape}, {wanted.shape}"
        )
    met = wanted > 0
    return float(min(1.0, (corpus[met] / wanted[met]).min()))


def second_moment(truth: ArrayLike, model: ArrayLike, task: Task, v: ArrayLike) -> float:
    """Second moment ``E_T[E_{p*} v^2 + E_p v^2]`` of a classifier's weights: small if its words are rare.

    Parameters
    ----------
    truth, model : array_like, shape (S, V)
        Next-word laws ``p*`` and ``p``.
    task : Task
        The task, over the same contexts.
    v : array_like, shape (V,)
        The weights of the classifier, finite.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If a shape is wrong, or an entry is not finite.
    """
    p_star, p = _representation(truth, task, "truth"), _representation(model, task)
    if p_star.shape != p.shape:
        raise ValueError(f"truth and model must have the same shape; got {p_star.shape} and {p.shape}")
    return float(task.contexts @ (p_star + p) @ _weights(v, p.shape[1]) ** 2)


def best_loss(
    model: ArrayLike,
    task: Task,
    *,
    bound: float,
    feature_map: ArrayLike | None = None,
    tolerance: float = 1e-5,
) -> BestLoss:
    """Infimum of the task's loss over ``|v|_inf <= bound``, by convex optimisation, with a certificate.

    Parameters
    ----------
    model : array_like, shape (S, V)
        The representation of each context, usually next-word laws.
    task : Task
        The task.
    bound : float
        The bound ``B`` on each weight, finite, at least 0.
    feature_map : array_like, shape (d, V), optional
        Word vectors ``Phi`` as columns. If given, only ``v = Phi^T head`` is allowed. For a head with a
        bias, append a row of ones: next-word laws sum to one. The class does not depend on the size of a
        row, nor does the answer; a row that depends on the others within rounding adds nothing.
    tolerance : float
        Largest certified gap that is accepted.

    Returns
    -------
    BestLoss
        ``loss`` is attained by ``v``, which lies in the class; the infimum is at least ``loss - gap``.
        ``head`` is None without a feature map.

    Raises
    ------
    ImportError
        If cvxpy is not installed: ``pip install '.[solvers]'`` in the course's folder.
    ValueError
        If a shape is wrong, or an entry is not finite.
    RuntimeError
        If the solver fails, or the gap exceeds `tolerance`.
    """
    return _program(model, task, feature_map).solve(bound, tolerance)


def frontier(
    model: ArrayLike,
    task: Task,
    bounds: Iterable[float],
    *,
    feature_map: ArrayLike | None = None,
    tolerance: float = 1e-5,
) -> Array:
    """Best loss ``tau(B)`` for each bound ``B``: on the true laws, how natural the task is.

    It is convex and non-increasing in ``B``, and ``tau(0) = log 2``. Arguments are those of `best_loss`.

    Returns
    -------
    ndarray, one loss a bound
    """
    program = _program(model, task, feature_map)
    return np.array([program.solve(bound, tolerance).loss for bound in bounds])


def _program(model: ArrayLike, task: Task, feature_map: ArrayLike | None) -> LogisticProgram:
    g = _representation(model, task)
    phi = None if feature_map is None else np.asarray(feature_map, dtype=float)
    if phi is not None and (phi.ndim != 2 or phi.shape[1] != g.shape[1]):
        raise ValueError(f"feature_map must have shape (d, {g.shape[1]}), words as columns; got {phi.shape}")
    if phi is not None and not np.isfinite(phi).all():
        raise ValueError(f"feature_map has entries that are not finite, first at {_first_not_finite(phi)}")
    rows, columns = np.nonzero(task.law)
    return LogisticProgram(g[rows] * LABELS[columns][:, None], task.law[rows, columns], phi)


def _scores(model: ArrayLike, task: Task, v: ArrayLike) -> Array:
    g = _representation(model, task)
    scores: Array = g @ _weights(v, g.shape[1])
    return scores


def _representation(model: ArrayLike, task: Task, name: str = "model") -> Array:
    g = np.asarray(model, dtype=np.float64)
    if g.ndim != 2 or len(g) != task.n_contexts:
        raise ValueError(f"{name} must have shape (S, V) with S = {task.n_contexts} contexts; got {g.shape}")
    if not np.isfinite(g).all():
        raise ValueError(f"{name} has entries that are not finite, first at {_first_not_finite(g)}")
    return g


def _weights(v: ArrayLike, n_words: int) -> Array:
    weights = np.asarray(v, dtype=np.float64)
    if weights.shape != (n_words,):
        raise ValueError(f"v must have shape ({n_words},), one weight a word; got {weights.shape}")
    if not np.isfinite(weights).all():
        raise ValueError(f"v has entries that are not finite, first at {_first_not_finite(weights)}")
    return weights


def _first_not_finite(x: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
