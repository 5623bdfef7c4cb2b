"""Cells of chapter 13: functions of their arguments, with numbers that hang together."""

import numpy as np
import pytest
import torch

from lmcourse.experiments import chapter13
from lmcourse.experiments.sweep import Record

SMOKE = chapter13.SIZES["smoke"]


def test_a_problem_is_the_same_for_all_methods():
    first, second = (chapter13.problem(4, 1, SMOKE) for _ in range(2))
    np.testing.assert_array_equal(first.test.symbols, second.test.symbols)
    np.testing.assert_array_equal(first.mu, second.mu)
    assert not np.array_equal(first.mu, chapter13.problem(4, 2, SMOKE).mu)
    sizes = [len(part.labels) for part in (first.train, first.validation, first.test)]
    assert sizes == [SMOKE.n_train, SMOKE.n_validation, SMOKE.n_test]
    labels = np.concatenate([part.labels for part in (first.train, first.validation, first.test)])
    assert 0.2 <= labels.mean() <= 0.8
    np.testing.assert_array_equal(first.test.labels, first.test.posteriors @ first.mu >= 0)


def test_exact_cells():
    found = chapter13.cell(4, 0, "exact", "smoke")
    assert found == chapter13.cell(4, 0, "exact", "smoke")
    numbers = found.numbers
    assert numbers["head_formula"] == 1.0
    assert numbers["head"] > 0.98
    assert numbers["prompt"] > 0.98
    assert 0.5 <= numbers["majority"] < numbers["tokens"] < numbers["head"]


def test_network_cells_repeat_and_leave_threads_alone():
    torch.set_num_threads(2)
    found = chapter13.cell(4, 0, "gru", "smoke")
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    again = chapter13.cell(4, 0, "gru", "smoke")
    assert found.numbers == again.numbers
    assert set(found.speed) == {"tokens_per_second", "peak_share"}
    untrained = chapter13.cell(4, 0, "untrained", "smoke").numbers
    assert found.numbers["kl"] < untrained["kl"] / 2
    assert found.numbers["head"] > untrained["head"] + 0.02


def test_bert_has_room_for_prompt_and_text():
    for name, size in chapter13.SIZES.items():
        if name == "gpu":
            continue
        bert = chapter13.build("bert", size, 0)
        assert bert.max_length >= max(size.bert.length, size.length + 1 + max(size.bert_prompt_tokens))
        assert size.gru.length == size.length + 1


def test_unknown_arguments():
    for arguments in (("lstm",), ("gru", "huge"), ("gru", "smoke", "hot")):
        with pytest.raises(ValueError, match="must be one of"):
            chapter13.cell(4, 0, *arguments)


def test_curves():
    def record(states, value, method="gru"):
        cell = {"states": states, "seed": 0, "method": method, "size": "cpu", "setting": "teaching"}
        return Record(cell, {"head": value}, {}, 1.0, "", "", {}, "")

    records = [record(10, 0.5), record(4, 0.8), record(4, 0.9), record(4, 1.0), record(4, 0.0, "bert")]
    found = chapter13.curve(records, "gru", "head")
    np.testing.assert_array_equal(found.states, [4, 10])
    np.testing.assert_allclose(found.mean, [0.9, 0.5])
    # Student's t with two degrees of freedom: 4.3027 standard errors of 0.1 / sqrt(3).
    np.testing.assert_allclose(found.error, [4.30265 * 0.1 / np.sqrt(3), np.inf], rtol=1e-5)
    with pytest.raises(ValueError, match="no cell has 'tail'"):
        chapter13.curve(records, "gru", "tail")
