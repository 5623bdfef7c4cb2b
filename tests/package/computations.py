"""Computations for the tests of stored results."""

import numpy as np


def squares(seed, n):
    """Return a few numbers and an array, different at every seed."""
    array = np.random.default_rng(seed).normal(size=n)
    return {"total": float(array.sum()), "names": ["a", "b"], "squares": array**2}


def not_finite(seed):
    return {"value": float("nan")}


def objects(seed):
    return {"array": np.array([{}], dtype=object)}


def odd_names(seed, n=0):
    return {"file": np.arange(2), "allow_pickle": np.arange(3)}


class Kept:
    @staticmethod
    def method(seed):
        return {}


def gathered(seed):
    """A computation that was done elsewhere, in an hour."""
    return {"answer": seed, "seconds": 3600.0}
