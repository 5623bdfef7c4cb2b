"""Causal models: found where they should be, offline; one-token words; copies."""

import json
import os
import time

import numpy as np
import pytest
import tiny_words
import torch

from lmcourse import data
from lmcourse.neural import causal


@pytest.fixture(scope="module")
def tiny():
    return causal.random_tiny_model(0, tiny_words.tokenizer())


@pytest.fixture
def folder(tiny, tmp_path):
    tiny.network.save_pretrained(tmp_path / "model")
    tiny.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder(tiny, folder):
    model = causal.load_model(folder, dtype="float32")
    assert (model.width, model.vocabulary_size) == (32, len(tiny.tokenizer))
    tokens = torch.tensor([tiny.tokens("The film was not very good")])
    torch.testing.assert_close(model.hidden(tokens), tiny.hidden(tokens))
    assert causal.load_model(folder).dtype == torch.bfloat16
    assert causal.load_model(folder).fingerprint == model.fingerprint
    assert causal.load_tokenizer(folder).encode("The film") == tiny.tokens("The film")


def test_gpt2(tiny, tmp_path):
    """The class of the paper's model, which reaches its hidden states by another path."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=len(tiny.tokenizer), n_embd=8, n_layer=2, n_head=2, n_positions=64)
    GPT2LMHeadModel(config).save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    model = causal.load_model(tmp_path, dtype="float32")
    tokens = torch.tensor([model.tokens("The film was not very good")])
    assert (model.width, model.vocabulary_size) == (8, len(tiny.tokenizer))
    with torch.no_grad():
        torch.testing.assert_close(model.hidden(tokens) @ model.embeddings.T, model.network(tokens).logits)


def test_the_fingerprint_knows_the_weights(tiny, folder):
    before = causal.load_model(folder).fingerprint
    causal.random_tiny_model(1, tiny.tokenizer).network.save_pretrained(folder)
    assert causal.load_model(folder).fingerprint != before


def test_hidden_states_give_the_logits_and_do_not_see_what_follows(tiny):
    tokens = torch.tensor([tiny.tokens("The soup was lovely but it was not")])
    hidden = tiny.hidden(tokens)
    torch.testing.assert_close(hidden @ tiny.embeddings.T, tiny.network(tokens).logits)
    torch.testing.assert_close(tiny.hidden(tokens[:, :4]), hidden[:, :4])


def test_a_damaged_folder(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(causal.ModelError, match="cannot read") as caught:
        causal.load_model(folder)
    assert "\n" not in str(caught.value)


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_weights_that_are_not_there_are_not_made_up(folder):
    from safetensors.torch import save_file

    kept = {name: weight for name, weight in weights(folder).items() if "layers.1.mlp.up" not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(causal.ModelError, match=r"lacks weights.*layers.1.mlp.up.*would be random"):
        causal.load_model(folder)


def test_weights_of_another_shape(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 8}))
    with pytest.raises(causal.ModelError, match=r"lacks weights of that shape.*mlp") as caught:
        causal.load_model(folder)
    assert "\n" not in str(caught.value)


def test_pickled_weights_are_not_opened(folder, monkeypatch):
    torch.save(weights(folder), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    monkeypatch.setattr(torch, "load", None)  # would fail
    with pytest.raises(causal.ModelError, match=r"no .safetensors file.*may run code"):
        causal.load_model(folder)


@pytest.mark.parametrize(
    ("file", "entry"),
    [
        ("config.json", {"model_type": "own", "auto_map": {"AutoConfig": "own.C"}}),
        ("tokenizer_config.json", {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["own.T", None]}}),
    ],
)
def test_code_in_a_folder_is_not_run_and_nobody_is_asked(folder, monkeypatch, file, entry):
    (folder / file).write_text(json.dumps(json.loads((folder / file).read_text()) | entry))
    (folder / "own.py").write_text("raise SystemExit('it ran')")
    asked = []
    monkeypatch.setattr("builtins.input", asked.append)
    with pytest.raises(causal.ModelError, match="custom code"):
        causal.load_model(folder)
    assert asked == []


def test_a_tokenizer_with_more_tokens_than_the_model(tiny, folder):
    larger = tiny_words.tokenizer()
    larger.add_tokens([" zebra"])
    larger.save_pretrained(folder)
    with pytest.raises(causal.ModelError, match="do not belong together"):
        causal.load_model(folder)


def converter(monkeypatch, tmp_path, convert):
    """A GGUF file that is none, and something in place of what converts it."""
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "some.gguf").write_bytes(b"GGUF")
    return lambda: causal._converted(tmp_path / "some.gguf", "weights", convert)


def test_a_full_disk_is_no_fault_of_the_file(monkeypatch, tmp_path):
    def full(_, folder):
        (folder / "half").write_text("half")
        raise RuntimeError(f"Error while serializing: I/O error: {os.strerror(28)} (os error 28)")

    with pytest.raises(causal.ModelError, match=r"some.gguf.*disk of .* is full.*LMCOURSE_CACHE") as caught:
        converter(monkeypatch, tmp_path, full)()
    assert "delete" not in str(caught.value)
    assert not list((tmp_path / "cache" / "models").glob("*/*"))


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    convert = converter(monkeypatch, tmp_path, lambda *_: None)
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(causal.ModelError, match=r"cannot keep .*Set LMCOURSE_CACHE"):
        convert()


def test_what_a_killed_conversion_left_is_removed(monkeypatch, tmp_path):
    convert = converter(monkeypatch, tmp_path, lambda _, folder: (folder / "whole").write_text(""))
    target = convert()
    target.rename(target.with_name(".weights-killed"))
    assert convert() == target
    assert [path.name for path in target.parent.iterdir()] == ["weights"]


def test_two_conversions_at_once_are_one(monkeypatch, tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    calls = []

    def slow(_, folder):
        calls.append(folder)
        time.sleep(0.3)
        (folder / "whole").write_text("")

    convert = converter(monkeypatch, tmp_path, slow)
    with ThreadPoolExecutor() as pool:
        first, second = pool.submit(convert), pool.submit(convert)
        assert first.result() == second.result()
    assert len(calls) == 1


def test_logits_that_are_not_products(folder):
    """A model that scales its logits has other features than the theory speaks of."""
    from transformers import GraniteConfig, GraniteForCausalLM

    sizes = {
        key: json.loads((folder / "config.json").read_text())[key] for key in ("vocab_size", "hidden_size")
    }
    config = GraniteConfig(
        **sizes, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, logits_scaling=8.0
    )
    GraniteForCausalLM(config).save_pretrained(folder)
    with pytest.raises(causal.ModelError, match="scales or caps"):
        causal.load_model(folder, dtype="float32")


@pytest.mark.parametrize(
    ("source", "match"),
    [
        ("an-unknown-name", "turn the network on: online=True, or LMCOURSE_ONLINE=1"),
        ("missing.gguf", "no folder or file"),
        ("/no/such/folder", "no folder or file"),
    ],
)
def test_offline_unless_asked(source, match, monkeypatch, tmp_path):
    monkeypatch.delenv("LMCOURSE_ONLINE", raising=False)
    asked = []
    monkeypatch.setattr("socket.socket.connect", lambda *a: asked.append(a))
    with pytest.raises(causal.ModelError, match=match):
        causal.load_model(source)
    assert asked == []


@pytest.mark.parametrize("switch", ["argument", "variable"])
def test_online_when_asked(switch, monkeypatch, folder):
    calls = []

    def hub(name, **options):
        calls.append((name, options["local_files_only"]))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", hub)
    monkeypatch.setenv("LMCOURSE_ONLINE", "1" if switch == "variable" else "0")
    model = causal.load_model("someone/some-model", online=True if switch == "argument" else None)
    assert calls == [("someone/some-model", False)]
    assert model.name == "someone/some-model"


def test_what_the_hub_refuses(monkeypatch):
    def refuse(*_, **__):
        raise OSError("no such repository\nand a long explanation")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(causal.ModelError, match=r"the hub does not give 'x': no such repository$"):
        causal.load_model("x", online=True)


def test_the_pinned_model_must_be_fetched(monkeypatch, tmp_path):
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path))
    with pytest.raises(data.DataError, match="run lmcourse data fetch smollm2"):
        causal.load_model()
    (tmp_path / "other.txt").write_text("")
    with pytest.raises(causal.ModelError, match="neither a folder nor"):
        causal.load_model(tmp_path / "other.txt")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and then nothing")
    with pytest.raises(causal.ModelError, match="cannot read"):
        causal.load_model(tmp_path / "broken.gguf")
    assert not list((tmp_path / "models").glob("*/*"))


def test_unknown_dtype(folder):
    with pytest.raises(ValueError, match="bfloat16, float32"):
        causal.load_model(folder, dtype="float16")


def test_word_ids(tiny):
    ids = causal.word_ids(tiny, [" good", " bad"])
    assert [tiny.tokenizer.decode([i]) for i in ids] == [" good", " bad"]
    with pytest.raises(ValueError, match=r"' very good' is not one token but 2: \[' very', ' good'\]"):
        causal.word_ids(tiny, [" good", " very good"])
    with pytest.raises(ValueError, match="' good' is there twice"):
        causal.word_ids(tiny, [" good", " good"])
    with pytest.raises(ValueError, match="give a list of words"):
        causal.word_ids(tiny, " good")


def test_next_words(tiny):
    found = causal.next_words(tiny, "The film was", 5)
    logits = tiny.network(torch.tensor([tiny.tokens("The film was")])).logits[0, -1]
    law = logits.softmax(0)
    assert [word for word, _ in found] == [
        tiny.tokenizer.decode([i]) for i in logits.argsort(descending=True)[:5]
    ]
    np.testing.assert_allclose([p for _, p in found], law.sort(descending=True).values[:5], rtol=1e-5)
    with pytest.raises(ValueError, match="empty"):
        causal.next_words(tiny, "")
    for n in (0, 10**6):
        with pytest.raises(ValueError, match="from 1 to"):
            causal.next_words(tiny, "The film was", n)
    with pytest.raises(ValueError, match="3 is no text"):
        causal.next_words(tiny, 3)


def test_copies_leave_the_model_alone(tiny):
    before = {name: weight.clone() for name, weight in tiny.network.named_parameters()}
    noisy, untrained = causal.noisy_copy(tiny, 0.1, seed=3), causal.untrained_copy(tiny, seed=3)
    for name, weight in tiny.network.named_parameters():
        assert torch.equal(weight, before[name])
        if weight.ndim == 2:
            change = dict(noisy.network.named_parameters())[name] - weight
            assert float(change.std() / weight.std()) == pytest.approx(0.1, rel=0.15)
            assert not torch.equal(dict(untrained.network.named_parameters())[name], weight)
    assert torch.equal(causal.noisy_copy(tiny, 0.0, seed=3).embeddings, tiny.embeddings)
    again = causal.noisy_copy(tiny, 0.1, seed=3)
    assert torch.equal(again.embeddings, noisy.embeddings)
    copies = [tiny, noisy, untrained, causal.noisy_copy(tiny, 0.1, 4), causal.untrained_copy(tiny, 4)]
    assert len({copy.fingerprint for copy in copies}) == 5
    assert again.fingerprint == noisy.fingerprint
    with pytest.raises(ValueError, match="noise"):
        causal.noisy_copy(tiny, -1.0, 0)


@pytest.mark.slow
def test_the_pinned_model():
    """The real one: what it was converted to is what transformers makes of the GGUF file itself."""
    if data.problems("smollm2"):
        pytest.skip("lmcourse data fetch smollm2 first")
    from transformers import AutoModelForCausalLM, GgufConfig

    model = causal.load_model(dtype="float32")
    assert (model.width, model.vocabulary_size, len(model.tokenizer)) == (576, 49152, 49152)
    [word] = [word for word, _ in causal.next_words(model, "The capital of France is", 1)]
    assert word == " Paris"
    path = data.path("smollm2", causal.PINNED["smollm2"])
    plain = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    tokens = torch.tensor([model.tokens("A film about a bicycle, and about us.")])
    with torch.no_grad():
        torch.testing.assert_close(model.network(tokens).logits, plain(tokens).logits)
    assert os.path.getsize(path) == 98_362_432
