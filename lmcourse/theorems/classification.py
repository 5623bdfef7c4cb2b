"""From cross-entropy to classification: the five bounds on the loss of the best classifier.

The left side is the loss of the best classifier in the box on the model's laws (for ``half-range``, of the
comparator itself), less ``tau``; the right side is the formula in `lmcourse.bounds`, less ``tau``. So the
ratio says how much of the price that a theorem names is really paid.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lmcourse import bounds, language, tasks
from lmcourse.theorems import instances
from lmcourse.theorems.instances import array
from lmcourse.theorems.registry import Instance, Sides, Theorem

Predicate = Callable[[Instance], bool]

# Stated numbers may miss the actual ones by rounding; the two sides by rounding and the solver's accuracy.
ROUNDING = 1e-13
ACCURACY = 1e-11


def _at_least(stated: float, actual: float) -> bool:
    return bool(stated >= actual * (1 - 1e-9) - ROUNDING)


def _covered(i: Instance) -> bool:
    p_task = array(i, "law").sum(axis=1)
    return bool(i["gamma"] > 0) and _at_least(tasks.coverage(i["contexts"], p_task), i["gamma"])


def _natural(i: Instance) -> bool:
    return _at_least(i["tau"], tasks.task_loss(i["truth"], tasks.Task(array(i, "law")), i["v"]))


def _bounded(i: Instance) -> bool:
    return _at_least(i["bound"], float(np.abs(array(i, "v")).max()))


def _half_range(i: Instance) -> bool:
    return _at_least(i["half_range"], bounds.half_range(i["v"]))


def _normalised(i: Instance) -> bool:
    return bool(np.allclose(array(i, "model").sum(axis=1), 1, rtol=0, atol=1e-8))


def _optimal(i: Instance) -> bool:
    if not _normalised(i):
        p, q, weights = array(i, "truth"), array(i, "model"), array(i, "contexts")
        return _at_least(i["eps"], float(weights @ (p * np.log(p / q)).sum(axis=1)))
    lang = language.Language(array(i, "contexts"), array(i, "truth"))
    return _at_least(i["eps"], language.excess(lang, i["model"]))


def _second_moment(i: Instance) -> bool:
    task = tasks.Task(array(i, "law"))
    return _at_least(i["second_moment"], tasks.second_moment(i["truth"], i["model"], task, i["v"]))


# Left sides.


def _best(i: Instance) -> float:
    """Least loss of a classifier in the box, by the certified convex program, less its gap."""
    found = tasks.best_loss(i["model"], tasks.Task(array(i, "law")), bound=i["bound"])
    return found.loss - found.gap


def _quick_best(i: Instance) -> float:
    return instances.descend(array(i, "model"), array(i, "law"), i["bound"], array(i, "v"))[0]


def _fixed(i: Instance) -> float:
    """Loss of the comparator itself on the model's laws, summed context by context."""
    total = 0.0
    for (minus, plus), row in zip(array(i, "law"), array(i, "model"), strict=True):
        score = sum(a * b for a, b in zip(row, array(i, "v"), strict=True))
        total += (
            minus * max(score, 0) + plus * max(-score, 0) + (minus + plus) * np.log1p(np.exp(-abs(score)))
        )
    return float(total)


def _sides(
    left: Callable[[Instance], float], right: Callable[[Instance], ArrayLike]
) -> Callable[[Instance], Sides]:
    def both(i: Instance) -> Sides:
        return Sides(left(i) - i["tau"], float(np.asarray(right(i))) - i["tau"], ACCURACY * (1 + i["tau"]))

    return both


COMMON: dict[str, tuple[Predicate, Callable[[], Instance]]] = {
    "covered": (_covered, instances.uncovered),
    "natural": (_natural, instances.not_natural),
    "optimal": (_optimal, instances.not_optimal),
}
BOUNDED = {"bounded": (_bounded, instances.not_bounded)}


def _numbers(i: Instance, size: str = "bound") -> tuple[Any, Any, Any, Any]:
    return i["tau"], i[size], i["eps"], i["gamma"]


def _half_deviation(i: Instance, factor: float) -> float:
    tau, bound, eps, gamma = _numbers(i)
    return float(tau + factor * bound * np.sqrt(eps / gamma))


def _without_coverage(bound: Callable[..., Any]) -> Callable[[Instance], Sides]:
    return _sides(_quick_best, lambda i: bound(i["tau"], i["bound"], i["eps"], 1.0))


def _theorem(
    name: str,
    statement: str,
    right: Callable[[Instance], ArrayLike],
    assumed: dict[str, tuple[Predicate, Callable[[], Instance]]],
    perturbations: dict[str, Callable[[Instance], Sides]],
    fixed: bool = False,
) -> Theorem:
    return Theorem(
        name=name,
        label=f"thm-{name}",
        statement=statement,
        hypotheses={key: predicate for key, (predicate, _) in assumed.items()},
        sample=instances.sample_fixed if fixed else instances.sample,
        vary=instances.vary_fixed if fixed else instances.vary,
        sides=_sides(_fixed if fixed else _best, right),
        quick=None if fixed else _sides(_quick_best, right),
        counterexamples={key: example for key, (_, example) in assumed.items()},
        perturbations=perturbations,
    )


UNCONSTRAINED = _theorem(
    "unconstrained-bound",
    "l_T(p) <= tau + sqrt(2 B^2 eps / gamma)",
    lambda i: bounds.unconstrained_bound(*_numbers(i)),
    COMMON | BOUNDED,
    {
        "coverage dropped": _without_coverage(bounds.unconstrained_bound),
        "0.4 in place of 2": _sides(_quick_best, lambda i: _half_deviation(i, np.sqrt(0.4))),
    },
)

HALF_RANGE = _theorem(
    "half-range",
    "l_T(p, v) <= l_T(p*, v) + sqrt(2 R(v)^2 eps / gamma)",
    lambda i: bounds.unconstrained_bound(*_numbers(i, "half_range")),
    COMMON
    | {
        "spread": (_half_range, instances.not_half_range),
        "normalised": (_normalised, instances.not_normalised),
    },
    {
        "a quarter of the range": _sides(
            _fixed, lambda i: bounds.unconstrained_bound(i["tau"], i["half_range"] / 2, i["eps"], i["gamma"])
        )
    },
    fixed=True,
)

SHARP = _theorem(
    "sharp-constant",
    "l_T(p) <= tau + D/2, D = sqrt(2 B^2 eps / gamma)",
    lambda i: bounds.sharp_bound(*_numbers(i)),
    COMMON | BOUNDED,
    {"0.47 in place of one half": _sides(_quick_best, lambda i: _half_deviation(i, 0.47 * np.sqrt(2)))},
)

EASY = _theorem(
    "easy-tasks",
    "l_T(p) <= tau + sqrt(c tau) D + D^2/8, c = sup sigma(-m)^2 / l(m)",
    lambda i: bounds.easy_task_bound(*_numbers(i)),
    COMMON | BOUNDED,
    {
        "first-order term dropped": _sides(
            _quick_best, lambda i: i["tau"] + i["bound"] ** 2 * i["eps"] / i["gamma"] / 4
        ),
        "c = 0.3": _sides(
            _quick_best,
            lambda i: (
                _half_deviation(i, np.sqrt(0.6 * i["tau"])) + i["bound"] ** 2 * i["eps"] / i["gamma"] / 4
            ),
        ),
    },
)

INDICATIVE = _theorem(
    "indicative-words",
    "l_T(p) <= tau + sqrt(2 S eps / gamma), S = E_T[E_{p*} v^2 + E_p v^2]",
    lambda i: bounds.indicative_words_bound(*_numbers(i, "second_moment")),
    COMMON | BOUNDED | {"rare": (_second_moment, instances.not_second_moment)},
    {
        "0.2 in place of 2": _sides(
            _quick_best, lambda i: i["tau"] + np.sqrt(0.2 * i["second_moment"] * i["eps"] / i["gamma"])
        )
    },
)

THEOREMS = (UNCONSTRAINED, HALF_RANGE, SHARP, EASY, INDICATIVE)
