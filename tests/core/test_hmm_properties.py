"""What holds for every model and every sequence."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import draw_model, draw_symbols

from lmcourse import hmm
from lmcourse.hmm import HMM, MASK

QUICK = settings(max_examples=40, deadline=None)


@st.composite
def cases(draw):
    """A model, sequences that it can produce (some symbols masked), and a generator."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    model = draw_model(rng, *sizes, zeros=draw(st.sampled_from([0.0, 0.3])))
    symbols = hmm.sample(model, draw(st.integers(1, 4)), draw(st.integers(1, 12)), rng).symbols
    symbols[rng.random(symbols.shape) < draw(st.sampled_from([0.0, 0.3]))] = MASK
    return model, symbols, rng


def close(found, expected, atol=1e-12):
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def prepended(symbols):
    return np.hstack([np.full((len(symbols), 1), MASK), symbols])


def all_laws(model, **given):
    laws = [hmm.filter_states, hmm.smooth_states, hmm.masked_conditionals]
    return [ask(model, **given) for ask in laws]


@QUICK
@given(cases())
def test_laws_are_laws(case):
    model, symbols, _ = case
    for law in all_laws(model, symbols=symbols):
        assert (law >= 0).all()
        close(law.sum(axis=2), 1)
    assert (hmm.log_likelihood(model, symbols) <= 1e-12).all()


@QUICK
@given(cases())
def test_the_names_of_the_states_do_not_matter(case):
    model, symbols, rng = case
    p = rng.permutation(model.n_states)
    renamed = HMM(model.initial[p], model.transition[np.ix_(p, p)], model.emission[p])
    close(hmm.log_likelihood(renamed, symbols), hmm.log_likelihood(model, symbols))
    close(hmm.filter_states(renamed, symbols), hmm.filter_states(model, symbols)[..., p])
    close(hmm.smooth_states(renamed, symbols), hmm.smooth_states(model, symbols)[..., p])
    close(hmm.masked_conditionals(renamed, symbols), hmm.masked_conditionals(model, symbols))


@QUICK
@given(cases(), st.data())
def test_a_sequence_can_be_read_in_two_parts(case, data):
    model, symbols, _ = case
    cut = data.draw(st.integers(0, symbols.shape[1] - 1))
    for row in symbols:
        first, rest = row[None, :cut], row[None, cut:]
        now = hmm.filter_states(model, first)[0, -1] @ model.transition if cut else model.initial
        later = dataclasses.replace(model, initial=now / now.sum())
        close(hmm.filter_states(model, row[None])[0, cut:], hmm.filter_states(later, rest)[0])
        close(hmm.smooth_states(model, row[None])[0, cut:], hmm.smooth_states(later, rest)[0])
        total = hmm.log_likelihood(model, first) + hmm.log_likelihood(later, rest)
        close(hmm.log_likelihood(model, row[None]), total, atol=1e-11)


@QUICK
@given(cases())
def test_symbols_and_masks_are_evidence(case):
    model, symbols, rng = case
    evidence = np.where((symbols == MASK)[..., None], 1.0, model.emission.T[symbols])
    scale = np.exp(rng.uniform(-400, 400, symbols.shape))
    for given_ in ({"evidence": evidence}, {"evidence": evidence * scale[..., None]}):
        for found, expected in zip(all_laws(model, **given_), all_laws(model, symbols=symbols), strict=True):
            close(found, expected)
    plain = hmm.log_likelihood(model, symbols)
    close(hmm.log_likelihood(model, evidence=evidence), plain)
    scaled = hmm.log_likelihood(model, evidence=evidence * scale[..., None])
    close(scaled - np.log(scale).sum(axis=1), plain, atol=1e-9)


@QUICK
@given(cases())
def test_evidence_for_one_state_alone_is_certainty(case):
    model, _, rng = case
    states = hmm.sample(model, 2, 7, rng).states
    certain = np.eye(model.n_states)[states]
    close(hmm.smooth_states(model, evidence=certain), certain)
    close(hmm.filter_states(model, evidence=certain), certain)
    path = np.log(model.initial[states[:, 0]]) + np.log(model.transition[states[:, :-1], states[:, 1:]]).sum(
        axis=1
    )
    close(hmm.log_likelihood(model, evidence=certain), path)


@QUICK
@given(cases())
def test_the_last_filtered_state_is_smoothed(case):
    model, symbols, _ = case
    close(hmm.filter_states(model, symbols)[:, -1], hmm.smooth_states(model, symbols)[:, -1])


@QUICK
@given(cases(), st.data())
def test_a_masked_conditional_is_a_ratio_of_likelihoods(case, data):
    model, symbols, _ = case
    t = data.draw(st.integers(0, symbols.shape[1] - 1))
    conditional = hmm.masked_conditionals(model, symbols)[:, t]
    hidden = symbols.copy()
    hidden[:, t] = MASK
    close(hmm.masked_conditionals(model, hidden)[:, t], conditional)
    close(hmm.smooth_states(model, hidden)[:, t] @ model.emission, conditional)
    for x in range(model.n_symbols):
        shown = hidden.copy()
        shown[:, t] = x
        joint = np.exp(hmm.log_likelihood(model, shown, impossible="-inf"))
        close(joint, conditional[:, x] * np.exp(hmm.log_likelihood(model, hidden)))


@QUICK
@given(cases())
def test_the_initial_posterior_is_the_smoothed_state_at_a_mask_prepended(case):
    model, symbols, _ = case
    longer = prepended(symbols)
    possible = np.isfinite(hmm.log_likelihood(model, longer, impossible="-inf"))
    assume(possible.any())
    expected = hmm.smooth_states(model, longer[possible])[:, 0]
    close(hmm.initial_posterior(model, symbols[possible]), expected)


@QUICK
@given(cases())
def test_masks_at_the_end_say_nothing(case):
    model, symbols, _ = case
    longer = np.hstack([symbols, np.full((len(symbols), 3), MASK)])
    close(hmm.log_likelihood(model, longer), hmm.log_likelihood(model, symbols))
    close(hmm.smooth_states(model, longer)[:, :-3], hmm.smooth_states(model, symbols))


@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_probabilities_of_all_sequences_sum_to_one(zeros):
    model = draw_model(np.random.default_rng(0), 4, 3, zeros)
    everything = np.array(list(itertools.product(range(3), repeat=6)))
    total = np.exp(hmm.log_likelihood(model, everything, impossible="-inf"))
    assert total.sum() == pytest.approx(1, abs=1e-12)
    per_state = hmm.smooth_states(model, everything[total > 0]) * total[total > 0, None, None]
    close(per_state.sum(axis=0)[0], model.initial)


def test_unrelated_symbols_too():
    """Not only sequences that the model likes."""
    rng = np.random.default_rng(1)
    model = draw_model(rng, 5, 4)
    symbols = draw_symbols(rng, model, 20, 50)
    for law in all_laws(model, symbols=symbols):
        close(law.sum(axis=2), 1)
