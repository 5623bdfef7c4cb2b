"""One training loop for all masked models, measured against what a perfect model would predict."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lmcourse.hmm import HMM, initial_posterior, masked_conditionals
from lmcourse.neural import checkpoints
from lmcourse.neural.checkpoints import CheckpointError
from lmcourse.neural.exact import as_law
from lmcourse.neural.model import MaskedModel, mask_log_probabilities
from lmcourse.neural.speed import peak_flops
from lmcourse.neural.text import generator, sample_symbols
from lmcourse.profiles import strict

TEXT, HIDING, EVALUATION = range(3)  # streams of random numbers


class TrainingError(RuntimeError):
    """Training that cannot go on, with where it failed and what to try."""


@dataclass(frozen=True)
class Recipe:
    """How to train: nothing here depends on the model or the machine.

    Parameters
    ----------
    steps : int
        Steps of Adam at most.
    batch, length : int
        Sequences in a step, and symbols in each.
    learning_rate : float
        Its largest value, after `warmup` steps of linear growth; a half cosine then takes it to zero.
    warmup : int
        Steps.
    clip : float
        Largest norm of a gradient.
    evaluate_every : int
        Steps between evaluations, each of which is a checkpoint.
    evaluation_sequences : int
        Fresh sequences for evaluation, the same at each.
    patience : int, optional
        Stop once that many evaluations in a row have not lowered the best KL by a hundredth.
    bf16, compile : bool
        Mixed precision and compilation; on a CUDA device only, elsewhere of no effect.
    """

    steps: int
    batch: int
    length: int
    learning_rate: float = 4e-3
    warmup: int = 20
    clip: float = 1.0
    evaluate_every: int = 100
    evaluation_sequences: int = 2000
    patience: int | None = None
    bf16: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "length", "evaluate_every", "evaluation_sequences"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not (self.learning_rate > 0 and self.clip > 0 and self.warmup >= 0):
            raise ValueError("learning_rate and clip must be positive, and warmup not negative")

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        share = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.learning_rate * (1 + math.cos(math.pi * share)) / 2


class Evaluation(NamedTuple):
    """A model beside the exact conditionals, after some steps of training. All in nats.

    Attributes
    ----------
    step : int
        Steps of training so far.
    kl, kl_error : float
        Mean of KL(exact || model) at one hidden position of each fresh sequence, and the half-width of its
        95 % sampling interval.
    mask_kl, mask_kl_error : float
        The same at a mask prepended to each sequence: for the prediction `G_0`.
    loss, entropy : float
        Mean negative log probability of the hidden symbols under the model, and its floor: the mean entropy
        of the exact conditionals.
    """

    step: int
    kl: float
    kl_error: float
    mask_kl: float
    mask_kl_error: float
    loss: float
    entropy: float


class Training(NamedTuple):
    """What `train` did.

    Attributes
    ----------
    history : tuple of Evaluation
        From before the first step to after the last.
    stopped_early : bool
        Whether a plateau ended it.
    tokens_per_second : float
        Symbols read per second of training, evaluation left out; NaN if nothing was left to do.
    peak_share : float
        Floating-point operations per second as a share of `speed.peak_flops` on this device.
    """

    history: tuple[Evaluation, ...]
    stopped_early: bool
    tokens_per_second: float
    peak_share: float


def train(
    model: MaskedModel,
    hmm: HMM,
    recipe: Recipe,
    *,
    seed: int,
    folder: Path | None = None,
    watch: Callable[[Evaluation], object] | None = None,
) -> Training:
    """Train a model in place on text that a hidden Markov model writes.

    Parameters
    ----------
    model : MaskedModel
        A module; its weights' device is where everything happens.
    hmm : HMM
        Writes the text, and gives the exact conditionals.
    recipe : Recipe
        How.
    seed : int
        Of text and hidden positions. Same model, recipe, seed and machine: same weights.
    folder : Path, optional
        Where checkpoints are kept. A run that finds its own goes on from there, and ends as if it had never
        been interrupted.
    watch : callable, optional
        Called with each new evaluation.

    Returns
    -------
    Training

    Raises
    ------
    ValueError
        If model and text do not fit.
    TrainingError
        If the loss is not finite.
    CheckpointError
        If the checkpoint found is damaged or belongs to another run.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {type(model).__name__}; give a torch module that is a MaskedModel")
    if model.n_symbols != hmm.n_symbols:
        raise ValueError(f"the model has {model.n_symbols} symbols and the text has {hmm.n_symbols}")
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
    test = _TestText(hmm, recipe, seed, device)
    run = {"recipe": asdict(recipe), "seed": seed, "model": type(model).__name__, "text": hmm_hash(hmm)}
    step, history = _resume(folder, model, optimizer, run)
    if not history:
        history = [test.evaluate(model, 0)]
        if watch:
            watch(history[0])
    on_cuda = device.type == "cuda"
    if recipe.compile and on_cuda:
        model.compile()
    law = as_law(hmm, device=device)
    first, seconds = step, 0.0
    plateau = _plateau(history, recipe.patience)
    with _bar(recipe.steps, step) as bar, _deterministic(on_cuda):
        while step < recipe.steps and not plateau:
            start = time.perf_counter()
            end = min(step + recipe.evaluate_every, recipe.steps)
            total = torch.zeros((), device=device)
            model.train()
            for k in range(step, end):
                symbols = sample_symbols(
                    law, recipe.batch, recipe.length, generator(seed, TEXT, k, device=device)
                )
                for group in optimizer.param_groups:
                    group["lr"] = recipe.rate(k)
                with torch.autocast(device.type, torch.bfloat16, enabled=recipe.bf16 and on_cuda):
                    loss = model.loss(symbols, generator(seed, HIDING, k, device=device))
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
                optimizer.step()
                total += loss.detach()
                bar.update()
            mean = float(total) / (end - step)  # waits for the device
            seconds += time.perf_counter() - start
            if not math.isfinite(mean):
                raise TrainingError(
                    f"the loss became {mean} between steps {step} and {end}: lower learning_rate "
                    f"(now {recipe.learning_rate}) or raise warmup (now {recipe.warmup})"
                )
            step = end
            history.append(test.evaluate(model, step))
            bar.set_postfix_str(f"KL {history[-1].kl:.4f}")
            if folder is not None:
                record = run | {"history": [list(evaluation) for evaluation in history]}
                checkpoints.save_checkpoint(folder, step, model, optimizer, record)
            if watch:
                watch(history[-1])
            plateau = _plateau(history, recipe.patience)
    tokens = (step - first) * recipe.batch * recipe.length
    rate = tokens / seconds if tokens else math.nan
    peak = peak_flops(device, bf16=recipe.bf16 and on_cuda)
    share = rate * model.training_flops(recipe.length) / peak
    return Training(tuple(history), plateau and step < recipe.steps, rate, share)


def evaluate(
    model: MaskedModel, hmm: HMM, *, n_sequences: int, length: int, seed: int, step: int = 0
) -> Evaluation:
    """Compare a model with the exact conditionals on fresh text; see `Evaluation`."""
    recipe = Recipe(steps=1, batch=1, length=length, evaluation_sequences=n_sequences)
    assert isinstance(model, nn.Module)
    return _TestText(hmm, recipe, seed, next(model.parameters()).device).evaluate(model, step)


def hmm_hash(hmm: HMM) -> str:
    """Short fingerprint of a law, to tell whether a checkpoint is of the same text."""
    import hashlib

    digest = hashlib.sha256()
    for array in (hmm.initial, hmm.transition, hmm.emission):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


class _TestText:
    """Text for evaluation, with the exact predictions at one position of each sequence and at a mask."""

    def __init__(self, hmm: HMM, recipe: Recipe, seed: int, device: torch.device) -> None:
        n, length = recipe.evaluation_sequences, recipe.length
        symbols = sample_symbols(as_law(hmm), n, length, generator(seed, EVALUATION))
        rows, positions = np.arange(n), np.arange(n) % length
        exact = masked_conditionals(hmm, symbols.numpy())[rows, positions]
        # For the mask, the first symbol is what it hides: the rest follows it.
        self.rest = symbols[:, 1:].to(device) if length > 1 else None
        mask_exact = initial_posterior(hmm, symbols[:, 1:].numpy()) @ hmm.emission
        self.symbols, self.positions = symbols.to(device), torch.from_numpy(positions).to(device)
        self.exact, self.mask_exact = torch.from_numpy(exact), torch.from_numpy(mask_exact)
        self.hidden = symbols[torch.from_numpy(rows), torch.from_numpy(positions)]

    def evaluate(self, model: MaskedModel, step: int) -> Evaluation:
        assert isinstance(model, nn.Module)
        model.eval()
        with torch.no_grad():
            parts = [
                model.blank_logits(symbols, positions).double().log_softmax(-1).cpu()
                for symbols, positions in zip(
                    torch.split(self.symbols, 512), torch.split(self.positions, 512), strict=True
                )
            ]
        predicted = torch.cat(parts)
        if not bool(predicted.isfinite().all()):
            raise TrainingError(f"the model's predictions are not finite after {step} steps: it diverged")
        kl, kl_error = _mean(_kl(self.exact, predicted))
        mask_kl, mask_kl_error = kl, kl_error
        if self.rest is not None:
            mask_kl, mask_kl_error = _mean(
                _kl(self.mask_exact, mask_log_probabilities(model, self.rest).cpu())
            )
        loss = -float(predicted.gather(1, self.hidden[:, None]).mean())
        entropy = -float(torch.xlogy(self.exact, self.exact).sum(-1).mean())
        return Evaluation(step, kl, kl_error, mask_kl, mask_kl_error, loss, entropy)


def _kl(exact: Tensor, log_model: Tensor) -> Tensor:
    return (torch.xlogy(exact, exact) - exact * log_model).sum(-1)


def _mean(values: Tensor) -> tuple[float, float]:
    """Mean, and half-width of its 95 % interval."""
    spread = float(values.std()) if len(values) > 1 else math.inf
    return float(values.mean()), 1.96 * spread / math.sqrt(len(values))


def _plateau(history: list[Evaluation], patience: int | None) -> bool:
    if patience is None or len(history) <= patience:
        return False
    before = min(evaluation.kl for evaluation in history[:-patience])
    return min(evaluation.kl for evaluation in history[-patience:]) > 0.99 * before


def _resume(
    folder: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, run: dict[str, Any]
) -> tuple[int, list[Evaluation]]:
    if folder is None or not (folder / checkpoints.STATE).is_file():
        return 0, []
    step, record, tensors = checkpoints.read_checkpoint(folder)
    for name, wanted in run.items():
        if record.get(name) != wanted:
            raise CheckpointError(
                f"the checkpoint in {folder} is of another run: its {name} is {record.get(name)}, "
                f"not {wanted}; use another folder, or delete this one"
            )
    checkpoints.put_weights(model, tensors, folder)
    checkpoints.put_optimizer(optimizer, tensors)
    return step, [Evaluation(*values) for values in record["history"]]


def _bar(total: int, done: int) -> Any:
    """Progress bar, on a terminal or in a notebook that somebody is running; silent in pages and logs."""
    notebook = _in_notebook() and not strict()
    if notebook:
        from tqdm.notebook import tqdm
    else:
        from tqdm.std import tqdm
    live = notebook or sys.stderr.isatty()
    return tqdm(total=total, initial=done, unit="step", leave=False, disable=not live)


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return hasattr(get_ipython(), "kernel")


@contextlib.contextmanager
def _deterministic(on_cuda: bool) -> Iterator[None]:
    """On a GPU, prefer kernels that give the same sums every time; a CPU does so with the same threads."""
    if not on_cuda:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
