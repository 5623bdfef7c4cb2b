"""Heads: exact ones, certificates of their absence, and labels, against enumeration of all sequences."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcourse import tuning
from lmcourse.hmm import HMM

seeds = st.integers(0, 2**32 - 1)


def random_model(rng, n_states, n_symbols):
    return HMM(
        rng.dirichlet(np.ones(n_states)),
        rng.dirichlet(np.ones(n_states), size=n_states),
        rng.dirichlet(np.ones(n_symbols), size=n_states),
    )


def enumerate_posteriors(model, length):
    """Laws of ``H_0`` and of ``X_0`` given all sequences after it, from the table of all state paths."""
    n_states, n_symbols = model.emission.shape
    posteriors, predictions = [], []
    for x in itertools.product(range(n_symbols), repeat=length):
        weight = np.zeros(n_states)
        for path in itertools.product(range(n_states), repeat=length + 1):
            p = model.initial[path[0]]
            for before, after, symbol in zip(path, path[1:], x, strict=False):
                p *= model.transition[before, after] * model.emission[after, symbol]
            weight[path[0]] += p
        if weight.sum() > 0:
            posteriors.append(weight / weight.sum())
            predictions.append([sum(posteriors[-1] * model.emission[:, k]) for k in range(n_symbols)])
    return np.array(posteriors), np.array(predictions)


@given(seeds)
@settings(max_examples=15, deadline=None)
def test_exact_head_reproduces_the_margin_on_every_sequence(seed):
    rng = np.random.default_rng(seed)
    model, mu = random_model(rng, 3, 4), rng.standard_normal(3)
    posteriors, predictions = enumerate_posteriors(model, 3)
    head = tuning.exact_head(model.emission, mu)
    np.testing.assert_allclose(predictions @ head, posteriors @ mu, atol=1e-9 * (1 + np.abs(head).max()))


@given(seeds)
@settings(max_examples=15, deadline=None)
def test_another_prior_is_reweighted_away(seed):
    rng = np.random.default_rng(seed)
    model, mu, q = random_model(rng, 3, 4), rng.standard_normal(3), rng.dirichlet(np.ones(3)) + 0.1
    other = HMM(q / q.sum(), model.transition, model.emission)
    margins = enumerate_posteriors(model, 3)[0] @ mu
    scores = enumerate_posteriors(other, 3)[1] @ tuning.exact_head(
        model.emission, mu, model.initial, other.initial
    )
    clear = np.abs(margins) > 1e-6
    np.testing.assert_array_equal(np.sign(scores)[clear], np.sign(margins)[clear])


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_certificates_hold_by_plain_arithmetic(seed):
    rng = np.random.default_rng(seed)
    n, n_states, n_symbols = rng.integers(2, 30), rng.integers(2, 7), rng.integers(2, 6)
    posteriors = rng.dirichlet(np.full(n_states, 0.3), size=n)
    predictions = posteriors @ rng.dirichlet(np.full(n_symbols, 10.0 ** rng.uniform(-1, 1)), size=n_states)
    labels = tuning.posterior_labels(posteriors, rng.standard_normal(n_states))
    found = tuning.certify_no_head(predictions, labels)
    if found.exists:
        np.testing.assert_array_equal(predictions @ found.head >= 0, labels == 1)
    if 0 < labels.sum() < n:
        for mixture, label in ((found.mixture_zero, 0), (found.mixture_one, 1)):
            assert mixture.min() >= 0
            assert mixture.sum() == pytest.approx(1)
            assert np.all(mixture[labels != label] == 0)
        distance = np.abs((found.mixture_zero - found.mixture_one) @ predictions).sum()
        assert distance == pytest.approx(found.margin, abs=1e-7)


def test_head_exists_is_the_span_condition():
    rng = np.random.default_rng(3)
    emission = np.array(
        [[0.7, 0.3], [0.2, 0.8], [0.45, 0.55]]
    )  # third row between the first two: kernel (1, 1, -2)
    posteriors = rng.dirichlet(np.ones(3), size=10)
    assert not tuning.head_exists(emission, posteriors, [1.0, -1.0, 5.0])
    assert tuning.head_exists(emission, posteriors, [1.0, -1.0, 0.0])
    # On posteriors that never give weight to the third state, any label has a head.
    face = np.column_stack([rng.dirichlet(np.ones(2), size=10), np.zeros(10)])
    assert tuning.head_exists(emission, face, [1.0, -1.0, 5.0])
    head = tuning.fit_head(emission, face, [1.0, -1.0, 5.0]).head
    np.testing.assert_allclose(face @ emission @ head, face @ [1.0, -1.0, 5.0], atol=1e-12)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_an_exact_head_and_the_program_agree(seed):
    rng = np.random.default_rng(seed)
    posteriors, emission = rng.dirichlet(np.ones(3), size=12), rng.dirichlet(np.ones(4), size=3)
    mu = rng.standard_normal(3)
    labels = tuning.posterior_labels(posteriors, mu)
    assert tuning.head_exists(emission, posteriors, mu)
    assert tuning.certify_no_head(posteriors @ emission, labels).exists


def test_three_states_one_prediction_both_labels():
    model, mu = tuning.three_state_counterexample()
    posteriors, predictions = enumerate_posteriors(model, 3)
    labels = tuning.posterior_labels(posteriors, mu)
    assert set(labels) == {0, 1}
    np.testing.assert_allclose(predictions, predictions[0] * np.ones((len(predictions), 1)), atol=1e-15)
    assert not tuning.head_exists(model.emission, posteriors, mu)
    certificate = tuning.certify_no_head(predictions, labels)
    assert not certificate.exists
    residual = (certificate.mixture_zero - certificate.mixture_one) @ predictions
    assert np.abs(residual).sum() < 1e-12


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_the_size_of_mu_does_not_matter(size):
    model, mu = tuning.three_state_counterexample()
    posteriors = enumerate_posteriors(model, 3)[0]
    assert not tuning.head_exists(model.emission, posteriors, size * mu)
    assert tuning.head_exists(model.emission, posteriors, size * np.array([1.0, 1.0, 0.0]))
    assert tuning.head_exists(model.emission, posteriors, 0 * mu)


@pytest.mark.parametrize("spread", [1.0, 1e-6, 1e-10])
def test_certificates_at_any_spread_of_the_predictions(spread):
    rng = np.random.default_rng(0)
    posteriors = np.full((20, 3), 1 / 3) + spread * (rng.dirichlet(np.ones(3), size=20) - 1 / 3)
    emission = rng.dirichlet(np.ones(4), size=3)
    predictions, labels = posteriors @ emission, tuning.posterior_labels(posteriors, [1.0, -1.0, 0.0])
    found = tuning.certify_no_head(predictions, labels)
    assert set(labels) == {0, 1}
    assert found.exists
    np.testing.assert_array_equal(predictions @ found.head >= 0, labels == 1)
    assert not tuning.certify_no_head(posteriors @ emission[[0, 0, 1]], labels).exists


def test_rounding_is_not_taken_for_a_head():
    rng = np.random.default_rng(0)
    predictions = np.array([0.3, 0.3, 0.4]) + 1e-15 * rng.standard_normal((3, 3))
    assert len(np.unique(predictions, axis=0)) == 3
    assert not tuning.certify_no_head(predictions, [0, 1, 1]).exists


def test_one_class_needs_no_program():
    predictions = np.array([[0.5, 0.5], [0.2, 0.8]])
    for label in (0, 1):
        found = tuning.certify_no_head(predictions, [label, label])
        assert found.exists
        np.testing.assert_array_equal(predictions @ found.head >= 0, label == 1)


def test_downstream_tasks_are_sparse_balanced_and_varied():
    rng = np.random.default_rng(0)
    posteriors = rng.dirichlet(np.full(4, 0.2), size=500)
    seen = set()
    for _ in range(50):
        matrix, mu, labels = tuning.downstream_task(posteriors, rng)
        assert matrix.shape == (2, 4)
        assert np.count_nonzero(matrix) <= 6
        assert 0.2 <= labels.mean() <= 0.8
        scores = posteriors @ matrix.T
        clear = np.abs(scores[:, 0] - scores[:, 1]) > 1e-12
        np.testing.assert_array_equal(labels[clear], scores.argmax(axis=1)[clear])
        np.testing.assert_array_equal(mu, matrix[1] - matrix[0])
        seen.add(labels.tobytes())
    assert len(seen) > 40
    with pytest.raises(RuntimeError, match="minority"):
        tuning.downstream_task(posteriors[:1], rng, max_draws=20)


def test_errors_say_what_is_wrong():
    emission = np.array([[0.7, 0.3], [0.2, 0.8]])
    with pytest.raises(ValueError, match="both prior and model_prior"):
        tuning.exact_head(emission, [1, -1], prior=[0.5, 0.5])
    with pytest.raises(ValueError, match="model_prior is 0 at state 1"):
        tuning.exact_head(emission, [1, -1], prior=[0.5, 0.5], model_prior=[1.0, 0.0])
    with pytest.raises(ValueError, match="2 states"):
        tuning.exact_head(emission, [1, -1, 0])
    with pytest.raises(ValueError, match="0 or 1"):
        tuning.certify_no_head(emission, [1, -1])
    none = np.zeros((0, 2))
    for call in (
        lambda: tuning.fit_head(emission, none, [1, -1]),
        lambda: tuning.head_exists(emission, none, [1, -1]),
        lambda: tuning.downstream_task(none, np.random.default_rng(0)),
        lambda: tuning.certify_no_head(none, []),
    ):
        with pytest.raises(ValueError, match="holds no law"):
            call()
    assert tuning.posterior_labels(none, [1, -1]).shape == (0,)
