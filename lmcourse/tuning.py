"""Linear heads on the predictions of an exact masked model: when they exist, and at what price.

In a hidden Markov model with emission matrix ``emission`` (H, X), rows summing to one, write ``W =
emission^T``. At a mask put before the sequence the exact masked model predicts ``G_0(x) = W P[H_0 | x]``;
the label to recover is ``F*(x) = 1(mu . P[H_0 | x] >= 0)``. See Wei, Xie and Ma (2021).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse import probability
from lmcourse.hmm import HMM
from lmcourse.separation import HeadCertificate, certify_no_head

__all__ = [
    "CounterExample",
    "DownstreamTask",
    "HeadCertificate",
    "HeadFit",
    "as_emission",
    "as_state_weights",
    "certify_no_head",
    "downstream_task",
    "exact_head",
    "fit_head",
    "head_exists",
    "posterior_labels",
    "three_state_counterexample",
]

Array = NDArray[np.float64]


def posterior_labels(posteriors: ArrayLike, mu: ArrayLike) -> NDArray[np.int64]:
    """Labels ``F*(x) = 1(mu . P[H_0 | x] >= 0)``.

    Parameters
    ----------
    posteriors : array_like, shape (N, H)
        Laws ``P[H_0 | x]`` of the hidden state given each sequence.
    mu : array_like, shape (H,)
        Weights of the states.

    Returns
    -------
    ndarray of int, shape (N,)
        Each 0 or 1.
    """
    laws, weights = _posteriors_and_weights(posteriors, mu)
    return (laws @ weights >= 0).astype(np.int64)


class DownstreamTask(NamedTuple):
    """A random binary task on posteriors: its ``matrix``, the state weights ``mu``, and the ``labels``."""

    matrix: Array
    mu: Array
    labels: NDArray[np.int64]


def downstream_task(
    posteriors: ArrayLike,
    rng: np.random.Generator,
    *,
    n_entries: int = 6,
    minority: float = 0.2,
    max_draws: int = 10_000,
) -> DownstreamTask:
    """Random downstream labels: the larger of two sparse random scores of the posterior.

    A ``2 x H`` matrix of zeros gets `n_entries` standard normal entries at positions drawn with replacement;
    the label is the row with the larger product with ``P[H_0 | x]``, row 1 on a tie. A draw that nearly
    collapses to one class is drawn again: without that many tasks are trivial.

    Parameters
    ----------
    posteriors : array_like, shape (N, H)
        Laws ``P[H_0 | x]``.
    rng : numpy.random.Generator
        Source of randomness.
    n_entries : int
        Number of normal entries.
    minority : float
        Smallest share of the rarer label that is accepted.
    max_draws : int
        Draws before giving up.

    Returns
    -------
    DownstreamTask
        With ``mu = matrix[1] - matrix[0]`` and ``labels = posterior_labels(posteriors, mu)``.

    Raises
    ------
    ValueError
        If there is no posterior.
    RuntimeError
        If no draw splits the sequences well enough.
    """
    laws = _at_least_one(probability.as_distribution(posteriors, "posteriors"), "posteriors")
    n_states = laws.shape[-1]
    for _ in range(max_draws):
        matrix = np.zeros((2, n_states))
        positions = rng.integers(0, 2 * n_states, size=n_entries)
        matrix.reshape(-1)[positions] = rng.standard_normal(n_entries)
        mu = matrix[1] - matrix[0]
        labels = posterior_labels(laws, mu)
        if min(labels.mean(), 1 - labels.mean()) >= minority:
            return DownstreamTask(matrix, mu, labels)
    raise RuntimeError(
        f"no task with a minority of {minority} in {max_draws} draws: lower `minority`, or add sequences"
    )


def exact_head(
    emission: ArrayLike, mu: ArrayLike, prior: ArrayLike | None = None, model_prior: ArrayLike | None = None
) -> Array:
    """Head ``b = pinv(W)^T mu``: if ``W`` has full column rank, ``b . G_0(x) = mu . P[H_0 | x]``.

    Parameters
    ----------
    emission : array_like, shape (H, X)
        Emission matrix, one law a state.
    mu : array_like, shape (H,)
        Weights of the states.
    prior, model_prior : array_like, shape (H,), optional
        Give both if the labels assume a prior ``pi`` of ``H_0`` and the model has another, ``q > 0``: the
        head is then ``pinv(W)^T (mu * pi / q)``, whose score has the sign, though not the size, of ``mu .
        P[H_0 | x]`` under ``pi``.

    Returns
    -------
    ndarray, shape (X,)
        The least-squares head if no exact one exists: see `head_exists`.

    Raises
    ------
    ValueError
        If only one prior is given, or ``q`` is zero where ``mu * pi`` is not.
    """
    rows = as_emission(emission)
    weights = as_state_weights(mu, len(rows))
    if (prior is None) != (model_prior is None):
        raise ValueError("give both prior and model_prior, or neither")
    if prior is not None and model_prior is not None:
        pi = probability.as_distribution(prior, "prior")
        q = probability.as_distribution(model_prior, "model_prior")
        if pi.shape != weights.shape or q.shape != weights.shape:
            raise ValueError(
                f"prior and model_prior must have shape {weights.shape}; got {pi.shape}, {q.shape}"
            )
        lost = (q == 0) & (weights * pi != 0)
        if lost.any():
            raise ValueError(f"model_prior is 0 at state {int(lost.argmax())}, which the label depends on")
        weights = np.divide(weights * pi, q, out=np.zeros_like(weights), where=q > 0)
    head: Array = np.linalg.pinv(rows) @ weights
    return head


class HeadFit(NamedTuple):
    """Best linear head on the span of some posteriors: see `fit_head`."""

    head: Array
    residual: float


def fit_head(
    emission: ArrayLike, posteriors: ArrayLike, mu: ArrayLike, *, tolerance: float = 1e-10
) -> HeadFit:
    """Head that comes nearest to ``b . W c = mu . c`` for all ``c`` in the span of the posteriors.

    Parameters
    ----------
    emission : array_like, shape (H, X)
        Emission matrix, one law a state.
    posteriors : array_like, shape (N, H)
        Laws of the hidden state.
    mu : array_like, shape (H,)
        Weights of the states.
    tolerance : float
        Singular values below this fraction of the largest count as zero.

    Returns
    -------
    HeadFit
        ``head``, shape (X,), the smallest that is best; ``residual``, the length of the part of ``mu``,
        within the span, that no head can reproduce: 0 iff an exact head exists. It has the unit of ``mu``.

    Raises
    ------
    ValueError
        If there is no posterior, or an argument is not what it should be.
    """
    rows = as_emission(emission)
    laws, weights = _posteriors_and_weights(posteriors, mu)
    _at_least_one(laws, "posteriors")
    _, sizes, basis = np.linalg.svd(laws, full_matrices=False)
    basis = basis[sizes > tolerance * sizes[0]]
    head = np.linalg.lstsq(basis @ rows, basis @ weights, rcond=tolerance)[0]
    return HeadFit(head, float(np.linalg.norm(basis @ (weights - rows @ head))))


def head_exists(
    emission: ArrayLike, posteriors: ArrayLike, mu: ArrayLike, *, tolerance: float = 1e-10
) -> bool:
    """Whether some head has ``b . W pi = mu . pi`` for each of the posteriors.

    That is so iff ``mu`` is orthogonal to the kernel of ``W`` within the span of the posteriors. Full column
    rank of ``W`` is enough, but not necessary. A residual of at most 1e-8 of the length of ``mu`` counts as
    zero, so the answer does not depend on the size of ``mu``. A matrix with many tiny singular values, as
    with almost deterministic emissions, makes any numerical answer doubtful. Parameters are those of
    `fit_head`.

    Returns
    -------
    bool
    """
    rows = as_emission(emission)
    weights = as_state_weights(mu, len(rows))
    unit = weights / (np.abs(weights).max() or 1.0)
    residual = fit_head(rows, posteriors, unit, tolerance=tolerance).residual
    return bool(residual <= 1e-8 * np.linalg.norm(unit))


class CounterExample(NamedTuple):
    """A model and a task that no head solves: see `three_state_counterexample`."""

    hmm: HMM
    mu: Array


def three_state_counterexample() -> CounterExample:
    """Three states, two of which look alike: one prediction ``G_0``, both labels.

    States a and b start with probability one half each and emit alike, so the prediction at the first
    position is the same whatever follows; but a moves to c and b to a, so what follows tells them apart.
    With ``mu = (1, -1, 0)`` the label asks which it was.

    Returns
    -------
    CounterExample
        ``hmm`` with 3 states and 2 symbols, and ``mu``, shape (3,).
    """
    hmm = HMM(
        initial=np.array([0.5, 0.5, 0.0]),
        transition=np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]),
        emission=np.array([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]]),
    )
    return CounterExample(hmm, np.array([1.0, -1.0, 0.0]))


def as_emission(emission: ArrayLike) -> Array:
    """Check an emission matrix, shape (H, X), one law a state."""
    rows = probability.as_distribution(emission, "emission")
    if rows.ndim != 2:
        raise ValueError(f"emission must have shape (H, X), one law a state; got {rows.shape}")
    return rows


def as_state_weights(mu: ArrayLike, n_states: int) -> Array:
    """Check a vector of finite weights, one a state, shape (H,)."""
    weights = np.asarray(mu, dtype=np.float64)
    if weights.shape != (n_states,) or not np.isfinite(weights).all():
        raise ValueError(
            f"mu must be finite, one weight for each of {n_states} states; got shape {weights.shape}"
        )
    return weights


def _at_least_one(laws: Array, name: str) -> Array:
    if len(laws) == 0:
        raise ValueError(f"{name} holds no law: at least one sequence is needed")
    return laws


def _posteriors_and_weights(posteriors: ArrayLike, mu: ArrayLike) -> tuple[Array, Array]:
    laws = probability.as_distribution(posteriors, "posteriors")
    if laws.ndim != 2:
        raise ValueError(f"posteriors must have shape (N, H), one law a sequence; got {laws.shape}")
    return laws, as_state_weights(mu, laws.shape[1])
