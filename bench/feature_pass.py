"""One way to compute features of real reviews, alone in its process; prints seconds and memory as JSON.

    python bench/feature_pass.py ours|recipe N DTYPE

``recipe`` is what the code of Saunshi, Malladi and Arora (2021) does, written anew: texts as they come, 25
at a time, padded to the longest of the 25 (at most 512 tokens), once without and once with the prompt; then
the laws of all texts in one array, and dense products.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from lmcourse import data
from lmcourse.neural import causal, features
from lmcourse.texts import labelled_texts

PROMPT = " This movie is"
BATCH, LONGEST = 25, 512


def ours(model, texts):
    with tempfile.TemporaryDirectory() as folder:
        found = features.text_features(model, texts, PROMPT, folder=Path(folder))
    return [(p.hidden, p.mean_embedding, p.projection) for p in (found.plain, found.prompted)]


def recipe(model, texts):
    # The projection's matrix is given: the authors also orthogonalise it, which would cost them more.
    slices = range(0, model.vocabulary_size, features.SLICE)
    projection = np.concatenate([features._gaussian(0, s, features.SLICE, model.width) for s in slices])
    prompted = [text + PROMPT for text in texts]
    return [one_run(model, some, projection) for some in (texts, prompted)]


def one_run(model, texts, projection):
    sequences = [model.tokens(text)[:LONGEST] for text in texts]
    hidden = []
    for start in range(0, len(sequences), BATCH):
        batch = sequences[start : start + BATCH]
        length = torch.tensor([len(tokens) for tokens in batch])
        padded = torch.zeros(len(batch), int(length.max()), dtype=torch.long)
        for row, tokens in zip(padded, batch, strict=True):
            row[: len(tokens)] = torch.tensor(tokens)
        mask = torch.arange(padded.shape[1]) < length[:, None]
        with torch.no_grad():
            states = model.network.base_model(input_ids=padded, attention_mask=mask.long()).last_hidden_state
        hidden.append(states[torch.arange(len(batch)), length - 1].float().numpy())
    f, phi = np.concatenate(hidden), model.embeddings.float().numpy()
    law = f @ phi.T
    law -= law.max(axis=1, keepdims=True)
    np.exp(law, out=law)
    law /= law.sum(axis=1, keepdims=True)
    return f, law @ phi, law @ projection


def memory(line):
    for row in Path("/proc/self/status").read_text().splitlines():
        if row.startswith(line):
            return int(row.split()[1]) / 1024
    raise RuntimeError(line)


def main():
    way, n, dtype = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    for name in ("smollm2", "reviews"):
        data.fetch(name)
    model = causal.load_model(dtype=dtype)
    texts = labelled_texts("movie").texts[:n]
    run = {"ours": ours, "recipe": recipe}[way]
    run(model, texts[:2])  # every weight has been touched, every library loaded
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, start = memory("VmRSS"), time.process_time()
    found = run(model, texts)
    seconds, peak = time.process_time() - start, memory("VmHWM")
    checks = [[float(np.abs(array[:8]).sum()) for array in place] for place in found]
    print(json.dumps({"seconds": seconds, "megabytes": peak - before, "checks": checks}))


if __name__ == "__main__":
    main()
