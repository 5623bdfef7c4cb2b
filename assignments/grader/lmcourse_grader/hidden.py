"""What a teacher's hidden tests are made of; NumPy only.

An overlay's ``hidden.py`` defines ``QUESTIONS``, a dictionary from a question's id to a `Question`. It is
imported by the grader alone: student code runs in another process, which is sent a case's arguments and
sends an answer back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Case:
    """One call of the student's function.

    Attributes
    ----------
    label
        What the case is, in words that a student reads ("a point mass").
    arguments
        The keyword arguments: None, bool, int, float, str, lists or tuples of these, numeric arrays.
    hint
        What the student is told if the case fails; never the answer.
    weight
        The case's share of the question's points, relative to the other cases.
    """

    label: str
    arguments: Mapping[str, Any]
    hint: str = ""
    weight: float = 1.0


@dataclass(frozen=True)
class Question:
    """The hidden test of one question.

    Attributes
    ----------
    cases
        ``(rng) -> list of Case``: fresh inputs from a `numpy.random.Generator`.
    check
        ``(case, answer) -> None`` if the answer is right, else a sentence that says what is wrong without
        the answer. The answer is plain: None, bool, int, float, complex, str, list, tuple, dict or array.
    expects
        What the function should return, in words ("an array of shape (n,)"): told when a type is wrong.
    all_or_nothing
        One failed case loses all points.
    """

    cases: Callable[[np.random.Generator], list[Case]]
    check: Callable[[Case, Any], str | None]
    expects: str = ""
    all_or_nothing: bool = False


def close(
    answer: Any, expected: ArrayLike, *, rtol: float = 1e-9, atol: float = 1e-12, what: str = "the answer"
) -> str | None:
    """Compare numbers; return None, or what is wrong without the expected numbers.

    A scalar stands for an array of shape ``()`` and a list for the array it makes. Infinities and NaN must
    stand at the same places. Numbers pass where ``|answer - expected| <= atol + rtol * |expected|``.

    Parameters
    ----------
    answer
        What the student's function returned.
    expected
        Real or complex, any shape.
    rtol, atol
        Tolerances; argue them from rounding where they are used.
    what
        How the message names the answer.
    """
    truth = np.asarray(expected)
    if isinstance(answer, str | bytes | dict) or answer is None:
        return f"{what} is of type {type(answer).__name__}, not a number or an array of numbers"
    try:
        found = np.asarray(answer)
    except ValueError:
        return f"{what} is a ragged list, not an array"
    if found.dtype.kind not in "biufc":
        return f"{what} holds {found.dtype}, not numbers"
    if found.shape != truth.shape:
        return f"{what} has shape {found.shape}, expected {truth.shape}"
    if found.dtype.kind == "c" and truth.dtype.kind != "c":
        return f"{what} is complex, expected real numbers"
    kind = np.float64 if truth.dtype.kind != "c" else np.complex128
    found, truth = found.astype(kind), truth.astype(kind)
    if bool(np.any(np.isnan(found) & ~np.isnan(truth))):
        return f"{what} has NaN where a number is expected"
    if bool(np.any(np.isinf(found) & ~np.isinf(truth))):
        return f"{what} is infinite where a finite number is expected"
    if not bool(np.all(np.isfinite(truth) == np.isfinite(found))):
        return f"{what} is finite where it should not be"
    finite = np.isfinite(truth)
    if not np.array_equal(found[~finite], truth[~finite], equal_nan=True):
        return f"{what} has the wrong infinity, or NaN, at some place"
    wrong = np.abs(found[finite] - truth[finite]) > atol + rtol * np.abs(truth[finite])
    if bool(np.any(wrong)):
        count = f" at {int(wrong.sum())} of {truth.size} places" if truth.size > 1 else ""
        return f"{what} is not the right number{count}"
    return None
