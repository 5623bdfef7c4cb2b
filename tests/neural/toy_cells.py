"""A cell that takes a moment, for tests of sweeps; other processes import it."""

import os
import time
from pathlib import Path

import numpy as np

from lmcourse.experiments.sweep import Outcome


def draw(states, seed, log=None, pause=0.0):
    """Numbers that depend on the arguments alone, and a line in a log of what ran where."""
    if log:
        with Path(log).open("a") as file:
            file.write(f"{states} {seed} {os.getpid()}\n")
    time.sleep(pause)
    if seed == 13:
        raise ValueError("thirteen")
    rng = np.random.default_rng([states, seed])
    return Outcome(
        {"mean": float(rng.random(1000).mean()), "last": float(rng.random())}, {"speed": time.time()}
    )
