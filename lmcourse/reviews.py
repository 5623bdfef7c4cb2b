"""A small invented language of reviews, whose mood can be hidden without touching anything else."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmcourse.language import Language


class ReviewLanguage(NamedTuple):
    """The toy review language: see `review_language`."""

    language: Language
    sentiment: NDArray[np.int64]
    direction: NDArray[np.float64]


SUBJECTS = (
    "The soup",
    "The film",
    "The room",
    "The novel",
    "The guide",
    "The bicycle",
    "The concert",
    "The cake",
)
PLEASED = (
    "had us smiling", "was over too soon", "made my week", "won us all over",
    "was worth the trip", "beat every hope", "kept us cheering", "earned its price",
)  # fmt: skip
DISPLEASED = (
    "had us sighing", "went on for ever", "spoiled my week", "put us all off",
    "was not worth the trip", "fell short of every hope", "kept us yawning", "wasted our money",
)  # fmt: skip
GOOD_WORDS = ("wonderful", "delightful", "superb", "charming", "lovely", "brilliant")
BAD_WORDS = ("dreadful", "tedious", "awful", "clumsy", "bland", "hopeless")
OTHER_WORDS = ("a", "the", "in", "our", "just", "on", "there", "what", "Tuesday", "late", "still", "mine")


def review_language(strength: float = 1.0) -> ReviewLanguage:
    """Build a small invented language of reviews: 128 contexts ending in "It was", 24 next words.

    A context is a subject and a pleased or displeased remark. Its next word comes from a law that depends on
    subject and remark but not on the mood, tilted by ``exp(strength)`` in favour of the good words and
    against the bad ones (or the reverse). So a model tilted back by exactly `strength` along the mood has
    forgotten it and nothing else.

    Parameters
    ----------
    strength : float
        How much the mood shows, in nats of log-probability; 0 hides it.

    Returns
    -------
    ReviewLanguage
        ``language``; ``sentiment``, shape (128,), -1 or +1 for each context; ``direction``, shape (24,),
        which is +1 on good words, -1 on bad ones, 0 on the others.
    """
    n_moods = len(GOOD_WORDS)
    direction = np.concatenate([np.ones(n_moods), -np.ones(n_moods), np.zeros(len(OTHER_WORDS))])
    rank_logits = -np.log(1.0 + np.arange(len(OTHER_WORDS)))
    rows, names, moods = [], [], []
    for i, subject in enumerate(SUBJECTS):
        for remarks, mood in ((PLEASED, 1), (DISPLEASED, -1)):
            for j, remark in enumerate(remarks):
                topical = np.where(np.arange(n_moods) % 3 == i % 3, -0.5, -1.5) + 0.1 * j
                logits = np.concatenate([topical, topical, np.roll(rank_logits, i + j)])
                law = np.exp(logits + strength * mood * direction)
                rows.append(law / law.sum())
                names.append(f"{subject} {remark}. It was")
                moods.append(mood)
    language = Language(
        contexts=np.full(len(rows), 1 / len(rows)),
        truth=np.array(rows),
        words=GOOD_WORDS + BAD_WORDS + OTHER_WORDS,
        context_names=tuple(names),
    )
    return ReviewLanguage(language, np.array(moods), direction)
