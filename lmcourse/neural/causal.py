"""Causal language models: loading one that others trained, from disk unless told otherwise.

A GGUF file is turned once into what `transformers` reads fast, in the cache folder.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lmcourse import data
from lmcourse.folders import cache_folder

PINNED = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf"}
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
_HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


class ModelError(RuntimeError):
    """A language model that cannot be found, read or used, with what to do about it."""


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


def load_model(
    source: str | Path = "smollm2",
    *,
    dtype: str = "bfloat16",
    online: bool | None = None,
    device: torch.device | str = "cpu",
) -> CausalModel:
    """Load a causal language model.

    Parameters
    ----------
    source : str or Path
        ``"smollm2"``, which ``lmcourse data fetch`` brings; a GGUF file; a folder that `transformers` reads;
        or a name on the Hugging Face hub, such as ``"gpt2"``.
    dtype : str
        ``"bfloat16"`` or ``"float32"``.
    online : bool, optional
        Whether a name may be looked up on the hub; by default whether ``LMCOURSE_ONLINE=1`` is set. What was
        downloaded once is found without.
    device : torch.device or str
        Where to put it.

    Returns
    -------
    CausalModel

    Raises
    ------
    ModelError
        If it is not found, cannot be read, or does not predict by products with output embeddings.
    lmcourse.data.DataError
        If ``"smollm2"`` has not been fetched.
    """
    from transformers import AutoModelForCausalLM

    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; it is one of {', '.join(DTYPES)}")
    found = _find(source, online)
    gguf = found.is_file()
    folder = _converted(found, "weights", _convert_weights) if gguf else found
    with _readable(folder):
        network = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[dtype], local_files_only=True)
    network.eval().requires_grad_(False).to(device)
    tokenizer = _tokenizer(found)
    model = CausalModel(str(source), network, tokenizer, _hash([found] if gguf else _files(found)))
    _check_head(model)
    return model


def load_tokenizer(source: str | Path = "smollm2", *, online: bool | None = None) -> Any:
    """Load the tokenizer alone, in a second once it has been converted; arguments as for `load_model`."""
    return _tokenizer(_find(source, online))


def random_tiny_model(seed: int, tokenizer: Any = None) -> CausalModel:
    """Build a small network of the same class with random weights: two layers, d = 32.

    Parameters
    ----------
    seed : int
        Of the weights.
    tokenizer : optional
        By default the one of ``"smollm2"``, so that the same words are single tokens.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = load_tokenizer() if tokenizer is None else tokenizer
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        initializer_range=0.3,  # larger than usual, so that predictions differ between texts
    )
    network = _seeded(seed, lambda: LlamaForCausalLM(config)).eval().requires_grad_(False)
    return CausalModel(f"tiny-{seed}", network, tokenizer, f"tiny {seed} {_hash_weights(network)}")


def untrained_copy(model: CausalModel, seed: int) -> CausalModel:
    """Return a model with the same architecture and tokenizer, and the random weights of its first day."""
    network = _seeded(seed, lambda: type(model.network)(model.network.config))
    network = network.to(model.dtype).to(model.embeddings.device).eval().requires_grad_(False)
    return replace(
        model,
        name=f"{model.name}, untrained {seed}",
        network=network,
        fingerprint=f"untrained {seed} {_hash_weights(network)}",
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
    last = model.hidden(torch.tensor([tokens], device=model.embeddings.device))[0, -1]
    probabilities = (model.embeddings @ last).float().softmax(0)
    values, ids = probabilities.topk(n)
    return [(model.tokenizer.decode([i]), p) for i, p in zip(ids.tolist(), values.tolist(), strict=True)]


def _seeded(seed: int, build: Callable[[], Any]) -> Any:
    """Call `build` with torch's global generator at `seed`, and leave that generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def _find(source: str | Path, online: bool | None) -> Path:
    """Return the folder or the GGUF file that a source names."""
    if str(source) in PINNED:
        return data.path(str(source), PINNED[str(source)])
    path = Path(source).expanduser()
    if path.is_dir() or path.is_file():
        if path.is_file() and path.suffix != ".gguf":
            raise ModelError(f"{path} is neither a folder nor a .gguf file")
        return path
    if isinstance(source, Path) or path.is_absolute() or path.suffix == ".gguf":
        raise ModelError(f"there is no folder or file {path}")
    if online is None:
        online = os.environ.get("LMCOURSE_ONLINE", "") not in ("", "0")
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                source, allow_patterns=list(_HUB_FILES), ignore_patterns=["*/*"], local_files_only=not online
            )
        )
    except Exception as error:  # a missing name, no network, a broken download: many classes
        if online:
            why = str(error).strip().partition("\n")[0]
            raise ModelError(f"the hub does not give {source!r}: {why}") from None
        raise ModelError(
            f"{source!r} is no folder, no .gguf file and none of {', '.join(PINNED)}, and was not downloaded "
            "before. To look for it on the Hugging Face hub, turn the network on: online=True, or "
            "LMCOURSE_ONLINE=1"
        ) from None


def _tokenizer(found: Path) -> Any:
    from transformers import AutoTokenizer

    folder = _converted(found, "tokenizer", _convert_tokenizer) if found.is_file() else found
    with _readable(folder):
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def _convert_weights(gguf: Path, folder: Path) -> None:
    import transformers

    options = {}
    if hasattr(transformers, "GgufConfig"):  # newer versions keep the weights packed unless told otherwise
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    network = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, **options
    )
    network.save_pretrained(folder)


def _convert_tokenizer(gguf: Path, folder: Path) -> None:
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


def _converted(gguf: Path, part: str, convert: Callable[[Path, Path], None]) -> Path:
    """Return the folder with a converted part of a GGUF file, converting it if it is not there yet."""
    target = cache_folder() / "models" / _hash([gguf])[:16] / part
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{part}-"))
    try:
        with (
            _readable(gguf),
            contextlib.redirect_stderr(io.StringIO()),
        ):  # for a bar that cannot be turned off
            convert(gguf, staging)
        staging.chmod(0o755)
        try:
            os.replace(staging, target)
        except OSError:
            if not target.is_dir():  # another process was faster if it is
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


class _readable:
    """Turn what goes wrong while reading a model into one line, and keep the libraries' chatter out."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        from transformers.utils import logging

        self.before = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self.before[0])
        if self.before[1]:
            logging.enable_progress_bar()
        if isinstance(error, Exception) and not isinstance(error, ModelError):
            why = str(error).strip().partition("\n")[0]
            advice = (
                f"delete {self.path} and load it again"
                if cache_folder() in self.path.parents
                else "look at it"
            )
            raise ModelError(f"cannot read {self.path}: {why}; {advice}") from error


@torch.no_grad()
def _check_head(model: CausalModel) -> None:
    """Refuse a model whose logits are not the products of `f` with its output embeddings."""
    tokens = torch.arange(4, device=model.embeddings.device)[None]
    ours = (model.hidden(tokens) @ model.embeddings.T).float()
    theirs = model.network(input_ids=tokens, use_cache=False).logits.float()
    if not torch.allclose(ours, theirs, rtol=0.02, atol=0.02 * float(theirs.abs().max())):
        raise ModelError(
            f"{model.name} does not predict by f(s).phi_w alone (it scales or caps its logits, or adds a "
            "bias); choose a model without"
        )


def _files(folder: Path) -> list[Path]:
    """Return the files that make a model, sorted."""
    kinds = (".safetensors", ".bin", ".json", ".model", ".txt")
    return sorted(path for path in folder.iterdir() if path.suffix in kinds)


def _hash(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _hash_weights(network: nn.Module) -> str:
    digest = hashlib.sha256()
    for weight in network.parameters():
        digest.update(weight.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
