"""The noise ladder of chapter 8: spoil the weights a little more at each rung, and measure both numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from lmcourse.experiments import chapter08
from lmcourse.experiments.chapter08 import TASKS, classify, splits
from lmcourse.neural import causal, features

NAME = "chapter08-ladder"
COMMAND = f"lmcourse results refresh {NAME}"
SEED = 8
INPUTS = {"noises": [0.0, 0.05, 0.1, 0.2, 0.3], "n_seeds": 3, "size": 300, "n_for_loss": 40}


def ladder(*, seed: int, noises: Sequence[float], n_seeds: int, size: int, n_for_loss: int) -> dict[str, Any]:
    """Measure cross-entropy and accuracy on movie reviews of models whose weights were spoilt by noise.

    Parameters
    ----------
    seed : int
        Of the texts and the splits; the noise has the seeds after it.
    noises : sequence of float
        Standard deviation of the noise, as a multiple of that of each matrix's own entries.
    n_seeds : int
        Draws of the noise for each positive size.
    size : int
        Reviews that are classified.
    n_for_loss : int
        How many of them the cross-entropy is measured on.

    Returns
    -------
    dict
        ``rungs``: for each model its noise and seed, its cross-entropy in nats a token, and the accuracies,
        over all reviews, of `f(s)` and of the logits of task words behind the prompt.
    """
    start = time.perf_counter()
    spent: list[float] = []
    task, model = TASKS["movie"], causal.load_model()
    drawn = chapter08.pool("movie", size, seed)
    rungs = []
    for noise in noises:
        for k in range(n_seeds if noise else 1):
            spoilt = causal.noisy_copy(model, noise, seed + k + 1) if noise else model
            found = chapter08.read(spoilt, drawn.texts, task.prompt, spent, n_projection=1)["prompted"]
            given = {
                "hidden": found.hidden,
                "task_logits": features.word_logits(spoilt, found, task.words),
            }
            rungs.append(
                {
                    "noise": noise,
                    "seed": seed + k + 1,
                    "cross_entropy": features.cross_entropy(spoilt, drawn.texts[:n_for_loss]),
                    **{name: _over_all(x, drawn, seed) for name, x in given.items()},
                }
            )
    return {"rungs": rungs, "seconds": time.perf_counter() - start + sum(spent)}


def _over_all(x: Any, drawn: chapter08.Pool, seed: int) -> float:
    """Share of all reviews that are classified rightly while they are in the test part."""
    parts = splits(drawn.labels, seed)
    hits = [classify(x, drawn.labels, part) == drawn.labels[part.test] for part in parts]
    return float(np.mean(np.concatenate(hits)))
