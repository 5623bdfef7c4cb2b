import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from lmcourse.probability import (
    as_distribution,
    cross_entropy,
    entropy,
    kl_divergence,
    random_distribution,
    total_variation,
)

EVERY = [
    entropy,
    lambda p: cross_entropy(p, p),
    lambda p: kl_divergence(p, p),
    lambda p: total_variation(p, p),
]


@st.composite
def pairs(draw):
    """Two arrays of distributions, some entries zero."""
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 6)))
    both = []
    for _ in range(2):
        weights = draw(arrays(float, shape, elements=st.sampled_from([0.0, 1e-9, 0.1, 0.5, 1.0, 7.0])))
        weights[:, 0] += weights.sum(axis=1) == 0
        both.append(weights / weights.sum(axis=1, keepdims=True))
    return both


@settings(deadline=None)
@given(pairs())
def test_agree_with_scipy_stats(pair):
    p, q = pair
    np.testing.assert_allclose(entropy(p), stats.entropy(p, axis=1), atol=1e-14)
    np.testing.assert_allclose(kl_divergence(p, q), stats.entropy(p, q, axis=1), rtol=1e-9, atol=1e-14)


@settings(deadline=None)
@given(pairs())
def test_gibbs_pinsker_and_the_chain_of_definitions(pair):
    p, q = pair
    divergence, distance = kl_divergence(p, q), total_variation(p, q)
    assert (divergence >= 0).all()
    np.testing.assert_allclose(cross_entropy(p, q), entropy(p) + divergence, rtol=1e-12, atol=1e-14)
    assert (2 * distance**2 <= divergence + 1e-14).all()
    assert ((distance >= 0) & (distance <= 1 + 1e-14)).all()


def test_total_variation_is_the_largest_difference_over_events():
    rng = np.random.default_rng(0)
    p, q = random_distribution((2, 5), concentration=0.5, rng=rng)
    events = (np.arange(2**5)[:, None] >> np.arange(5)) & 1
    assert total_variation(p, q) == pytest.approx(np.max(events @ (p - q)), abs=1e-15)


def test_divergence_of_nearly_equal_distributions_keeps_its_digits():
    d = 2.0**-40
    p, q = np.array([0.5, 0.5]), np.array([0.5 + d, 0.5 - d])
    assert kl_divergence(p, q) == pytest.approx(-0.5 * np.log1p(-4 * d * d), rel=1e-10)


def test_zeros():
    one, half = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    assert entropy(one) == 0
    assert not np.signbit(cross_entropy(one, one))
    assert kl_divergence(one, half) == pytest.approx(np.log(2))
    assert kl_divergence(half, one) == cross_entropy(half, one) == np.inf
    tiny = np.array([1.0, 1e-300])
    assert kl_divergence(half, tiny) == pytest.approx(-np.log(2) - 0.5 * np.log(1e-300))


def test_axis_and_broadcasting():
    rng = np.random.default_rng(0)
    p = random_distribution((4, 3), concentration=1.0, rng=rng)
    q = random_distribution(3, concentration=1.0, rng=rng)
    rows = [kl_divergence(row, q) for row in p]
    np.testing.assert_allclose(kl_divergence(p, q), rows)
    np.testing.assert_allclose(kl_divergence(p.T, q[:, None], axis=0), rows)
    np.testing.assert_allclose(entropy(p.T, axis=0), entropy(p))
    np.testing.assert_allclose(total_variation(p, q), [total_variation(row, q) for row in p])


def test_random_distribution_is_dirichlet():
    draws = random_distribution((20_000, 4), concentration=0.3, rng=np.random.default_rng(0))
    np.testing.assert_allclose(draws.sum(axis=1), 1)
    assert stats.kstest(draws[:, 0], stats.beta(0.3, 0.9).cdf).pvalue > 1e-4
    assert random_distribution(2, concentration=1, rng=np.random.default_rng(0)).shape == (2,)


def test_masked_arrays_are_refused():
    masked = np.ma.array([0.5, 0.5, 3.0], mask=[False, False, True])
    for call in (as_distribution, entropy, lambda p: kl_divergence([0.5, 0.5, 0], p)):
        with pytest.raises(ValueError, match="masked array"):
            call(masked)


def test_float64_is_returned_as_it_is_and_single_precision_is_renormalised():
    p = np.array([0.25, 0.75 + 1e-10])
    assert as_distribution(p) is p
    single = as_distribution(np.array([0.1, 0.2, 0.7], dtype=np.float32))
    assert single.dtype == np.float64
    assert single.sum() == pytest.approx(1, abs=1e-15)
    assert as_distribution([0, 1]).dtype == np.float64


@pytest.mark.parametrize(
    ("p", "message"),
    [
        ([0.5, 0.4], r"law sums to 0.9, not 1; divide each row by its sum"),
        ([[0.5, 0.5], [0.5, 0.5 + 2e-8]], r"law[1] sums to 1.00000002, not 1"),
        ([[1.0, 0.0], [np.nan, 1.0]], r"law[1, 0] is nan; probabilities must be finite and not negative"),
        ([np.inf, 0.0], r"law[0] is inf"),
        ([2.0, -1.0], r"law[1] is -1.0; probabilities must be finite and not negative. For scores or logits"),
        (["a"], "law holds <U1 values; give it real numbers"),
        ([], "law has shape (0,); its last axis must hold at least one probability"),
        (1.0, "law has shape (); its last axis"),
    ],
)
def test_wrong_distributions_are_refused_by_name_place_and_value(p, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        as_distribution(p, "law")


@pytest.mark.parametrize("function", EVERY)
def test_every_function_checks_its_input(function):
    with pytest.raises(ValueError, match=r"p\[0\] sums to 0.5"):
        function([[0.25, 0.25]])


def test_errors_of_pairs_axes_and_draws():
    with pytest.raises(ValueError, match=r"q\[1\] is -1.0"):
        kl_divergence([1.0, 0.0], [2.0, -1.0])
    with pytest.raises(ValueError, match="p has 2 outcomes, q has 1; give both over the same set"):
        total_variation([1.0, 0.0], [1.0])
    with pytest.raises(ValueError, match=re.escape("moveaxis(p, 0, -1)[1] sums to 0")):
        entropy([[0.5, 0.0], [0.5, 0.0]], axis=0)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="concentration is 0; it must be a positive number"):
        random_distribution(3, concentration=0, rng=rng)
    with pytest.raises(ValueError, match=re.escape("shape is (3, 0); its last entry")):
        random_distribution((3, 0), concentration=1, rng=rng)
