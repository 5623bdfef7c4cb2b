"""The sweep of chapter 13 as one result: nothing runs twice or is stale, seeds are compared in pairs."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from lmcourse import results
from lmcourse.closure import import_closure
from lmcourse.experiments import chapter13, chapter13_sweep
from lmcourse.experiments.sweep import Record, SweepError

ARGUMENTS = {"seeds_at": [[4, 2]], "methods": ["exact"], "bert_seeds_at": [], "setting": "teaching"}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setenv("LMCOURSE_PROFILE", "smoke")


def test_it_gathers_finished_cells_and_refuses_stale_ones(tmp_path, monkeypatch):
    found = chapter13_sweep.collect(seed=3, folder=tmp_path, **ARGUMENTS)
    assert [cell["cell"]["seed"] for cell in found["cells"]] == [3, 4]
    assert found["seconds"] == sum(cell["seconds"] for cell in found["cells"]) > 0
    with monkeypatch.context() as patch:
        patch.setattr(chapter13, "ceilings", lambda *_: pytest.fail("computed again"))
        assert chapter13_sweep.collect(seed=3, folder=tmp_path, **ARGUMENTS) == found
    path = next((tmp_path / "chapter13-smoke").glob("*.json"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"closure": "other"}))
    with pytest.raises(SweepError, match="1 of 2 cells were computed by earlier code"):
        chapter13_sweep.collect(seed=3, folder=tmp_path, **ARGUMENTS)


def test_its_code_reaches_neither_figures_nor_the_command_line():
    reached = set(import_closure("import lmcourse.experiments.chapter13_sweep"))
    assert not reached & {
        f"lmcourse.{name}" for name in ("figures", "cli", "published", "results", "theorems")
    }


def test_the_stored_one_is_fresh_and_complete():
    result = results.load(chapter13_sweep.NAME, of_profile="cpu")
    assert result.fresh, result.stale
    p = result.provenance
    assert (p.inputs, p.seed) == (chapter13_sweep.INPUTS, chapter13_sweep.SEED)
    records = chapter13_sweep.cells_of(result.values)
    n_main = sum(n for _, n in p.inputs["seeds_at"]) * len(p.inputs["methods"])
    assert len(records) == n_main + sum(n for _, n in p.inputs["bert_seeds_at"])
    assert p.seconds == pytest.approx(sum(record.seconds for record in records))


def record(states, seed, method, **numbers):
    cell = {"states": states, "seed": seed, "method": method, "size": "cpu", "setting": "teaching"}
    return Record(cell, numbers, {}, 1.0, "", "", {}, "")


def test_differences_are_within_seeds():
    # Between seeds the accuracies differ by far more than the two methods do.
    records = [record(4, k, "exact", head=0.1 * k) for k in range(3)]
    records += [record(4, k, "gru", head=0.1 * k - 0.02) for k in range(3)]
    records += [record(10, 0, "gru", head=0.5)]
    found = chapter13_sweep.difference(records, ("exact", "head"), ("gru", "head"))
    np.testing.assert_array_equal(found.states, [4])
    np.testing.assert_allclose(found.mean, [0.02])
    np.testing.assert_allclose(found.error, [0], atol=1e-12)
    with pytest.raises(ValueError, match="no language has both"):
        chapter13_sweep.difference(records, ("exact", "head"), ("gru", "tail"))


def test_cells_come_back_as_records():
    kept = ("cell", "numbers", "speed", "seconds")
    cell = {key: value for key, value in asdict(record(4, 0, "gru", head=0.5)).items() if key in kept}
    [back] = chapter13_sweep.cells_of({"cells": [cell], "devices": ["one"]})
    assert (back.numbers, back.device) == ({"head": 0.5}, "one")
