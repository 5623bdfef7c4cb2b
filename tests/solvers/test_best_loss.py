"""The convex program: another solver, its certificate by arithmetic, and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from lmcourse import language, tasks
from lmcourse.convex import LogisticProgram

seeds = st.integers(0, 2**32 - 1)


def instance(seed):
    rng = np.random.default_rng(seed)
    lang = language.wild_language(rng)
    contexts = rng.dirichlet(np.full(lang.n_contexts, 0.5))
    task = tasks.random_task(contexts, rng=rng, noise=rng.choice([0.0, 0.1]))
    return rng, lang, task, 10 ** rng.uniform(-2, 3)


def projected_gradient(model, task, bound, steps=3000):
    """Accelerated projected gradient with restarts, written without the library's loss."""
    signed = np.concatenate([-model, model])
    weights = np.concatenate([task.law[:, 0], task.law[:, 1]])
    rate = 4 / max(np.linalg.norm((weights[:, None] * signed).T @ signed, 2), 1e-300)
    v = w = np.zeros(model.shape[1])
    momentum = 1.0

    def value(x):
        return weights @ np.log1p(np.exp(-np.clip(signed @ x, -700, 700)))

    for _ in range(steps):
        slope = -(weights / (1 + np.exp(np.clip(signed @ w, -700, 700)))) @ signed
        new = np.clip(w - rate * slope, -bound, bound)
        if slope @ (new - v) > 0:
            w, momentum = v, 1.0
            continue
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        w, v, momentum = new + (momentum - 1) / following * (new - v), new, following
    return value(v)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_certificate_by_arithmetic(seed):
    _, lang, task, bound = instance(seed)
    found = tasks.best_loss(lang.truth, task, bound=bound)
    assert np.abs(found.v).max() <= bound
    assert tasks.task_loss(lang.truth, task, found.v) == pytest.approx(found.loss, rel=1e-9, abs=1e-15)
    # Fenchel: for any u in [0, 1], f(v) >= E[entropy(u)] - B |E[u y g]|_1.
    margins = lang.truth @ found.v
    dual, mean = 0.0, np.zeros(lang.n_words)
    for column, y in ((0, -1), (1, 1)):
        u = np.clip(1 / (1 + np.exp(np.clip(y * margins, -700, 700))), 1e-300, 1 - 1e-16)
        dual += task.law[:, column] @ (-u * np.log(u) - (1 - u) * np.log1p(-u))
        mean += (task.law[:, column] * u * y) @ lang.truth
    assert dual - bound * np.abs(mean).sum() >= found.loss - found.gap - 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_the_interior_point_method_hardly_needs_the_local_one(seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(6))
    program = LogisticProgram(rng.dirichlet(np.ones(4), size=6) * rng.choice([-1, 1], size=(6, 1)), law)
    assert program._interior_point(5.0).gap < 1e-7


@pytest.mark.parametrize("seed", range(12))
def test_box_against_projected_gradient(seed):
    _, lang, task, bound = instance(seed)
    bound = min(bound, 30.0)
    found = tasks.best_loss(lang.truth, task, bound=bound)
    other = projected_gradient(lang.truth, task, bound)
    assert found.loss - found.gap <= other + 1e-12
    assert other <= found.loss + 1e-5


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_feature_class_against_a_derivative_free_search(seed):
    rng, lang, task, bound = instance(seed)
    bound = min(bound, 20.0)
    phi = rng.standard_normal((1, lang.n_words))
    found = tasks.best_loss(lang.truth, task, bound=bound, feature_map=phi)
    assert found.head is not None
    np.testing.assert_allclose(phi.T @ found.head, found.v, atol=1e-9 * bound)
    assert np.abs(found.v).max() <= bound * (1 + 1e-12)
    # One dimension: the class is an interval, searched on a grid and refined.
    limit = bound / np.abs(phi).max()
    losses = [tasks.task_loss(lang.truth, task, phi[0] * t) for t in np.linspace(-limit, limit, 2001)]
    assert found.loss - found.gap <= min(losses) + 1e-12
    assert found.loss <= min(losses) + 1e-9


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("ignore:delta_grad")
def test_feature_class_in_more_dimensions(seed):
    rng, lang, task, bound = instance(seed + 100)
    bound = min(bound, 20.0)
    phi = rng.standard_normal((min(3, lang.n_words), lang.n_words))
    found = tasks.best_loss(lang.truth, task, bound=bound, feature_map=phi)
    other = minimize(
        lambda head: tasks.task_loss(lang.truth, task, phi.T @ head),
        np.zeros(len(phi)),
        method="trust-constr",
        constraints=[{"type": "ineq", "fun": lambda h: bound - np.abs(phi.T @ h)}],
        options={"maxiter": 300},
    )
    assert found.loss - found.gap <= other.fun + 1e-7
    assert found.loss <= other.fun + 1e-5


# Words 0 and 1 opposed, and words 2 and 3: the class is the same for every size of a row, also as a sum.
OPPOSED = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])


def opposed_task():
    laws = np.random.default_rng(0).dirichlet(np.full(4, 0.3), size=5)
    return laws, tasks.task_from_labels(np.full(5, 0.2), [1, -1, 1, 1, -1])


@pytest.mark.parametrize("size", [1e-300, 1e-100, 1e-16, 1e-8, 1e8, 1e300])
def test_the_size_of_a_row_of_the_feature_map_changes_nothing(size):
    laws, task = opposed_task()
    phi = OPPOSED * np.array([[1.0], [size]])
    found, plain = (tasks.best_loss(laws, task, bound=5.0, feature_map=rows) for rows in (phi, OPPOSED))
    assert found.loss == pytest.approx(plain.loss, abs=1e-9)
    np.testing.assert_allclose(phi.T @ found.head, found.v, atol=1e-9)


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9, 1e-12, 1e-13])
def test_certificate_for_nearly_dependent_rows(size):
    laws, task = opposed_task()
    least = tasks.best_loss(laws, task, bound=5.0, feature_map=OPPOSED)
    phi = OPPOSED[0] + np.array([[0.0], [size]]) * OPPOSED[1]
    found = tasks.best_loss(laws, task, bound=5.0, feature_map=phi, tolerance=np.inf)
    assert found.loss - found.gap <= least.loss
    if size > 1e-8:
        assert found.gap < 1e-7


def test_dependent_and_missing_rows_of_the_feature_map():
    laws, task = opposed_task()
    once = tasks.best_loss(laws, task, bound=5.0, feature_map=OPPOSED)
    combined = np.vstack([OPPOSED, np.array([[0.3, 0.7], [1.1, -2.3], [0.0, 0.0]]) @ OPPOSED])
    again = tasks.best_loss(laws, task, bound=5.0, feature_map=combined)
    assert again.loss == pytest.approx(once.loss, abs=1e-9)
    for nothing in (np.zeros((2, 4)), np.zeros((0, 4))):
        found = tasks.best_loss(laws, task, bound=5.0, feature_map=nothing)
        assert (found.loss, found.gap) == (np.log(2), 0)


def test_frontier_is_convex_and_non_increasing():
    _, lang, task, _ = instance(5)
    sizes = np.linspace(0, 20, 11)
    tau = tasks.frontier(lang.truth, task, sizes)
    assert tau[0] == np.log(2)
    assert np.all(np.diff(tau) <= 1e-9)
    assert np.all(np.diff(tau, 2) >= -1e-8)
    assert tau[3] == tasks.best_loss(lang.truth, task, bound=sizes[3]).loss


def test_closed_forms():
    # Two deterministic words that are the labels: the loss is log(1 + exp(-B)).
    task = tasks.task_from_labels([0.5, 0.5], [1, -1])
    for bound in (0.5, 3.0, 30.0):
        found = tasks.best_loss(np.eye(2), task, bound=bound)
        assert found.loss == pytest.approx(np.log1p(np.exp(-bound)), rel=1e-7)
    # One word: nothing can be told, but the majority can be guessed.
    lean = tasks.Task(np.array([[0.3, 0.7]]))
    loss = tasks.best_loss([[1.0]], lean, bound=50.0).loss
    assert loss == pytest.approx(-(0.3 * np.log(0.3) + 0.7 * np.log(0.7)), rel=1e-9)
    # A row of ones is a bias.
    ones = tasks.best_loss(np.full((2, 3), 1 / 3), task, bound=5.0, feature_map=np.ones((1, 3)))
    assert ones.loss == pytest.approx(np.log(2), rel=1e-9)


def test_errors_say_what_is_wrong():
    task = tasks.task_from_labels([0.5, 0.5], [1, -1])
    for bound in (-1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match="finite and at least 0"):
            tasks.best_loss(np.eye(2), task, bound=bound)
    with pytest.raises(ValueError, match="feature_map"):
        tasks.best_loss(np.eye(2), task, bound=1.0, feature_map=np.eye(3))
    with pytest.raises(ValueError, match=r"not finite, first at \(0, 1\)"):
        tasks.best_loss(np.eye(2), task, bound=1.0, feature_map=[[1.0, np.nan]])
    with pytest.raises(ValueError, match="so small"):
        tasks.best_loss(np.eye(2), task, bound=1.0, feature_map=[[1e-310, -1e-310]])
    with pytest.raises(RuntimeError, match="certified only"):
        tasks.best_loss(np.array([[0.6, 0.4], [0.3, 0.7]]), task, bound=3.0, tolerance=-1.0)
