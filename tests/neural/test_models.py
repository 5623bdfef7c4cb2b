"""Both networks: what a prediction may depend on, what a prompt may move, and what is refused."""

import itertools

import numpy as np
import pytest
import torch

from lmcourse import hmm as reference
from lmcourse.neural.bert import Bert
from lmcourse.neural.exact import as_law
from lmcourse.neural.gru import LeaveOneOutGRU
from lmcourse.neural.model import MaskedModel, mask_log_probabilities, n_parameters, seeded
from lmcourse.neural.text import generator, sample_symbols

MODELS = {
    "gru": lambda: LeaveOneOutGRU(5, width=8),
    "bert": lambda: Bert(5, layers=1, width=8, heads=2, max_length=16),
}


@pytest.fixture(params=MODELS)
def model(request):
    return seeded(0, MODELS[request.param]).eval()


@pytest.fixture
def symbols():
    return torch.randint(5, (6, 7), generator=torch.Generator().manual_seed(0))


def test_shapes_and_protocol(model, symbols):
    assert isinstance(model, MaskedModel)
    assert model.logits(symbols).shape == (6, 7, 5)
    assert model.mask_logits(model.context(symbols)).shape == (6, 5)
    prompt = model.start_prompt(3, generator(0))
    assert prompt.shape == (3, 8)
    assert model.logits(symbols, prompt).shape == (6, 7, 5)
    assert model.mask_logits(model.context(symbols), prompt).shape == (6, 5)
    assert model.training_flops(7) > n_parameters(model)


@pytest.mark.parametrize("position", [0, 3, 6])
def test_a_prediction_sees_every_symbol_but_its_own(model, symbols, position):
    positions = torch.full((6,), position)
    before = model.blank_logits(symbols, positions)
    for changed in range(7):
        other = symbols.clone()
        other[:, changed] = (other[:, changed] + 1) % 5
        same = torch.equal(model.blank_logits(other, positions), before)
        assert same == (changed == position)


def test_blanks_are_what_all_positions_say(symbols):
    gru = seeded(0, MODELS["gru"])
    positions = torch.arange(6)
    torch.testing.assert_close(
        gru.blank_logits(symbols, positions), gru.logits(symbols)[torch.arange(6), positions]
    )
    bert = seeded(0, MODELS["bert"]).eval()
    hidden = symbols.scatter(1, positions[:, None], reference.MASK)
    torch.testing.assert_close(
        bert.blank_logits(symbols, positions), bert.logits(hidden)[torch.arange(6), positions]
    )


def test_the_prepended_mask_is_a_first_position(symbols):
    """`G_0` of a sequence is the prediction at the first position of the longer one."""
    for build in MODELS.values():
        model = seeded(0, build).eval()
        longer = torch.cat([torch.zeros(6, 1, dtype=torch.long), symbols], dim=1)
        expected = model.blank_logits(longer, torch.zeros(6, dtype=torch.long))
        torch.testing.assert_close(model.mask_logits(model.context(symbols)), expected)


def test_a_prompt_that_reads_as_symbols_is_those_symbols(symbols):
    gru = seeded(0, MODELS["gru"])
    prompt = gru.embedding.weight[[2, 4]]
    longer = torch.cat([torch.tensor([[2, 4]]).expand(6, -1), symbols], dim=1)
    torch.testing.assert_close(gru.logits(symbols, prompt), gru.logits(longer)[:, 2:])
    bert = seeded(0, MODELS["bert"]).eval()
    prompt = bert.encoder.embeddings.word_embeddings.weight[[2, 4]]
    torch.testing.assert_close(bert.logits(symbols, prompt), bert.logits(longer)[:, 2:])


def test_the_mask_follows_the_prompt(symbols):
    first = torch.tensor([[2, 4]]).expand(6, -1)
    gru = seeded(0, MODELS["gru"])
    longer = torch.cat([first, torch.zeros(6, 1, dtype=torch.long), symbols], dim=1)
    found = gru.mask_logits(gru.context(symbols), gru.embedding.weight[[2, 4]])
    torch.testing.assert_close(found, gru.logits(longer)[:, 2])
    bert = seeded(0, MODELS["bert"]).eval()
    longer = torch.cat([first, torch.full((6, 1), reference.MASK), symbols], dim=1)
    found = bert.mask_logits(bert.context(symbols), bert.encoder.embeddings.word_embeddings.weight[[2, 4]])
    torch.testing.assert_close(found, bert.logits(longer)[:, 2])


def test_bert_prompts_start_at_the_mask(symbols):
    bert = seeded(0, MODELS["bert"]).eval()
    masks = torch.full((6, 2), reference.MASK)
    expected = bert.logits(torch.cat([masks, symbols], dim=1))[:, 2:]
    torch.testing.assert_close(bert.logits(symbols, bert.start_prompt(2, generator(0))), expected)


def test_the_gru_loss_is_the_mean_of_all_positions(symbols):
    gru = seeded(0, MODELS["gru"])
    log_p = gru.logits(symbols).log_softmax(-1)
    expected = -np.mean(
        [float(log_p[i, t, symbols[i, t]].detach()) for i, t in itertools.product(range(6), range(7))]
    )
    assert float(gru.loss(symbols, generator(0)).detach()) == pytest.approx(expected, rel=1e-6)


def test_the_bert_loss_is_that_of_hidden_positions():
    """With one position hidden in each sequence, the mean over many draws is the mean over positions."""
    bert = seeded(0, MODELS["bert"]).eval()
    symbols = torch.randint(5, (1, 4), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        one_by_one = [
            float(-bert.blank_logits(symbols, torch.tensor([t])).log_softmax(-1)[0, symbols[0, t]])
            for t in range(4)
        ]
        drawn = {round(float(bert.loss(symbols, generator(0, k))), 5) for k in range(60)}
    assert drawn == {round(value, 5) for value in one_by_one}


def test_seeded_leaves_the_global_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = (seeded(3, MODELS["gru"]).embedding.weight for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.rand(1), expected)


def test_chunks_do_not_matter(model, symbols):
    torch.testing.assert_close(
        mask_log_probabilities(model, symbols, chunk=4), mask_log_probabilities(model, symbols)
    )


def test_text_follows_the_law(hmm):
    """Frequencies of the first symbol, of the last, and of a pair, within five standard errors."""
    n, length = 40_000, 5
    symbols = sample_symbols(as_law(hmm), n, length, generator(0)).numpy()
    state = hmm.initial
    for t in range(length):
        expected = state @ hmm.emission
        found = np.bincount(symbols[:, t], minlength=5) / n
        assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected / n) + 1e-9)
        state = state @ hmm.transition
    pairs = np.einsum("h,hx,hk,ky->xy", hmm.initial, hmm.emission, hmm.transition, hmm.emission).ravel()
    found = np.bincount(symbols[:, 0] * 5 + symbols[:, 1], minlength=25) / n
    assert np.all(np.abs(found - pairs) < 5 * np.sqrt(pairs / n) + 1e-9)


def test_text_never_shows_what_has_probability_zero():
    law = as_law(reference.HMM([0.0, 1.0], [[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]))
    symbols = sample_symbols(law, 50, 4, generator(1))
    assert torch.equal(symbols, torch.tensor([0, 1, 0, 1]).expand(50, -1))


def test_streams_of_a_seed_differ():
    draws = [float(torch.rand(1, generator=generator(*stream))) for stream in ((0,), (0, 0), (0, 1), (1, 0))]
    assert len(set(draws)) == 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.zeros(3, dtype=torch.long), r"expected \(N, T\)"),
        (torch.zeros(3, 0, dtype=torch.long), "both at least 1"),
        (torch.zeros(0, 3, dtype=torch.long), "both at least 1"),
        (torch.zeros(3, 2), "give integers"),
        (torch.tensor([[0, 7]]), r"symbols\[0, 1\] is 7"),
    ],
)
def test_wrong_symbols(model, wrong, message):
    for call in (model.logits, model.context):
        with pytest.raises(ValueError, match=message):
            call(wrong)


def test_wrong_types_and_positions(model, symbols):
    for dtype in (torch.bool, torch.uint8, torch.int16):
        with pytest.raises(ValueError, match=r"give integers .* as int64"):
            model.logits((symbols > 2).to(dtype))
    for wrong in (torch.zeros(5, dtype=torch.long), torch.zeros(6), torch.zeros(6, 1, dtype=torch.long)):
        with pytest.raises(ValueError, match="a position for each sequence"):
            model.blank_logits(symbols, wrong)
    for position in (-1, 7):
        with pytest.raises(ValueError, match=rf"positions\[0\] is {position}; positions are 0..6"):
            model.blank_logits(symbols, torch.full((6,), position))


def test_wrong_prompts_and_sizes(model, symbols):
    for wrong in (torch.zeros(8), torch.zeros(2, 9), torch.zeros(0, 8)):
        with pytest.raises(ValueError, match=r"expected \(P, 8\)"):
            model.mask_logits(model.context(symbols), wrong)
    bert = seeded(0, MODELS["bert"])
    with pytest.raises(ValueError, match="max_length is 16"):
        bert.mask_logits(bert.context(symbols), torch.zeros(9, 8))
    with pytest.raises(ValueError, match="knows no mask"):
        seeded(0, MODELS["gru"]).logits(torch.full((1, 2), reference.MASK))
    with pytest.raises(ValueError, match="multiple of heads"):
        Bert(5, width=10, heads=4)
    with pytest.raises(ValueError, match="mask_probability is 0"):
        Bert(5, mask_probability=0)
    with pytest.raises(ValueError, match="at least 1"):
        LeaveOneOutGRU(0)
