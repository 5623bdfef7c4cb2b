"""The price of a head: both programs against each other, small cases by hand, random laws as lower bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcourse import price

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_duality_and_feasibility(seed):
    rng = np.random.default_rng(seed)
    n_states = int(rng.integers(2, 6))
    n_symbols = n_states + int(rng.integers(0, 4))
    emission = rng.dirichlet(np.full(n_symbols, 10.0 ** rng.uniform(-1, 1)), size=n_states)
    if np.linalg.cond(emission) > 1e5:
        return
    mu = rng.standard_normal(n_states)
    found = price.price_of_head(emission, mu)
    assert found.head is not None
    np.testing.assert_allclose(emission @ found.head, mu, atol=1e-8 * (1 + np.abs(found.head).max()))
    assert (found.head.max() - found.head.min()) / 2 == pytest.approx(found.price, rel=1e-6)
    gap = found.law - found.other_law
    assert mu @ gap / np.abs(gap @ emission).sum() == pytest.approx(found.price)
    for _ in range(50):
        first, second = rng.dirichlet(np.full(n_states, 0.3), size=2)
        assert mu @ (first - second) <= found.price * np.abs((first - second) @ emission).sum() * (1 + 1e-9)
    pair = price.price_of_pair(emission, mu)
    assert pair.price <= found.price * (1 + 1e-9)
    a, b = pair.state, pair.other_state
    assert (mu[a] - mu[b]) / np.abs(emission[a] - emission[b]).sum() == pytest.approx(pair.price)


def test_two_states_by_hand():
    # Rows (1, 0) and (1 - d, d): the head must fall by 1 over a distance of 2d.
    for d in (0.5, 0.1, 0.01):
        found = price.price_of_head([[1.0, 0.0], [1 - d, d]], [1.0, 0.0])
        assert found.price == pytest.approx(1 / (2 * d), rel=1e-9)


def test_no_head_no_finite_price():
    emission = np.array([[0.7, 0.3], [0.2, 0.8], [0.45, 0.55]])
    found = price.price_of_head(emission, [1.0, -1.0, 5.0])
    assert found.price == np.inf
    assert found.head is None
    gap = found.law - found.other_law
    assert np.abs(gap @ emission).sum() < 1e-12
    assert abs(gap @ [1.0, -1.0, 5.0]) > 0.1
    assert np.isfinite(price.price_of_head(emission, [1.0, -1.0, 0.0]).price)
    twins = price.price_of_pair([[0.5, 0.5], [0.5, 0.5]], [1.0, 0.0])
    assert twins.price == np.inf


def test_constant_labels_cost_nothing():
    found = price.price_of_head([[0.7, 0.3], [0.2, 0.8]], [2.0, 2.0])
    assert found.price == 0
    np.testing.assert_allclose(found.head, 2)
    np.testing.assert_array_equal(found.law, found.other_law)
