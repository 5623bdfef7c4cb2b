"""What a checkable theorem is, and the search that checks it."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Instance = Mapping[str, Any]
"""One case of a theorem: names to numbers, arrays or nested lists."""

INFORMATIVE_RATIO = 0.1
INFORMATIVE_SHARE = 0.1


class Sides(NamedTuple):
    """The two sides of a conclusion on one instance.

    ``left <= right`` for an inequality, ``left = right`` (entry by entry) for an identity; ``tolerance`` is
    what rounding, or the stated accuracy of a solver, can account for.
    """

    left: ArrayLike
    right: ArrayLike
    tolerance: ArrayLike


@dataclass(frozen=True)
class Theorem:
    """A theorem and all that is needed to check it.

    Parameters
    ----------
    name : str
        Its name in the registry.
    label : str
        The label of its statement in the book.
    statement : str
        The conclusion, in one line.
    hypotheses : mapping of str to predicate
        What is assumed, each by name; each takes an instance.
    sample : callable
        Draws an instance that meets all hypotheses, from a random generator.
    sides : callable
        Both sides of the conclusion on an instance, by unrelated code.
    counterexamples : mapping of str to callable
        For each hypothesis an instance that violates it, and only it, on which the conclusion fails.
    perturbations : mapping of str to callable
        False variants of the conclusion, each as another `sides`.
    identity : bool
        Whether the conclusion is an equality.
    vary : callable, optional
        Changes an instance a little, keeping the hypotheses: the search climbs with it.
    quick : callable, optional
        A faster `sides` for the search; what it finds is confirmed with `sides`.
    """

    name: str
    label: str
    statement: str
    hypotheses: Mapping[str, Callable[[Instance], bool]]
    sample: Callable[[np.random.Generator], Instance]
    sides: Callable[[Instance], Sides]
    counterexamples: Mapping[str, Callable[[], Instance]]
    perturbations: Mapping[str, Callable[[Instance], Sides]]
    identity: bool = False
    vary: Callable[[Instance, np.random.Generator], Instance] | None = None
    quick: Callable[[Instance], Sides] | None = field(default=None, repr=False)

    def ratio(self, instance: Instance) -> float:
        """Size of the left side against what is allowed: at most 1 if it holds, ``inf`` if a side is NaN."""
        return self._ratio(self.sides(instance))

    def violated(self, instance: Instance) -> tuple[str, ...]:
        """Names of the hypotheses that the instance does not meet."""
        return tuple(name for name, holds in self.hypotheses.items() if not holds(instance))

    def perturbed(self, name: str) -> "Theorem":
        """Return the false variant of that name, as a theorem of its own."""
        return replace(self, name=f"{self.name} ({name})", sides=self.perturbations[name], quick=None)

    def _ratio(self, sides: Sides) -> float:
        left, right, tolerance = (np.asarray(x, dtype=float) for x in sides)
        if any(np.isnan(x).any() for x in (left, right, tolerance)):
            return math.inf
        if self.identity:
            ratio = float(np.max(np.abs(left - right) / tolerance))
        else:
            allowed = right + tolerance
            if np.any(allowed <= 0):
                return math.inf if np.any(left > allowed) else 0.0
            ratio = float(np.max(left / allowed))
        return math.inf if math.isnan(ratio) else ratio

    def _informative(self, sides: Sides, ratio: float) -> bool:
        if math.isinf(ratio):
            return False
        if self.identity:
            return bool(np.max(np.abs(np.asarray(sides.right)) / np.asarray(sides.tolerance)) > 1e3)
        return ratio > INFORMATIVE_RATIO


class Report(NamedTuple):
    """Outcome of a check.

    ``worst_ratio`` is the largest left side over right side that the search reached, for an identity the
    largest error over its tolerance; ``worst_instance`` is where, as plain lists and numbers.
    ``informative`` is the share of instances that could have told something: ratio above 0.1, for an
    identity a right side above a thousand tolerances. ``passed`` needs a worst ratio that is finite and at
    most 1, and at least a tenth of the instances informative. ``verdict`` says why a check does not pass.
    """

    name: str
    passed: bool
    instances: int
    worst_ratio: float
    worst_instance: dict[str, Any]
    informative: float
    seconds: float

    @property
    def verdict(self) -> str:
        """Say "holds"; "violated", by the worst instance; or "vacuous", if too few instances could tell."""
        if self.passed:
            return "holds"
        return "violated" if self.worst_ratio > 1 else "vacuous"


def run(theorem: Theorem, *, n: int = 200, seed: int = 0) -> Report:
    """Search for an instance that violates a theorem.

    Half of the instances are drawn by its sampler; the rest climb from the worst so far by small changes, if
    the theorem says how. The worst are confirmed with the accurate sides.

    Parameters
    ----------
    theorem : Theorem
        What to check.
    n : int
        Number of instances, at least 1.
    seed : int
        Seed of the search: the same seed gives the same report, but for the time.

    Returns
    -------
    Report

    Raises
    ------
    RuntimeError
        If the sampler breaks a hypothesis: then nothing would be checked.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1; got {n}")
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    sides_of = theorem.quick or theorem.sides
    found: list[tuple[float, Instance]] = []
    informative = 0
    best: tuple[float, Instance] | None = None
    for i in range(n):
        climbing = best is not None and theorem.vary is not None and i >= n / 2
        if climbing and best is not None and theorem.vary is not None:
            instance = theorem.vary(best[1], rng)
            if theorem.violated(instance):
                continue
        else:
            instance = theorem.sample(rng)
            broken = theorem.violated(instance)
            if broken:
                raise RuntimeError(
                    f"the sampler of {theorem.name!r} breaks its hypotheses: {', '.join(broken)}"
                )
        sides = sides_of(instance)
        ratio = theorem._ratio(sides)
        informative += theorem._informative(sides, ratio)
        found.append((ratio, instance))
        if best is None or found[-1][0] > best[0]:
            best = found[-1]
    worst_ratio, worst = _confirm(theorem, found)
    share = informative / len(found)
    return Report(
        name=theorem.name,
        passed=bool(-math.inf < worst_ratio <= 1 and share >= INFORMATIVE_SHARE),
        instances=len(found),
        worst_ratio=worst_ratio,
        worst_instance=as_plain(worst),
        informative=share,
        seconds=time.perf_counter() - start,
    )


def as_plain(instance: Instance) -> dict[str, Any]:
    """Turn an instance into lists and numbers that JSON can hold."""
    return {name: np.asarray(value).tolist() for name, value in instance.items()}


def _confirm(
    theorem: Theorem, found: list[tuple[float, Instance]], limit: int = 25
) -> tuple[float, Instance]:
    """Largest ratio by the accurate sides, among the instances where the quick ones are largest."""
    order = sorted(range(len(found)), key=lambda i: -found[i][0])
    if theorem.quick is None:
        return found[order[0]]
    worst: tuple[float, Instance] = (-math.inf, found[order[0]][1])
    for i in order[:limit]:
        if found[i][0] <= worst[0]:
            break
        instance = found[i][1]
        ratio = theorem.ratio(instance)
        if ratio > worst[0]:
            worst = ratio, instance
    return worst
