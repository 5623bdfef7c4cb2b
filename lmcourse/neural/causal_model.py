"""A causal language model as the course sees it: `f(s)`, output embeddings, tokens; and copies of it."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class CausalModel:
    """A network that predicts the next token, and how text is cut into tokens.

    Attributes
    ----------
    name
        What it was loaded as.
    network
        A causal model of `transformers`, in evaluation mode.
    tokenizer
        Its tokenizer.
    fingerprint
        Hash of its files, or of what made its weights: tells cached features apart.
    """

    name: str
    network: Any
    tokenizer: Any
    fingerprint: str

    @property
    def embeddings(self) -> Tensor:
        """Output embeddings, (V, d): row `w` is `phi_w`, so this is the transpose of `Phi`."""
        weight: Tensor = self.network.get_output_embeddings().weight.detach()
        return weight

    @property
    def vocabulary_size(self) -> int:
        """V."""
        return int(self.embeddings.shape[0])

    @property
    def width(self) -> int:
        """D."""
        return int(self.embeddings.shape[1])

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights."""
        return self.embeddings.dtype

    def tokens(self, text: str) -> list[int]:
        """Cut a text into tokens; nothing is added before or after."""
        if not isinstance(text, str):
            raise ValueError(f"{text!r} is no text; give a str")
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a pair of surrogates, from a file that was read wrongly
            raise ValueError(f"{text!r} is no valid Unicode text; was its file read as UTF-8?") from None
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    @torch.no_grad()
    def hidden(self, tokens: Tensor) -> Tensor:
        """Return `f` of every prefix of each sequence.

        Parameters
        ----------
        tokens : Tensor, shape (B, T)
            Padded on the right with anything: what comes later changes nothing before it.

        Returns
        -------
        Tensor, shape (B, T, d)
            The logits of the next token are its products with `embeddings`.
        """
        states: Tensor = self.network.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        return states


def untrained_copy(model: CausalModel, seed: int) -> CausalModel:
    """Return a model with the same architecture and tokenizer, and the random weights of its first day."""
    network = seeded_network(seed, lambda: type(model.network)(model.network.config))
    network = network.to(model.dtype).to(model.embeddings.device).eval().requires_grad_(False)
    return replace(
        model,
        name=f"{model.name}, untrained {seed}",
        network=network,
        fingerprint=f"untrained {seed} {hash_weights(network)}",
    )


def noisy_copy(model: CausalModel, noise: float, seed: int) -> CausalModel:
    """Return a copy with Gaussian noise on every matrix of weights.

    Parameters
    ----------
    model : CausalModel
        Left as it is.
    noise : float
        Standard deviation of the noise, as a multiple of that of the matrix's own entries.
    seed : int
        Of the noise.
    """
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise is {noise}; it must be finite and not negative")
    network = copy.deepcopy(model.network)
    generator = torch.Generator().manual_seed(seed)
    for weight in network.parameters():
        if weight.ndim == 2:
            drawn = torch.randn(weight.shape, generator=generator).to(weight.device)
            weight.data += (noise * weight.float().std() * drawn).to(weight.dtype)
    return replace(
        model,
        name=f"{model.name}, noise {noise:g}",
        network=network,
        fingerprint=f"{model.fingerprint} noise {noise!r} {seed}",
    )


def word_ids(model: CausalModel, words: Sequence[str]) -> NDArray[np.int64]:
    """Return the tokens of words that are one token each.

    Parameters
    ----------
    model : CausalModel
        Its tokenizer decides.
    words : sequence of str
        With the space before them, as within a sentence: ``" good"``.

    Returns
    -------
    ndarray, shape (n,)

    Raises
    ------
    ValueError
        If a word is not one token, with the pieces that it is cut into; if a word comes twice.
    """
    if isinstance(words, str):
        raise ValueError(f"words is the text {words!r}; give a list of words")
    found: list[int] = []
    for word in words:
        tokens = model.tokens(word)
        if len(tokens) != 1:
            pieces = [model.tokenizer.decode([token]) for token in tokens]
            advice = "choose another word" if word.startswith(" ") else "did you forget the space before it?"
            raise ValueError(f"{word!r} is not one token but {len(tokens)}: {pieces}; {advice}")
        if tokens[0] in found:
            raise ValueError(f"{word!r} is there twice")
        found += tokens
    return np.array(found, dtype=np.int64)


@torch.no_grad()
def next_words(model: CausalModel, text: str, n: int = 10) -> list[tuple[str, float]]:
    """Return the `n` most probable next tokens after a text, with their probabilities."""
    tokens = model.tokens(text)
    if not tokens:
        raise ValueError("text is empty; a model needs something to continue")
    if not 1 <= n <= model.vocabulary_size:
        raise ValueError(f"n is {n}; it must be from 1 to {model.vocabulary_size}, the number of tokens")
    last = model.hidden(torch.tensor([tokens], device=model.embeddings.device))[0, -1]
    probabilities = (model.embeddings @ last).float().softmax(0)
    values, ids = probabilities.topk(n)
    return [(model.tokenizer.decode([i]), p) for i, p in zip(ids.tolist(), values.tolist(), strict=True)]


def seeded_network(seed: int, build: Callable[[], Any]) -> Any:
    """Call `build` with torch's global generator at `seed`, and leave that generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def hash_weights(network: nn.Module) -> str:
    """Short fingerprint of a network's weights."""
    digest = hashlib.sha256()
    for weight in network.parameters():
        digest.update(weight.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
