"""What others have published, to set beside our own numbers: each with its source, none from memory."""

from __future__ import annotations

from typing import NamedTuple


class PublishedCurves(NamedTuple):
    """Curves of a published figure.

    Attributes
    ----------
    source : str
        Where the numbers were read.
    precision : str
        How exactly they could be read.
    states : tuple of int
        Numbers of hidden states.
    accuracy : dict of str to tuple of float
        Test accuracy by method, in per cent.
    band : dict of str to tuple of float
        Half-width of the shaded band, in percentage points; empty if there is none.
    seeds : int
        Runs behind each point.
    """

    source: str
    precision: str
    states: tuple[int, ...]
    accuracy: dict[str, tuple[float, ...]]
    band: dict[str, tuple[float, ...]]
    seeds: int


_SOURCE = (
    "read off the figures that Wei, Xie and Ma (2021) publish with the code of their paper, arXiv 2106.09226"
)

# 10 symbols; prompts of 20 tokens.
PROMPT_AND_HEAD = PublishedCurves(
    source=_SOURCE,
    precision="to about one point, the band to about two",
    states=(4, 8, 10, 15, 25, 30),
    accuracy={"prompt": (99.7, 97, 93, 87, 75, 75), "head": (94, 84, 80, 75, 66, 66)},
    band={"prompt": (0.5, 3, 5, 7, 8, 7), "head": (6, 6, 5, 5, 5, 4)},
    seeds=20,
)

# 10 symbols; 4 states for each of 2, 3, 5, 7 values of the memory. A second published version of this figure
# has 83, 81, 64, 66 for the model without memory: the spread from seed to seed is that large.
MEMORY_AND_VANILLA = PublishedCurves(
    source=_SOURCE,
    precision="to about one point",
    states=(8, 12, 20, 28),
    accuracy={"memory": (100, 100, 100, 99), "vanilla": (92, 65, 73, 73)},
    band={},
    seeds=5,
)

PROTOCOL = {
    "pretraining": "BERT-base, masks with probability 0.05, 5000 sequences of 10240 tokens in chunks of 512, "
    "batches of 8, 3 epochs, learning rate 1e-5, 1000 steps of warm-up",
    "downstream": "5000 sequences to train, 500 to validate, 1000 to test; 100 epochs, batches of 128, "
    "learning rate 0.01, 500 steps of warm-up; a linear head on the predicted law at a mask put before the "
    "text; prompts of 20 trained embeddings before it",
}
