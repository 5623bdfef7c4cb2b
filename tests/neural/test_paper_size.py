"""The experiment at the paper's sizes, in small: it stores, resumes, trains nothing twice, and cleans up."""

import json

import pytest
from typer.testing import CliRunner

from lmcourse import results
from lmcourse.cli import app
from lmcourse.experiments import chapter13, chapter13_sweep, paper_size
from lmcourse.neural import training

COMMAND = ["sweep", "paper-size", "--states", "4", "--seeds", "2"]


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("LMCOURSE_PROFILE", "smoke")
    monkeypatch.setenv("LMCOURSE_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LMCOURSE_STRICT", raising=False)


@pytest.mark.parametrize("together", ["1", "2"])
def test_it_stores_what_ran_where_and_goes_on_after_an_interruption(tmp_path, monkeypatch, together):
    command = [*COMMAND, "--together", together]
    folders = tmp_path / "cache" / "checkpoints"
    with monkeypatch.context() as patch:
        patch.setattr(chapter13, "adapt", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert CliRunner().invoke(app, command).exit_code != 0
    trained = sorted(path.name for path in folders.iterdir())
    assert trained == [f"4_{seed}_bert_smoke_paper" for seed in range(int(together))]
    with monkeypatch.context() as patch:
        # Those that are trained already are not trained again.
        advance = training._advance
        patch.setattr(
            training, "_advance", lambda group, *rest: (steps.append(len(group)), advance(group, *rest))
        )
        steps = []
        done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert steps == ([1] if together == "1" else [])
    for seed in (0, 1):
        assert f"4 states, seed {seed}, bert: head " in done.output
    assert done.output.count("% of the device's peak") == 2
    assert "stored as chapter13-sweep.smoke.json" in done.output
    assert not list(folders.iterdir())
    result = results.load(chapter13_sweep.NAME)
    assert result.fresh
    records = chapter13_sweep.cells_of(result.values)
    assert [(r.cell["method"], r.cell["seed"]) for r in records] == [
        (method, seed) for method in ("exact", "bert") for seed in (0, 1)
    ]
    assert (
        result.values["devices"] == [json.loads(path.read_text())["device"] for path in _cells(tmp_path)][:1]
    )
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0
    assert "tokens a second" not in again.output


def _cells(folder):
    return sorted((folder / "results" / "sweeps" / "chapter13-smoke").glob("*.json"))


def test_seeds_trained_together_give_the_same_cells(tmp_path):
    found = []
    for together in (1, 2):
        found.append(
            paper_size.run([4], 2, together=together, checkpoints=tmp_path, say=lambda _: None).values
        )
        for path in _cells(tmp_path):
            path.unlink()
        (tmp_path / "results" / "chapter13-sweep.smoke.json").unlink()
    for one, other in zip(*(values["cells"] for values in found), strict=True):
        assert one["cell"] == other["cell"]
        assert one["numbers"] == pytest.approx(other["numbers"], abs=0.02)


@pytest.mark.parametrize(
    ("profile", "strict", "message"),
    [
        ("gpu", "", "need a GPU, and torch sees none"),
        ("cpu", "", "set LMCOURSE_PROFILE to gpu"),
        ("smoke", "1", "a strict run stores no results"),
    ],
)
def test_where_it_refuses(monkeypatch, profile, strict, message):
    monkeypatch.setattr(paper_size, "gpu_name", lambda: None)
    monkeypatch.setenv("LMCOURSE_PROFILE", profile)
    monkeypatch.setenv("LMCOURSE_STRICT", strict)
    with pytest.raises(RuntimeError, match=message):
        paper_size.run([4], 1)


def test_impossible_arguments():
    for states, seeds, together in (([], 1, 1), ([0], 1, 1), ([4], 0, 1), ([4], 1, 0)):
        with pytest.raises(ValueError, match="must be at least 1"):
            paper_size.run(states, seeds, together=together)
    with pytest.raises(ValueError, match="setting is 'hot'"):
        paper_size.run([4], 1, setting="hot")


def test_the_plan_counts_the_paper_s_training(monkeypatch):
    monkeypatch.setattr(paper_size, "peak_flops", lambda *_, **__: 1e15)
    recipe = chapter13.SIZES["gpu"].bert
    line = paper_size._plan("gpu")
    assert f"{recipe.steps * recipe.batch * recipe.length:,} tokens" in line
    # Six operations a token for each of 85 million parameters, and a little for attention.
    operations = float(line.split(" tokens, ")[1].split()[0])
    expected = 6 * 85e6 * recipe.steps * recipe.batch * recipe.length
    assert expected < operations < 1.1 * expected
