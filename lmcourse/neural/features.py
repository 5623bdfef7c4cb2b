"""Features of texts from a causal language model, in one pass that never holds a law for every text.

A text and the text with a prompt after it share one causal pass. Texts of like length are read together.
The head, which turns `f(s)` into a law over V tokens, runs in float32 over a slice of the vocabulary at a
time and keeps running sums only (as in a softmax that is computed online). Finished blocks of texts are kept
in the cache folder, so an interrupted pass goes on where it was.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import operator
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmcourse.closure import closure_hash
from lmcourse.folders import cache_folder, write_atomically
from lmcourse.machine import gpu_name, processor_name, versions
from lmcourse.neural.causal_model import CausalModel, word_ids
from lmcourse.profiles import profile
from lmcourse.progress import bar
from lmcourse.provenance import Provenance

Array = NDArray[np.float32]
Block = dict[str, Any]  # arrays by place and name

BLOCK = 512  # texts between two writes
TOKENS = 2048  # tokens read together
SLICE = 2048  # tokens of the vocabulary at a time


class Features(NamedTuple):
    """What a model says at one place of each of N texts. All float32.

    Attributes
    ----------
    hidden : ndarray, shape (N, d)
        `f(s)`.
    mean_embedding : ndarray, shape (N, d)
        `Phi p_f(s)`: the mean of the embeddings of the next token.
    projection : ndarray, shape (N, k)
        `R p_f(s)`, with `R` of independent Gaussian entries of variance 1/k.
    log_partition : ndarray, shape (N,)
        `log Z(f(s))`.
    """

    hidden: Array
    mean_embedding: Array
    projection: Array
    log_partition: Array


@dataclass(frozen=True)
class TextFeatures:
    """Features at the end of each text, and at the end of the prompt after it.

    Attributes
    ----------
    plain : Features
        Without the prompt.
    prompted : Features or None
        With it; None if there was none.
    provenance : Provenance
        Where they come from.
    """

    plain: Features
    prompted: Features | None
    provenance: Provenance

    @property
    def note(self) -> str:
        """One line for the reader."""
        p = self.provenance
        return (
            f"{p.inputs['texts']} texts read by {p.inputs['model']} in {p.inputs['dtype']} on {p.device}, "
            f"{p.seconds:.0f} s, {p.created[:10]}"
        )


def text_features(
    model: CausalModel,
    texts: Sequence[str],
    prompt: str | None = None,
    *,
    n_projection: int | None = None,
    seed: int = 0,
    max_tokens: int = 512,
    folder: Path | None = None,
) -> TextFeatures:
    """Compute features of texts, or read them from the cache.

    Parameters
    ----------
    model : CausalModel
        In bfloat16 or float32; the head is computed in float32 either way.
    texts : sequence of str
        N of them, none empty.
    prompt : str, optional
        Comes after each text; starts with a space, as a rule. It is cut into tokens by itself.
    n_projection : int, optional
        k; d by default.
    seed : int
        Of the projection `R`.
    max_tokens : int
        Longer texts are cut to their first that many tokens.
    folder : Path, optional
        Where features are kept; ``features`` in the cache folder by default.

    Returns
    -------
    TextFeatures

    Raises
    ------
    ValueError
        If there is no text, or if a text or the prompt has no tokens or is no str.

    Notes
    -----
    They are computed again when the model's weights, the texts, the prompt, the other arguments, the code or
    the version of torch or transformers differ. Words are no part of it: see `word_logits`.
    """
    texts = _as_list(texts)
    k = operator.index(model.width if n_projection is None else n_projection)
    seed, max_tokens = operator.index(seed), operator.index(max_tokens)
    if k < 1 or max_tokens < 1 or seed < 0:
        raise ValueError(
            f"n_projection and max_tokens must be at least 1 and seed at least 0, got {k}, {max_tokens} "
            f"and {seed}"
        )
    sequences = [model.tokens(text)[:max_tokens] for text in texts]
    for i, sequence in enumerate(sequences):
        if not sequence:
            raise ValueError(f"texts[{i}] is {texts[i]!r}, which has no tokens; leave it out")
    after = [] if prompt is None else model.tokens(prompt)
    if not sequences:
        raise ValueError("there are no texts")
    if prompt is not None and not after:
        raise ValueError("prompt is empty; give None for no prompt")
    asked = {
        "model": model.name,
        "fingerprint": model.fingerprint,
        "dtype": str(model.dtype).removeprefix("torch."),
        "texts": len(texts),
        "texts_sha256": _sha256(texts),
        "prompt": prompt,
        "n_projection": k,
        "max_tokens": max_tokens,
    }
    code = closure_hash(f"import {__name__}")
    found = {name: v for name, v in versions().items() if name in ("torch", "transformers")}
    key = _sha256([asked, seed, code, found])[:20]
    home = (cache_folder() / "features" if folder is None else folder) / key
    # Sorted by length, so that what is read together is of like length.
    order = sorted(range(len(texts)), key=lambda i: len(sequences[i]))
    blocks, seconds = [], 0.0
    with bar(len(order), unit="text") as progress:
        for start in range(0, len(order), BLOCK):
            rows, path = order[start : start + BLOCK], home / f"{start}.npz"
            block = _read_block(path, len(rows), model.width, k, prompted=bool(after))
            if block is None:
                begin = time.perf_counter()
                block = _block(model, [sequences[i] for i in rows], after, k, seed)
                block["seconds"] = np.array(time.perf_counter() - begin)
                _write_block(path, block)
            seconds += float(block["seconds"])
            blocks.append(block)
            progress.update(len(rows))
    back = np.argsort(np.array(order))
    return TextFeatures(
        _gather(blocks, "plain", back),
        _gather(blocks, "prompted", back) if after else None,
        _provenance(home, asked, seed, code, seconds, model),
    )


def word_logits(model: CausalModel, features: Features, words: Sequence[str]) -> Array:
    """Logits `f(s).phi_w` of some words: (N, n).

    Parameters
    ----------
    model : CausalModel
        The one that the features come from.
    features : Features
        Of N texts.
    words : sequence of str
        n words that are one token each, with the space before them.

    Raises
    ------
    ValueError
        If a word is not one token; see `lmcourse.neural.causal_model.word_ids`.
    """
    rows = model.embeddings[torch.from_numpy(word_ids(model, words))].float().cpu().numpy()
    return np.asarray(features.hidden @ rows.T)


def word_probabilities(model: CausalModel, features: Features, words: Sequence[str]) -> Array:
    """Probabilities that the next token is one of some words, `p_f(w|s)`: (N, n); see `word_logits`."""
    return np.asarray(np.exp(word_logits(model, features, words) - features.log_partition[:, None]))


def cross_entropy(model: CausalModel, texts: Sequence[str], *, max_tokens: int = 512) -> float:
    """Mean negative log probability, in nats, of each token after the first given those before it."""
    sequences = [s for s in (model.tokens(text)[:max_tokens] for text in _as_list(texts)) if len(s) > 1]
    if not sequences:
        raise ValueError("no text has a second token to predict")
    sequences.sort(key=len)
    total, count = 0.0, 0
    for batch in _batches(sequences):
        states = _read(model, batch)
        rows = torch.cat([row[: len(s) - 1] for row, s in zip(states, batch, strict=True)]).float()
        targets = torch.tensor([t for s in batch for t in s[1:]], device=rows.device)
        log_partition = _head(rows, model.embeddings, 0, 0)[2]
        total += float((log_partition - (rows * model.embeddings[targets].float()).sum(1)).double().sum())
        count += len(rows)
    return total / count


def _as_list(texts: Sequence[str]) -> list[str]:
    """Refuse one text in place of several: its characters would be read as texts."""
    if isinstance(texts, str):
        raise ValueError(f"texts is the text {texts[:40]!r}; give a list of texts")
    return list(texts)


def _block(model: CausalModel, sequences: list[list[int]], after: list[int], k: int, seed: int) -> Block:
    """Compute the features of some texts, sorted by length."""
    plain, prompted = [], []
    for batch in _batches([sequence + after for sequence in sequences]):
        states = _read(model, batch)
        rows = torch.arange(len(batch), device=states.device)
        ends = torch.tensor([len(tokens) - 1 for tokens in batch], device=states.device)
        plain.append(states[rows, ends - len(after)].float())
        if after:
            prompted.append(states[rows, ends].float())
    hidden = torch.cat(plain + prompted)
    found = Features(*(t.cpu().numpy() for t in (hidden, *_head(hidden, model.embeddings, k, seed))))
    n = len(sequences)
    places = {"plain": slice(0, n)} | ({"prompted": slice(n, 2 * n)} if after else {})
    return {
        f"{place}/{name}": values[part]
        for place, part in places.items()
        for name, values in found._asdict().items()
    }


def _batches(sequences: list[list[int]]) -> Iterator[list[list[int]]]:
    """Cut a list, sorted by length, so that no batch has more than `TOKENS` tokens with padding."""
    start = 0
    for end in range(1, len(sequences) + 1):
        if end == len(sequences) or (end + 1 - start) * len(sequences[end]) > TOKENS:
            yield sequences[start:end]
            start = end


def _read(model: CausalModel, sequences: list[list[int]]) -> Tensor:
    """Hidden states of sequences padded on the right, (B, T, d)."""
    longest = max(map(len, sequences))
    padded = torch.tensor([tokens + [0] * (longest - len(tokens)) for tokens in sequences])
    return model.hidden(padded.to(model.embeddings.device))


@torch.no_grad()
def _head(hidden: Tensor, embeddings: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return `Phi p_f`, `R p_f` and `log Z` for rows of `f`, without the whole of `p_f`.

    Everything is kept relative to the largest logit so far, and rescaled when a larger one comes.
    """
    n = len(hidden)
    largest = hidden.new_full((n, 1), -torch.inf)
    total, mean, projection = hidden.new_zeros(n, 1), torch.zeros_like(hidden), hidden.new_zeros(n, k)
    for start in range(0, len(embeddings), SLICE):
        phi = embeddings[start : start + SLICE].float()
        logits = hidden @ phi.T
        before, largest = largest, torch.maximum(largest, logits.amax(1, keepdim=True))
        shrink = (before - largest).exp()
        weights = logits.sub_(largest).exp_()
        total = total * shrink + weights.sum(1, keepdim=True)
        if k:
            mean.mul_(shrink).addmm_(weights, phi)
            gaussian = torch.from_numpy(_gaussian(seed, start, len(phi), k)).to(hidden.device)
            projection.mul_(shrink).addmm_(weights, gaussian)
    return mean / total, projection / total, (largest + total.log()).squeeze(1)


def _gaussian(seed: int, start: int, rows: int, k: int) -> Array:
    """Rows of `R` transposed, drawn anew whenever they are needed."""
    rng = np.random.default_rng([seed, start])
    return rng.standard_normal((rows, k), dtype=np.float32) / np.float32(np.sqrt(k))


def _write_block(path: Path, block: Block) -> None:
    try:
        write_atomically(path, partial(np.savez, **block))
    except OSError as error:
        raise OSError(
            f"cannot keep features in {path.parent} ({error}): make room there, or set LMCOURSE_CACHE to "
            "another folder; what was kept before is not lost"
        ) from None


def _read_block(path: Path, n: int, d: int, k: int, *, prompted: bool) -> Block | None:
    """Return a block from the cache, or None if it is not there or not whole: it is then written again."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            block = dict(archive)
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile):
        return None
    shapes = dict(zip(Features._fields, ((n, d), (n, d), (n, k), (n,)), strict=True))
    wanted = {
        f"{place}/{name}": shapes[name] for place in ("plain", "prompted")[: 1 + prompted] for name in shapes
    }
    right = {name: array.shape for name, array in block.items()} == wanted | {"seconds": ()}
    return block if right and all(block[name].dtype == np.float32 for name in wanted) else None


def _gather(blocks: list[Block], place: str, back: NDArray[np.int64]) -> Features:
    """Put blocks together, in the order of the texts."""
    return Features(
        *(np.concatenate([block[f"{place}/{name}"] for block in blocks])[back] for name in Features._fields)
    )


def _provenance(
    home: Path, asked: dict[str, object], seed: int, code: str, seconds: float, model: CausalModel
) -> Provenance:
    """Return what is written beside the blocks, writing it if it is not there."""
    path = home / "provenance.json"
    try:
        return Provenance(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        pass
    on_gpu = model.embeddings.device.type == "cuda"
    p = Provenance(
        function=f"{__name__}:text_features",
        inputs=asked,
        seed=seed,
        profile=profile(),
        needs_gpu=False,
        device=(gpu_name() if on_gpu else None) or processor_name(),
        seconds=round(seconds, 3),
        closure=code,
        versions=versions(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    text = json.dumps(asdict(p), indent=1, ensure_ascii=False) + "\n"
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return p


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
