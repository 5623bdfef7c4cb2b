"""Exact values, sizes, limits and errors; the laws that hold for every model are in test_hmm_properties."""

import itertools
import math
import pickle
import re
import tracemalloc

import enumeration
import numpy as np
import pytest
from models import cycle, draw_model, draw_symbols, two_sources
from scipy.special import expit

from lmcourse import hmm, hmm_logspace, hmm_scaled
from lmcourse.hmm import HMM, MASK, ImpossibleSequenceError

ASK = {
    "log_likelihood": hmm.log_likelihood,
    "filter_states": hmm.filter_states,
    "smooth_states": hmm.smooth_states,
    "masked_conditionals": hmm.masked_conditionals,
    "initial_posterior": hmm.initial_posterior,
}
every_question = pytest.mark.parametrize("ask", ASK.values(), ids=ASK)


def enumerated(name, model, seen, exact=False):
    """The answer for one sequence of likelihoods (T, H), by enumeration."""
    law = (model.initial, model.transition, model.emission)
    if exact:
        *law, seen = (enumeration.exactly(values) for values in (*law, seen))
    initial, transition, emission = law
    if name == "masked_conditionals":
        return enumeration.masked_conditionals(initial, transition, emission, seen)
    return getattr(enumeration, name)(initial, transition, seen)


@pytest.fixture
def no_logarithms(monkeypatch):
    """Fail where the exact recursion is called."""

    def refuse(*_):
        raise AssertionError("the recursion in logarithms was called")

    for name in ASK:
        monkeypatch.setattr(hmm_logspace, name, refuse)


# Right answers


@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("name", ASK)
def test_equal_to_the_sum_over_all_paths(name, zeros):
    rng = np.random.default_rng(0)
    checked = 0
    for n_states, n_symbols, length in [(1, 1, 1), (1, 3, 4), (2, 2, 6), (3, 2, 5), (2, 4, 5), (4, 3, 4)]:
        model = draw_model(rng, n_states, n_symbols, zeros)
        symbols = draw_symbols(rng, model, 6, length)
        possible = np.isfinite(hmm.log_likelihood(model, symbols, impossible="-inf"))
        for row in symbols[possible]:
            if name == "initial_posterior" and np.isinf(
                hmm.log_likelihood(model, [[MASK, *row]], impossible="-inf")
            ):
                continue
            expected = enumerated(name, model, enumeration.likelihoods(model.emission, row))
            np.testing.assert_allclose(ASK[name](model, row[None])[0], expected, rtol=0, atol=1e-13)
            checked += 1
    assert checked >= 12


@pytest.mark.parametrize("name", ASK)
def test_equal_to_the_sum_over_all_paths_for_any_evidence(name):
    rng = np.random.default_rng(1)
    model = draw_model(rng)
    evidence = rng.exponential(size=(5, 4, 3)) * (rng.random((5, 4, 3)) < 0.8)
    evidence[..., 0] += 1e-3
    for i, answer in enumerate(ASK[name](model, evidence=evidence)):
        np.testing.assert_allclose(answer, enumerated(name, model, evidence[i]), rtol=0, atol=1e-13)


def test_a_model_whose_answers_are_known_by_hand():
    model = cycle()
    assert hmm.log_likelihood(model, [[0, 1, 2]]) == pytest.approx(-np.log(3))
    np.testing.assert_array_equal(hmm.smooth_states(model, [[MASK, MASK, 0]])[0], np.eye(3)[[1, 2, 0]])
    np.testing.assert_allclose(hmm.filter_states(model, [[MASK, MASK, 0]])[0, :2], 1 / 3)
    np.testing.assert_array_equal(hmm.masked_conditionals(model, [[0, 1]])[0], np.eye(3)[[0, 1]])
    np.testing.assert_array_equal(hmm.initial_posterior(model, [[0]])[0], [0, 0, 1])


@every_question
def test_no_sequences_and_no_positions(ask):
    model = two_sources()
    assert ask(model, np.empty((0, 5), dtype=int)).shape[0] == 0
    nothing = ask(model, np.empty((2, 0), dtype=int))
    if ask is hmm.log_likelihood:
        np.testing.assert_array_equal(nothing, 0)
    elif ask is hmm.initial_posterior:
        np.testing.assert_array_equal(nothing, [model.initial] * 2)
    else:
        assert nothing.shape == (2, 0, 2)


@every_question
def test_empty_lists_are_sequences_without_positions(ask):
    np.testing.assert_array_equal(ask(MODEL, [[]]), ask(MODEL, np.empty((1, 0), dtype=int)))
    np.testing.assert_array_equal(ask(MODEL, [[]], lengths=[0]), ask(MODEL, [[]]))
    assert ask(MODEL, np.empty((0, 3), dtype=int), lengths=[]).shape[0] == 0


@every_question
def test_types_of_input_make_no_difference(ask):
    rng = np.random.default_rng(2)
    model = draw_model(rng)
    symbols = draw_symbols(rng, model, masks=0)
    expected = ask(model, symbols)
    assert expected.dtype == np.float64
    for dtype in (np.int8, np.uint8, np.uint64):
        np.testing.assert_array_equal(ask(model, symbols.astype(dtype)), expected)
    np.testing.assert_array_equal(ask(model, np.asfortranarray(symbols)), expected)
    many = draw_model(rng, 2, 256)
    as_evidence = ask(many, evidence=many.emission.T[[[255]]])
    np.testing.assert_array_equal(ask(many, np.array([[255]], dtype=np.uint8)), as_evidence)
    evidence = rng.random((2, 4, 3)).astype(np.float32)
    np.testing.assert_array_equal(ask(model, evidence=evidence), ask(model, evidence=evidence.astype(float)))


@every_question
def test_arguments_are_left_as_they_are(ask):
    rng = np.random.default_rng(3)
    model = draw_model(rng)
    symbols, evidence, lengths = draw_symbols(rng, model), rng.random((4, 5, 3)), np.array([5, 1, 3, 0])
    before = symbols.copy(), evidence.copy(), lengths.copy()
    ask(model, symbols, lengths=lengths)
    ask(model, evidence=evidence, lengths=lengths)
    for now, then in zip((symbols, evidence, lengths), before, strict=True):
        np.testing.assert_array_equal(now, then)


# Lengths and blocks


@every_question
@pytest.mark.parametrize("soft", [False, True])
def test_ragged_batch_equals_one_by_one_whatever_stands_beyond(ask, soft):
    rng = np.random.default_rng(4)
    model = draw_model(rng)
    lengths = np.array([7, 1, 4, 0, 6])
    if soft:
        given = {"evidence": rng.random((5, 7, 3))}
        beyond = [-3.0, np.nan, np.inf, 0.0]
    else:
        given = {"symbols": draw_symbols(rng, model, 5, 7)}
        beyond = [-7, 99, 3, MASK]
    (values,) = given.values()
    for i, length in enumerate(lengths):
        values[i, length:] = rng.choice(beyond, size=values[i, length:].shape)
    answers = ask(model, **given, lengths=lengths)
    for i, length in enumerate(lengths):
        alone = ask(model, **dict.fromkeys(given, values[i : i + 1, :length]))[0]
        if alone.ndim < 2:
            np.testing.assert_allclose(answers[i], alone, rtol=0, atol=1e-14)
        else:
            np.testing.assert_allclose(answers[i, :length], alone, rtol=0, atol=1e-14)
            assert np.isnan(answers[i, length:]).all()


@every_question
def test_blocks_make_no_difference(ask, monkeypatch):
    rng = np.random.default_rng(5)
    model = draw_model(rng)
    symbols, lengths = draw_symbols(rng, model, 23, 6), rng.integers(0, 7, 23)
    whole = ask(model, symbols, lengths=lengths)
    monkeypatch.setattr(hmm, "CACHE", 5 * 8 * model.n_states)
    np.testing.assert_allclose(ask(model, symbols, lengths=lengths), whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("ask", [hmm.smooth_states, hmm.filter_states, hmm.masked_conditionals])
def test_memory_does_not_grow_with_the_batch(ask):
    """Extrapolated to 100,000 sequences of 128: under 1 GB beyond inputs and outputs."""
    model = draw_model(np.random.default_rng(6), 30, 10)
    beyond = {}
    for n_sequences in (1500, 3000):
        symbols = hmm.sample(model, n_sequences, 128, np.random.default_rng(7)).symbols
        tracemalloc.start()
        out = ask(model, symbols)
        beyond[n_sequences] = tracemalloc.get_traced_memory()[1] - out.nbytes
        tracemalloc.stop()
    per_sequence = (beyond[3000] - beyond[1500]) / 1500
    assert beyond[3000] + 97_000 * per_sequence < 1e9
    assert beyond[3000] < 1e8


@pytest.mark.slow
def test_memory_for_a_hundred_thousand_sequences():
    model = draw_model(np.random.default_rng(6), 30, 10)
    symbols = np.random.default_rng(7).integers(0, 10, (100_000, 128), dtype=np.int8)
    tracemalloc.start()
    hmm.log_likelihood(model, symbols)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e9


# Small numbers


@pytest.mark.parametrize("name", ASK)
@pytest.mark.parametrize("tiny", [1e-100, 1e-250, 1e-308])
def test_tiny_entries_lose_no_digits(name, tiny):
    model = HMM(
        [1 - tiny, tiny, 0.0],
        [[1 - tiny, tiny, 0.0], [tiny, 1 - 3 * tiny, 2 * tiny], [0.25, 0.25, 0.5]],
        [[1.0, tiny, tiny * 1e-3], [0.5, 0.5, tiny], [tiny, 0.0, 1.0]],
    )
    for row in [[1, 2, 1, 2, 1], [2, 2, 2, 2, 2], [0, 2, 0, 1, 2], [1, 1, MASK, 2, 1]]:
        seen = enumeration.likelihoods(model.emission, row)
        expected = enumerated(name, model, seen, exact=True)
        np.testing.assert_allclose(ASK[name](model, [row])[0], expected, rtol=1e-12, atol=1e-14)


def powers_of_ten(rng, *shape, zeros=0.2):
    """Weights from 1e-300 to 1, some of them zero, the largest of each row one."""
    weights = 10.0 ** (-10.0 * rng.integers(0, 31, shape)) * (rng.random(shape) >= zeros)
    np.put_along_axis(weights, rng.integers(0, shape[-1], (*shape[:-1], 1)), 1.0, axis=-1)
    return weights


def assert_exact(name, model, **given):
    """Equal to the sum over all paths in fractions, for one sequence; False if that is impossible."""
    if "symbols" in given:
        seen = enumeration.likelihoods(model.emission, given["symbols"][0])
    else:
        seen = np.asarray(given["evidence"][0])
    try:
        expected = enumerated(name, model, seen, exact=True)
    except ZeroDivisionError:
        return False
    if name == "log_likelihood" and expected == -math.inf:
        return False
    np.testing.assert_allclose(ASK[name](model, **given)[0], expected, rtol=1e-12, atol=1e-13)
    return True


@pytest.mark.parametrize("name", ASK)
def test_nearly_deterministic_models_and_symbols_they_hardly_show(name):
    rng = np.random.default_rng(10)
    model = hmm.random_hmm(2, 2, transition_temperature=0.002, emission_temperature=0.002, rng=rng)
    for row in itertools.product(range(2), repeat=6):
        assert assert_exact(name, model, symbols=[row])


ADVERSE = {
    "the message underflows on its way to the initial state": (
        HMM([1e-100, 1], [[1, 1e-140], [1, 1e-270]], [[1, 1e-280], [1e-10, 1 - 1e-10]]),
        {"symbols": [[1, 1]]},
    ),
    "a state comes back from below the floor": (
        HMM([0, 1], [[1, 1e-270], [1e-70, 1]], [[1], [1]]),
        {
            "evidence": [
                [[1e-50, 1e-270], [1e-300, 1e-10], [1e-150, 1e-70], [1e-130, 1e-240], [1e-100, 1e-30]]
            ]
        },
    ),
    "a likelihood that underflows when scaled": (
        HMM([0.5, 0.5], [[1, 0], [0, 1]], [[1], [1]]),
        {"evidence": [[[1e300, 1e-300], [1e-300, 1e300], [1, 2]]]},
    ),
}


@pytest.mark.parametrize("case", ADVERSE)
@pytest.mark.parametrize("name", ASK)
def test_a_state_lost_by_underflow_is_not_missed(name, case):
    model, given = ADVERSE[case]
    assert assert_exact(name, model, **given)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASK)
def test_entries_hundreds_of_orders_of_magnitude_apart(name):
    rng = np.random.default_rng(11)
    checked = 0
    for _ in range(300):
        n_states, n_symbols, length = rng.integers([2, 1, 2], [4, 4, 6])
        rows = [powers_of_ten(rng, *shape) for shape in [(n_states,), (n_states,) * 2, (n_states, n_symbols)]]
        model = HMM(*(weights / weights.sum(axis=-1, keepdims=True) for weights in rows))
        if rng.random() < 0.5:
            given = {"evidence": powers_of_ten(rng, 1, length, n_states, zeros=0.05)}
        else:
            given = {"symbols": rng.integers(0, n_symbols, (1, length))}
        checked += assert_exact(name, model, **given)
    assert checked > 150


@pytest.mark.parametrize("n_against", [90, 110, 200, 330, 500])
def test_a_source_ruled_out_by_hundreds_of_orders_of_magnitude_comes_back(n_against):
    """No single step is small, but 110 of them in a row underflow, and the rest of the sequence decides."""
    model, rare = two_sources(), 1e-3
    row = np.array([0] * 110 + [1] * n_against)
    balance = np.cumsum(np.where(row == 0, 1, -1)) * np.log((1 - rare) / rare)  # log odds of source 0
    expected = expit(balance)
    np.testing.assert_allclose(hmm.filter_states(model, [row])[0, :, 0], expected, atol=1e-11)
    np.testing.assert_allclose(hmm.smooth_states(model, [row])[0, :, 0], expected[-1], atol=1e-11)
    np.testing.assert_allclose(hmm.initial_posterior(model, [row])[0, 0], expected[-1], atol=1e-11)
    both = [110 * np.log(p) + n_against * np.log(1 - p) for p in (1 - rare, rare)]
    assert hmm.log_likelihood(model, [row])[0] == pytest.approx(np.log(0.5) + np.logaddexp(*both), rel=1e-12)
    others = balance[-1] - np.where(row == 0, 1, -1) * np.log((1 - rare) / rare)
    source = expit(others)
    shown = rare + (1 - 2 * rare) * source
    np.testing.assert_allclose(hmm.masked_conditionals(model, [row])[0, :, 0], shown, atol=1e-11)


@pytest.mark.slow
def test_a_source_ruled_out_little_by_little_comes_back_little_by_little():
    """No few steps change the balance much, either way."""
    model, row = two_sources(0.475), np.repeat([0, 1], [8000, 8100])
    balance = np.cumsum(np.where(row == 0, 1, -1)) * np.log(0.525 / 0.475)
    np.testing.assert_allclose(hmm.filter_states(model, [row])[0, :, 0], expit(balance), atol=1e-11)
    np.testing.assert_allclose(hmm.smooth_states(model, [row])[0, :, 0], expit(balance[-1]), atol=1e-11)
    np.testing.assert_allclose(hmm.initial_posterior(model, [row])[0, 0], expit(balance[-1]), atol=1e-11)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_masked_conditional_may_depend_on_what_the_whole_sequence_rules_out(backwards):
    """Source 1 cannot show symbol 2, so the whole sequence excludes it; without that symbol it wins."""
    model = HMM([0.5, 0.5], np.eye(2), [[0.9985, 0.001, 0.0005], [0.001, 0.999, 0.0]])
    row = [0] * 110 + [1] * 115 + [2] + [1] * 10
    found = hmm.masked_conditionals(model, [row[::-1] if backwards else row])[0]
    found = found[::-1] if backwards else found
    np.testing.assert_allclose(found[225], model.emission[1], atol=1e-12)
    np.testing.assert_allclose(np.delete(found, 225, axis=0), [model.emission[0]] * 235, atol=1e-12)


def test_a_masked_conditional_may_hang_on_what_only_the_backward_pass_loses():
    """The last symbols all but rule source 1 out, and symbol 2 does; without that, it wins after all."""
    model = HMM([0.5, 0.5], np.eye(2), [[0.9985, 0.001, 0.0005], [0.001, 0.999, 0.0]])
    row = [1] * 57 + [2] + [1] * 57 + [0] * 113
    first, second = ([math.log(p) for p in source[:2]] for source in model.emission)
    balance = 114 * (first[1] - second[1]) + 113 * (first[0] - second[0])
    expected = expit([balance, -balance]) @ model.emission
    np.testing.assert_allclose(hmm.masked_conditionals(model, [row])[0, 57], expected, atol=1e-11)


@pytest.mark.slow
def test_a_hundred_thousand_tokens(no_logarithms):
    rng = np.random.default_rng(8)
    model = hmm.random_hmm(4, 4, transition_temperature=0.1, emission_temperature=0.3, rng=rng)
    symbols = hmm.sample(model, 1, 100_000, rng).symbols
    state, total = model.initial, 0.0
    for x in symbols[0]:
        joint = state * model.emission[:, x]
        total += math.log(joint.sum())
        filtered = joint / joint.sum()
        state = filtered @ model.transition
    assert hmm.log_likelihood(model, symbols)[0] == pytest.approx(total, rel=1e-12)
    assert total < -80_000
    smoothed = hmm.smooth_states(model, symbols)
    np.testing.assert_allclose(smoothed.sum(axis=2), 1, atol=1e-13)
    np.testing.assert_allclose(smoothed[0, -1], filtered, atol=1e-13)


@every_question
def test_ordinary_sequences_need_no_logarithms(ask, no_logarithms):
    rng = np.random.default_rng(9)
    for temperature in (0.01, 0.1):
        model = hmm.random_hmm(
            30, 10, transition_temperature=temperature, emission_temperature=temperature, rng=rng
        )
        ask(model, hmm.sample(model, 100, 128, rng).symbols)
        ask(model, hmm.sample(model, 2, 2000, rng).symbols)


@every_question
def test_the_recursion_in_logarithms_agrees_with_the_fast_one(ask, monkeypatch):
    rng = np.random.default_rng(10)
    model = draw_model(rng, 5, 4, zeros=0.3)
    symbols = hmm.sample(model, 9, 20, rng).symbols
    fast = ask(model, symbols, lengths=[20] * 8 + [3])
    monkeypatch.setattr(hmm_scaled, "SAFE_FIT", np.inf)
    monkeypatch.setattr(hmm_scaled, "FLOOR", np.inf)
    monkeypatch.setattr(hmm, "CACHE", 4 * 8 * model.n_states)  # several blocks
    np.testing.assert_allclose(ask(model, symbols, lengths=[20] * 8 + [3]), fast, rtol=1e-12, atol=1e-13)


# Impossible sequences


@pytest.mark.parametrize("ask", [hmm.log_likelihood, hmm.filter_states, hmm.smooth_states])
def test_impossible_sequences_are_named(ask, monkeypatch):
    monkeypatch.setattr(hmm, "CACHE", 600 * 8 * 3)  # several blocks
    symbols = np.tile([0, 1, 2, 0, 1], (2500, 1))
    symbols[1700] = [0, 1, 2, 1, 1]
    symbols[2400] = 2
    message = (
        r"sequence 1700 is impossible under the model: the evidence up to position 3 has probability zero"
    )
    with pytest.raises(ImpossibleSequenceError, match=message) as error:
        ask(cycle(), symbols)
    assert (error.value.index, error.value.position) == (1700, 3)
    assert isinstance(error.value, ValueError)
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
    assert (hmm.log_likelihood(cycle(), symbols, impossible="-inf") == -np.inf).nonzero()[0].tolist() == [
        1700,
        2400,
    ]
    with pytest.raises(ImpossibleSequenceError):
        ask(cycle(), symbols[[1700]], lengths=[4])
    ask(cycle(), symbols[[1700]], lengths=[3])


def test_an_all_zero_likelihood_is_impossible():
    evidence = np.ones((3, 4, 2))
    evidence[1, 2] = 0
    with pytest.raises(ImpossibleSequenceError, match=r"sequence 1 .* up to position 2"):
        hmm.smooth_states(two_sources(), evidence=evidence)
    assert np.isfinite(hmm.smooth_states(two_sources(), evidence=evidence, lengths=[4, 2, 4])[1, :2]).all()


def test_a_mask_prepended_can_make_a_sequence_impossible():
    model = HMM([1.0, 0.0, 0.0], cycle().transition, np.eye(3))
    assert np.isfinite(hmm.log_likelihood(model, [[0, 1]]))
    with pytest.raises(ImpossibleSequenceError, match=r"sequence 1 .* up to position 0") as error:
        hmm.initial_posterior(model, [[1, 2], [0, 1]])
    assert (error.value.index, error.value.position) == (1, 0)
    with pytest.raises(ImpossibleSequenceError, match="up to position 1 has"):
        hmm.initial_posterior(model, [[1, 0]])
    np.testing.assert_array_equal(hmm.initial_posterior(model, [[1, 2]])[0], [1, 0, 0])


def test_the_errors_say_how_to_find_all_such_sequences():
    start = HMM([1, 0], [[0, 1], [0, 1]], np.eye(2))
    assert hmm.log_likelihood(start, [[0]], impossible="-inf") == 0
    with pytest.raises(ImpossibleSequenceError, match="with a mask prepended, finds all such") as error:
        hmm.initial_posterior(start, [[0]])
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)
    assert hmm.log_likelihood(start, [[MASK, 0]], impossible="-inf") == -np.inf
    with pytest.raises(ImpossibleSequenceError, match=r"impossible='-inf'\), finds all such"):
        hmm.filter_states(start, [[1]])
    with pytest.raises(ImpossibleSequenceError) as error:
        hmm.masked_conditionals(start, [[1, 0, 0]])
    assert "finds all" not in str(error.value)


def test_masked_conditionals_of_sequences_that_are_impossible_as_a_whole():
    model = cycle()
    # Each symbol is possible without the other, though not with it.
    np.testing.assert_array_equal(hmm.masked_conditionals(model, [[0, 0]])[0], np.eye(3)[[2, 1]])
    # Here position 2 contradicts the rest: its own row is defined, the others are not.
    with pytest.raises(
        ImpossibleSequenceError, match="the evidence without position 0 has probability zero"
    ) as error:
        hmm.masked_conditionals(model, [[0, 1, 2, 0], [0, 1, 0, 0]])
    assert (error.value.index, error.value.position) == (1, 0)
    repaired = hmm.masked_conditionals(model, [[0, 1, MASK, 0]])[0]
    np.testing.assert_array_equal(repaired, np.eye(3)[[0, 1, 2, 0]])
    # The padding of an impossible sequence is not asked about.
    padded = hmm.masked_conditionals(model, [[0, 0, MASK]], lengths=[2])[0]
    np.testing.assert_array_equal(padded[:2], np.eye(3)[[2, 1]])
    assert np.isnan(padded[2]).all()
    # A symbol that no state shows, alone.
    never = HMM([1.0], [[1.0]], [[1.0, 0.0]])
    np.testing.assert_array_equal(hmm.masked_conditionals(never, [[1]])[0], [[1.0, 0.0]])


# Errors


MODEL = two_sources()


@every_question
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give exactly one of symbols (N, T) and evidence (N, T, H)"),
        ({"symbols": [[0]], "evidence": [[[1, 1]]]}, "give exactly one of symbols"),
        ({"symbols": [0, 1]}, "symbols has shape (2,), not (N, T); for one sequence pass symbols[None]"),
        ({"symbols": [[[0]]]}, "symbols has shape (1, 1, 1), not (N, T)"),
        (
            {"symbols": [[0.0]]},
            "symbols has dtype float64; give integers, -1 for a mask. Likelihoods go in evidence=",
        ),
        ({"symbols": [[True]]}, "symbols has dtype bool"),
        ({"symbols": [[0, 1], [0, 2]]}, "symbols[1, 1] is 2; a symbol is from 0 to 1, or -1 for a mask"),
        ({"symbols": [[0, -2]]}, "symbols[0, 1] is -2"),
        ({"evidence": [[1, 1]]}, "evidence has shape (1, 2), not (N, T, 2): a likelihood for each state"),
        ({"evidence": [[[1, 1, 1]]]}, "evidence has shape (1, 1, 3), not (N, T, 2)"),
        ({"evidence": [[[1j, 1]]]}, "evidence has dtype complex128; give real numbers"),
        (
            {"evidence": [[[1, 1], [1, -0.5]]]},
            "evidence[0, 1, 1] is -0.5; a likelihood is finite and not negative",
        ),
        ({"evidence": [[[np.nan, 1]]]}, "evidence[0, 0, 0] is nan"),
        ({"evidence": [[[np.inf, 1]]]}, "evidence[0, 0, 0] is inf"),
        (
            {"symbols": np.ma.array([[0, 1]], mask=[[0, 1]])},
            "symbols is a masked array; its mask would be lost. Pass symbols.filled(-1)",
        ),
        (
            {"evidence": np.ma.ones((1, 1, 2))},
            "evidence is a masked array; its mask would be lost. Pass evidence.filled(1)",
        ),
        (
            {"symbols": [[0]], "lengths": np.ma.array([1])},
            "lengths is a masked array; its mask would be lost. Pass lengths.filled(0)",
        ),
        ({"symbols": [[0]], "lengths": [1, 1]}, "lengths has shape (2,); give (1,), one for each sequence"),
        ({"symbols": [[0]], "lengths": [1.0]}, "lengths has dtype float64; give integers"),
        (
            {"symbols": [[0], [0]], "lengths": [1, 2]},
            "lengths[1] is 2; a length is from 0 to 1, the positions given",
        ),
        ({"symbols": [[0]], "lengths": [-1]}, "lengths[0] is -1"),
    ],
)
def test_wrong_arguments_are_refused_by_name_place_and_value(ask, given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ask(MODEL, **given)


@every_question
@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(float).max, reason="no wider floats here")
@pytest.mark.parametrize("value", ["1e+4000", "1e-4000"])
def test_likelihoods_beyond_float64_are_refused(ask, value):
    evidence = np.ones((1, 2, 2), dtype=np.longdouble)
    np.testing.assert_array_equal(ask(MODEL, evidence=evidence), ask(MODEL, evidence=evidence.astype(float)))
    evidence[0, 1, 0] = np.longdouble(value)
    message = f"evidence[0, 1, 0] is {value}, beyond the range of float64; rescale the likelihoods"
    with pytest.raises(ValueError, match=re.escape(message)):
        ask(MODEL, evidence=evidence)
    ask(MODEL, evidence=evidence, lengths=[1])


def test_an_unknown_way_to_treat_the_impossible():
    with pytest.raises(ValueError, match="impossible is 'ignore'; it must be 'raise' or '-inf'"):
        hmm.log_likelihood(MODEL, [[0]], impossible="ignore")
