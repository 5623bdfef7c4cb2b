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
SEED = 0  # the first; the others follow it. Chosen before anything was computed
INPUTS = {
    "seeds_at": [[4, 5], [10, 5], [15, 5], [25, 5], [30, 5]],
    "methods": ["exact", "gru", "untrained"],
    "bert_seeds_at": [[4, 3], [10, 3], [25, 3]],
    "setting": "teaching",
}


def collect(
    *,
    seed: int,
    seeds_at: Sequence[tuple[int, int]],
    methods: Sequence[str],
    bert_seeds_at: Sequence[tuple[int, int]],
    setting: str,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Gather the cells of the sweep in the size of the profile in force, computing those that are missing.

    Parameters
    ----------
    seed : int
        The first seed.
    seeds_at : sequence of (int, int)
        Numbers of states, each with how many seeds it gets.
    methods, setting
        As in `chapter13.cell`.
    bert_seeds_at : sequence of (int, int)
        The same where BERT is trained too.
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
    name, cells = f"chapter13-{profile()}", []
    for some, pairs in ((methods, seeds_at), (["bert"], bert_seeds_at)):
        for states, n in pairs:
            seeds = range(seed, seed + n)
            cells += grid(states=[states], seed=seeds, method=some, size=[profile()], setting=[setting])
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
