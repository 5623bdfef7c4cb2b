"""One training loop for all masked models, measured against what a perfect model would predict."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

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
from lmcourse.neural.together import Stackable, losses
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
        Stop once that many evaluations in a row have not lowered the best KL by a hundredth; at least 1.
    bf16, compile : bool
        Mixed precision and compilation; on a CUDA device only, elsewhere of no effect. Models that are
        trained together are not compiled.
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
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience is {self.patience}; it must be at least 1, or None")

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
        Symbols read per second of training, evaluation and interruptions left out.
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
        Where checkpoints are kept, by one process at a time. A run that finds its own goes on from there,
        and ends as if it had never been interrupted.
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
        If the checkpoint found is damaged or belongs to another run, or another process uses the folder.
    """
    return train_together([model], [hmm], recipe, seeds=[seed], folders=[folder], watch=watch)[0]


def train_together(
    models: Sequence[MaskedModel],
    hmms: Sequence[HMM],
    recipe: Recipe,
    *,
    seeds: Sequence[int],
    folders: Sequence[Path | None] | None = None,
    watch: Callable[[Evaluation], object] | None = None,
) -> list[Training]:
    """Train several models of one size, each on its own text, with one batch for all of them at each step.

    Each ends where `train` would have taken it alone, up to rounding, and its checkpoints are the same: a run
    that was interrupted together may go on alone, and the other way round. Parameters are those of `train`,
    one of each for every model. Speeds are those of the device: all symbols that it read in a second.

    Raises
    ------
    TypeError
        If there is more than one model and one cannot be stacked (see `lmcourse.neural.together.Stackable`).
    """
    if not models:
        return []
    folders = [None] * len(models) if folders is None else folders
    with contextlib.ExitStack() as stack:
        for folder in folders:
            if folder is not None:
                stack.enter_context(checkpoints.locked(folder))
        given = zip(models, hmms, seeds, folders, strict=True)
        runs = [_Run(model, hmm, recipe, seed, folder, watch) for model, hmm, seed, folder in given]
        if len(runs) > 1 and not all(isinstance(run.model, Stackable) for run in runs):
            raise TypeError("only models with hide() and loss_at(), such as Bert, can be trained together")
        device = runs[0].device
        if recipe.compile and device.type == "cuda" and len(runs) == 1:
            runs[0].module.compile()
        stack.enter_context(_deterministic(device.type == "cuda"))
        with _bar(recipe.steps, min(run.step for run in runs)) as bar:
            while behind := [run for run in runs if not run.ended]:
                start = min(run.step for run in behind)
                group = [run for run in behind if run.step == start]
                _advance(group, recipe, bar)
                bar.set_postfix_str(f"KL {group[0].history[-1].kl:.4f}")
    peak = peak_flops(device, bf16=recipe.bf16 and device.type == "cuda")
    return [run.outcome(peak) for run in runs]


class _Run:
    """One model on its way: where it stands, and how to take it further."""

    def __init__(
        self,
        model: MaskedModel,
        hmm: HMM,
        recipe: Recipe,
        seed: int,
        folder: Path | None,
        watch: Callable[[Evaluation], object] | None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model is {type(model).__name__}; give a torch module that is a MaskedModel")
        if model.n_symbols != hmm.n_symbols:
            raise ValueError(f"the model has {model.n_symbols} symbols and the text has {hmm.n_symbols}")
        self.model, self.module, self.recipe, self.seed = model, model, recipe, seed
        self.folder, self.watch = folder, watch
        self.device = next(model.parameters()).device
        self.law = as_law(hmm, device=self.device)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate)
        self.test = _TestText(hmm, recipe, seed, self.device)
        self.name = {
            "recipe": asdict(recipe),
            "seed": seed,
            "model": type(model).__name__,
            "text": hmm_hash(hmm),
        }
        self.step, self.history, self.seconds = _resume(folder, model, self.optimizer, self.name)
        if not self.history:
            self._evaluate()

    @property
    def ended(self) -> bool:
        return self.step >= self.recipe.steps or self.plateau

    @property
    def plateau(self) -> bool:
        return _plateau(self.history, self.recipe.patience)

    def text(self, k: int) -> Tensor:
        """Draw the text of a step."""
        draws = generator(self.seed, TEXT, k, device=self.device)
        return sample_symbols(self.law, self.recipe.batch, self.recipe.length, draws)

    def hiding(self, k: int) -> torch.Generator:
        """Start the generator that hides positions in a step."""
        return generator(self.seed, HIDING, k, device=self.device)

    def descend(self, k: int) -> None:
        """Take a step of Adam along the gradients that are there."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate(k)
        nn.utils.clip_grad_norm_(self.module.parameters(), self.recipe.clip)
        self.optimizer.step()

    def arrive(self, step: int, loss: float, seconds: float) -> None:
        """Note that training has reached a step, evaluate, and keep a checkpoint."""
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss became {loss} between steps {self.step} and {step}: lower learning_rate "
                f"(now {self.recipe.learning_rate}) or raise warmup (now {self.recipe.warmup})"
            )
        self.step = step
        self.seconds += seconds
        self._evaluate()

    def outcome(self, peak: float) -> Training:
        read = self.step * self.recipe.batch * self.recipe.length
        rate = read / self.seconds if self.seconds else math.nan
        share = rate * self.model.training_flops(self.recipe.length) / peak
        return Training(tuple(self.history), self.plateau and self.step < self.recipe.steps, rate, share)

    def _evaluate(self) -> None:
        self.history.append(self.test.evaluate(self.model, self.step))
        if self.folder is not None and self.step:
            history = [list(evaluation) for evaluation in self.history]
            record = self.name | {"history": history, "seconds": self.seconds}
            checkpoints.save_checkpoint(self.folder, self.step, self.module, self.optimizer, record)
        if self.watch:
            self.watch(self.history[-1])


def _advance(group: Sequence[_Run], recipe: Recipe, bar: Any) -> None:
    """Take runs that stand at one step to their next evaluation, side by side."""
    start = time.perf_counter()
    first, device = group[0].step, group[0].device
    last = min(first + recipe.evaluate_every, recipe.steps)
    bf16 = recipe.bf16 and device.type == "cuda"
    total = torch.zeros(len(group), device=device)
    for run in group:
        run.module.train()
    for k in range(first, last):
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            loss = _losses(group, k)
        for run in group:
            run.optimizer.zero_grad(set_to_none=True)
        loss.sum().backward()  # type: ignore[no-untyped-call]
        for run in group:
            run.descend(k)
        total += loss.detach()
        bar.update()
    means = (total / (last - first)).tolist()  # waits for the device
    seconds = (time.perf_counter() - start) / len(group)
    for run, mean in zip(group, means, strict=True):
        run.arrive(last, mean, seconds)


def _losses(group: Sequence[_Run], k: int) -> Tensor:
    """Loss of each run at a step."""
    texts = [run.text(k) for run in group]
    if len(group) == 1:
        return group[0].model.loss(texts[0], group[0].hiding(k))[None]
    stackable = [cast(Stackable, run.model) for run in group]
    hidden = [
        model.hide(text, run.hiding(k)) for model, text, run in zip(stackable, texts, group, strict=True)
    ]
    return losses(stackable, torch.stack(texts), torch.stack(hidden))


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
) -> tuple[int, list[Evaluation], float]:
    """Step, evaluations and seconds of training of the checkpoint in a folder, if there is one."""
    if folder is None or not (folder / checkpoints.STATE).is_file():
        return 0, [], 0.0
    step, record, tensors = checkpoints.read_checkpoint(folder)
    for name, wanted in run.items():
        if record.get(name) != wanted:
            raise CheckpointError(
                f"the checkpoint in {folder} is of another run: its {name} is {record.get(name)}, "
                f"not {wanted}; use another folder, or delete this one"
            )
    try:
        history = [Evaluation(*values) for values in record["history"]]
        seconds = float(record["seconds"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the record in {folder} is damaged ({error!r}); delete {folder} to train from the beginning"
        ) from None
    checkpoints.put_weights(model, tensors, folder)
    checkpoints.put_optimizer(optimizer, tensors)
    return step, history, seconds


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
