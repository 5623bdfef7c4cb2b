"""The experiment of chapter 13 at the sizes of Wei, Xie and Ma (2021): one command on one large GPU.

It may be stopped at any time and started again: finished configurations are kept, and a training that was
interrupted goes on from its last checkpoint. What came out is a stored result, which the ledger reads.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from lmcourse import results
from lmcourse.experiments import chapter13, chapter13_sweep
from lmcourse.experiments.sweep import Record, grid, run_sweep, sweep_status
from lmcourse.folders import cache_folder
from lmcourse.machine import gpu_name, processor_name
from lmcourse.neural.speed import peak_flops
from lmcourse.profiles import profile, strict
from lmcourse.provenance import Result


def run(
    states: Sequence[int],
    n_seeds: int,
    *,
    setting: str = "paper",
    together: int = 1,
    checkpoints: Path | None = None,
    say: Callable[[str], object] = print,
) -> Result:
    """Train, adapt and store BERT at the size of the profile in force, beside the exact ceilings.

    Parameters
    ----------
    states : sequence of int
        Numbers of hidden states; each with each seed is a configuration.
    n_seeds : int
        How many, counted from `chapter13_sweep.SEED`.
    setting : str
        Temperatures, a key of `chapter13.TEMPERATURES`.
    together : int
        How many seeds are trained as one batch. Memory grows with it.
    checkpoints : Path, optional
        Where trainings that are not finished are kept; in the cache folder by default.
    say : callable
        Called with each line to print.

    Returns
    -------
    Result
        As `chapter13_sweep.collect` returns it, with the device's name.

    Raises
    ------
    RuntimeError
        In the profile ``gpu`` without a GPU, and in the profile ``cpu``, which has a result of its own.
    ValueError
        For numbers below 1 and unknown settings.
    """
    size = profile()
    _check(size, setting, states, n_seeds, together)
    checkpoints = checkpoints or cache_folder() / "checkpoints"
    name = f"chapter13-{size}"
    compute = functools.partial(chapter13.cell, checkpoints=checkpoints)
    seeds = list(range(chapter13_sweep.SEED, chapter13_sweep.SEED + n_seeds))

    def show(record: Record) -> None:
        say(_line(record))
        folder = chapter13.checkpoint_folder(checkpoints, **record.cell)
        shutil.rmtree(folder, ignore_errors=True)  # more than a GB each, and of no more use

    say(_plan(size))
    for n in states:
        cells = grid(states=[n], seed=seeds, method=["exact", "bert"], size=[size], setting=[setting])
        missing = [c["seed"] for c in sweep_status(name, compute, cells).missing if c["method"] == "bert"]
        for first in range(0, len(missing), together) if together > 1 else ():
            chapter13.pretrain(n, missing[first : first + together], size, setting, checkpoints=checkpoints)
        run_sweep(name, compute, cells, watch=show)
    inputs = {
        "seeds_at": [[n, n_seeds] for n in states],
        "methods": ["exact"],
        "bert_seeds_at": [[n, n_seeds] for n in states],
        "setting": setting,
    }
    result = results.stored(
        chapter13_sweep.NAME,
        chapter13_sweep.collect,
        seed=chapter13_sweep.SEED,
        inputs=inputs,
        needs_gpu=size == "gpu",
    )
    say(f"stored as {chapter13_sweep.NAME}.{size}.json: {result.note}")
    return result


def _check(size: str, setting: str, states: Sequence[int], n_seeds: int, together: int) -> None:
    chapter13.check("bert", size, setting)
    if not states or min(*states, n_seeds, together) < 1:
        raise ValueError("numbers of states, of seeds and of seeds together must be at least 1")
    if size == "gpu" and gpu_name() is None:
        raise RuntimeError(
            "the sizes of the paper need a GPU, and torch sees none; LMCOURSE_PROFILE=smoke takes the same "
            "steps on a processor, in a minute"
        )
    if size == "cpu":
        raise RuntimeError("set LMCOURSE_PROFILE to gpu (or to smoke, to try the steps); it is cpu now")
    if strict():
        raise RuntimeError("unset LMCOURSE_STRICT: a strict run stores no results")


def _plan(size: str) -> str:
    """Say how much computing one training is, by what this device can do."""
    recipe, device = chapter13.SIZES[size].bert, chapter13.device()
    tokens = recipe.steps * recipe.batch * recipe.length
    operations = tokens * chapter13.build("bert", chapter13.SIZES[size], 0).training_flops(recipe.length)
    peak = peak_flops(device, bf16=recipe.bf16 and device == "cuda")
    return (
        f"Each training of BERT reads at most {tokens:,} tokens, {operations:.1e} operations. "
        f"{gpu_name() or processor_name()} makes {peak:.1e} a second at its best here: "
        f"{operations / peak / 60:.1f} minutes, were it at its best throughout."
    )


def _line(record: Record) -> str:
    """Say what a configuration gave, and how fast it was."""
    cell = record.cell
    accuracies = ("head", "prompt")
    numbers = [f"{key} {value:.3f}" for key, value in record.numbers.items() if key.startswith(accuracies)]
    parts = [f"{cell['states']} states, seed {cell['seed']}, {cell['method']}: {', '.join(numbers)}"]
    if record.speed:
        parts.append(
            f"{record.speed['tokens_per_second']:,.0f} tokens a second, "
            f"{record.speed['peak_share']:.0%} of the device's peak"
        )
    return "; ".join([*parts, f"{record.seconds:.0f} s on {record.device}"])
