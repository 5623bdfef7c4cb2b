"""Logistic regression both ways, and the controls."""

import numpy as np
import pytest

from lmcourse.neural import heads


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.dirichlet(np.ones(4), 600) * [1, 1, 1e-3, 1]
    score = x @ [3, -2, 900, 0.5] - 1
    return x, (rng.random(600) < 1 / (1 + np.exp(-2 * score))).astype(int)


@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_logistic_regression_is_at_its_minimum(data, penalty):
    """Against scipy's general minimiser on the loss written out in terms of the features as they are."""
    from scipy.optimize import minimize

    x, y = data
    scale = x.std(axis=0)

    def loss(w):
        z = x @ w[:4] + w[4]
        return np.mean(np.log1p(np.exp(z)) - y * z) + penalty / 2 * np.sum((w[:4] * scale) ** 2)

    head = heads.fit_logistic(x, y, penalty=penalty)
    ours = loss(np.append(head.weight, head.bias))
    start = np.append(head.weight, head.bias) * 0.5
    theirs = minimize(
        loss, start, method="Powell", options={"xtol": 1e-10, "ftol": 1e-14, "maxiter": 10_000}
    ).fun
    assert ours <= theirs + 1e-9


def test_separable_classes_are_separated_however_thin_the_gap():
    rng = np.random.default_rng(1)
    x = rng.dirichlet(np.ones(5), 800)
    score = x[:, 0] + 30 * (x[:, 1] - x[:, 2])
    score -= np.median(score)
    y = (score >= 0).astype(int)
    assert heads.fit_logistic(x, y).accuracy(x, y) == 1.0


def test_constant_features_and_one_class():
    x = np.full((20, 3), 0.5)
    assert heads.fit_logistic(x, np.ones(20, int)).accuracy(x, np.ones(20)) == 1.0
    assert heads.fit_logistic(x, np.arange(20) % 2).accuracy(x, np.ones(20)) in (0.0, 1.0)


def test_adam_approaches_the_minimum_and_repeats(data):
    x, y = data
    x = x * [1, 1, 1e3, 1]
    first, second = (heads.fit_adam(x, y, seed=0, epochs=30, learning_rate=0.2, warmup=20) for _ in range(2))
    np.testing.assert_array_equal(first.weight, second.weight)
    assert not np.array_equal(
        first.weight, heads.fit_adam(x, y, seed=1, epochs=30, learning_rate=0.2, warmup=20).weight
    )
    exact = heads.fit_logistic(x, y)

    def loss(head):
        return np.logaddexp(0, (1 - 2 * y) * (x @ head.weight + head.bias)).mean()

    assert loss(exact) <= loss(first) <= loss(exact) + 0.01


def test_the_schedule_grows_and_falls():
    import torch

    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    rates = heads.linear_schedule(optimizer, 4, 12)
    found = []
    for _ in range(12):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        rates.step()
    assert found[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert found[4:] == pytest.approx([1 - k / 8 for k in range(8)])


def test_controls():
    assert heads.majority_accuracy([1, 1, 0], [1, 0, 0, 0]) == 0.25
    assert heads.majority_accuracy([0, 0, 1], [1, 0, 0, 0]) == 0.75
    found = heads.one_hot_tokens([[2, 0, 1]], 3, n_tokens=2)
    np.testing.assert_array_equal(found, [[0, 0, 1, 1, 0, 0]])


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (np.ones((3, 2)), [0, 1], "a row and a label"),
        (np.array([[1.0], [np.nan]]), [0, 1], r"features\[1, 0\] is nan"),
        (np.ones((2, 2)), [-1, 1], "labels must be 0 or 1"),
        (np.ones((0, 2)), [], "and at least one"),
    ],
)
def test_errors(features, labels, message):
    for fit in (heads.fit_logistic, lambda x, y: heads.fit_adam(x, y, seed=0)):
        with pytest.raises(ValueError, match=message):
            fit(features, labels)


def test_impossible_calls():
    with pytest.raises(ValueError, match="features have 3 columns and the head 2 weights"):
        heads.Head(np.ones(2), 0.0).accuracy(np.ones((1, 3)), [1])
    with pytest.raises(ValueError, match="batch is 0"):
        heads.fit_adam(np.ones((2, 2)), [0, 1], seed=0, batch=0)
    with pytest.raises(ValueError, match="number of test labels is 0"):
        heads.majority_accuracy([1], [])
    for symbol in (-1, 3):
        with pytest.raises(ValueError, match=r"must be 0\.\.2; a mask has no indicator"):
            heads.one_hot_tokens([[symbol]], 3)
