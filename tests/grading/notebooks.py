"""Notebooks that the tests hand in."""

from __future__ import annotations

import json
from pathlib import Path

DOUBLE = "import numpy as np\n\ndef double(x):\n    return 2 * x\n"
ENTROPY = (
    "def entropy(p):\n    p = np.asarray(p)\n    q = p[p > 0]\n    return float(-np.sum(q * np.log(q)))\n"
)


def cell(source, grade_id=None, kind="code", *, test=False, outputs=()):
    made = {"cell_type": kind, "id": f"c{abs(hash(source)) % 10**8}", "metadata": {}, "source": source}
    if kind == "code":
        made |= {"outputs": list(outputs), "execution_count": None}
    if grade_id:
        made["metadata"]["nbgrader"] = {
            "grade": test or kind == "markdown",
            "grade_id": grade_id,
            "locked": test,
            "schema_version": 3,
            "solution": not test,
            "task": False,
            **({"points": 0} if test or kind == "markdown" else {}),
        }
    return made


def notebook(*cells, kernel="python3"):
    return {
        "cells": list(cells),
        "metadata": {"kernelspec": {"name": kernel, "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def tiny(double=DOUBLE, entropy=ENTROPY, proof="By inspection."):
    """The tiny assignment with answers."""
    return notebook(
        cell("# A tiny assignment", kind="markdown"),
        cell(double, "double"),
        cell("assert double(np.ones(2)).shape == (2,)", "test-double", test=True),
        cell(entropy, "entropy"),
        cell("assert abs(entropy([0.5, 0.5]) - np.log(2)) < 1e-12", "test-entropy", test=True),
        cell(proof, "proof", kind="markdown"),
    )


def save(path: Path, book) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(book), encoding="utf-8")
    return path
