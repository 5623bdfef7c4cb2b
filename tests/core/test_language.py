"""Languages and their departures, against sums written out word by word."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcourse import language
from lmcourse.language import Language

seeds = st.integers(0, 2**32 - 1)


def excess_by_hand(lang, model):
    total = 0.0
    for weight, true_row, row in zip(lang.contexts, lang.truth, model, strict=True):
        for p, q in zip(true_row, row, strict=True):
            if weight > 0 and p > 0:
                if q == 0:
                    return math.inf
                total += weight * p * (math.log(p) - math.log(q))
    return total


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_excess_is_gibbs_difference(seed):
    rng = np.random.default_rng(seed)
    lang = language.wild_language(rng)
    model = rng.dirichlet(np.ones(lang.n_words), size=lang.n_contexts)
    found = language.excess(lang, model)
    assert found >= 0
    assert found == pytest.approx(excess_by_hand(lang, model), rel=1e-9, abs=1e-12)
    difference = language.cross_entropy(lang, model) - language.entropy(lang)
    assert difference == pytest.approx(found, rel=1e-9, abs=1e-12)


def test_excess_is_infinite_where_a_used_word_is_impossible_and_blind_to_unseen_contexts():
    lang = Language([1.0, 0.0], [[0.5, 0.5], [0.5, 0.5]])
    assert language.excess(lang, [[1.0, 0.0], [0.5, 0.5]]) == math.inf
    assert language.excess(lang, [[0.5, 0.5], [1.0, 0.0]]) == 0


@pytest.mark.parametrize("target", [0.0, 1e-8, 1e-4, 0.05, 1.0])
@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_models_have_the_excess_asked_for(target, seed):
    rng = np.random.default_rng(seed)
    lang = language.random_language(5, 6, rng=rng, concentration=0.7)
    labels, v = rng.choice([-1, 1], size=5), rng.standard_normal(6)
    models = [
        language.aligned_model(lang, labels, v, excess=target),
        language.unrelated_model(lang, excess=target, rng=rng),
    ]
    if target < 0.05:
        unigram = np.tile(lang.contexts @ lang.truth, (5, 1))
        models.append(language.interpolated_model(lang, unigram, excess=target))
    for model in models:
        assert language.excess(lang, model) == pytest.approx(target, rel=1e-7, abs=1e-14)


def test_aligned_errors_have_their_stated_form():
    rng = np.random.default_rng(0)
    lang = language.random_language(4, 5, rng=rng)
    labels, v = np.array([1, -1, 1, -1]), rng.standard_normal(5)
    model = language.aligned_model(lang, labels, v, excess=0.1)
    change = np.log(model) - np.log(lang.truth)
    for row, y in zip(change, labels, strict=True):
        slope = np.diff(row) / (-y * np.diff(v))
        np.testing.assert_allclose(slope, slope[0], rtol=1e-8)
        assert slope[0] > 0
    slopes = -labels * (change[:, 0] - change[:, 1]) / (v[0] - v[1])
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-8)


def test_random_languages_reach_the_extremes():
    rng = np.random.default_rng(1)
    drawn = [language.wild_language(rng) for _ in range(300)]
    assert any(lang.n_words == 1 for lang in drawn)
    assert any(lang.n_contexts == 1 for lang in drawn)
    flat_with_zeros = [lang for lang in drawn if 0 in lang.truth and lang.truth[lang.truth > 0].min() > 0.02]
    assert any((lang.truth > 0).sum() > 2 * lang.n_contexts for lang in flat_with_zeros)
    assert any(lang.truth.min(axis=1).max() < 1e-20 and lang.n_words > 2 for lang in drawn)
    assert any(0 < lang.contexts.min() < 1e-20 for lang in drawn)
    assert any(lang.n_words > 2 and np.abs(lang.truth - 1 / lang.n_words).max() < 0.1 for lang in drawn)


def test_errors_say_what_is_wrong():
    lang = language.random_language(3, 4, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="sum"):
        Language([0.5, 0.6], np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match=r"\(S,\)"):
        Language([0.5, 0.5], np.full((3, 2), 0.5))
    with pytest.raises(ValueError, match="2 names"):
        Language([1.0], np.full((1, 4), 0.25), words=("a", "b"))
    with pytest.raises(ValueError, match="shape"):
        language.excess(lang, np.full((3, 2), 0.5))
    with pytest.raises(ValueError, match="at least 0"):
        language.unrelated_model(lang, excess=-0.1, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="constant"):
        language.aligned_model(lang, [1, 1, 1], np.ones(4), excess=0.1)
    with pytest.raises(ValueError, match="worse model"):
        language.interpolated_model(lang, lang.truth, excess=0.1)
    with pytest.raises(ValueError, match="-1 or"):
        language.aligned_model(lang, [1, 0, 1], np.ones(4), excess=0.1)


def test_languages_cannot_be_changed_by_accident():
    lang = language.random_language(3, 4, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="read-only"):
        lang.truth[0, 0] = 1


def test_directions_that_are_not_finite_are_refused():
    lang = language.random_language(3, 4, rng=np.random.default_rng(0))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"direction must be finite; at \(1,\)"):
            language.tilt([0.5, 0.5], [0.0, bad])
        with pytest.raises(ValueError, match=r"direction must be finite; at \(0, 0\)"):
            language.tilted_model(lang, np.full((3, 4), bad), excess=0.1)
        with pytest.raises(ValueError, match="direction must be finite"):
            language.aligned_model(lang, [1, -1, 1], [1, bad, 0, 0], excess=0.1)
        with pytest.raises(ValueError, match="scale must be finite"):
            language.tilt([0.5, 0.5], [0.0, 1.0], bad)
