"""Hidden Markov models: the law, sampling, and exact inference for batches of sequences.

`model` holds the law and its random draws, `evidence` what is seen, `inference` the questions one can ask.
The answers come from `scaled` (fast) and, where that is not safe, from `logspace` (exact at any size).
"""

from lmcourse.hmm.evidence import MASK
from lmcourse.hmm.inference import (
    ImpossibleSequenceError,
    filter_states,
    initial_posterior,
    log_likelihood,
    masked_conditionals,
    smooth_states,
)
from lmcourse.hmm.model import HMM, Sample, random_hmm, sample

__all__ = [
    "HMM",
    "MASK",
    "ImpossibleSequenceError",
    "Sample",
    "filter_states",
    "initial_posterior",
    "log_likelihood",
    "masked_conditionals",
    "random_hmm",
    "sample",
    "smooth_states",
]
