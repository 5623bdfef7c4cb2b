"""Exact inference in hidden Markov models on tensors, so that gradients flow through it.

The quantities of `lmcourse.hmm` as functions of evidence that may be learned, on any device and in any
floating-point type. A symbol `x` is the likelihood vector `emission[:, x]`, a mask is all ones, a soft
prompt is any non-negative vector. Messages are rescaled at each step; where even that is not enough
(evidence of probability zero, or far below what the type can hold) an error says so. `lmcourse.hmm` then
has the answer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from lmcourse.hmm import HMM, MASK


class Law(NamedTuple):
    """The law of a hidden Markov model as tensors: rows are distributions, as in `lmcourse.hmm.HMM`."""

    initial: Tensor  # (H,)
    transition: Tensor  # (H, H)
    emission: Tensor  # (H, X)


def as_law(hmm: HMM, *, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu") -> Law:
    """Copy a model to tensors of the given type on the given device."""
    arrays = (hmm.initial, hmm.transition, hmm.emission)
    return Law(*(torch.tensor(array, dtype=dtype, device=device) for array in arrays))


def likelihoods(law: Law, symbols: Tensor) -> Tensor:
    """Likelihood of each state at each position.

    Parameters
    ----------
    law : Law
        The law.
    symbols : Tensor of int, shape (..., T)
        Symbols 0..X-1, or `MASK` where nothing is known.

    Returns
    -------
    Tensor, shape (..., T, H)
        `emission[:, x]` for a symbol, ones for a mask.

    Raises
    ------
    ValueError
        If a symbol is out of range.
    """
    n_symbols = law.emission.shape[1]
    if symbols.is_floating_point() or symbols.is_complex():
        raise ValueError(f"symbols holds {symbols.dtype} values; give integers. Likelihoods go in evidence=")
    symbols = symbols.long()
    wrong = (symbols < MASK) | (symbols >= n_symbols)
    if bool(wrong.any()):
        where = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"symbols{where} is {int(symbols[tuple(where)])}; symbols are 0..{n_symbols - 1}, "
            f"or {MASK} for a mask"
        )
    table = torch.cat([torch.ones_like(law.emission[:, :1]), law.emission], dim=1).T
    return table[symbols + 1]


def masked_conditionals(law: Law, symbols: Tensor | None = None, *, evidence: Tensor | None = None) -> Tensor:
    """Law of each symbol given the evidence at all other positions, `P[X_i | x_{-i}]`.

    Parameters
    ----------
    law : Law
        The law; its `initial` is that of the state at the first position given.
    symbols : Tensor of int, shape (..., T)
        Symbols or `MASK`.
    evidence : Tensor, shape (..., T, H)
        In place of `symbols`: likelihoods, non-negative, on any scale.

    Returns
    -------
    Tensor, shape (..., T, X)

    Raises
    ------
    ValueError
        For wrong shapes or symbols, and if a sequence has probability zero as far as the type can tell.
    """
    seen = _evidence(law, symbols, evidence)
    if seen.shape[-2] == 0:
        return seen @ law.emission
    steps = seen.unbind(-2)
    message = torch.ones_like(seen[..., 0, :]) * law.initial
    before = []
    for step in steps:
        before.append(message)
        message = _rescaled(message * step) @ law.transition
    message = torch.ones_like(message)
    after = []
    for step in reversed(steps):
        after.append(message)
        message = _rescaled(message * step) @ law.transition.T
    states = torch.stack(before, dim=-2) * torch.stack(after[::-1], dim=-2)
    return _normalised(states) @ law.emission


def initial_posterior(law: Law, symbols: Tensor | None = None, *, evidence: Tensor | None = None) -> Tensor:
    """Law of the state at a mask prepended to the sequence, `P[H_0 | x]`: shape (..., H).

    Parameters are those of `masked_conditionals`, except that `initial` is the law of the state before the
    first position given. Times `emission` it is the prediction `G_0`.
    """
    seen = _evidence(law, symbols, evidence)
    message = torch.ones_like(law.initial.expand(*seen.shape[:-2], -1))
    for step in reversed(seen.unbind(-2)):
        message = _rescaled(message * step) @ law.transition.T
    return _normalised(law.initial * message)


def _evidence(law: Law, symbols: Tensor | None, evidence: Tensor | None) -> Tensor:
    if (symbols is None) == (evidence is None):
        raise ValueError("give exactly one of symbols (..., T) and evidence (..., T, H)")
    if symbols is not None:
        if symbols.ndim < 1:
            raise ValueError("symbols is a single number, expected shape (..., T)")
        return likelihoods(law, symbols)
    assert evidence is not None
    n_states = law.initial.shape[0]
    if evidence.ndim < 2 or evidence.shape[-1] != n_states:
        raise ValueError(
            f"evidence has shape {tuple(evidence.shape)}, expected (..., T, {n_states}): a likelihood a state"
        )
    values = evidence.detach()
    if not bool(((values >= 0) & (values < torch.inf)).all()):
        raise ValueError("evidence holds a negative or non-finite likelihood; use finite ones, zero or more")
    return evidence.to(law.initial.dtype)


def _rescaled(message: Tensor) -> Tensor:
    """Divide by the largest entry, a constant to the gradient: it cancels when states are normalised."""
    return message / message.detach().amax(dim=-1, keepdim=True)


def _normalised(states: Tensor) -> Tensor:
    result = states / states.sum(dim=-1, keepdim=True)
    bad = ~result.detach().isfinite().all(dim=-1)
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        raise ValueError(
            f"the evidence around {where} has probability zero under the law, or too little for "
            f"{states.dtype}; mask what is at fault, or use lmcourse.hmm, which is exact there"
        )
    return result
