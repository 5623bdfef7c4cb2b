"""Prompts, for a network and for the exact model."""

import numpy as np
import pytest
import torch

from lmcourse import hmm as reference
from lmcourse.neural import exact, probes
from lmcourse.neural.bert import Bert
from lmcourse.neural.gru import LeaveOneOutGRU
from lmcourse.neural.heads import fit_logistic
from lmcourse.neural.model import seeded
from lmcourse.tuning import downstream_task, exact_head, posterior_labels

SMALL = {"n_tokens": 2, "epochs": 2, "batch": 16, "check_every": 1}


@pytest.fixture
def data(hmm):
    rng = np.random.default_rng(0)
    symbols = reference.sample(hmm, 120, 6, rng).symbols
    return symbols, rng.integers(0, 2, 120)


def test_prompted_predictions_are_those_of_the_longer_chain(hmm):
    """Against inference on prompt, mask and sequence together, in NumPy and on tensors."""
    rng = np.random.default_rng(1)
    symbols = reference.sample(hmm, 7, 5, rng).symbols
    u = np.array([0.5, 0.0, 2.0, 0.1])
    evidence = np.concatenate([np.tile(u, (7, 1, 1)), np.ones((7, 1, 4)), hmm.emission.T[symbols]], axis=1)
    expected = reference.masked_conditionals(hmm, evidence=evidence)[:, 1]
    found = probes.prompted_predictions(hmm, reference.initial_posterior(hmm, symbols), u)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    tensors = exact.masked_conditionals(exact.as_law(hmm), evidence=torch.from_numpy(evidence))
    np.testing.assert_allclose(found, tensors[:, 1], atol=1e-12)


def test_a_prompt_that_excludes_the_sequence_predicts_nothing():
    cycle = reference.HMM([0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], np.eye(2))
    found = probes.prompted_predictions(cycle, [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.0])
    np.testing.assert_array_equal(found, [[0, 0], [0, 1]])


def test_the_theorem_is_a_ceiling_that_fitting_reaches(hmm):
    """Five symbols, four states of full rank: the formula's head is right, and so is the fitted one."""
    rng = np.random.default_rng(2)
    posteriors = reference.initial_posterior(hmm, reference.sample(hmm, 1500, 8, rng).symbols)
    task = downstream_task(posteriors, rng)
    predictions = posteriors @ hmm.emission
    assert np.array_equal((predictions @ exact_head(hmm.emission, task.mu) >= 0).astype(int), task.labels)
    assert fit_logistic(predictions, task.labels).accuracy(predictions, task.labels) > 0.998


def test_a_prompt_frees_states_that_look_alike():
    """States 2 and 3 emit as 0 and 1 do, so no head compares 0 with 1; state 2 leads to 0 or 1 only, so a
    prompt that says "it was 2" leaves them alone, and the head that the theorem promises is found.
    """
    emission = np.array([[0.7, 0.1, 0.2], [0.1, 0.7, 0.2], [0.7, 0.1, 0.2], [0.1, 0.7, 0.2]])
    transition = np.array(
        [[0.45, 0.45, 0.05, 0.05], [0.05, 0.05, 0.45, 0.45], [0.9, 0.1, 0, 0], [0, 0, 0.2, 0.8]]
    )
    hmm = reference.HMM(np.full(4, 0.25), transition, emission)
    rng = np.random.default_rng(3)
    posteriors = reference.initial_posterior(hmm, reference.sample(hmm, 3000, 10, rng).symbols)
    labels = posterior_labels(posteriors, [1.0, -1.0, 0.0, 0.0])
    train, test = slice(0, 2000), slice(2000, 3000)
    head = fit_logistic(posteriors[train] @ emission, labels[train])
    without = head.accuracy(posteriors[test] @ emission, labels[test])
    arguments = (hmm, posteriors[train], labels[train], posteriors[test], labels[test])
    points = probes.point_prompts(*arguments)
    best = probes.best_exact_prompt(*arguments, seed=0, n_starts=2, steps=100)
    assert without < 0.9
    assert np.argmax(points[0].likelihood) == 2
    assert points[0].validation == 1
    assert [p.validation for p in points] == sorted((p.validation for p in points), reverse=True)
    assert best.validation >= points[0].validation
    assert best.likelihood.max() == 1
    found = best.head.accuracy(
        probes.prompted_predictions(hmm, posteriors[test], best.likelihood), labels[test]
    )
    assert found == best.validation


def test_the_gradient_improves_on_where_it_starts(hmm):
    """Climbing from a bad prompt ends at one with a lower logistic loss, its head refitted."""
    rng = np.random.default_rng(4)
    posteriors = reference.initial_posterior(hmm, reference.sample(hmm, 800, 8, rng).symbols)
    labels = (posteriors @ [1.0, -1.0, 0.5, -0.2] + 0.15 * np.sin(40 * posteriors[:, 0]) >= 0).astype(int)

    def loss(u):
        x = probes.prompted_predictions(hmm, posteriors, u)
        head = fit_logistic(x, labels)
        return np.logaddexp(0, (1 - 2 * labels) * (x @ head.weight + head.bias)).mean()

    start = np.log([1e-4, 1.0, 1.0, 1e-3])
    after = probes._climb(hmm, posteriors, labels, start, 200)
    assert loss(after) < loss(np.exp(start)) - 1e-3


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [([1, 1, 1], "4 finite numbers"), ([1, -1, 0, 0], "none negative"), ([0] * 4, "not all zero")],
)
def test_impossible_prompts(hmm, likelihood, message):
    with pytest.raises(ValueError, match=message):
        probes.prompted_predictions(hmm, [[0.25] * 4], likelihood)


@pytest.mark.parametrize(
    "build",
    [
        lambda: LeaveOneOutGRU(5, width=8),
        lambda: Bert(5, layers=1, width=8, heads=2, max_length=10),
    ],
)
def test_tuning_leaves_the_model_alone_and_repeats(build, data):
    symbols, labels = data
    model = seeded(0, build)
    before = [p.detach().clone() for p in model.parameters()]
    fits = [
        probes.tune_prompt(model, symbols[:80], labels[:80], symbols[80:], labels[80:], seed=seed, **SMALL)
        for seed in (0, 0, 1)
    ]
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert torch.equal(fits[0].prompt, fits[1].prompt)
    assert fits[0].validation == fits[1].validation
    np.testing.assert_array_equal(fits[0].head.weight, fits[1].head.weight)
    assert fits[0].prompt.shape == (2, 8)
    assert len(fits[0].validation) == 3
    reached = fits[0].head.accuracy(probes.mask_predictions(model, symbols[80:], fits[0].prompt), labels[80:])
    assert reached == max(fits[0].validation)


def test_impossible_tuning(hmm, data):
    symbols, labels = data
    model = seeded(0, lambda: LeaveOneOutGRU(5, width=8))

    def tune(symbols=symbols, labels=labels, validation=symbols, **more):
        probes.tune_prompt(model, symbols, labels, validation, labels, seed=0, **{**SMALL, **more})

    for wrong, message in (
        ({"n_tokens": 0}, "n_tokens is 0; it must be at least 1"),
        ({"epochs": 0}, "epochs is 0"),
        ({"learning_rate": np.nan}, "the prompt diverged; lower learning_rate"),
        ({"symbols": symbols[:0]}, "both at least 1"),
        ({"labels": labels[1:]}, "a row and a label for each example"),
        ({"validation": symbols[1:]}, "a row and a label for each example"),
    ):
        with pytest.raises(ValueError, match=message):
            tune(**wrong)
        assert all(p.requires_grad for p in model.parameters())
    small = probes.mask_predictions(model, symbols.astype(np.int8))
    np.testing.assert_array_equal(small, probes.mask_predictions(model, symbols))
    with pytest.raises(ValueError, match=r"posteriors has shape \(2, 5\), expected \(N, 4\)"):
        probes.prompted_predictions(hmm, np.full((2, 5), 0.2), np.ones(4))
    laws = np.full((2, 4), 0.25)
    with pytest.raises(ValueError, match="steps is 0"):
        probes.best_exact_prompt(hmm, laws, [0, 1], laws, [0, 1], seed=0, steps=0)


def test_a_prompt_finds_what_only_a_prompt_can():
    """The network shows the first symbol in place of the second if the state from the left is large."""

    class Gate(LeaveOneOutGRU):
        def context(self, symbols):
            return 2.0 * symbols[:, :2] - 1

        def _combine(self, left, right):
            gate = left.mean(-1).clamp(0, 1)
            shown = right[:, 0] * gate + right[:, 1] * (1 - gate)
            return torch.stack([shown, torch.zeros_like(shown)], dim=1)

        def start_prompt(self, n_tokens, generator):
            return torch.full((n_tokens, 4), 0.1)

    model = seeded(0, lambda: Gate(2, width=4))
    with torch.no_grad():  # the state moves half-way to tanh(input)
        for p in model.from_left.parameters():
            p.zero_()
        model.from_left.weight_ih_l0[8:] = torch.eye(4)
    symbols = np.random.default_rng(0).integers(0, 2, (400, 3))
    labels = symbols[:, 0]
    noise = np.random.default_rng(1).random(400) < 0.1  # so that no tiny gap tells the label at the start
    labels = np.where(noise, 1 - labels, labels)
    arguments = (model, symbols[:300], labels[:300], symbols[300:], labels[300:])
    fit = probes.tune_prompt(
        *arguments, seed=0, n_tokens=3, epochs=20, batch=50, learning_rate=0.1, check_every=5
    )
    assert fit.validation[0] < 0.8
    assert max(fit.validation) > 0.85
    kept = fit.head.accuracy(probes.mask_predictions(model, symbols[300:], fit.prompt), labels[300:])
    assert kept == max(fit.validation)
