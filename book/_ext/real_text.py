"""The ledger's rows on real text: what the table of chapter 8 says of three claims, and verdicts by rule."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmcourse.experiments import chapter08
from lmcourse.experiments.chapter08 import WAYS

SHOWN = slice(0, 5)  # of the ten splits; the others check the chapter
SYMBOL = {  # of features, in the order in which they should do
    "hidden": "$f(s)$",
    "mean_embedding": r"$\Phi p_f(s)$",
    "task_logits": "task words",
    "class_logits": "class words",
}


def completion(values: dict[str, Any]) -> tuple[str, str]:
    """Judge if tasks are completions, by the logits of task words behind the prompt.

    On a task the claim holds if they beat as many random words, by the interval of the difference, and also
    keep nine tenths of what `f(s)` has over the largest class.
    """
    texts, better, enough = [], [], []
    for task in chapter08.TASKS:
        ours, full, random = (_scores(values, task, n) for n in ("task_logits", "hidden", "random_logits"))
        floor = _scores(values, task, "majority", "alone").mean()
        gain = chapter08.interval(ours - random)
        kept = (ours.mean() - floor) / (full.mean() - floor)
        better.append(gain.mean > gain.error)
        enough.append(bool(kept >= 0.9))
        texts.append(
            f"{task} {100 * ours.mean():.1f}, {100 * gain.mean:+.1f} ± {100 * gain.error:.1f} against random "
            f"words, {100 * kept:.0f} % of the gain of $f(s)$"
        )
    verdict = _count([b and e for b, e in zip(better, enough, strict=True)], "tasks")
    if not verdict.startswith("reproduced"):
        verdict += (
            f": task words beat random words on {sum(better)}, and keep nine tenths of the gain of $f(s)$ on "
            f"{sum(enough)}"
        )
    return f"task words: {'; '.join(texts)}", verdict


def quadratic(values: dict[str, Any]) -> tuple[str, str]:
    """Judge the log-partition function by two fits with an R^2 of at least 0.9, and a head carried over.

    The fits, on unseen texts, are of `log Z` by a quadratic of `f`, and of `Phi p_f` by an affine map of
    `f`. The head trained on `Phi p_f` may lose one point of accuracy when it is carried over to `f`.
    """
    found = {name: np.array(v)[SHOWN] for name, v in values["log_partition"].items()}
    fits = [chapter08.interval(found[name]) for name in ("quadratic", "mean_from_hidden")]
    held = [fit.mean >= 0.9 for fit in fits] + [(found["own"] - found["moved"]).mean() <= 0.01]
    shares = ", ".join(f"{fit.mean:.2f} ± {fit.error:.2f}" for fit in fits)
    linear = found["linear"].mean()
    text = (
        rf"$R^2$ of $\log Z$ by a quadratic, of $\Phi p_f$ by an affine map of $f$: {shares} (a linear "
        rf"function alone, which is of no use, has {linear:.2f} for $\log Z$); accuracy of a head on "
        rf"$\Phi p_f$ {100 * found['own'].mean():.1f}, carried over to $f$ {100 * found['moved'].mean():.1f}"
    )
    return text, _count(held, "tests")


def orders(values: dict[str, Any]) -> tuple[str, str]:
    """Judge the orders of features and prompts on sentiment; at best partly, for model and texts differ."""
    texts, held = [], []
    for task in ("movie", "amazon", "grades"):
        mean = {n: {way: _scores(values, task, n, way).mean() for way in WAYS} for n in SYMBOL}
        held += [mean[a]["prompted"] >= mean[b]["prompted"] for a, b in itertools.pairwise(SYMBOL)]
        held += [mean[n]["prompted"] >= mean[n]["alone"] for n in SYMBOL]
        levels = (f"{SYMBOL[n]} {100 * m['alone']:.1f}, {100 * m['prompted']:.1f}" for n, m in mean.items())
        texts.append(f"{task}: {'; '.join(levels)}")
    verdict = "partly" if 2 * sum(held) > len(held) else "not reproduced"
    return (
        f"alone, with the prompt: {'. '.join(texts)}",
        f"{verdict}: {sum(held)} of {len(held)} orders of features and prompts hold; another model "
        "(SmolLM2) and other texts, and no published level in hand",
    )


VERDICTS: dict[str, Callable[[dict[str, Any]], tuple[str, str]]] = {
    "completion": completion,
    "log-partition": quadratic,
    "features": orders,
}


def _scores(values: dict[str, Any], task: str, feature: str, way: str = "prompted") -> NDArray[np.float64]:
    return np.array(values["accuracy"][task][feature][way])[SHOWN]


def _count(held: list[bool], what: str) -> str:
    if all(held):
        return f"reproduced: on {len(held)} of {len(held)} {what}"
    return f"{'partly' if any(held) else 'not reproduced'}: on {sum(held)} of {len(held)} {what}"
