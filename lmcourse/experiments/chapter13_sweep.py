"""The sweep of chapter 13 as one stored result: what the chapter and the ledger read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmcourse.experiments import chapter13
from lmcourse.experiments.sweep import Record, SweepError, grid, run_sweep, sweep_status
from lmcourse.profiles import profile

NAME = "chapter13-sweep"
COMMAND = f"lmcourse results refresh {NAME}"
SEED = 0  # of the first; chosen, as their number, before anything was computed
INPUTS = {
    "states": list(chapter13.STATES),
    "n_seeds": 5,
    "methods": ["exact", "gru", "untrained"],
    "bert_states": [10],
    "setting": "teaching",
}


def collect(
    *,
    seed: int,
    states: Sequence[int],
    n_seeds: int,
    methods: Sequence[str],
    bert_states: Sequence[int],
    setting: str,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Gather the cells of the sweep in the size of the profile in force, computing those that are missing.

    Parameters
    ----------
    seed, n_seeds : int
        The first seed, and how many there are.
    states, methods, setting
        As in `chapter13.cell`.
    bert_states : sequence of int
        Numbers of states at which BERT is trained too.
    folder : Path, optional
        Where sweeps are kept.

    Returns
    -------
    dict
        ``cells``, each with its arguments, numbers, speed and seconds; the ``devices`` that computed
        them; the ``seconds`` of computing in all.

    Raises
    ------
    SweepError
        If a finished cell was computed by earlier code, or a cell fails.
    """
    name, seeds = f"chapter13-{profile()}", range(seed, seed + n_seeds)
    cells = grid(states=states, seed=seeds, method=methods, size=[profile()], setting=[setting])
    cells += grid(states=bert_states, seed=seeds, method=["bert"], size=[profile()], setting=[setting])
    if stale := sweep_status(name, chapter13.cell, cells, folder=folder).stale:
        raise SweepError(
            f"{len(stale)} of {len(cells)} cells were computed by earlier code: delete the folder {name} "
            "among the sweeps, and they are computed again"
        )
    found = run_sweep(name, chapter13.cell, cells, folder=folder)
    kept = ("cell", "numbers", "speed", "seconds")
    return {
        "cells": [{key: getattr(record, key) for key in kept} for record in found],
        "devices": sorted({record.device for record in found}),
        "seconds": sum(record.seconds for record in found),
    }


def cells_of(values: Mapping[str, Any]) -> list[Record]:
    """Return the stored cells as records, for `chapter13.curve`."""
    device = ", ".join(values["devices"])
    return [Record(**cell, device=device, closure="", versions={}, created="") for cell in values["cells"]]


def difference(records: Sequence[Record], one: tuple[str, str], other: tuple[str, str]) -> chapter13.Curve:
    """Mean difference of two numbers over languages: each seed is compared with itself.

    Parameters
    ----------
    records : sequence of Record
        Cells of one setting.
    one, other : (method, number)
        What is compared, such as ``("gru", "head")``.

    Returns
    -------
    Curve
        `one` minus `other`, where both are known.

    Raises
    ------
    ValueError
        If no language has both.
    """
    numbers = {(r.cell["method"], r.cell["states"], r.cell["seed"]): r.numbers for r in records}
    pairs = []
    for record in records:
        theirs = numbers.get((other[0], record.cell["states"], record.cell["seed"]), {})
        if record.cell["method"] == one[0] and one[1] in record.numbers and other[1] in theirs:
            pairs.append(replace(record, numbers={one[1]: record.numbers[one[1]] - theirs[other[1]]}))
    if not pairs:
        raise ValueError(f"no language has both {one} and {other}")
    return chapter13.curve(pairs, *one, setting=pairs[0].cell["setting"])
