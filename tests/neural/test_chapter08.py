"""Chapter 8: its protocol, its fits against cases with a known answer, and its stored results."""

import numpy as np
import pytest
import tiny_words

from lmcourse import data, results
from lmcourse.closure import import_closure
from lmcourse.experiments import chapter08, chapter08_ladder, chapter08_table
from lmcourse.neural import causal, features
from lmcourse.texts import FIVE, LabelledTexts


@pytest.fixture
def model():
    return causal.random_tiny_model(0, tiny_words.tokenizer())


@pytest.fixture
def graded(monkeypatch):
    """Invented reviews; every third has the grade 0."""
    texts = tuple(f"The film was {'good' if i % 3 == 1 else 'bad'} {'very ' * i}" for i in range(60))
    scores = tuple((0.0, 2.5, -1.0)[i % 3] for i in range(60))
    labels = tuple((2, 4, 1)[i % 3] for i in range(60))
    made = LabelledTexts("movie", texts, labels, FIVE, scores, "invented", "none")
    monkeypatch.setattr(chapter08, "labelled_texts", lambda name: made)
    return made


def test_a_pool_has_the_labels_of_its_texts(graded):
    two, five = (chapter08.pool(name, 30, seed=1) for name in ("movie", "grades"))
    assert two.texts == five.texts
    for text, label, grade in zip(two.texts, two.labels, five.labels, strict=True):
        score = graded.scores[graded.texts.index(text)]
        assert label == {0.0: -1, 2.5: 1, -1.0: 0}[score]
        assert grade == graded.labels[graded.texts.index(text)]
    assert chapter08.pool("movie", 30, seed=2).texts != two.texts
    with pytest.raises(ValueError, match="61 texts of 'movie' were asked for, and there are 60"):
        chapter08.pool("movie", 61, seed=1)
    with pytest.raises(ValueError, match="there is no task 'films'"):
        chapter08.pool("films", 10, seed=1)


def test_every_labelled_text_is_tested_once():
    labels = np.array([0, 1, -1] * 11)
    parts = chapter08.splits(labels, seed=0)
    tested = np.concatenate([part.test for part in parts])
    assert sorted(tested) == list(np.flatnonzero(labels >= 0))
    for part in parts:
        assert not set(part.train) & set(part.test)
        assert sorted([*part.train, *part.test]) == sorted(tested)


def test_classifiers_learn_from_the_training_part_only():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    x = labels[:, None] * 2.0 + 0.1 * rng.standard_normal((200, 3))
    texts = [("good" if label else "bad") + " film" for label in labels]
    split = chapter08.splits(labels, seed=0)[0]
    lies = labels.copy()
    lies[split.test] = 1 - labels[split.test]
    for given, classify in ((x, chapter08.classify), (texts, chapter08.classify_by_words)):
        predicted = classify(given, labels, split)
        np.testing.assert_array_equal(predicted, labels[split.test])
        np.testing.assert_array_equal(classify(given, lies, split), predicted)


def test_the_interval_knows_of_the_splits():
    # By hand: t(4, .975) = 2.776, s = .1 sqrt(2.5), and s^2 is taken 1/5 + 1/4 times.
    mean, error = chapter08.interval([0.1, 0.2, 0.3, 0.4, 0.5])
    assert mean == pytest.approx(0.3)
    assert error == pytest.approx(2.7764 * 0.1 * np.sqrt(2.5) * np.sqrt(0.45), rel=1e-4)
    with pytest.raises(ValueError, match="at least two"):
        chapter08.interval([0.1])


def known_features(rng, n=400, d=6):
    """Features whose log-partition is a quadratic and whose mean embedding is its gradient."""
    f = rng.standard_normal((n, d))
    curvature = rng.standard_normal((d, d))
    curvature = curvature @ curvature.T / d + np.eye(d)
    log_z = 0.5 * np.einsum("ni,ij,nj->n", f, curvature, f)
    return features.Features(f, f @ curvature, np.zeros((n, 1)), log_z)


def test_an_exact_quadratic_is_found(model):
    rng = np.random.default_rng(0)
    found = known_features(rng, d=model.width)
    labels = (found.hidden[:, 0] > 0).astype(int)
    drawn = chapter08.Pool(("",) * len(labels), labels, ("no", "yes"))
    scores = chapter08_table.log_partition(model, found, drawn, seed=0)
    assert all(len(values) == 10 for values in scores.values())
    assert min(scores["mean_from_hidden"]) > 0.99
    assert min(scores["hidden_from_mean"]) > 0.99
    assert max(scores["linear"]) < 0.5  # the mean embedding of the model is not quite zero
    np.testing.assert_allclose(scores["own"], scores["moved"], atol=0.03)


def test_products_of_features_are_needed_and_enough(model):
    rng = np.random.default_rng(1)
    f = rng.standard_normal((900, 4))
    y = (f[:, 0] * f[:, 1] + f[:, 2] ** 2)[:, None]
    split = chapter08.splits(np.zeros(900, int), seed=0)[0]
    i, j = np.triu_indices(4)
    assert chapter08_table.affine(f, y, split)[1] < 0.2
    assert chapter08_table.affine(np.hstack([f, f[:, i] * f[:, j]]), y, split)[1] > 0.99
    # No R^2 from fitting noise: it is measured on texts that the fit has not seen.
    assert chapter08_table.affine(rng.standard_normal((900, 600)), y, split)[1] < 0.05


def test_a_head_is_the_same_for_features_as_they_are():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4)) * [1, 10, 0.1, 1] + 5
    labels = (x[:, 1] - 5 + rng.standard_normal(300) > 0).astype(int)
    weight, bias = chapter08_table.head(x, labels)
    model = chapter08.regression(4).fit(x, labels)
    np.testing.assert_array_equal((x @ weight + bias > 0).astype(int), model.predict(x))


def test_rungs_of_the_ladder(model, graded, monkeypatch, tmp_path):
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path))
    monkeypatch.setattr(causal, "load_model", lambda: model)
    monkeypatch.setitem(
        chapter08.TASKS, "movie", chapter08.Task("movie", True, " This movie is", (" good", " bad"), ())
    )
    found = chapter08_ladder.ladder(seed=0, noises=[0.0, 0.5], n_seeds=2, size=40, n_for_loss=10)
    noises = [(rung["noise"], rung["seed"]) for rung in found["rungs"]]
    assert noises == [(0.0, 1), (0.5, 1), (0.5, 2)]
    losses = [rung["cross_entropy"] for rung in found["rungs"]]
    assert len(set(losses)) == 3
    assert losses[0] == features.cross_entropy(model, chapter08.pool("movie", 40, 0).texts[:10])
    assert all(0 <= rung[name] <= 1 for rung in found["rungs"] for name in ("hidden", "task_logits"))


@pytest.mark.parametrize("module", [chapter08_table, chapter08_ladder], ids=lambda module: module.NAME)
def test_stored_results_are_fresh(module):
    result = results.load(module.NAME, of_profile="cpu")
    assert result.fresh, result.stale
    assert (result.provenance.inputs, result.provenance.seed) == (module.INPUTS, module.SEED)
    reached = set(import_closure(f"import {module.__name__}"))
    assert not reached & {f"lmcourse.{name}" for name in ("figures", "cli", "results", "theorems", "hmm")}


@pytest.mark.slow
def test_words_are_single_tokens():
    if data.problems("smollm2"):
        pytest.skip("the model has not been fetched")
    model = causal.random_tiny_model(0)
    for task in chapter08.TASKS.values():
        causal.word_ids(model, task.words)
        causal.word_ids(model, task.class_words)
        assert not task.prompt.endswith(" ")
    for chosen in chapter08_table.WORD_LISTS.values():
        causal.word_ids(model, chosen)
    assert len(chapter08.usual_words(model)) > 10_000
