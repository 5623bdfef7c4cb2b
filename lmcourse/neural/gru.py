"""The leave-one-out GRU: the smallest network that can become a forward-backward pass.

One recurrent network reads from the left, another from the right; the prediction at a position sees the
first up to the position before and the second from the position after. So every position of every sequence
is a training target, and no mask symbol is needed. A prompt moves the state of the reader from the left only.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lmcourse.neural.model import check_positions, check_prompt, check_symbols, cross_entropy


class LeaveOneOutGRU(nn.Module):
    """A masked model with two GRUs of the given width.

    Parameters
    ----------
    n_symbols : int
        X.
    width : int
        Size of the embeddings and of both states.

    Notes
    -----
    The two states enter the prediction with their product, entry by entry: what an exact forward message and
    an exact backward message would be combined by.
    """

    def __init__(self, n_symbols: int, *, width: int = 64) -> None:
        super().__init__()
        if n_symbols < 1 or width < 1:
            raise ValueError(f"n_symbols is {n_symbols} and width is {width}; both must be at least 1")
        self.n_symbols = n_symbols
        self.width = width
        self.embedding = nn.Embedding(n_symbols, width)
        self.from_left = nn.GRU(width, width, batch_first=True)
        self.from_right = nn.GRU(width, width, batch_first=True)
        self.output = nn.Sequential(
            nn.Linear(3 * width, 2 * width), nn.GELU(), nn.Linear(2 * width, n_symbols)
        )

    def logits(self, symbols: Tensor, prompt: Tensor | None = None) -> Tensor:
        """Prediction at every position from all others, (N, T, X)."""
        check_symbols(symbols, self.n_symbols, mask=False)
        return self(symbols, prompt)  # type: ignore[no-any-return]

    def forward(self, symbols: Tensor, prompt: Tensor | None = None) -> Tensor:
        """`logits` without the checks."""
        start = self._start(prompt).expand(len(symbols), 1, -1)
        if symbols.shape[1] == 1:
            return self._combine(start, torch.zeros_like(start))
        embedded = self.embedding(symbols)
        left, _ = self.from_left(embedded[:, :-1], start.transpose(0, 1).contiguous())
        right, _ = self.from_right(embedded[:, 1:].flip(1))
        left = torch.cat([start, left], dim=1)
        right = torch.cat([right.flip(1), torch.zeros_like(start)], dim=1)
        return self._combine(left, right)

    def loss(self, symbols: Tensor, generator: torch.Generator) -> Tensor:
        """Mean negative log probability of every symbol; nothing is drawn."""
        return cross_entropy(self(symbols).flatten(0, 1), symbols.flatten())

    def blank_logits(self, symbols: Tensor, positions: Tensor) -> Tensor:
        """Prediction at one position of each sequence, (N, X)."""
        everywhere = self.logits(symbols)
        check_positions(positions, symbols)
        return everywhere[torch.arange(len(symbols), device=symbols.device), positions]

    def context(self, symbols: Tensor) -> Tensor:
        """State of the reader from the right after the whole sequence, (N, d)."""
        check_symbols(symbols, self.n_symbols, mask=False)
        _, state = self.from_right(self.embedding(symbols).flip(1))
        return state[0]  # type: ignore[no-any-return]

    def mask_logits(self, context: Tensor, prompt: Tensor | None = None) -> Tensor:
        """Prediction at a mask before the sequence, (N, X), after the prompt if there is one."""
        return self._combine(self._start(prompt).expand(len(context), -1), context)

    def start_prompt(self, n_tokens: int, generator: torch.Generator) -> Tensor:
        """Embeddings of symbols drawn at random: vectors that the network has read before."""
        weight = self.embedding.weight.detach()
        chosen = torch.randint(self.n_symbols, (n_tokens,), generator=generator, device=generator.device)
        return weight[chosen.to(weight.device)].clone()

    def training_flops(self, length: int) -> float:
        """Three times the forward pass: two per parameter that multiplies."""
        return 6.0 * sum(p.numel() for name, p in self.named_parameters() if not name.startswith("embedding"))

    def _start(self, prompt: Tensor | None) -> Tensor:
        """State of the reader from the left before the first position, (1, d)."""
        check_prompt(prompt, self.width)
        if prompt is None:
            return self.embedding.weight.new_zeros(1, self.width)
        return self.from_left(prompt[None])[1][0]  # type: ignore[no-any-return]

    def _combine(self, left: Tensor, right: Tensor) -> Tensor:
        return self.output(torch.cat([left, right, left * right], dim=-1))  # type: ignore[no-any-return]
