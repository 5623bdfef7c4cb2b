"""The review language: its mood can be removed exactly, and equal excess says nothing of the task."""

import numpy as np

from lmcourse import language, tasks
from lmcourse.reviews import review_language


def test_names_and_shapes():
    lang, mood, direction = review_language()
    assert len(set(lang.context_names)) == lang.n_contexts == len(mood)
    assert len(set(lang.words)) == lang.n_words == len(direction)
    assert mood.sum() == 0
    assert direction.sum() == 0


def test_the_mood_can_be_hidden_and_only_the_mood():
    lang, mood, direction = review_language(strength=1.0)
    moodless = review_language(strength=0.0).language.truth
    hidden = language.tilt(lang.truth, mood[:, None] * direction)
    np.testing.assert_allclose(hidden, moodless, atol=1e-14)
    # Each pleased context then has a displeased twin with the same law: no classifier tells them apart.
    pleased, displeased = hidden[mood == 1], hidden[mood == -1]
    order = np.lexsort(pleased.round(10).T), np.lexsort(displeased.round(10).T)
    np.testing.assert_allclose(pleased[order[0]], displeased[order[1]], atol=1e-9)


def test_equal_excess_one_perfect_one_at_chance():
    lang, mood, direction = review_language()
    task = tasks.task_from_labels(lang.contexts, mood)
    hidden = language.tilt(lang.truth, mood[:, None] * direction)
    eps = language.excess(lang, hidden)
    noisy = language.unrelated_model(lang, excess=eps, rng=np.random.default_rng(0))
    assert tasks.accuracy(noisy, task, direction) > 0.97
    assert abs(tasks.task_loss(hidden, task, 10 * direction) - np.log(2)) < 1e-12
