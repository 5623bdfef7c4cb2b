"""Moment matching and constants in sixty-digit arithmetic."""

import mpmath
import numpy as np
import pytest

from lmcourse import bounds, softmax


def fit_in_high_precision(p, phi, start):
    """Solve ``Phi p_theta = Phi p*`` by Newton's method in mpmath, from a start given by no fitting code."""
    d, n_words = phi.shape
    with mpmath.workdps(60):
        likeliest = int(np.argmax(p))
        p = [mpmath.mpf(float(x)) for x in p]
        p[likeliest] = 1 - mpmath.fsum(x for w, x in enumerate(p) if w != likeliest)
        phi = [[mpmath.mpf(float(x)) for x in row] for row in phi]
        target = [mpmath.fsum(phi[i][w] * p[w] for w in range(n_words)) for i in range(d)]

        def law(theta):
            raw = [mpmath.exp(mpmath.fsum(theta[i] * phi[i][w] for i in range(d))) for w in range(n_words)]
            return [x / mpmath.fsum(raw) for x in raw]

        def mismatch(*theta):
            q = law(theta)
            return [mpmath.fsum(phi[i][w] * q[w] for w in range(n_words)) - target[i] for i in range(d)]

        theta = mpmath.findroot(mismatch, start, tol=1e-50, maxsteps=60)
        return [float(x) for x in law(list(theta))]


@pytest.mark.parametrize("seed", range(6))
def test_moment_matching(seed):
    rng = np.random.default_rng(seed)
    p, phi = rng.dirichlet(np.full(5, 2.0)), rng.standard_normal((2, 5))
    law = fit_in_high_precision(p / p.sum(), phi, (0, 0))
    np.testing.assert_allclose(softmax.fit_softmax_law(p, phi).law, law, rtol=1e-10)


def test_moment_matching_of_an_almost_deterministic_law():
    p = np.array([1e-12, 3e-13, 1.0, 2e-12])
    p /= p.sum()
    phi = np.array([[1.0, -1.0, 0.1, 2.0], [0.5, 1.0, 0.0, -1.0]])
    fit = softmax.fit_softmax_law(p, phi)
    law = fit_in_high_precision(p, phi, tuple(fit.theta))
    np.testing.assert_allclose(fit.law, law, rtol=1e-9)


def test_easy_task_constant():
    with mpmath.workdps(40):

        def ratio(m):
            return (1 / (1 + mpmath.exp(m))) ** 2 / mpmath.log(1 + mpmath.exp(-m))

        at = mpmath.findroot(lambda m: mpmath.diff(ratio, m), -1)
        assert bounds.easy_task_constant() == pytest.approx(float(ratio(at)), rel=1e-14)
