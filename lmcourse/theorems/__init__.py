"""The theorems of the course as things that can be checked: ``names()``, ``get(name)``, ``check(name)``.

Each entry has named hypotheses, a sampler of instances that tries to break it, the two sides of its
conclusion computed by unrelated code, a counter-example for each hypothesis, and false variants that the
check must reject.
"""

from lmcourse.theorems import classification, cross_entropy, heads, softmax_models
from lmcourse.theorems.registry import Instance, Report, Sides, Theorem, run

__all__ = ["Instance", "Report", "Sides", "Theorem", "check", "get", "names", "run"]

_ALL: dict[str, Theorem] = {
    theorem.name: theorem
    for theorem in (
        *cross_entropy.THEOREMS,
        *classification.THEOREMS,
        *softmax_models.THEOREMS,
        *heads.THEOREMS,
    )
}


def names() -> tuple[str, ...]:
    """Names of all registered theorems, in the order of the book."""
    return tuple(_ALL)


def get(name: str) -> Theorem:
    """Return the entry of that name; KeyError, with the names there are, if there is none."""
    if name not in _ALL:
        raise KeyError(f"no theorem named {name!r}; there are {', '.join(_ALL)}")
    return _ALL[name]


def check(name: str, n: int = 200, seed: int = 0) -> Report:
    """Search for a violation of a theorem over ``n`` instances: see `lmcourse.theorems.registry.run`."""
    return run(get(name), n=n, seed=seed)
