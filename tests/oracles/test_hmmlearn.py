"""A second opinion on hidden Markov inference, from hmmlearn."""

import numpy as np
import pytest

from lmcourse import hmm

hmmlearn = pytest.importorskip("hmmlearn.hmm")


@pytest.fixture(params=[0.01, 0.1, 1.0])
def problem(request):
    rng = np.random.default_rng(0)
    ours = hmm.random_hmm(
        30, 10, transition_temperature=request.param, emission_temperature=request.param, rng=rng
    )
    theirs = hmmlearn.CategoricalHMM(30)
    theirs.startprob_, theirs.transmat_, theirs.emissionprob_ = ours.initial, ours.transition, ours.emission
    theirs.n_features = 10
    return ours, theirs, hmm.sample(ours, 20, 128, rng).symbols, rng.integers(1, 129, 20)


def test_likelihood_and_posterior_of_ragged_sequences(problem):
    ours, theirs, symbols, lengths = problem
    total = hmm.log_likelihood(ours, symbols, lengths=lengths)
    smoothed = hmm.smooth_states(ours, symbols, lengths=lengths)
    for i, length in enumerate(lengths):
        score, posterior = theirs.score_samples(symbols[i, :length, None])
        assert total[i] == pytest.approx(score, rel=1e-11)
        np.testing.assert_allclose(smoothed[i, :length], posterior, atol=1e-10)


def test_our_samples_are_as_likely_as_theirs(problem):
    ours, theirs, _, _ = problem
    drawn = hmm.sample(ours, 400, 32, np.random.default_rng(1)).symbols
    others = np.array([theirs.sample(32, random_state=seed)[0][:, 0] for seed in range(400)])
    mine, yours = hmm.log_likelihood(ours, drawn), hmm.log_likelihood(ours, others)
    error = np.sqrt(mine.var() / 400 + yours.var() / 400)
    assert abs(mine.mean() - yours.mean()) < 4.5 * error
