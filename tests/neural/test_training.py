"""The training loop: it learns, it is deterministic, it resumes, and it says what is wrong."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from lmcourse import hmm as reference
from lmcourse.neural import checkpoints, training
from lmcourse.neural.bert import Bert
from lmcourse.neural.checkpoints import CheckpointError
from lmcourse.neural.gru import LeaveOneOutGRU
from lmcourse.neural.model import seeded
from lmcourse.neural.together import losses
from lmcourse.neural.training import Recipe, TrainingError, train

ROOT = Path(__file__).parents[2]

RECIPE = Recipe(
    steps=12, batch=8, length=6, learning_rate=1e-2, warmup=2, evaluate_every=4, evaluation_sequences=60
)


def gru(seed=0):
    return seeded(seed, lambda: LeaveOneOutGRU(5, width=8))


def bert(seed=0):
    return seeded(seed, lambda: Bert(5, layers=1, width=8, heads=2, max_length=8))


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


class Oracle(LeaveOneOutGRU):
    """Predicts what exact inference does."""

    def __init__(self, hmm):
        super().__init__(hmm.n_symbols, width=2)
        self.hmm = hmm

    def logits(self, symbols, prompt=None):
        return torch.from_numpy(reference.masked_conditionals(self.hmm, symbols.numpy())).log()

    def mask_logits(self, context, prompt=None):
        return (
            torch.from_numpy(reference.initial_posterior(self.hmm, context.numpy())) @ self.emission
        ).log()

    def context(self, symbols):
        return symbols

    @property
    def emission(self):
        return torch.from_numpy(self.hmm.emission.copy())


def test_the_exact_model_has_divergence_zero(hmm):
    """And its loss is the entropy, up to sampling; a uniform guess is log 5 minus the entropy away."""
    found = training.evaluate(Oracle(hmm), hmm, n_sequences=2000, length=7, seed=0)
    assert abs(found.kl) < 1e-12
    assert abs(found.mask_kl) < 1e-12
    assert found.loss == pytest.approx(found.entropy, abs=0.06)
    blind = gru()
    for p in blind.output[-1].parameters():
        torch.nn.init.zeros_(p)
    uniform = training.evaluate(blind, hmm, n_sequences=2000, length=7, seed=0)
    assert uniform.entropy == found.entropy
    assert uniform.kl == pytest.approx(np.log(5) - found.entropy, abs=1e-6)
    assert uniform.loss == pytest.approx(np.log(5), abs=1e-6)
    assert 0 < uniform.kl_error < 0.1


def test_the_interval_covers(hmm):
    """Of 60 intervals about the divergence of one model, about 95 % hold its value on much more text."""
    model = gru()
    truth = training.evaluate(model, hmm, n_sequences=30_000, length=6, seed=999).kl
    found = [training.evaluate(model, hmm, n_sequences=200, length=6, seed=s) for s in range(60)]
    assert sum(abs(e.kl - truth) <= e.kl_error for e in found) >= 52  # below with probability 0.003


def test_learns(hmm):
    recipe = Recipe(
        steps=150, batch=64, length=8, learning_rate=2e-2, evaluate_every=75, evaluation_sequences=300
    )
    result = train(seeded(0, lambda: LeaveOneOutGRU(5, width=16)), hmm, recipe, seed=0)
    before, _, after = result.history
    assert after.kl < before.kl / 4
    assert after.mask_kl < before.mask_kl / 2
    assert result.tokens_per_second > 0
    assert result.peak_share > 0


@pytest.mark.parametrize("build", [gru, bert])
def test_same_seed_same_numbers(hmm, build):
    runs = []
    for seed in (0, 0, 1):
        model = build()
        runs.append((train(model, hmm, RECIPE, seed=seed).history, weights(model)))
    assert runs[0][0] == runs[1][0]
    assert torch.equal(runs[0][1], runs[1][1])
    assert not torch.equal(runs[0][1], runs[2][1])


def test_options_for_gpus_change_nothing_elsewhere(hmm):
    plain, other = gru(), gru()
    train(plain, hmm, RECIPE, seed=0)
    train(other, hmm, Recipe(**{**RECIPE.__dict__, "bf16": True, "compile": True}), seed=0)
    assert torch.equal(weights(plain), weights(other))


@pytest.mark.parametrize("build", [gru, bert])
def test_interrupted_and_resumed_is_uninterrupted(hmm, build, tmp_path):
    whole = build()
    expected = train(whole, hmm, RECIPE, seed=3)

    def interrupt(evaluation):
        if evaluation.step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(build(), hmm, RECIPE, seed=3, folder=tmp_path, watch=interrupt)
    resumed = build(seed=7)  # other weights: those of the checkpoint count
    steps = []
    found = train(resumed, hmm, RECIPE, seed=3, folder=tmp_path, watch=lambda e: steps.append(e.step))
    assert steps == [12]
    assert found.history == expected.history
    assert torch.equal(weights(resumed), weights(whole))
    again = build()
    assert train(again, hmm, RECIPE, seed=3, folder=tmp_path).history == expected.history
    assert torch.equal(weights(again), weights(whole))
    assert {p.name for p in tmp_path.iterdir()} - {checkpoints.LOCK} == {"state.json", "step-12.safetensors"}
    loaded = build(seed=9)
    assert checkpoints.load_weights(loaded, tmp_path) == 12
    assert torch.equal(weights(loaded), weights(whole))


def test_together_is_as_alone(hmm, tmp_path):
    """Three seeds of BERT as one batch, in float64: the same weights, evaluations and checkpoints."""
    seeds, others = (0, 1, 2), [hmm, hmm, reference.HMM(hmm.initial, hmm.transition, hmm.emission[::-1])]
    alone = [bert(seed).double() for seed in seeds]
    for model, law, seed in zip(alone, others, seeds, strict=True):
        train(model, law, RECIPE, seed=seed)
    folders = [tmp_path / str(seed) for seed in seeds]
    started = bert(2).double()  # the last one is ahead: the others catch up
    with pytest.raises(KeyboardInterrupt):
        train(started, others[2], RECIPE, seed=2, folder=folders[2], watch=interrupt_at(4))
    models = [bert(seed).double() for seed in seeds]
    with pytest.raises(KeyboardInterrupt):
        training.train_together(models, others, RECIPE, seeds=seeds, folders=folders, watch=interrupt_at(8))
    models = [bert(9).double() for _ in seeds]
    found = training.train_together(models, others, RECIPE, seeds=seeds, folders=folders)
    for one, other, result in zip(alone, models, found, strict=True):
        torch.testing.assert_close(weights(one), weights(other), rtol=0, atol=1e-9)
        assert [e.step for e in result.history] == [0, 4, 8, 12]
        assert result.tokens_per_second > 0
    assert not torch.allclose(weights(models[0]), weights(models[1]), atol=1e-3)
    by_hand = bert(5).double()
    assert train(by_hand, hmm, RECIPE, seed=0, folder=folders[0]).history == found[0].history


def interrupt_at(step):
    def interrupt(evaluation):
        if evaluation.step == step:
            raise KeyboardInterrupt

    return interrupt


def test_together_each_stops_at_its_own_plateau(hmm):
    recipe = Recipe(**{**RECIPE.__dict__, "patience": 1, "steps": 400, "learning_rate": 1e-2})
    alone = [train(bert(seed).double(), hmm, recipe, seed=seed).history[-1].step for seed in (0, 1, 2)]
    models = [bert(seed).double() for seed in (0, 1, 2)]
    found = training.train_together(models, [hmm] * 3, recipe, seeds=[0, 1, 2])
    assert [result.history[-1].step for result in found] == alone
    assert len(set(alone)) > 1


def test_what_cannot_be_trained_together(hmm):
    with pytest.raises(TypeError, match="only models with hide"):
        training.train_together([gru(), gru()], [hmm, hmm], RECIPE, seeds=[0, 1])
    wide = Bert(5, layers=1, width=16, heads=2, max_length=8)
    with pytest.raises(ValueError, match="differ in size"):
        training.train_together([bert(), wide], [hmm, hmm], RECIPE, seeds=[0, 1])
    text = torch.zeros(2, 3, 6, dtype=torch.long)
    with pytest.raises(ValueError, match="1 models, 2 batches of symbols"):
        losses([bert()], text, text[:, :, :1])


def test_a_folder_is_one_process_s(hmm, tmp_path):
    code = (
        "import sys, pathlib; from lmcourse.neural.checkpoints import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print('has it', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}
    ) as other:
        assert other.stdout.readline() == b"has it\n"
        with pytest.raises(CheckpointError, match="another process is training in"):
            train(gru(), hmm, RECIPE, seed=0, folder=tmp_path)
        other.kill()
    (tmp_path / ".step-4-left.safetensors").write_bytes(b"half")
    train(gru(), hmm, RECIPE, seed=0, folder=tmp_path)
    assert {p.name for p in tmp_path.iterdir()} - {checkpoints.LOCK} == {"state.json", "step-12.safetensors"}


def test_a_plateau_stops(hmm):
    still = Recipe(**{**RECIPE.__dict__, "learning_rate": 1e-12, "patience": 2, "steps": 400})
    found = train(gru(), hmm, still, seed=0)
    assert found.stopped_early
    assert [e.step for e in found.history] == [0, 4, 8]
    assert not train(gru(), hmm, RECIPE, seed=0).stopped_early


def test_schedule():
    recipe = Recipe(steps=10, batch=1, length=1, learning_rate=2.0, warmup=2)
    rates = [recipe.rate(k) for k in range(10)]
    assert rates[:3] == [1.0, 2.0, 2.0]
    assert rates[6] == pytest.approx(1.0)
    assert all(a > b for a, b in itertools.pairwise(rates[2:]))


def test_silent_when_nobody_watches(hmm, capfd):
    train(gru(), hmm, RECIPE, seed=0)
    assert capfd.readouterr() == ("", "")


def test_a_loss_that_is_not_finite(hmm, tmp_path):
    class Breaks(LeaveOneOutGRU):
        def loss(self, symbols, generator):
            self.calls = getattr(self, "calls", 0) + 1
            return super().loss(symbols, generator) * (float("nan") if self.calls == 6 else 1)

    with pytest.raises(TrainingError, match="the loss became nan between steps 4 and 8: lower learning_rate"):
        train(Breaks(5, width=8), hmm, RECIPE, seed=0, folder=tmp_path)
    assert checkpoints.load_weights(gru(), tmp_path) == 4
    diverged = gru()
    torch.nn.init.constant_(diverged.output[-1].bias, torch.nan)
    with pytest.raises(TrainingError, match="not finite after 0 steps"):
        train(diverged, hmm, RECIPE, seed=0)


def test_text_of_other_symbols(hmm):
    with pytest.raises(ValueError, match="the model has 6 symbols and the text has 5"):
        train(LeaveOneOutGRU(6, width=8), hmm, RECIPE, seed=0)


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 0},
        {"batch": 0},
        {"learning_rate": 0.0},
        {"learning_rate": np.nan},
        {"warmup": -1},
        {"patience": 0},
    ],
)
def test_impossible_recipes(change):
    with pytest.raises(ValueError, match="must be"):
        Recipe(**{"steps": 1, "batch": 1, "length": 1, **change})


def test_checkpoints_that_cannot_be_used(hmm, tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint is in"):
        checkpoints.load_weights(gru(), tmp_path)
    train(gru(), hmm, RECIPE, seed=0, folder=tmp_path)
    with pytest.raises(CheckpointError, match="of another run: its seed is 0, not 1"):
        train(gru(), hmm, RECIPE, seed=1, folder=tmp_path)
    other = reference.random_hmm(
        4, 5, transition_temperature=1, emission_temperature=1, rng=np.random.default_rng(5)
    )
    with pytest.raises(CheckpointError, match="of another run: its text"):
        train(gru(), other, RECIPE, seed=0, folder=tmp_path)
    with pytest.raises(CheckpointError, match=r"of another model.*size mismatch"):
        checkpoints.load_weights(LeaveOneOutGRU(5, width=9), tmp_path)
    state, tensors = tmp_path / "state.json", tmp_path / "step-12.safetensors"
    whole = json.loads(state.read_text())
    for history in (None, [[0, 1]], 7):
        record = {**whole["record"], "history": history}
        state.write_text(json.dumps(whole | {"record": record}))
        with pytest.raises(CheckpointError, match="is damaged"):
            train(gru(), hmm, RECIPE, seed=0, folder=tmp_path)
    state.write_text(json.dumps(whole))
    data = tensors.read_bytes()
    tensors.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="its hash differs"):
        train(gru(), hmm, RECIPE, seed=0, folder=tmp_path)
    tensors.unlink()
    with pytest.raises(CheckpointError, match="is missing, though"):
        checkpoints.load_weights(gru(), tmp_path)
    state.write_text(state.read_text()[:-30])
    with pytest.raises(CheckpointError, match="is damaged"):
        train(gru(), hmm, RECIPE, seed=0, folder=tmp_path)


def test_a_checkpoint_is_whole_or_the_one_before(hmm, tmp_path, monkeypatch):
    """Killed between the two files, the checkpoint before is intact."""
    train(gru(), hmm, Recipe(**{**RECIPE.__dict__, "steps": 4}), seed=0, folder=tmp_path)
    before = json.loads((tmp_path / "state.json").read_text())
    write = checkpoints.write_atomically

    def killed(path, writer):
        if path.name == "state.json":
            raise KeyboardInterrupt
        write(path, writer)

    monkeypatch.setattr(checkpoints, "write_atomically", killed)
    model = gru()
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save_checkpoint(tmp_path, 8, model, torch.optim.Adam(model.parameters()), {})
    assert checkpoints.load_weights(gru(), tmp_path) == before["step"] == 4
