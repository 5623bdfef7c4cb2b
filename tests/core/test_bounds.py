"""The right-hand sides: their constants, their limits, their arguments."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from lmcourse import bounds

ALL = (
    bounds.unconstrained_bound,
    bounds.sharp_bound,
    bounds.easy_task_bound,
    bounds.indicative_words_bound,
    bounds.softmax_bound,
)


def test_values_on_one_instance():
    # B = 2, eps = 0.09, gamma = 0.5: D = sqrt(2 * 4 * 0.09 / 0.5) = 1.2.
    assert bounds.deviation(2, 0.09, 0.5) == pytest.approx(1.2)
    assert bounds.unconstrained_bound(0.1, 2, 0.09, 0.5) == pytest.approx(1.3)
    assert bounds.sharp_bound(0.1, 2, 0.09, 0.5) == pytest.approx(0.7)
    assert bounds.softmax_bound(0.1, 2, 0.09, 0.5) == pytest.approx(0.7)
    assert bounds.half_range_bound(0.1, [3.0, 1.0, -1.0], 0.09, 0.5) == pytest.approx(1.3)
    assert bounds.indicative_words_bound(0.1, 4.0, 0.09, 0.5) == pytest.approx(1.3)
    easy = 0.1 + np.sqrt(bounds.easy_task_constant() * 0.1) * 1.2 + 1.44 / 8
    assert bounds.easy_task_bound(0.1, 2, 0.09, 0.5) == pytest.approx(easy)


def test_easy_task_constant_is_the_supremum():
    def ratio(m):
        return np.exp(-2 * np.logaddexp(0, m)) / np.logaddexp(0, -m)

    found = minimize_scalar(lambda m: -ratio(m), bounds=(-10, 10), options={"xatol": 1e-10})
    assert bounds.easy_task_constant() == pytest.approx(-found.fun, rel=1e-12)
    assert ratio(np.linspace(-50, 50, 100_001)).max() <= bounds.easy_task_constant() * (1 + 1e-14)


def test_sharp_constant_rests_on_this_inequality():
    u = np.linspace(1e-9, 1 - 1e-9, 200_001)
    assert (u**2 + u / 2 * np.log((1 - u) / u)).max() <= 0.25 + 1e-15


def test_one_half_is_attained_in_the_limit():
    """Two words, ``p* = (1/2 + ya, 1/2 - ya)``, model with ``a/2``: the best weights are (B, -B) for both."""
    a, b = 1e-4, 1.0
    truth, model = np.array([0.5 + a, 0.5 - a]), np.array([0.5 + a / 2, 0.5 - a / 2])
    eps = float(np.sum(truth * np.log(truth / model)))
    excess = np.logaddexp(0, -a * b) - np.logaddexp(0, -2 * a * b)
    share = excess / (bounds.deviation(b, eps, 1) / 2)
    assert 0.9995 < share <= 1


def test_non_vacuous_eps_is_where_the_bound_meets_a_coin():
    for sharp, bound in ((True, bounds.sharp_bound), (False, bounds.unconstrained_bound)):
        eps = bounds.non_vacuous_eps(0.2, 3.0, 0.4, sharp=sharp)
        assert bound(0.2, 3.0, eps, 0.4) == pytest.approx(np.log(2))
    assert bounds.non_vacuous_eps(0.7, 3.0, 0.4) == 0
    assert bounds.non_vacuous_eps(0.2, 3.0, 0.0) == 0
    assert bounds.non_vacuous_eps(0.2, 0.0, 1.0) == np.inf


@pytest.mark.parametrize("bound", ALL)
def test_bounds_broadcast_and_respect_the_limits(bound):
    eps = np.array([0.0, 0.1, 0.2])[:, None]
    gamma = np.array([0.0, 0.5, 1.0])
    values = bound(0.1, 2.0, eps, gamma)
    assert values.shape == (3, 3)
    assert np.all(np.isinf(values[:, 0]))
    np.testing.assert_allclose(values[0, 1:], 0.1)
    assert np.all(np.diff(values[:, 1:], axis=0) > 0)
    assert np.all(np.diff(values[1:, 1:], axis=1) < 0)
    assert np.isinf(bound(0.0, 2.0, 0.1, 0.0))


@pytest.mark.parametrize("bound", ALL)
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((-0.1, 1, 0.1, 0.5), "tau"),
        ((0.1, -1, 0.1, 0.5), "bound|second_moment"),
        ((0.1, 1, -0.1, 0.5), "eps"),
        ((0.1, 1, np.nan, 0.5), "eps"),
        ((0.1, 1, 0.1, -0.5), "gamma"),
    ],
)
def test_bounds_refuse_what_is_out_of_range(bound, arguments, name):
    with pytest.raises(ValueError, match=name):
        bound(*arguments)


@pytest.mark.parametrize("bound", ALL)
def test_only_the_softmax_bound_takes_a_gamma_above_one(bound):
    if bound is bounds.softmax_bound:
        assert bound(0.1, 2, 0.09, 2.0) == pytest.approx(0.1 + 0.6 / 2)
        assert bound(0.1, 2, np.inf, np.inf) == 0.1  # the errors do not touch the task
    else:
        with pytest.raises(ValueError, match="at most 1"):
            bound(0.1, 2, 0.09, 1.5)


@pytest.mark.parametrize("bound", ALL)
def test_zeros_win_over_infinities_but_not_over_a_coverage_of_zero(bound):
    assert bound(0.1, 0.0, np.inf, 0.5) == 0.1
    assert bound(0.1, np.inf, 0.0, 0.5) == 0.1
    np.testing.assert_array_equal(bound(0.1, [0.0, 1.0], np.inf, 1.0), [0.1, np.inf])
    assert bound(0.1, np.inf, 0.1, 0.5) == np.inf
    assert bound(0.1, 0.0, 0.0, 0.0) == np.inf
    assert bound(np.inf, 0.0, 0.0, 1.0) == np.inf


def test_deviation_neither_overflows_nor_underflows_on_the_way():
    assert bounds.deviation(1e200, 1e-300, 1.0) == pytest.approx(np.sqrt(2) * 1e50)
    assert bounds.deviation(1e-200, 1.0, 1.0) == pytest.approx(np.sqrt(2) * 1e-200)


def test_half_range():
    assert bounds.half_range([3.0, -1.0, 0.0]) == 2
    with pytest.raises(ValueError, match="vector"):
        bounds.half_range([])
