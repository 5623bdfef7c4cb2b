"""Hidden tests of the tiny assignment that the grader's own tests grade."""

import math

import numpy as np

from lmcourse_grader.hidden import Case, Question, close


def vectors(rng):
    return [
        Case("a vector", {"x": rng.normal(size=5)}, "Every entry is doubled."),
        Case("an empty vector", {"x": np.zeros(0)}, "An empty array is an array too."),
    ]


def doubled(case, answer):
    if not isinstance(answer, np.ndarray):
        return f"the answer is of type {type(answer).__name__}, not an array"
    return close(answer, [x + x for x in case.arguments["x"]])


def laws(rng):
    return [
        Case("a law without zeros", {"p": rng.dirichlet(np.ones(4))}, "Sum over the symbols.", weight=2),
        Case("a point mass", {"p": np.array([0.0, 1.0])}, "0 log 0 is 0."),
    ]


def entropies(case, answer):
    return close(answer, -sum(p * math.log(p) for p in case.arguments["p"] if p > 0), atol=1e-12)


QUESTIONS = {
    "double": Question(vectors, doubled, expects="an array of the shape of x"),
    "entropy": Question(laws, entropies, expects="a number"),
}
