"""Several networks of one architecture as one: their losses computed in one batch, seeds side by side.

A small network leaves most of a GPU idle; three of them leave less. Each network keeps its own text, hidden
positions, weights and optimiser, so each ends where it would have ended alone, up to rounding.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from lmcourse.neural.model import MaskedModel


@runtime_checkable
class Stackable(MaskedModel, Protocol):
    """A masked model whose loss can be computed for several of its kind at once.

    All chance is in `hide`, so that `loss_at` is a function that `torch.func.vmap` can map. The GRU is not
    one: `vmap` has no rule for `torch.nn.GRU`.
    """

    def hide(self, symbols: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the positions to hide, (N, K)."""

    def loss_at(self, symbols: Tensor, hidden: Tensor) -> Tensor:
        """Mean negative log probability of the symbols at the hidden positions."""


def losses(models: Sequence[Stackable], symbols: Tensor, hidden: Tensor) -> Tensor:
    """Loss of each model on its own text, with gradients to its own weights.

    Parameters
    ----------
    models : sequence of S modules
        Of the same architecture and on the same device.
    symbols : Tensor of int, shape (S, N, T)
        A batch for each.
    hidden : Tensor of int, shape (S, N, K)
        Positions hidden in each.

    Returns
    -------
    Tensor, shape (S,)
        The sum's gradient is that of each loss for the weights of each.

    Raises
    ------
    ValueError
        If the numbers of models and batches differ, or the models' sizes do.
    """
    if not len(models) == len(symbols) == len(hidden):
        raise ValueError(
            f"{len(models)} models, {len(symbols)} batches of symbols, {len(hidden)} of hidden positions; "
            "give as many of each"
        )
    wholes = [_Loss(model) for model in models]
    parameters = [dict(whole.named_parameters()) for whole in wholes]
    shapes = [{name: p.shape for name, p in own.items()} for own in parameters]
    if any(own != shapes[0] for own in shapes):
        raise ValueError("the models differ in size; only those of one size can be trained together")
    stacked = {name: torch.stack([own[name] for own in parameters]) for name in parameters[0]}

    def one(weights: dict[str, Tensor], symbols: Tensor, hidden: Tensor) -> Any:
        return functional_call(wholes[0], weights, (symbols, hidden))

    # The fused attention of a CPU has no rule for vmap, the plain one has.
    plain = sdpa_kernel(SDPBackend.MATH) if symbols.device.type == "cpu" else contextlib.nullcontext()
    with plain:
        result: Tensor = vmap(one)(stacked, symbols, hidden)
    return result


class _Loss(nn.Module):
    """A model whose forward pass is its loss, for `functional_call`."""

    def __init__(self, model: Stackable) -> None:
        super().__init__()
        self.model = model

    def forward(self, symbols: Tensor, hidden: Tensor) -> Tensor:
        return self.model.loss_at(symbols, hidden)
