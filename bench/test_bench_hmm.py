"""Hidden Markov models beside hmmlearn and dynamax: same model, same data, one thread, float64.

Every contender is timed in this process by the CPU time of its best round, after a warm-up. The last test
prints the rates, asserts the ratios the course promises and appends them to a history
(`LMCOURSE_BENCH_HISTORY`, by default `_build/bench/history.jsonl`).
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import time
from pathlib import Path

import numpy as np
import pytest

from lmcourse import hmm

N_SEQUENCES, LENGTH, N_STATES, N_SYMBOLS = 5000, 128, 30, 10
TOKENS = N_SEQUENCES * LENGTH
MODEL = hmm.random_hmm(
    N_STATES,
    N_SYMBOLS,
    transition_temperature=0.1,
    emission_temperature=0.1,
    rng=np.random.default_rng(0),
)
SYMBOLS = hmm.sample(MODEL, N_SEQUENCES, LENGTH, np.random.default_rng(1)).symbols

RATES: dict[str, float] = {}  # units of work a CPU-second, of the best round

pytestmark = pytest.mark.benchmark(timer=time.process_time, disable_gc=True)


@pytest.fixture
def rate(benchmark, request):
    """Time a function and keep the rate at which it does `units` of work."""
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def measure(function, units, rounds=7):
        with threadpoolctl.threadpool_limits(1):
            result = benchmark.pedantic(function, rounds=rounds, warmup_rounds=1)
        RATES[request.node.name] = units / benchmark.stats.stats.min
        return result

    return measure


def hmmlearn_model(implementation):
    model = pytest.importorskip("hmmlearn.hmm").CategoricalHMM(N_STATES, implementation=implementation)
    model.startprob_, model.transmat_, model.emissionprob_ = MODEL.initial, MODEL.transition, MODEL.emission
    model.n_features = N_SYMBOLS
    return model


def assert_posterior(found, n_sequences=N_SEQUENCES):
    """All contenders must answer the same question."""
    expected = hmm.smooth_states(MODEL, SYMBOLS[:n_sequences])
    np.testing.assert_allclose(np.asarray(found).reshape(expected.shape), expected, atol=1e-9)


def test_posterior(rate):
    assert_posterior(rate(lambda: hmm.smooth_states(MODEL, SYMBOLS), N_SEQUENCES, rounds=15))


def test_initial_posterior(rate):
    rate(lambda: hmm.initial_posterior(MODEL, SYMBOLS), N_SEQUENCES, rounds=15)


def test_posterior_hmmlearn_one_by_one(rate):
    model, some = hmmlearn_model("log"), 500
    run = lambda: [model.predict_proba(x[:, None]) for x in SYMBOLS[:some]]  # noqa: E731
    assert_posterior(rate(run, some, rounds=3), some)


@pytest.mark.parametrize("implementation", ["log", "scaling"])
def test_posterior_hmmlearn_batch(rate, implementation):
    model, some = hmmlearn_model(implementation), N_SEQUENCES if implementation == "scaling" else 500
    column, lengths = SYMBOLS[:some].reshape(-1, 1), [LENGTH] * some
    assert_posterior(rate(lambda: model.predict_proba(column, lengths), some, rounds=3), some)


@pytest.mark.parametrize("batch", [100, N_SEQUENCES])
@pytest.mark.parametrize("smoother", ["hmm_smoother", "hmm_two_filter_smoother"])
def test_posterior_dynamax(rate, smoother, batch):
    """Compiled and vectorised, over all sequences at once or over batches that fit in the cache (faster)."""
    jax = pytest.importorskip("jax")
    inference = pytest.importorskip("dynamax.hidden_markov_model.inference")
    jax.config.update("jax_enable_x64", True)
    initial, transition, emission = map(jax.numpy.asarray, (MODEL.initial, MODEL.transition, MODEL.emission))
    smooth = getattr(inference, smoother).__wrapped__  # its own jit does not let compute_trans_probs be False

    def posterior(symbols):
        seen = jax.numpy.log(emission).T[symbols]
        return smooth(initial, transition, seen, compute_trans_probs=False).smoothed_probs

    together = jax.jit(lambda symbols: jax.lax.map(posterior, symbols, batch_size=batch))
    symbols = jax.numpy.asarray(SYMBOLS)
    found = rate(lambda: together(symbols).block_until_ready(), N_SEQUENCES, rounds=10)
    assert found.dtype == np.float64
    assert_posterior(found)


def test_sampling(rate):
    rate(lambda: hmm.sample(MODEL, N_SEQUENCES, LENGTH, np.random.default_rng(2)), TOKENS, rounds=15)


def test_sampling_hmmlearn(rate):
    model, some = hmmlearn_model("log"), 50_000
    rate(lambda: model.sample(some, random_state=2), some, rounds=3)


def test_matrix_product(rate):
    """Multiply-adds a second in the product that a step of the recursion needs, at its best size."""
    messages = np.random.default_rng(3).random((512, N_STATES))
    out = np.empty_like(messages)

    def steps():
        for _ in range(200):
            np.matmul(messages, MODEL.transition, out=out)

    rate(steps, 200 * messages.size * N_STATES, rounds=30)


def test_ratios(capsys):
    ours = RATES.get("test_posterior")
    peers = [name for name in RATES if name.startswith("test_posterior_")]
    if (
        ours is None
        or not any("dynamax" in name for name in peers)
        or not any("hmmlearn" in name for name in peers)
    ):
        pytest.skip("run the whole file, with hmmlearn and dynamax installed")
    dynamax = max(RATES[name] for name in peers if "dynamax" in name)
    floor = RATES["test_matrix_product"] / (2 * LENGTH * N_STATES**2)
    promised = {  # what, ratio, at least
        "posterior / hmmlearn one by one": (ours / RATES["test_posterior_hmmlearn_one_by_one"], 25),
        "posterior / hmmlearn batch": (ours / RATES["test_posterior_hmmlearn_batch[scaling]"], 4),
        "posterior / dynamax": (ours / dynamax, 2),
        "initial posterior / posterior": (RATES["test_initial_posterior"] / ours, 2.5),
        "sampling / hmmlearn": (RATES["test_sampling"] / RATES["test_sampling_hmmlearn"], 40),
    }
    ratios = {name: round(ratio, 2) for name, (ratio, _) in promised.items()}
    ratios["posterior / arithmetic floor"] = round(ours / floor, 2)
    append_history(ratios)
    with capsys.disabled():
        print()
        for name, value in RATES.items():
            print(f"{name.removeprefix('test_'):60s}{value:16,.0f} a CPU-second")
        for name, value in ratios.items():
            print(f"{name:60s}{value:16.2f} (at least {promised[name][1] if name in promised else '-'})")
    short = {name: ratio for name, (ratio, least) in promised.items() if ratio < least}
    assert not short


def append_history(ratios):
    path = Path(os.environ.get("LMCOURSE_BENCH_HISTORY", "_build/bench/history.jsonl"))
    path.parent.mkdir(parents=True, exist_ok=True)
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "hmmlearn", "dynamax", "jax")}
    entry = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "versions": {"python": platform.python_version(), **versions},
        "rates": {name: float(f"{value:.4g}") for name, value in RATES.items()},
        "ratios": ratios,
    }
    with path.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def cpu_name():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
