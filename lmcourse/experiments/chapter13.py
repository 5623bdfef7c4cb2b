"""Chapter 13: whether a trained network becomes the formula, and what heads and prompts make of it.

One cell of the experiment is one language, one task and one way to predict; it is a function of its
arguments alone, so cells can be computed anywhere, in any order.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lmcourse.experiments.sweep import Outcome, Record
from lmcourse.hmm import HMM, initial_posterior, random_hmm, sample
from lmcourse.neural import probes
from lmcourse.neural.bert import Bert
from lmcourse.neural.gru import LeaveOneOutGRU
from lmcourse.neural.heads import fit_adam, fit_logistic, majority_accuracy, one_hot_tokens
from lmcourse.neural.model import MaskedModel, seeded
from lmcourse.neural.training import Evaluation, Recipe, Training, evaluate, train, train_together
from lmcourse.tuning import downstream_task, exact_head

N_SYMBOLS = 10
METHODS = ("exact", "gru", "untrained", "bert")
STATES = (4, 10, 15, 25, 30)  # the page's figure
TEMPERATURES = {"teaching": (0.03, 0.1), "paper": (0.01, 0.01)}  # of transition and emission


@dataclass(frozen=True)
class Size:
    """Everything that a profile changes.

    Attributes
    ----------
    length : int
        Symbols of a downstream sequence.
    n_train, n_validation, n_test : int
        Labelled sequences.
    prompt_tokens, bert_prompt_tokens : tuple of int
        Lengths of the prompts that are tuned, each on its own: for the GRU and for BERT.
    prompt_epochs, bert_prompt_epochs : int
        Epochs of prompt tuning.
    exact_starts, exact_steps : int
        Of the search for the best prompt of the exact model.
    gru, bert : Recipe
        How the models are trained.
    bert_layers, bert_width, bert_heads : int
        Size of the transformer.
    mask_probability : float
        Share of positions that BERT has to fill in.
    """

    length: int
    n_train: int
    n_validation: int
    n_test: int
    prompt_tokens: tuple[int, ...]
    prompt_epochs: int
    exact_starts: int
    exact_steps: int
    gru: Recipe
    bert: Recipe
    bert_layers: int
    bert_width: int
    bert_heads: int
    bert_prompt_tokens: tuple[int, ...]
    bert_prompt_epochs: int
    mask_probability: float


SIZES = {
    "smoke": Size(
        length=12,
        n_train=500,
        n_validation=200,
        n_test=1000,
        prompt_tokens=(5,),
        prompt_epochs=10,
        exact_starts=1,
        exact_steps=50,
        gru=Recipe(
            steps=120, batch=64, length=13, learning_rate=1e-2, evaluate_every=30, evaluation_sequences=1000
        ),
        bert=Recipe(
            steps=10, batch=16, length=18, learning_rate=3e-3, evaluate_every=10, evaluation_sequences=300
        ),
        bert_layers=1,
        bert_width=32,
        bert_heads=2,
        bert_prompt_tokens=(5,),
        bert_prompt_epochs=1,
        mask_probability=0.15,
    ),
    "cpu": Size(
        length=24,
        n_train=5000,
        n_validation=500,
        n_test=2000,
        prompt_tokens=(20, 5),
        prompt_epochs=60,
        exact_starts=4,
        exact_steps=300,
        gru=Recipe(steps=600, batch=128, length=25, learning_rate=8e-3, evaluate_every=100),
        bert=Recipe(steps=900, batch=128, length=30, learning_rate=2e-3, warmup=100, evaluate_every=150),
        bert_layers=2,
        bert_width=64,
        bert_heads=4,
        bert_prompt_tokens=(5,),
        bert_prompt_epochs=12,
        mask_probability=0.2,
    ),
    # The sizes of Wei, Xie and Ma (2021) for network, labels and prompts; the text is fresh at each step.
    "gpu": Size(
        length=128,
        n_train=5000,
        n_validation=500,
        n_test=1000,
        prompt_tokens=(20, 5),
        prompt_epochs=30,
        exact_starts=4,
        exact_steps=300,
        gru=Recipe(steps=3000, batch=512, length=129, learning_rate=4e-3, evaluate_every=500, patience=5),
        bert=Recipe(
            steps=6000,
            batch=128,
            length=149,
            learning_rate=1e-4,
            warmup=600,
            evaluate_every=1000,
            patience=3,
            bf16=True,
            compile=True,
        ),
        bert_layers=12,
        bert_width=768,
        bert_heads=12,
        bert_prompt_tokens=(20, 5),
        bert_prompt_epochs=30,
        mask_probability=0.15,
    ),
}


class Labelled(NamedTuple):
    """Sequences with labels, and what the exact model knows of them."""

    symbols: NDArray[np.int64]  # (N, T)
    posteriors: NDArray[np.float64]  # (N, H), P[H_0 | x]
    labels: NDArray[np.int64]  # (N,)


class Problem(NamedTuple):
    """A language and a task about its hidden state before the first symbol."""

    hmm: HMM
    mu: NDArray[np.float64]  # (H,)
    train: Labelled
    validation: Labelled
    test: Labelled


def problem(states: int, seed: int, size: Size, setting: str = "teaching") -> Problem:
    """Draw a language and a task; the same for all methods.

    The label is a sparse random function of `P[H_0 | x]`, drawn again while its rarer value is below a fifth.
    """
    transition, emission = TEMPERATURES[setting]
    rng = np.random.default_rng([seed, states])
    hmm = random_hmm(
        states, N_SYMBOLS, transition_temperature=transition, emission_temperature=emission, rng=rng
    )
    counts = (size.n_train, size.n_validation, size.n_test)
    symbols = sample(hmm, sum(counts), size.length + 1, rng).symbols[:, 1:]
    posteriors = initial_posterior(hmm, symbols)
    task = downstream_task(posteriors, rng)
    cuts = np.cumsum(counts)[:-1]
    parts = zip(*(np.split(whole, cuts) for whole in (symbols, posteriors, task.labels)), strict=True)
    return Problem(hmm, task.mu, *(Labelled(*part) for part in parts))


def build(method: str, size: Size, seed: int, on: torch.device | str = "cpu") -> MaskedModel:
    """Build an untrained network: `"gru"` (also `"untrained"`) or `"bert"`."""
    if method == "bert":
        # Room for the longest prompt and the mask, or for what it is trained on.
        room = max(size.bert.length, size.length + 1 + max(size.bert_prompt_tokens))
        return seeded(
            seed,
            lambda: Bert(
                N_SYMBOLS,
                layers=size.bert_layers,
                width=size.bert_width,
                heads=size.bert_heads,
                max_length=room,
                mask_probability=size.mask_probability,
            ).to(on),
        )
    return seeded(seed, lambda: LeaveOneOutGRU(N_SYMBOLS).to(on))


def cell(
    states: int,
    seed: int,
    method: str,
    size: str = "cpu",
    setting: str = "teaching",
    checkpoints: Path | None = None,
    watch: Callable[[Evaluation], object] | None = None,
) -> Outcome:
    """Measure one method on one language and task.

    Parameters
    ----------
    states : int
        H.
    seed : int
        Of language, task, weights and text.
    method : str
        ``"exact"``: the ceilings by exact inference, and the controls that need no network; ``"gru"`` and
        ``"bert"``: a trained network with heads and prompts; ``"untrained"``: the GRU before training.
    size : str
        A key of `SIZES`, named as the profiles are.
    setting : str
        A key of `TEMPERATURES`.
    checkpoints : Path, optional
        Folder in which each cell keeps a folder of checkpoints: an interrupted training then goes on.
    watch : callable, optional
        Called with each evaluation of the training.

    Returns
    -------
    Outcome
        Accuracies on the test sequences, between 0 and 1; divergences in nats.
    """
    check(method, size, setting)
    if checkpoints is not None:
        checkpoints = checkpoint_folder(checkpoints, states, seed, method, size, setting)
    with one_thread():
        given = problem(states, seed, SIZES[size], setting)
        if method == "exact":
            return Outcome(ceilings(given, seed, SIZES[size]), {})
        return _network(given, seed, method, SIZES[size], checkpoints, watch)


def pretrain(
    states: int, seeds: Sequence[int], size: str, setting: str = "teaching", *, checkpoints: Path
) -> list[Training]:
    """Train BERT for several seeds as one batch; `cell` then finds it trained among the checkpoints.

    Parameters are those of `cell`. Memory grows with the number of seeds.
    """
    check("bert", size, setting)
    recipe = SIZES[size].bert
    folders = [checkpoint_folder(checkpoints, states, seed, "bert", size, setting) for seed in seeds]
    with one_thread():
        laws = [problem(states, seed, SIZES[size], setting).hmm for seed in seeds]
        models = [build("bert", SIZES[size], seed, device()) for seed in seeds]
        return train_together(models, laws, recipe, seeds=seeds, folders=folders)


def checkpoint_folder(
    checkpoints: Path, states: int, seed: int, method: str, size: str, setting: str
) -> Path:
    """Where a cell keeps the checkpoints of its training."""
    return checkpoints / f"{states}_{seed}_{method}_{size}_{setting}"


def device() -> str:
    """Where networks are trained: on a GPU if torch has one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def check(method: str, size: str, setting: str) -> None:
    """Raise ValueError unless these are arguments that `cell` knows."""
    for name, value, known in (
        ("method", method, METHODS),
        ("size", size, tuple(SIZES)),
        ("setting", setting, tuple(TEMPERATURES)),
    ):
        if value not in known:
            raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(known)}")


def ceilings(given: Problem, seed: int, size: Size) -> dict[str, float]:
    """Accuracies by exact inference, and of controls that need no network, on the test sequences.

    ``head_formula`` is the head of the theorem, computed in float64; ``head`` is fitted on exact `G_0`;
    ``prompt_point`` and ``prompt`` are the best point mass and the best likelihood vector found, the head
    refitted; ``majority`` looks at nothing; ``tokens`` is a logistic regression on the first eight symbols.
    """
    hmm, mu, train_set, validation, test = given
    data = (train_set.posteriors, train_set.labels, validation.posteriors, validation.labels)
    exact_train, exact_test = train_set.posteriors @ hmm.emission, test.posteriors @ hmm.emission
    formula = exact_test @ exact_head(hmm.emission, mu) >= 0
    point = probes.point_prompts(hmm, *data)[0]
    best = probes.best_exact_prompt(hmm, *data, seed=seed, n_starts=size.exact_starts, steps=size.exact_steps)
    tokens = fit_logistic(one_hot_tokens(train_set.symbols, hmm.n_symbols), train_set.labels, penalty=1e-4)
    return {
        "head_formula": float((formula == test.labels).mean()),
        "head": fit_logistic(exact_train, train_set.labels).accuracy(exact_test, test.labels),
        "prompt_point": _exact_accuracy(hmm, point, test),
        "prompt": _exact_accuracy(hmm, best, test),
        "majority": majority_accuracy(train_set.labels, test.labels),
        "tokens": tokens.accuracy(one_hot_tokens(test.symbols, hmm.n_symbols), test.labels),
    }


def adapt(model: MaskedModel, given: Problem, seed: int, method: str, size: Size) -> dict[str, float]:
    """Accuracies of heads and prompts on a frozen network, on the test sequences.

    ``head`` is fitted by L-BFGS, ``head_adam`` by the published recipe; ``prompt_P`` has P tokens.
    """
    _, _, train_set, validation, test = given
    features = probes.mask_predictions(model, train_set.symbols)
    test_features = probes.mask_predictions(model, test.symbols)
    numbers = {
        "head": fit_logistic(features, train_set.labels).accuracy(test_features, test.labels),
        "head_adam": fit_adam(features, train_set.labels, seed=seed).accuracy(test_features, test.labels),
    }
    on_bert = method == "bert"
    for n_tokens in size.bert_prompt_tokens if on_bert else size.prompt_tokens:
        fit = probes.tune_prompt(
            model,
            train_set.symbols,
            train_set.labels,
            validation.symbols,
            validation.labels,
            seed=seed,
            n_tokens=n_tokens,
            epochs=size.bert_prompt_epochs if on_bert else size.prompt_epochs,
            learning_rate=0.05 if on_bert else 0.02,
            check_every=4 if on_bert else 10,
        )
        prompted = probes.mask_predictions(model, test.symbols, fit.prompt)
        numbers[f"prompt_{n_tokens}"] = fit.head.accuracy(prompted, test.labels)
    return numbers


def _network(
    given: Problem,
    seed: int,
    method: str,
    size: Size,
    checkpoints: Path | None,
    watch: Callable[[Evaluation], object] | None,
) -> Outcome:
    model = build(method, size, seed, device())
    recipe = size.bert if method == "bert" else size.gru
    if method == "untrained":
        n_sequences = recipe.evaluation_sequences
        last = evaluate(model, given.hmm, n_sequences=n_sequences, length=recipe.length, seed=seed)
        speed = {}
    else:
        training = train(model, given.hmm, recipe, seed=seed, folder=checkpoints, watch=watch)
        last = training.history[-1]
        speed = {"tokens_per_second": training.tokens_per_second, "peak_share": training.peak_share}
    numbers = {name: float(value) for name, value in last._asdict().items()}
    numbers |= adapt(model, given, seed, method, size)
    return Outcome(numbers, {name: value for name, value in speed.items() if math.isfinite(value)})


def _exact_accuracy(hmm: HMM, prompt: probes.ExactPrompt, test: Labelled) -> float:
    return prompt.head.accuracy(
        probes.prompted_predictions(hmm, test.posteriors, prompt.likelihood), test.labels
    )


class Curve(NamedTuple):
    """A number against the number of states.

    Attributes
    ----------
    states : ndarray of int, shape (K,)
        Numbers of states, ascending.
    mean, error : ndarray, shape (K,)
        Mean over seeds, and the half-width of its 95 % interval by Student's t; infinite for one seed.
    seeds : ndarray of int, shape (K,)
        How many seeds there are.
    """

    states: NDArray[np.int64]
    mean: NDArray[np.float64]
    error: NDArray[np.float64]
    seeds: NDArray[np.int64]


def curve(records: Sequence[Record], method: str, number: str, setting: str = "teaching") -> Curve:
    """Collect one number of one method from the cells of a sweep.

    Raises
    ------
    ValueError
        If no cell has it.
    """
    from scipy.special import stdtrit

    found: dict[int, list[float]] = {}
    for record in records:
        if record.cell["method"] == method and record.cell["setting"] == setting and number in record.numbers:
            found.setdefault(record.cell["states"], []).append(record.numbers[number])
    if not found:
        raise ValueError(f"no cell has {number!r} for method {method!r} in setting {setting!r}")
    states = sorted(found)
    seeds = np.array([len(found[s]) for s in states])
    mean = np.array([np.mean(found[s]) for s in states])
    error = [
        float(stdtrit(n - 1, 0.975) * np.std(found[s], ddof=1) / np.sqrt(n)) if n > 1 else np.inf
        for s, n in zip(states, seeds, strict=True)
    ]
    return Curve(np.array(states), mean, np.array(error), seeds)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: sums then come in one order, and cells share a machine best that way."""
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
