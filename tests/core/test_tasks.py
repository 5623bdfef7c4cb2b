"""Tasks, losses and coverage, against definitions written out."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcourse import tasks
from lmcourse.tasks import Task

seeds = st.integers(0, 2**32 - 1)


@given(st.floats(-30, 30), st.sampled_from([-1, 1]))
def test_logistic_loss_is_its_formula(score, label):
    assert tasks.logistic_loss(score, label) == pytest.approx(
        math.log(1 + math.exp(-label * score)), rel=1e-9
    )


def test_logistic_loss_is_stable():
    np.testing.assert_allclose(tasks.logistic_loss([-1e4, 0, 1e4]), [1e4, np.log(2), 0])
    assert tasks.logistic_loss(40.0) == pytest.approx(math.exp(-40), rel=1e-12)


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_loss_accuracy_and_second_moment_are_sums_over_contexts_and_labels(seed):
    rng = np.random.default_rng(seed)
    size, words = rng.integers(1, 6, size=2)
    law = rng.dirichlet(np.ones(2 * size)).reshape(size, 2)
    g, other, v = rng.dirichlet(np.ones(words), size=size), rng.dirichlet(np.ones(words), size=size), None
    v = 5 * rng.standard_normal(words)
    loss = right = moment = 0.0
    for s in range(size):
        score = sum(g[s, w] * v[w] for w in range(words))
        for column, y in ((0, -1), (1, 1)):
            loss += law[s, column] * math.log(1 + math.exp(-y * score))
            right += law[s, column] * ((1 if score >= 0 else -1) == y)
            moment += law[s, column] * sum((g[s, w] + other[s, w]) * v[w] ** 2 for w in range(words))
    task = Task(law)
    assert tasks.task_loss(g, task, v) == pytest.approx(loss, rel=1e-10)
    assert tasks.accuracy(g, task, v) == pytest.approx(right, rel=1e-10)
    assert tasks.second_moment(g, other, task, v) == pytest.approx(moment, rel=1e-10)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_coverage_is_the_largest_fraction(seed):
    rng = np.random.default_rng(seed)
    p_language, p_task = rng.dirichlet(np.full(5, 0.3), size=2)
    gamma = tasks.coverage(p_language, p_task)
    assert 0 <= gamma <= 1
    assert np.all(p_language >= gamma * p_task * (1 - 1e-12))
    assert np.any(p_language < (gamma * 1.001 + 1e-300) * p_task) or gamma == 1


def test_accuracy_counts_a_score_of_zero_as_plus():
    task = Task(np.array([[0.1, 0.2], [0.3, 0.4]]))
    assert tasks.accuracy(np.eye(2), task, [0.0, -1e-9]) == pytest.approx(0.2 + 0.3)
    assert tasks.accuracy(np.eye(2), task, [1e-9, 0.0]) == pytest.approx(0.2 + 0.4)


def test_coverage_at_its_ends():
    assert tasks.coverage([0.5, 0.5], [0.5, 0.5]) == 1
    assert tasks.coverage([1.0, 0.0], [0.5, 0.5]) == 0
    assert tasks.coverage([0.5, 0.5], [1.0, 0.0]) == 0.5


def test_task_constructors():
    task = tasks.task_from_labels([0.25, 0.75], [1, -1])
    np.testing.assert_array_equal(task.law, [[0, 0.25], [0.75, 0]])
    np.testing.assert_array_equal(task.contexts, [0.25, 0.75])
    noisy = tasks.random_task([0.25, 0.75], rng=np.random.default_rng(0), noise=0.5)
    np.testing.assert_allclose(noisy.law, [[0.125, 0.125], [0.375, 0.375]])


def test_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"\(S, 2\)"):
        Task(np.full((2, 3), 1 / 6))
    with pytest.raises(ValueError, match="sum"):
        Task(np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match="-1 or"):
        tasks.task_from_labels([1.0], [0])
    with pytest.raises(ValueError, match="same contexts"):
        tasks.coverage([1.0], [0.5, 0.5])
    task = tasks.task_from_labels([1.0], [1])
    with pytest.raises(ValueError, match="S = 1"):
        tasks.task_loss(np.full((2, 2), 0.5), task, np.zeros(2))
    with pytest.raises(ValueError, match=r"model has .* not finite, first at \(0, 0\)"):
        tasks.task_loss([[np.nan, 1.0]], task, np.zeros(2))
    with pytest.raises(ValueError, match="masked"):
        Task(np.ma.array([[0.5, 0.5]], mask=[[False, True]]))


def test_weights_of_another_shape_or_not_finite_are_refused():
    laws = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    task = tasks.task_from_labels([0.3, 0.3, 0.4], [1, -1, 1])
    for call in (
        lambda v: tasks.task_loss(laws, task, v),
        lambda v: tasks.accuracy(laws, task, v),
        lambda v: tasks.second_moment(laws, laws, task, v),
    ):
        call([1.0, -1.0])
        for wrong in ([[1.0], [-1.0]], [1.0], 1.0):
            with pytest.raises(ValueError, match=r"v must have shape \(2,\)"):
                call(wrong)
        with pytest.raises(ValueError, match=r"v has .* not finite, first at \(0,\)"):
            call([np.nan, 1.0])
    with pytest.raises(ValueError, match="same shape"):
        tasks.second_moment(laws, laws[:, :1], task, [1.0])
