"""Text without end: fresh sequences of a hidden Markov model for every training step, drawn on the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lmcourse.neural.exact import Law


def generator(seed: int, *stream: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Start the random generator of one of the independent streams of a seed."""
    state = int(np.random.SeedSequence(seed, spawn_key=stream).generate_state(1)[0])
    return torch.Generator(device).manual_seed(state)


def sample_symbols(law: Law, n_sequences: int, length: int, generator: torch.Generator) -> Tensor:
    """Draw sequences of symbols.

    Parameters
    ----------
    law : Law
        The law, on the device of the generator.
    n_sequences, length : int
        N and T.
    generator : torch.Generator
        Source of randomness.

    Returns
    -------
    Tensor of int64, shape (N, T)

    Notes
    -----
    By inversion: the outcome is the number of partial sums that a uniform number exceeds.
    """
    shape, device = (n_sequences, length, 1), law.initial.device
    move, show = torch.rand(2, *shape, generator=generator, device=device, dtype=torch.float64)
    first, step, emit = (table.double().cumsum(-1)[..., :-1].contiguous() for table in law)
    state = (move[:, 0] > first).sum(-1)
    states = [state]
    for t in range(1, length):
        state = (move[:, t] > step[state]).sum(-1)
        states.append(state)
    symbols: Tensor = (show > emit[torch.stack(states, dim=1)]).sum(-1)
    return symbols
