"""Exact inference on tensors: against NumPy's, and its gradients against finite differences."""

import numpy as np
import pytest
import torch

from lmcourse import hmm as reference
from lmcourse.neural import exact


@pytest.mark.parametrize("temperatures", [(1.0, 1.0), (0.03, 0.1), (0.01, 0.01)])
@pytest.mark.parametrize("states", [1, 3, 12])
def test_equals_numpy(states, temperatures):
    rng = np.random.default_rng(states)
    transition, emission = temperatures
    model = reference.random_hmm(
        states, 6, transition_temperature=transition, emission_temperature=emission, rng=rng
    )
    symbols = reference.sample(model, 40, 30, rng).symbols
    symbols[rng.random(symbols.shape) < 0.2] = reference.MASK
    law, tensor = exact.as_law(model), torch.from_numpy(symbols)
    np.testing.assert_allclose(
        exact.masked_conditionals(law, tensor).numpy(),
        reference.masked_conditionals(model, symbols),
        atol=1e-10,
        rtol=0,
    )
    np.testing.assert_allclose(
        exact.initial_posterior(law, tensor).numpy(),
        reference.initial_posterior(model, symbols),
        atol=1e-10,
        rtol=0,
    )


def test_equals_numpy_on_soft_evidence_of_any_scale(hmm):
    rng = np.random.default_rng(1)
    evidence = rng.random((6, 9, 4)) * 10.0 ** rng.integers(-30, 30, (6, 9, 1))
    evidence[0, 3, :2] = 0
    tensor, law = torch.from_numpy(evidence), exact.as_law(hmm)
    for name in ("masked_conditionals", "initial_posterior"):
        ours = getattr(exact, name)(law, evidence=tensor)
        theirs = getattr(reference, name)(hmm, evidence=evidence)
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-10, rtol=0)


def test_more_batch_axes_and_no_positions(hmm):
    law = exact.as_law(hmm)
    symbols = torch.randint(5, (2, 3, 7), generator=torch.Generator().manual_seed(0))
    whole = exact.masked_conditionals(law, symbols)
    assert whole.shape == (2, 3, 7, 5)
    torch.testing.assert_close(whole[1], exact.masked_conditionals(law, symbols[1]))
    assert exact.masked_conditionals(law, torch.empty(3, 0, dtype=torch.long)).shape == (3, 0, 5)
    torch.testing.assert_close(whole, exact.masked_conditionals(law, symbols.to(torch.uint8)))
    posterior = exact.initial_posterior(law, torch.empty(3, 0, dtype=torch.long))
    torch.testing.assert_close(posterior, law.initial.expand(3, -1))


def test_gradients_with_respect_to_evidence(hmm):
    law = exact.as_law(hmm)
    evidence = torch.rand(2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.1
    evidence.requires_grad_()
    assert torch.autograd.gradcheck(lambda e: exact.masked_conditionals(law, evidence=e), evidence)
    assert torch.autograd.gradcheck(lambda e: exact.initial_posterior(law, evidence=e), evidence)


def test_gradients_with_respect_to_the_law(hmm):
    law = [t.requires_grad_() for t in exact.as_law(hmm)]
    symbols = torch.tensor([[0, 3, -1, 2], [4, 4, 1, 0]])
    assert torch.autograd.gradcheck(lambda *t: exact.masked_conditionals(exact.Law(*t), symbols), law)
    assert torch.autograd.gradcheck(
        lambda *t: exact.initial_posterior(exact.Law(*t), symbols), law[:2] + law[2:]
    )


def test_single_precision(hmm):
    law = exact.as_law(hmm, dtype=torch.float32)
    symbols = reference.sample(hmm, 5, 200, np.random.default_rng(3)).symbols
    ours = exact.masked_conditionals(law, torch.from_numpy(symbols))
    assert ours.dtype == torch.float32
    np.testing.assert_allclose(ours.numpy(), reference.masked_conditionals(hmm, symbols), atol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"symbols": torch.tensor([[0, 5]])}, r"symbols\[0, 1\] is 5; symbols are 0..4, or -1"),
        ({"symbols": torch.tensor([[0.5]])}, "give integers"),
        ({"evidence": torch.ones(2, 3, 7)}, r"expected \(..., T, 4\)"),
        ({"evidence": torch.tensor([[[1.0, -1, 1, 1]]])}, "negative or non-finite"),
        ({"evidence": torch.tensor([[[1.0, torch.nan, 1, 1]]])}, "negative or non-finite"),
        ({"evidence": torch.zeros(2, 3, 4)}, "probability zero"),
        ({}, "exactly one of"),
    ],
)
def test_errors(hmm, arguments, message):
    with pytest.raises(ValueError, match=message):
        exact.masked_conditionals(exact.as_law(hmm), **arguments)
