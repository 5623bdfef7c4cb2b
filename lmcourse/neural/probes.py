"""Adapting a frozen masked model by a prompt with a head, and the best that exact inference can do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional

from lmcourse.hmm import HMM
from lmcourse.neural.heads import Head, check_counts, check_data, fit_logistic, linear_schedule
from lmcourse.neural.model import MaskedModel, mask_log_probabilities
from lmcourse.neural.text import generator
from lmcourse.probability import as_distribution

Array = NDArray[np.float64]
Symbols = NDArray[np.int64]


def mask_predictions(model: MaskedModel, symbols: ArrayLike, prompt: Tensor | None = None) -> Array:
    """Predictions `G_0` at a mask prepended to each sequence, after a prompt if there is one: (N, X)."""
    assert isinstance(model, nn.Module)
    device = next(model.parameters()).device
    tensor = torch.as_tensor(_as_symbols(symbols), device=device)
    return np.asarray(mask_log_probabilities(model, tensor, prompt).exp().cpu().numpy())


class PromptFit(NamedTuple):
    """A tuned prompt, the head refitted on what the model predicts after it, and how well it did on the way.

    Attributes
    ----------
    prompt : Tensor, shape (P, d)
        Embeddings to put before the mask.
    head : Head
        Logistic regression on the prompted predictions.
    validation : tuple of float
        Accuracies on the validation sequences, at the start and at each check; the prompt is the best
        one's.
    """

    prompt: Tensor
    head: Head
    validation: tuple[float, ...]


def tune_prompt(
    model: MaskedModel,
    symbols: ArrayLike,
    labels: ArrayLike,
    validation_symbols: ArrayLike,
    validation_labels: ArrayLike,
    *,
    seed: int,
    n_tokens: int = 20,
    epochs: int = 60,
    batch: int = 250,
    learning_rate: float = 0.02,
    head_learning_rate: float = 0.1,
    warmup: int = 50,
    check_every: int = 10,
) -> PromptFit:
    """Tune a soft prompt and a head together; the model stays as it is.

    Parameters
    ----------
    model : MaskedModel
        Frozen.
    symbols, labels : array_like, shapes (N, T) and (N,)
        Training data; labels 0 or 1.
    validation_symbols, validation_labels : array_like
        Data that chooses among the prompts along the way.
    seed : int
        Of the start and of the order of the data.
    n_tokens : int
        P.
    epochs, batch, learning_rate, head_learning_rate, warmup : int, int, float, float, int
        Of Adam, with linear growth and decay. The head has a rate of its own, as its scale differs.
    check_every : int
        Epochs between checks, where the head is refitted by L-BFGS and validated.

    Returns
    -------
    PromptFit
    """
    assert isinstance(model, nn.Module)
    check_counts(n_tokens=n_tokens, epochs=epochs, batch=batch, check_every=check_every)
    x, y = _as_symbols(symbols), np.asarray(labels)
    device = next(model.parameters()).device
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.requires_grad_(False)
    model.eval()
    try:
        with torch.no_grad():
            parts = torch.split(torch.as_tensor(x, device=device), 1024)
            context = torch.cat([model.context(part) for part in parts])
        targets = torch.as_tensor(y, device=device).float()
        prompt = model.start_prompt(n_tokens, generator(seed, 0)).to(device).requires_grad_()
        # The head starts at the best one without tuning, on predictions that are centred and scaled.
        features = mask_predictions(model, x, prompt)
        centre = torch.as_tensor(features.mean(axis=0), device=device).float()
        scale = torch.as_tensor(features.std(axis=0), device=device).float().clamp_min(1e-3)
        head = fit_logistic(features, y, penalty=1e-3)
        weight = (torch.as_tensor(head.weight, device=device).float() * scale).requires_grad_()
        shift = head.bias + float(features.mean(axis=0) @ head.weight)
        bias = torch.tensor(shift, device=device, dtype=torch.float32).requires_grad_()
        optimizer = torch.optim.Adam(
            [{"params": [prompt], "lr": learning_rate}, {"params": [weight, bias], "lr": head_learning_rate}]
        )
        rates = linear_schedule(optimizer, warmup, epochs * -(-len(x) // batch))
        shuffle = generator(seed, 1)

        def check() -> tuple[float, Tensor, Head]:
            frozen = prompt.detach().clone()
            if not bool(frozen.isfinite().all()):
                raise ValueError(f"the prompt diverged; lower learning_rate (now {learning_rate})")
            fitted = fit_logistic(mask_predictions(model, x, frozen), y)
            features = mask_predictions(model, validation_symbols, frozen)
            return fitted.accuracy(features, validation_labels), frozen, fitted

        checks = [check()]
        for epoch in range(1, epochs + 1):
            for rows in torch.split(torch.randperm(len(x), generator=shuffle).to(device), batch):
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    logits = model.mask_logits(context[rows], prompt)
                predicted = logits.float().softmax(-1)
                score = ((predicted - centre) / scale) @ weight + bias
                loss = functional.binary_cross_entropy_with_logits(score, targets[rows])
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_([prompt], 1.0)
                optimizer.step()
                rates.step()
            if epoch % check_every == 0 or epoch == epochs:
                checks.append(check())
    finally:
        for p in trained:
            p.requires_grad_(True)
    _, best, fitted = max(checks, key=lambda found: found[0])
    return PromptFit(best, fitted, tuple(found[0] for found in checks))


class ExactPrompt(NamedTuple):
    """The best prompt found for the exact model.

    Attributes
    ----------
    likelihood : ndarray, shape (H,)
        The likelihood vector `u` of the prompt, largest entry 1.
    head : Head
        Logistic regression on the prompted predictions.
    validation : float
        Accuracy on the validation sequences.
    """

    likelihood: Array
    head: Head
    validation: float


def prompted_predictions(hmm: HMM, posteriors: ArrayLike, likelihood: ArrayLike) -> Array:
    """Exact predictions at a mask before the sequence, with a soft prompt one position before the mask.

    Parameters
    ----------
    hmm : HMM
        The law; `initial` is that of the state at the prompt, and must be positive.
    posteriors : array_like, shape (N, H)
        Laws `P[H_0 | x]` without prompt, as from `lmcourse.hmm.initial_posterior`.
    likelihood : array_like, shape (H,)
        The prompt `u`, not negative.

    Returns
    -------
    ndarray, shape (N, X)
        `G_0^u`; zeros where prompt and sequence exclude each other.

    Notes
    -----
    The prompt changes the prior of `H_0` from `initial` to `r = (initial * u) @ transition`, up to a factor,
    and the sequence says what it said before: the posterior is proportional to `r * P[H_0 | x] / initial`.
    """
    laws, u = as_distribution(posteriors, "posteriors"), np.asarray(likelihood, dtype=np.float64)
    if u.shape != (hmm.n_states,) or not (np.isfinite(u).all() and (u >= 0).all() and u.any()):
        raise ValueError(
            f"likelihood must be {hmm.n_states} finite numbers, none negative, not all zero; got {u}"
        )
    if laws.ndim != 2 or laws.shape[1] != hmm.n_states:
        raise ValueError(f"posteriors has shape {laws.shape}, expected (N, {hmm.n_states}): a law a text")
    if not (hmm.initial > 0).all():
        raise ValueError("a state has probability zero in initial; what a sequence says of it is lost")
    states = laws * (((hmm.initial * u) @ hmm.transition) / hmm.initial)
    total = states.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(states, total, out=np.zeros_like(states), where=total > 0) @ hmm.emission)


def point_prompts(
    hmm: HMM,
    posteriors: ArrayLike,
    labels: ArrayLike,
    validation_posteriors: ArrayLike,
    validation_labels: ArrayLike,
) -> list[ExactPrompt]:
    """Prompts that say "the state was h", for each `h`, with a head each; the best on validation first."""
    found = [
        _fit(hmm, u, posteriors, labels, validation_posteriors, validation_labels)
        for u in np.eye(hmm.n_states)
    ]
    return sorted(found, key=lambda prompt: -prompt.validation)


def best_exact_prompt(
    hmm: HMM,
    posteriors: ArrayLike,
    labels: ArrayLike,
    validation_posteriors: ArrayLike,
    validation_labels: ArrayLike,
    *,
    seed: int,
    n_starts: int = 4,
    steps: int = 300,
) -> ExactPrompt:
    """Search the likelihood vectors for the best prompt of the exact model.

    All point masses are tried; then gradients take some of them, softened, and some random vectors further.
    Every candidate gets a refitted head, and the validation sequences choose.

    Parameters
    ----------
    hmm : HMM
        The law.
    posteriors, labels : array_like, shapes (N, H) and (N,)
        `P[H_0 | x]` of the training sequences, and labels 0 or 1.
    validation_posteriors, validation_labels : array_like
        The same for the sequences that choose.
    seed : int
        Of the random starts.
    n_starts : int
        Point masses to start from, and as many random vectors.
    steps : int
        Steps of Adam from each start.

    Returns
    -------
    ExactPrompt
    """
    check_counts(n_starts=n_starts, steps=steps)
    laws, y = as_distribution(posteriors, "posteriors"), np.asarray(labels)
    found = point_prompts(hmm, laws, y, validation_posteriors, validation_labels)
    starts = [np.log(prompt.likelihood + 0.02) for prompt in found[:n_starts]]
    starts += list(np.random.default_rng(seed).standard_normal((n_starts, hmm.n_states)))
    for start in starts:
        u = _climb(hmm, laws, y, start, steps)
        found.append(_fit(hmm, u, laws, y, validation_posteriors, validation_labels))
    return max(found, key=lambda prompt: prompt.validation)


def _as_symbols(symbols: ArrayLike) -> NDArray[Any]:
    """Integers of any size as int64; what is not integers stays, for the model to refuse."""
    array = np.asarray(symbols)
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def _fit(
    hmm: HMM,
    likelihood: Array,
    posteriors: ArrayLike,
    labels: ArrayLike,
    validation_posteriors: ArrayLike,
    validation_labels: ArrayLike,
) -> ExactPrompt:
    head = fit_logistic(prompted_predictions(hmm, posteriors, likelihood), labels)
    features = prompted_predictions(hmm, validation_posteriors, likelihood)
    return ExactPrompt(likelihood, head, head.accuracy(features, validation_labels))


def _climb(hmm: HMM, posteriors: Array, labels: NDArray[np.int64], start: Array, steps: int) -> Array:
    """Follow the gradient of the logistic loss in `log u` and the head."""
    x, y = check_data(prompted_predictions(hmm, posteriors, np.exp(start)), labels)
    centre, scale = torch.from_numpy(x.mean(axis=0)), torch.from_numpy(x.std(axis=0).clip(1e-3))
    initial, transition, emission = map(
        torch.from_numpy, (hmm.initial.copy(), hmm.transition.copy(), hmm.emission.copy())
    )
    message = torch.from_numpy(posteriors / hmm.initial)
    targets = torch.from_numpy(y).double()
    log_u = torch.from_numpy(start.copy()).requires_grad_()
    weight = torch.zeros(x.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([log_u, weight, bias], lr=0.1)
    rates = linear_schedule(optimizer, 0, steps)
    for _ in range(steps):
        states = message * ((initial * log_u.softmax(0)) @ transition)
        predicted = (states / states.sum(1, keepdim=True).clamp_min(1e-300)) @ emission
        score = ((predicted - centre) / scale) @ weight + bias
        loss = functional.binary_cross_entropy_with_logits(score, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        rates.step()
    u = log_u.detach().numpy()
    return np.asarray(np.exp(u - u.max()))
