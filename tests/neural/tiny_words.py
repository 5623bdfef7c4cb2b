"""A tokenizer of whole words, for tests that have no data."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

WORDS = (
    "The", "the", "film", "soup", "hour", "guide", "was", "is", "and", "very", "not", "but", "it",
    "that", "a", "went", "by", "slowly", "bored", "us", "all", "This", "movie", "good", "bad", "lovely",
    "awful", "we", "saw", "ate", "two", "three", "times", "again", "never",
)  # fmt: skip


def tokenizer():
    """Tokens are words, with the space before them if there is one, and other single signs."""
    tokens = ["[UNK]", *WORDS, *(f" {word}" for word in WORDS), *".,!?"]
    made = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?\w+|[^\w\s]"), behavior="isolated")
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")


def texts(n, rng):
    """Invented nonsense of 1 to 12 words."""
    return [" ".join(rng.choice(WORDS, size=rng.integers(1, 13))) for _ in range(n)]
