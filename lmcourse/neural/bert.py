"""BERT on symbols: the architecture of Wei, Xie and Ma (2021), from the library that they used.

There is no dropout: every training step sees fresh text, so there is nothing to overfit. Hidden symbols are
always replaced by the mask, so that what the network should predict is exactly `P[X_i | visible]`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from lmcourse.hmm import MASK
from lmcourse.neural.model import check_positions, check_prompt, check_symbols, cross_entropy


class Bert(nn.Module):
    """A masked model with the layers of BERT.

    Parameters
    ----------
    n_symbols : int
        X; the mask is one more.
    layers, width, heads : int
        Size; the paper's is 12, 768, 12.
    max_length : int
        Positions that can be read, prompt and mask included.
    mask_probability : float
        Share of positions hidden in training, rounded to at least one a sequence; the paper's is 0.05.
    """

    def __init__(
        self,
        n_symbols: int,
        *,
        layers: int = 2,
        width: int = 64,
        heads: int = 4,
        max_length: int = 64,
        mask_probability: float = 0.15,
    ) -> None:
        super().__init__()
        if n_symbols < 1:
            raise ValueError(f"n_symbols is {n_symbols}; it must be at least 1")
        if width % heads:
            raise ValueError(f"width is {width}, which must be a multiple of heads, {heads}")
        if not 0 < mask_probability < 1:
            raise ValueError(f"mask_probability is {mask_probability}; it must be between 0 and 1")
        from transformers import BertConfig, BertForMaskedLM

        self.n_symbols = n_symbols
        self.width = width
        self.max_length = max_length
        self.mask_probability = mask_probability
        config = BertConfig(
            vocab_size=n_symbols + 1,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            max_position_embeddings=max_length,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=None,
        )
        whole: Any = BertForMaskedLM(config)
        self.encoder: Any = whole.bert
        self.output: Any = whole.cls

    def forward(self, ids: Tensor, prompt: Tensor | None = None) -> Tensor:
        """Last hidden states, (N, P + T, d), of a prompt and `ids` (N, T), where the mask is X."""
        embedded = self.encoder.embeddings.word_embeddings(ids)
        if prompt is not None:
            embedded = torch.cat([prompt.to(embedded.dtype).expand(len(ids), -1, -1), embedded], dim=1)
        return self.encoder(inputs_embeds=embedded).last_hidden_state  # type: ignore[no-any-return]

    def logits(self, symbols: Tensor, prompt: Tensor | None = None) -> Tensor:
        """Prediction at every position, (N, T, X); hide a symbol with `MASK`, or it is seen."""
        check_symbols(symbols, self.n_symbols, mask=True)
        hidden = self._read(self._ids(symbols), prompt)
        return self._logits(hidden[:, 0 if prompt is None else len(prompt) :])

    def hide(self, symbols: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the positions to hide, the same number in each sequence: (N, K)."""
        n_hidden = max(1, round(self.mask_probability * symbols.shape[1]))
        score = torch.rand(symbols.shape, generator=generator, device=symbols.device)
        return score.topk(n_hidden, dim=1).indices

    def loss_at(self, symbols: Tensor, hidden: Tensor) -> Tensor:
        """Mean negative log probability of the symbols at the hidden positions."""
        states = self(symbols.scatter(1, hidden, self.n_symbols))
        picked = states.gather(1, hidden[:, :, None].expand(-1, -1, self.width))
        targets = symbols.gather(1, hidden)
        return cross_entropy(self._logits(picked).flatten(0, 1), targets.flatten())

    def loss(self, symbols: Tensor, generator: torch.Generator) -> Tensor:
        """`loss_at` positions that `hide` draws."""
        return self.loss_at(symbols, self.hide(symbols, generator))

    def blank_logits(self, symbols: Tensor, positions: Tensor) -> Tensor:
        """Prediction at one position of each sequence, replaced by the mask, (N, X)."""
        check_symbols(symbols, self.n_symbols, mask=True)
        check_positions(positions, symbols)
        hidden = self._read(self._ids(symbols.scatter(1, positions[:, None], MASK)), None)
        rows = torch.arange(len(symbols), device=symbols.device)
        return self._logits(hidden[rows, positions])

    def context(self, symbols: Tensor) -> Tensor:
        """Prepend the mask to the sequences, (N, 1 + T)."""
        check_symbols(symbols, self.n_symbols, mask=True)
        return functional.pad(self._ids(symbols), (1, 0), value=self.n_symbols)

    def mask_logits(self, context: Tensor, prompt: Tensor | None = None) -> Tensor:
        """Prediction at the prepended mask, (N, X), after the prompt if there is one."""
        return self._logits(self._read(context, prompt)[:, 0 if prompt is None else len(prompt)])

    def start_prompt(self, n_tokens: int, generator: torch.Generator) -> Tensor:
        """Copy the mask's embedding: a token that says nothing, as the network has learned."""
        mask: Tensor = self.encoder.embeddings.word_embeddings.weight[self.n_symbols]
        return mask.detach().repeat(n_tokens, 1)

    def training_flops(self, length: int) -> float:
        """Three times the forward pass: two per parameter of the layers, and the attention itself."""
        layers = self.encoder.encoder.layer
        parameters = int(sum(p.numel() for p in layers.parameters()))
        return 6.0 * parameters + 12.0 * len(layers) * self.width * length

    def _ids(self, symbols: Tensor) -> Tensor:
        return torch.where(symbols == MASK, self.n_symbols, symbols)

    def _read(self, ids: Tensor, prompt: Tensor | None) -> Tensor:
        check_prompt(prompt, self.width)
        length = ids.shape[1] + (0 if prompt is None else len(prompt))
        if length > self.max_length:
            raise ValueError(
                f"prompt, mask and symbols take {length} positions, but max_length is {self.max_length}; "
                "shorten them, or build the model with a larger max_length"
            )
        return self(ids, prompt)  # type: ignore[no-any-return]

    def _logits(self, hidden: Tensor) -> Tensor:
        return self.output(hidden)[..., : self.n_symbols]  # type: ignore[no-any-return]
