import copy
import dataclasses
import pickle
import re

import numpy as np
import pytest
from models import draw_model
from scipy import stats

from lmcourse.hmm import HMM, random_hmm, sample
from lmcourse.hmm_model import _AliasTable

HALF = [0.5, 0.5]


def test_arrays_are_copied_converted_and_read_only():
    transition = np.array([HALF, HALF], dtype=np.float32)
    model = HMM(HALF, transition, [[1, 0, 0], [0, 0, 1]])
    transition[0] = 7
    assert (model.n_states, model.n_symbols) == (2, 3)
    for name in ("initial", "transition", "emission"):
        values = getattr(model, name)
        assert values.dtype == np.float64
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1
    np.testing.assert_array_equal(model.transition, 0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.initial = HALF
    assert dataclasses.replace(model, initial=[1, 0]).initial.tolist() == [1, 0]


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_read_only_too(clone):
    model = draw_model(np.random.default_rng(0))
    again = clone(model)
    assert type(again) is HMM
    for name in ("initial", "transition", "emission"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
        assert not getattr(again, name).flags.writeable


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (([0.5, 0.6], np.eye(2), np.eye(2)), "initial sums to 1.1, not 1"),
        ((HALF, [[1, 0], [0.5, 0.6]], np.eye(2)), "transition[1] sums to 1.1"),
        ((HALF, np.eye(2), [[1, 0], [-1, 2]]), "emission[1, 0] is -1.0"),
        ((HALF, [HALF], np.eye(2)), "transition has shape (1, 2); for 2 states it must be (2, 2)"),
        ((HALF, np.eye(3), np.eye(2)), "transition has shape (3, 3); for 2 states it must be (2, 2)"),
        ((HALF, np.eye(2), np.eye(3)), "emission has 3 rows; for 2 states it must have 2"),
        (([HALF], np.eye(2), np.eye(2)), "initial has shape (1, 2); it must have 1 axes"),
        ((HALF, np.eye(2), HALF), "emission has shape (2,); it must have 2 axes"),
    ],
)
def test_wrong_models_are_refused(law, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        HMM(*law)


def test_the_random_model_is_what_it_says():
    model = random_hmm(
        6, 4, transition_temperature=0.2, emission_temperature=0.3, rng=np.random.default_rng(0)
    )
    np.testing.assert_allclose(model.transition.sum(axis=0), 1)  # a mixture of permutations
    assert model.initial.max() / model.initial.min() < np.exp(0.1)
    assert model.emission.max(axis=1).max() / model.emission.min() < np.exp(1 / 0.3)
    again = random_hmm(
        6, 4, transition_temperature=0.2, emission_temperature=0.3, rng=np.random.default_rng(0)
    )
    np.testing.assert_array_equal(model.transition, again.transition)


def test_the_random_model_has_the_stated_temperatures():
    """The log ratio of two softmax entries, times the temperature, is a difference of two uniforms."""
    rng = np.random.default_rng(0)
    triangular = stats.triang(0.5, -1, 2).cdf
    emission = random_hmm(2000, 2, transition_temperature=1, emission_temperature=0.01, rng=rng).emission
    assert stats.kstest(0.01 * np.log(emission[:, 0] / emission[:, 1]), triangular).pvalue > 1e-4
    first, mixed = [], []
    for _ in range(1500):
        model = random_hmm(2, 2, transition_temperature=0.05, emission_temperature=1, rng=rng)
        first.append(10 * np.log(model.initial[0] / model.initial[1]))
        mixed.append(model.transition[0, 0])
    assert stats.kstest(first, triangular).pvalue > 1e-4
    mixed = np.array(mixed)
    inside = mixed[(mixed > 1e-12) & (mixed < 1 - 1e-12)]  # half of the pairs of permutations differ
    assert abs(inside.size / 1500 - 0.5) < 0.07
    assert stats.kstest(0.05 * np.log(inside / (1 - inside)), triangular).pvalue > 1e-4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_states": 0}, "n_states is 0; it must be at least 1"),
        ({"n_symbols": 0}, "n_symbols is 0"),
        ({"transition_temperature": 0}, "transition_temperature is 0; it must be a positive number"),
        ({"emission_temperature": np.nan}, "emission_temperature is nan"),
    ],
)
def test_wrong_sizes_and_temperatures_are_refused(change, message):
    arguments = {
        "n_states": 2,
        "n_symbols": 2,
        "transition_temperature": 1,
        "emission_temperature": 1,
    } | change
    with pytest.raises(ValueError, match=message):
        random_hmm(**arguments, rng=np.random.default_rng(0))


def test_alias_tables_hold_the_law_exactly():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n_rows, size = rng.integers(1, 5), rng.integers(1, 12)
        rows = rng.dirichlet(np.full(size, rng.choice([0.05, 0.3, 1.0, 30.0])), n_rows)
        rows[rng.random(rows.shape) < 0.2] = 0
        rows[:, 0] += rows.sum(axis=1) == 0
        rows /= rows.sum(axis=1, keepdims=True)
        table = _AliasTable(rows)
        own = table.threshold - np.arange(size)
        mass = own.copy()
        for row in range(n_rows):
            np.add.at(mass[row], table.alias[row], 1 - own[row])
        np.testing.assert_allclose(mass / size, rows, rtol=0, atol=1e-14)
        assert (mass[rows == 0] == 0).all()


def test_samples_follow_the_law():
    rng = np.random.default_rng(0)
    model = draw_model(rng, 3, 2, zeros=0.2)
    states, symbols = sample(model, 60_000, 3, rng)
    assert states.dtype == symbols.dtype == np.int64
    counts = np.zeros((3, 3, 3, 2, 2, 2))
    np.add.at(counts, (*states.T, *symbols.T), 1)
    law = np.einsum("a,ab,bc,ax,by,cz->abcxyz", model.initial, *[model.transition] * 2, *[model.emission] * 3)
    assert counts[law == 0].sum() == 0
    often = law * 60_000 > 5
    observed = np.append(counts[often], counts[~often].sum())
    expected = np.append(law[often], law[~often].sum()) * 60_000
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_sampling_goes_on_across_blocks_and_shapes():
    model = draw_model(np.random.default_rng(1), 4, 3)
    states, symbols = sample(model, 5000, 2, np.random.default_rng(2))
    half = states[4096:]
    assert set(np.unique(half)) == {0, 1, 2, 3}
    assert sample(model, 0, 3, np.random.default_rng(0)).states.shape == (0, 3)
    assert sample(model, 3, 0, np.random.default_rng(0)).symbols.shape == (3, 0)
    long = sample(model, 1, 30_000, np.random.default_rng(3)).symbols[0]
    late = np.bincount(long[20_000:], minlength=3) / 10_000
    stationary = np.linalg.matrix_power(model.transition, 100)[0] @ model.emission
    np.testing.assert_allclose(late, stationary, atol=0.05)
    again = sample(model, 5000, 2, np.random.default_rng(2))
    np.testing.assert_array_equal(again.states, states)
    np.testing.assert_array_equal(again.symbols, symbols)


@pytest.mark.parametrize(("n_sequences", "length"), [(-1, 2), (2, -1)])
def test_negative_sizes_are_refused(n_sequences, length):
    with pytest.raises(ValueError, match="neither may be negative"):
        sample(draw_model(np.random.default_rng(0)), n_sequences, length, np.random.default_rng(0))
