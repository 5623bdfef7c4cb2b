"""Linear heads on predictions: logistic regression, by L-BFGS or by the recipe of Wei, Xie and Ma (2021)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn import functional

from lmcourse.neural.text import generator

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Head(NamedTuple):
    """A linear classifier: label 1 where `features @ weight + bias >= 0`."""

    weight: Array  # (X,)
    bias: float

    def accuracy(self, features: ArrayLike, labels: ArrayLike) -> float:
        """Share of labels, each 0 or 1, that the head gets right."""
        x, y = check_data(features, labels)
        if x.shape[1] != len(self.weight):
            raise ValueError(f"features have {x.shape[1]} columns and the head {len(self.weight)} weights")
        return float(((x @ self.weight + self.bias >= 0) == y).mean())


def fit_logistic(features: ArrayLike, labels: ArrayLike, *, penalty: float = 0.0) -> Head:
    """Logistic regression by L-BFGS.

    Parameters
    ----------
    features : array_like, shape (N, X)
        One row an example; columns are standardised inside.
    labels : array_like, shape (N,)
        Each 0 or 1.
    penalty : float
        Of half the squared norm of the standardised weights, against the mean loss. None by default: exact
        predictions can often be separated, by weights so large that even a trace of a penalty forbids them.

    Returns
    -------
    Head
        In terms of the features given.
    """
    from scipy.optimize import minimize

    x, y = check_data(features, labels)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale < 1e-12] = 1.0
    z = np.column_stack([(x - centre) / scale, np.ones(len(x))])
    sign = 2.0 * y - 1

    def objective(w: Array) -> tuple[float, Array]:
        margin = sign * (z @ w)
        loss = np.logaddexp(0, -margin).mean() + penalty / 2 * (w[:-1] @ w[:-1])
        slope = -sign * np.exp(-np.logaddexp(0, margin)) / len(z)
        gradient = slope @ z
        gradient[:-1] += penalty * w[:-1]
        return float(loss), gradient

    options = {"maxiter": 2000, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-9}
    w = minimize(objective, np.zeros(z.shape[1]), jac=True, method="L-BFGS-B", options=options).x
    weight = w[:-1] / scale
    return Head(weight, float(w[-1] - centre @ weight))


def fit_adam(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    seed: int,
    epochs: int = 100,
    batch: int = 128,
    learning_rate: float = 0.01,
    warmup: int = 500,
) -> Head:
    """Logistic regression by Adam in small batches, with the published settings as defaults.

    The learning rate grows for `warmup` steps and then falls in a straight line to zero. Features are not
    standardised. Parameters are otherwise those of `fit_logistic`.
    """
    check_counts(epochs=epochs, batch=batch)
    x, y = check_data(features, labels)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y).double()
    weight = torch.zeros(x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weight, bias], lr=learning_rate)
    total = epochs * -(-len(x) // batch)
    rates = linear_schedule(optimizer, warmup, total)
    shuffle = generator(seed)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(x), generator=shuffle), batch):
            loss = functional.binary_cross_entropy_with_logits(inputs[rows] @ weight + bias, targets[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            rates.step()
    return Head(weight.detach().numpy().copy(), float(bias.detach()))


def linear_schedule(
    optimizer: torch.optim.Optimizer, warmup: int, total: int
) -> torch.optim.lr_scheduler.LambdaLR:
    """Linear growth for `warmup` steps, at most half of all, then a straight line to zero."""
    warmup = min(warmup, total // 2)

    def factor(step: int) -> float:
        return (step + 1) / (warmup + 1) if step < warmup else max(0.0, (total - step) / (total - warmup))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def majority_accuracy(train_labels: ArrayLike, test_labels: ArrayLike) -> float:
    """Accuracy of always saying the commoner training label, as one can without looking."""
    train, test = np.asarray(train_labels), np.asarray(test_labels)
    check_counts(**{"number of training labels": train.size, "number of test labels": test.size})
    return float((test == (train.mean() >= 0.5)).mean())


def one_hot_tokens(symbols: ArrayLike, n_symbols: int, n_tokens: int = 8) -> Array:
    """Mark the first symbols by indicators, (N, n_tokens * X): features without a language model."""
    first = np.asarray(symbols)[:, :n_tokens]
    if ((first < 0) | (first >= n_symbols)).any():
        raise ValueError(f"symbols must be 0..{n_symbols - 1}; a mask has no indicator")
    return np.asarray(np.eye(n_symbols)[first].reshape(len(first), -1))


def check_data(features: ArrayLike, labels: ArrayLike) -> tuple[Array, Labels]:
    """Return features (N, X) and labels (N,), or raise ValueError with what is wrong with them."""
    x, y = np.asarray(features, dtype=np.float64), np.asarray(labels)
    if x.ndim != 2 or 0 in x.shape or y.shape != (len(x),):
        raise ValueError(
            f"features have shape {x.shape} and labels {y.shape}; expected (N, X) and (N,), a row "
            "and a label for each example, and at least one"
        )
    if not np.isfinite(x).all():
        i, j = np.argwhere(~np.isfinite(x))[0]
        raise ValueError(f"features[{i}, {j}] is {x[i, j]}; a head needs finite numbers")
    if not np.isin(y, (0, 1)).all():
        raise ValueError("labels must be 0 or 1")
    return x, y.astype(np.int64)


def check_counts(**counts: int) -> None:
    """Raise ValueError unless all are at least 1."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} is {count}; it must be at least 1")
