"""Features in one streaming pass are those of the plain computation, text by text."""

import math

import numpy as np
import pytest
import tiny_words
import torch

from lmcourse import data
from lmcourse.neural import causal, features
from lmcourse.texts import labelled_texts

PROMPT = " This movie is"
TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def tiny():
    return causal.random_tiny_model(0, tiny_words.tokenizer())


@pytest.fixture
def texts():
    return tiny_words.texts(60, np.random.default_rng(0))


def plain_computation(model, text, projection):
    """One text, one pass, the whole law, dense products, in float64 after the network."""
    with torch.no_grad():
        output = model.network(torch.tensor([model.tokens(text)]), output_hidden_states=True)
    hidden = output.hidden_states[-1][0, -1].double()
    logits = output.logits[0, -1].double()
    law = logits.softmax(0)
    mean = (law[:, None] * model.embeddings.double()).sum(0)
    return hidden, mean, law @ projection, logits.logsumexp(0), law


def dense_projection(model, k, seed):
    sizes = {
        s: min(features.SLICE, model.vocabulary_size - s)
        for s in range(0, model.vocabulary_size, features.SLICE)
    }
    return torch.from_numpy(
        np.concatenate([features._gaussian(seed, s, n, k) for s, n in sizes.items()])
    ).double()


def assert_plain(model, found, texts, k, seed, words):
    """Each feature to 1e-4, relative to its largest entry."""
    projection = dense_projection(model, k, seed)
    expected = [plain_computation(model, text, projection) for text in texts]
    for index, values in enumerate(found):
        wanted = np.array([np.asarray(row[index]) for row in expected])
        np.testing.assert_allclose(values, wanted, rtol=0, atol=TOLERANCE * np.abs(wanted).max())
        assert values.dtype == np.float32
    ids = causal.word_ids(model, words)
    law = np.array([np.asarray(row[4])[ids] for row in expected])
    np.testing.assert_allclose(features.word_probabilities(model, found, words), law, atol=TOLERANCE)
    logits = features.word_logits(model, found, words)
    np.testing.assert_allclose(logits - found.log_partition[:, None], np.log(law), atol=1e-3)


@pytest.mark.parametrize(("block", "tokens", "size"), [(512, 2048, 4096), (7, 20, 10), (1, 1, 1)])
def test_equal_to_the_plain_computation(tiny, texts, tmp_path, monkeypatch, block, tokens, size):
    for name, value in (("BLOCK", block), ("TOKENS", tokens), ("SLICE", size)):
        monkeypatch.setattr(features, name, value)
    found = features.text_features(tiny, texts, PROMPT, n_projection=5, seed=1, folder=tmp_path)
    words = [" good", " bad", " lovely"]
    assert_plain(tiny, found.plain, texts, 5, 1, words)
    assert_plain(tiny, found.prompted, [text + PROMPT for text in texts], 5, 1, words)


def test_without_a_prompt(tiny, texts, tmp_path):
    found = features.text_features(tiny, texts, folder=tmp_path)
    assert found.prompted is None
    assert_plain(tiny, found.plain, texts, tiny.width, 0, [" good"])


def test_long_texts_are_cut(tiny, tmp_path):
    text = "The film was very very very very lovely"
    cut = features.text_features(tiny, [text], max_tokens=3, folder=tmp_path)
    short = features.text_features(tiny, ["The film was"], folder=tmp_path)
    np.testing.assert_allclose(cut.plain.hidden, short.plain.hidden, atol=1e-6)


def test_the_projection_keeps_lengths(tiny):
    """Its entries have variance 1/k: the squared length of a unit vector is one on average."""
    r = features._gaussian(0, 0, 2000, 50)
    assert (r**2).sum(axis=1).mean() == pytest.approx(1, abs=4 * math.sqrt(2 / 50 / 2000))
    assert not np.allclose(r, features._gaussian(1, 0, 2000, 50))
    assert not np.allclose(r, features._gaussian(0, 2000, 2000, 50))


def test_large_logits_do_not_overflow(tiny):
    rows = 1000 * torch.randn(4, tiny.width, generator=torch.Generator().manual_seed(0))
    mean, _, log_partition = features._head(rows, tiny.embeddings, 3, 0)
    logits = rows.double() @ tiny.embeddings.double().T
    torch.testing.assert_close(log_partition.double(), logits.logsumexp(1), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(mean.double(), logits.softmax(1) @ tiny.embeddings.double(), rtol=0, atol=1e-3)


def test_interrupted_and_resumed(tiny, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(features, "BLOCK", 10)
    whole = features.text_features(tiny, texts, PROMPT, folder=tmp_path / "whole")
    block, computed = features._block, []

    def dies(*arguments):
        if len(computed) == 3:
            raise KeyboardInterrupt
        computed.append(1)
        return block(*arguments)

    monkeypatch.setattr(features, "_block", dies)
    with pytest.raises(KeyboardInterrupt):
        features.text_features(tiny, texts, PROMPT, folder=tmp_path / "parts")
    kept = sorted((tmp_path / "parts").rglob("*"))
    assert len([path for path in kept if path.suffix == ".npz"]) == 3
    assert not [path for path in kept if path.name.startswith(".")]
    again = []
    monkeypatch.setattr(features, "_block", lambda *a: again.append(1) or block(*a))
    resumed = features.text_features(tiny, texts, PROMPT, folder=tmp_path / "parts")
    assert len(again) == 3
    for place in ("plain", "prompted"):
        for a, b in zip(getattr(whole, place), getattr(resumed, place), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_damaged_block_is_computed_again(tiny, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(features, "BLOCK", 30)
    first = features.text_features(tiny, texts, folder=tmp_path)
    [path] = tmp_path.rglob("30.npz")
    path.write_bytes(path.read_bytes()[:500])
    again = features.text_features(tiny, texts, folder=tmp_path)
    np.testing.assert_array_equal(first.plain.hidden, again.plain.hidden)
    assert path.stat().st_size > 500


@pytest.mark.parametrize(
    "damage", ["a feature is missing", "fewer rows", "fewer columns", "other numbers", "no zip"]
)
def test_a_block_of_another_shape_is_computed_again(tiny, texts, tmp_path, damage):
    first = features.text_features(tiny, texts, PROMPT, folder=tmp_path)
    [path] = tmp_path.rglob("0.npz")
    block = dict(np.load(path))
    if damage == "a feature is missing":
        del block["prompted/projection"]
    elif damage == "fewer rows":
        block = {name: array[:-1] if array.ndim else array for name, array in block.items()}
    elif damage == "fewer columns":
        block = {name: array[:, :-1] if array.ndim == 2 else array for name, array in block.items()}
    elif damage == "other numbers":
        block = {name: array.astype(float) for name, array in block.items()}
    if damage == "no zip":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    else:
        np.savez(path, **block)
    again = features.text_features(tiny, texts, PROMPT, folder=tmp_path)
    for a, b in zip((*first.plain, *first.prompted), (*again.plain, *again.prompted), strict=True):
        np.testing.assert_array_equal(a, b)
        assert b.dtype == np.float32


def test_features_that_cannot_be_kept(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot keep features in .*LMCOURSE_CACHE"):
        features.text_features(tiny, ["The film"], folder=tmp_path / "file")


def test_cached_until_something_changes(tiny, texts, tmp_path, monkeypatch):
    calls = []
    block = features._block
    monkeypatch.setattr(features, "_block", lambda *a: calls.append(1) or block(*a))
    base = {"model": tiny, "texts": texts, "prompt": PROMPT, "seed": 0, "folder": tmp_path}
    first = features.text_features(**base)
    second = features.text_features(**base)
    assert len(calls) == 1
    assert first.provenance == second.provenance
    changes = [
        {"prompt": None},
        {"prompt": " The soup is"},
        {"texts": texts[::-1]},
        {"seed": 1},
        {"n_projection": 3},
        {"max_tokens": 4},
        {"model": causal.random_tiny_model(1, tiny.tokenizer)},
        {"model": causal.noisy_copy(tiny, 0.1, 0)},
    ]
    for n, change in enumerate(changes, start=2):
        features.text_features(**base | change)
        assert len(calls) == n, change
    monkeypatch.setattr(features, "closure_hash", lambda _: "other code")
    features.text_features(**base)
    assert len(calls) == len(changes) + 2


def test_provenance(tiny, texts, tmp_path, monkeypatch):
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path))
    found = features.text_features(tiny, texts, PROMPT)
    assert found.note.startswith("60 texts read by tiny-0 in float32 on ")
    assert found.provenance.inputs["prompt"] == PROMPT
    assert "torch" in found.provenance.versions
    [home] = (tmp_path / "features").iterdir()
    assert {path.name for path in home.iterdir()} == {"0.npz", "provenance.json"}


@pytest.mark.parametrize(
    ("texts", "prompt", "match"),
    [
        ([], None, "no texts"),
        (["The film", ""], None, r"texts\[1\]"),
        (["The film"], "", "prompt is empty"),
        ("The film", None, "'The film'; give a list of texts"),
        (["The film", 3], None, "3 is no text"),
        (["The film", None], None, "None is no text"),
        (["The film"], 3, "3 is no text"),
        (["The \ud800 film"], None, "no valid Unicode"),
    ],
)
def test_nothing_to_read(tiny, tmp_path, texts, prompt, match):
    with pytest.raises(ValueError, match=match):
        features.text_features(tiny, texts, prompt, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_whole_numbers_of_any_kind_and_no_others(tiny, tmp_path):
    whole = {"n_projection": np.int64(3), "seed": np.int32(1), "max_tokens": np.int64(4)}
    found = features.text_features(tiny, ["The film"], folder=tmp_path, **whole)
    same = features.text_features(tiny, ["The film"], n_projection=3, seed=1, max_tokens=4, folder=tmp_path)
    assert found.provenance == same.provenance
    for name in whole:
        with pytest.raises(TypeError, match="integer"):
            features.text_features(tiny, ["The film"], folder=tmp_path, **{name: 2.5})
    with pytest.raises(ValueError, match="seed at least 0"):
        features.text_features(tiny, ["The film"], folder=tmp_path, seed=-1)


def test_a_word_that_is_not_one_token(tiny, texts, tmp_path):
    found = features.text_features(tiny, texts, folder=tmp_path)
    with pytest.raises(ValueError, match="is not one token"):
        features.word_logits(tiny, found.plain, [" very good"])


def test_cross_entropy(tiny, texts):
    total, count = 0.0, 0
    for text in texts:
        tokens = torch.tensor(tiny.tokens(text))
        with torch.no_grad():
            logs = tiny.network(tokens[None]).logits[0].double().log_softmax(-1)
        total -= float(logs[:-1].gather(1, tokens[1:, None]).sum())
        count += len(tokens) - 1
    assert features.cross_entropy(tiny, texts) == pytest.approx(total / count, rel=1e-5)
    with pytest.raises(ValueError, match="second token"):
        features.cross_entropy(tiny, ["The"])
    with pytest.raises(ValueError, match="give a list of texts"):
        features.cross_entropy(tiny, "The film")


@pytest.mark.slow
def test_equal_on_the_real_model(tmp_path):
    """Real reviews, SmolLM2 in float32; and text and prompt cut apart or together are the same tokens."""
    if data.problems("smollm2") or data.problems("reviews"):
        pytest.skip("lmcourse data fetch smollm2 reviews first")
    model = causal.load_model(dtype="float32")
    texts = labelled_texts("movie").texts
    together = [model.tokens(text + PROMPT) for text in texts[:1000]]
    assert together == [model.tokens(text) + model.tokens(PROMPT) for text in texts[:1000]]
    some = texts[:16]
    found = features.text_features(model, some, PROMPT, folder=tmp_path)
    words = [" good", " bad", " great", " dull"]
    assert_plain(model, found.plain, some, model.width, 0, words)
    assert_plain(model, found.prompted, [text + PROMPT for text in some], model.width, 0, words)
