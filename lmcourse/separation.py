"""Whether a linear head can tell two sets of predictions apart, with a proof either way."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmcourse import probability

Array = NDArray[np.float64]

# Predictions at a smaller 1-norm distance count as one: rounding in them is of this order.
PREDICTIONS_AGREE = 1e-13


class HeadCertificate(NamedTuple):
    """Proof that a head exists or that none does: see `certify_no_head`."""

    exists: bool
    margin: float
    head: Array
    mixture_zero: Array
    mixture_one: Array


def certify_no_head(predictions: ArrayLike, labels: ArrayLike, *, tolerance: float = 1e-9) -> HeadCertificate:
    """Decide by linear programming whether ``1(b . G_0(x) >= 0)`` can equal the labels for some ``b``.

    Either some head separates the predictions of the two classes, or a mixture of predictions with label 0
    equals a mixture with label 1, and then no ``b`` can score the one below 0 and the other not. (A bias
    changes nothing: predictions sum to one.)

    The answer is numerical: a margin counts as zero if it is at most `tolerance` of the largest distance of
    an entry of the predictions from its mean, or at most 1e-13, where rounding in the predictions begins. So
    "no head" may be false where margins are that small, as some are for almost deterministic models: look at
    ``margin``.

    Parameters
    ----------
    predictions : array_like, shape (N, X)
        Laws ``G_0(x)``.
    labels : array_like, shape (N,)
        Each 0 or 1.
    tolerance : float
        Margins up to this fraction of the spread of the predictions count as zero.

    Returns
    -------
    HeadCertificate
        ``head``, shape (X,), scores label 1 at ``margin / 2`` or more and label 0 at ``-margin / 2`` or
        less, ``margin`` being the largest possible for entries in [-1, 1], up to a shift; ``mixture_zero``
        and ``mixture_one``, shape (N,), are laws on the sequences of each label whose mean predictions are
        at 1-norm distance ``margin``, the smallest possible. ``exists`` says whether the margin counts as
        more than zero. If a class is empty, its mixture is all zeros and the margin is 2.

    Raises
    ------
    ValueError
        If there is no prediction, or an argument is not what it should be.
    RuntimeError
        If the linear program fails.
    """
    g = probability.as_distribution(predictions, "predictions")
    y = np.asarray(labels)
    if g.ndim != 2 or y.shape != (len(g),) or not np.isin(y, (0, 1)).all():
        raise ValueError(f"labels must be 0 or 1, one for each of {len(g)} predictions")
    if len(g) == 0:
        raise ValueError("predictions holds no law: at least one sequence is needed")
    zeros, ones = g[y == 0], g[y == 1]
    n_symbols = g.shape[1]
    mixture_zero, mixture_one = np.zeros(len(g)), np.zeros(len(g))
    if len(zeros) == 0 or len(ones) == 0:
        (mixture_one if len(zeros) == 0 else mixture_zero)[0] = 1.0
        return HeadCertificate(
            True, 2.0, np.full(n_symbols, 1.0 if len(zeros) == 0 else -1.0), mixture_zero, mixture_one
        )
    from scipy.optimize import linprog

    # Variables b (X), a shift k and t: maximise t with b.g + k >= t on label 1 and b.g + k <= -t on label 0.
    # Thanks to the shift the predictions may be centred, and then divided by their spread.
    centre = g.mean(axis=0)
    spread = float(np.abs(g - centre).max())
    rows = np.vstack([-ones, zeros]) - np.repeat([[-1.0], [1.0]], [len(ones), len(zeros)], axis=0) * centre
    rows /= spread if spread > 0 else 1.0
    signs = np.repeat([-1.0, 1.0], [len(ones), len(zeros)])
    solution = linprog(
        np.append(np.zeros(n_symbols + 1), -1.0),
        A_ub=np.column_stack([rows, signs, np.ones(len(rows))]),
        b_ub=np.zeros(len(rows)),
        bounds=[(-1, 1)] * n_symbols + [(None, None), (0, None)],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if solution.status != 0:
        raise RuntimeError(f"the linear program for a head failed: {solution.message}")
    head = np.clip(solution.x[:n_symbols], -1, 1)
    multipliers = np.maximum(-solution.ineqlin.marginals, 0)
    mixture_one[y == 1] = multipliers[: len(ones)]
    mixture_zero[y == 0] = multipliers[len(ones) :]
    for mixture in (mixture_one, mixture_zero):
        mixture /= mixture.sum()
    low, high = (zeros @ head).max(), (ones @ head).min()
    margin = max(0.0, float(high - low))
    exists = margin > max(tolerance * spread, PREDICTIONS_AGREE)
    return HeadCertificate(exists, margin, head - (low + high) / 2 * exists, mixture_zero, mixture_one)
