"""What training and probing ask of a masked language model, whatever is inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcourse.hmm import MASK

M = TypeVar("M")


@runtime_checkable
class MaskedModel(Protocol):
    """A network that predicts a hidden symbol from all others.

    Symbols are integers of shape (N, T); logits, unnormalised log probabilities, have shape (N, X). A prompt
    is a tensor (P, d) of P vectors in the space of embeddings, the same for all sequences, read before the
    prepended mask. `context` computes what does not depend on the prompt, once for many prompts.
    """

    n_symbols: int

    def loss(self, symbols: Tensor, generator: torch.Generator) -> Tensor:
        """Mean negative log probability of hidden symbols; `generator` draws which to hide."""

    def logits(self, symbols: Tensor, prompt: Tensor | None = None) -> Tensor:
        """Prediction at every position, (N, T, X)."""

    def blank_logits(self, symbols: Tensor, positions: Tensor) -> Tensor:
        """Prediction at one hidden position of each sequence, `positions` of shape (N,)."""

    def context(self, symbols: Tensor) -> Tensor:
        """Read sequences before which a mask is to be predicted."""

    def mask_logits(self, context: Tensor, prompt: Tensor | None = None) -> Tensor:
        """Prediction `G_0` at the prepended mask, after the prompt if there is one."""

    def start_prompt(self, n_tokens: int, generator: torch.Generator) -> Tensor:
        """Prompt to begin tuning from, (n_tokens, d)."""

    def training_flops(self, length: int) -> float:
        """Floating-point operations per token of text of one training step, forward and backward."""


def seeded(seed: int, build: Callable[[], M]) -> M:
    """Call `build` with torch's global generator at `seed`, and leave that generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean negative log probability of targets (N,) under logits (N, X), in single precision or better."""
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return functional.cross_entropy(precise, targets)


def mask_log_probabilities(
    model: MaskedModel, symbols: Tensor, prompt: Tensor | None = None, *, chunk: int = 1024
) -> Tensor:
    """Logarithm of `G_0`, the model's prediction at a mask prepended to each sequence: (N, X), float64."""
    with torch.no_grad():
        parts = [
            model.mask_logits(model.context(part), prompt).double().log_softmax(-1)
            for part in torch.split(symbols, chunk)
        ]
    return torch.cat(parts)


def check_symbols(symbols: Tensor, n_symbols: int, *, mask: bool) -> None:
    """Raise ValueError unless symbols are integers (N, T) in range, at least one; `mask` allows `MASK`."""
    if symbols.ndim != 2 or 0 in symbols.shape:
        raise ValueError(f"symbols has shape {tuple(symbols.shape)}, expected (N, T), both at least 1")
    if symbols.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"symbols holds {symbols.dtype} values; give integers 0..{n_symbols - 1} as int64")
    wrong = (symbols < (MASK if mask else 0)) | (symbols >= n_symbols)
    if bool(wrong.any()):
        i, t = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"symbols[{i}, {t}] is {int(symbols[i, t])}; symbols are 0..{n_symbols - 1}"
            + (f", or {MASK} for a mask" if mask else "; this model hides positions itself and knows no mask")
        )


def check_positions(positions: Tensor, symbols: Tensor) -> None:
    """Raise ValueError unless there is one position for each sequence, and it is one of the sequence's."""
    n, length = symbols.shape
    if positions.shape != (n,) or positions.dtype != torch.int64:
        raise ValueError(
            f"positions has shape {tuple(positions.shape)} and holds {positions.dtype}; expected ({n},) and "
            "int64, a position for each sequence"
        )
    wrong = (positions < 0) | (positions >= length)
    if bool(wrong.any()):
        i = int(wrong.nonzero()[0])
        raise ValueError(f"positions[{i}] is {int(positions[i])}; positions are 0..{length - 1}")


def check_prompt(prompt: Tensor | None, width: int) -> None:
    """Raise ValueError unless a prompt is absent or of shape (P, width)."""
    if prompt is not None and (prompt.ndim != 2 or prompt.shape[1] != width or prompt.shape[0] == 0):
        raise ValueError(
            f"prompt has shape {tuple(prompt.shape)}, expected (P, {width}): a vector for each of P tokens, "
            "P at least 1"
        )


def n_parameters(model: nn.Module) -> int:
    """Count the trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters())
