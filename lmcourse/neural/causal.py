"""Causal language models: loading one that others trained, from disk unless told otherwise.

A GGUF file is turned once into what `transformers` reads fast, in the cache folder.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from lmcourse import data
from lmcourse.folders import cache_folder
from lmcourse.neural.causal_model import (
    CausalModel,
    hash_weights,
    next_words,
    noisy_copy,
    seeded_network,
    untrained_copy,
    word_ids,
)

__all__ = [
    "CausalModel",
    "ModelError",
    "load_model",
    "load_tokenizer",
    "next_words",
    "noisy_copy",
    "random_tiny_model",
    "untrained_copy",
    "word_ids",
]

PINNED = {"smollm2": "SmolLM2-135M-Instruct.Q4_1.gguf"}
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
_HERE_ONLY: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_HUB_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")


class ModelError(RuntimeError):
    """A language model that cannot be found, read or used, with what to do about it."""


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
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} has no .safetensors file; weights in other formats are not read, as they may run code"
        )
    with _readable(folder):
        network, loaded = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=DTYPES[dtype],
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **_HERE_ONLY,
        )
    if lost := sorted({*loaded["missing_keys"], *(name for name, *_ in loaded["mismatched_keys"])}):
        raise ModelError(
            f"{folder} lacks weights of that shape ({lost[0]}; {len(lost)} in all), which would be random: "
            "is it the whole of a causal language model?"
        )
    network.eval().requires_grad_(False).to(device)
    tokenizer = _tokenizer(found)
    model = CausalModel(str(source), network, tokenizer, _hash([found] if gguf else _files(found)))
    if len(tokenizer) > model.vocabulary_size:
        raise ModelError(
            f"the tokenizer of {folder} has {len(tokenizer)} tokens and the model {model.vocabulary_size}: "
            "they do not belong together"
        )
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
    network = seeded_network(seed, lambda: LlamaForCausalLM(config)).eval().requires_grad_(False)
    return CausalModel(f"tiny-{seed}", network, tokenizer, f"tiny {seed} {hash_weights(network)}")


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
        online = os.environ.get("LMCOURSE_ONLINE", "").strip() == "1"
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
        return AutoTokenizer.from_pretrained(folder, **_HERE_ONLY)


def _convert_weights(gguf: Path, folder: Path) -> None:
    import transformers

    options = {}
    if hasattr(transformers, "GgufConfig"):  # newer versions keep the weights packed unless told otherwise
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    network = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, **_HERE_ONLY, **options
    )
    network.save_pretrained(folder)


def _convert_tokenizer(gguf: Path, folder: Path) -> None:
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, **_HERE_ONLY).save_pretrained(folder)


def _converted(gguf: Path, part: str, convert: Callable[[Path, Path], None]) -> Path:
    """Return the folder with a converted part of a GGUF file, converting it if it is not there yet.

    One process converts, others that want the same wait for it.
    """
    target = cache_folder() / "models" / _hash([gguf])[:16] / part
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.parent.parent / f".{target.parent.name}.lock"):
            for leftover in target.parent.glob(f".{part}-*"):  # of a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            if not target.is_dir():
                _convert(gguf, target, convert)
    except (OSError, ModelError) as error:
        if os.strerror(errno.ENOSPC) in str(error):
            raise ModelError(
                f"cannot keep what {gguf.name} is converted to: the disk of {target.parent} is full. "
                "Make room, or set LMCOURSE_CACHE to a folder on a larger disk"
            ) from None
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"cannot keep what {gguf.name} is converted to: {error}. Set LMCOURSE_CACHE to a folder that can "
            "be written"
        ) from None
    return target


def _convert(gguf: Path, target: Path, convert: Callable[[Path, Path], None]) -> None:
    """Convert in a folder beside the target, and rename that."""
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        with (
            _readable(gguf),
            contextlib.redirect_stderr(io.StringIO()),
        ):  # for a bar that cannot be turned off
            convert(gguf, staging)
        staging.chmod(0o755)
        os.replace(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


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
                else "is it the whole of a causal language model, as transformers saves one?"
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
    kinds = (".safetensors", ".json", ".model", ".txt")
    return sorted(path for path in folder.iterdir() if path.suffix in kinds)


def _hash(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
