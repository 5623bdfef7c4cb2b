"""`{ledger}`: each claim of the papers, what was published, what came out here, and the verdict.

The claims are in book/claims.toml, published numbers in `lmcourse.published`; ours come from the checks of
the theorems and from stored results. Nothing is decided by hand: verdicts are rules.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from docutils import nodes
from docutils.statemachine import StringList
from real_text import VERDICTS
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from theorem_table import outcomes

from lmcourse import results
from lmcourse.closure import import_closure
from lmcourse.experiments import chapter08_ladder, chapter08_table, chapter13, chapter13_sweep
from lmcourse.experiments.sweep import Record
from lmcourse.folders import results_folder
from lmcourse.machine import processor_name
from lmcourse.profiles import strict
from lmcourse.provenance import Result, ResultError
from lmcourse.published import MEMORY_AND_VANILLA, PROMPT_AND_HEAD, PublishedCurves

logger = logging.getLogger(__name__)

CLAIMS = Path(__file__).parents[1] / "claims.toml"
COLUMNS = ("Claim", "Published", "Ours, on a CPU", "Ours, on a GPU", "Verdict", "Command")
NO_GPU = "not run on a GPU yet"
NO_CHAPTER = "not attempted: its chapter is not written"
GPU_COMMAND = "make gpu"
NETWORK = {"cpu": "gru", "gpu": "bert"}  # on which the verdict stands, by profile
EXPERIMENTS = ("chapter08_table", "chapter08_ladder", "chapter13_sweep")
CHAPTER_8 = (chapter08_table.NAME, chapter08_ladder.NAME)


class Row(NamedTuple):
    """Cells of the table after the claim, in Markdown."""

    published: str
    cpu: str
    gpu: str
    verdict: str
    command: str


def load_claims(path: Path = CLAIMS) -> list[dict[str, Any]]:
    """Return the claims, in order."""
    with path.open("rb") as file:
        return list(tomllib.load(file)["claim"])


def row(claim: dict[str, Any], checked: dict[str, dict[str, Any]], stored: dict[str, Result]) -> Row:
    """Return what is known of a claim.

    Parameters
    ----------
    claim
        From `load_claims`.
    checked
        Outcomes of the theorems, by name.
    stored
        The sweep of chapter 13 by profile, ``cpu`` and perhaps ``gpu``; the table of chapter 8 by its name.
    """
    published = {"prompt-and-head": PROMPT_AND_HEAD, "memory-and-vanilla": MEMORY_AND_VANILLA}
    curves = published.get(claim.get("experiment", ""))
    shown = _levels(curves) if curves else "no number"
    if "theorems" in claim:
        return _theorem_row([(name, checked[name]) for name in claim["theorems"]])
    if claim.get("experiment") == "prompt-and-head":
        sweeps = {name: stored[name] for name in NETWORK if name in stored}
        texts = {name: _sweep_text(result) for name, result in sweeps.items()}
        verdicts = {name: sweep_verdict(result, NETWORK[name]) for name, result in sweeps.items()}
        verdict = verdicts["cpu"]
        if "gpu" in verdicts:
            verdict = f"on a CPU: {verdict}. On a GPU: {verdicts['gpu']}"
        command = f"`{chapter13_sweep.COMMAND}`; on a GPU `{GPU_COMMAND}`"
        return Row(shown, texts["cpu"], texts.get("gpu", NO_GPU), verdict, command)
    if judge := VERDICTS.get(claim.get("experiment", "")):
        result = stored[chapter08_table.NAME]
        ours, verdict = judge(result.values)
        cpu = f"{ours} ({result.provenance.device}, {result.provenance.seconds / 60:.0f} minutes)"
        return Row("no number in hand", cpu, NO_GPU, verdict, f"`{chapter08_table.COMMAND}`")
    return Row(shown, "", "", NO_CHAPTER, "")


def _theorem_row(checked: list[tuple[str, dict[str, Any]]]) -> Row:
    texts = [
        f"{outcome['instances']} instances, worst ratio {outcome['worst_ratio']:.2g}"
        for _, outcome in checked
    ]
    holds = all(outcome["passed"] for _, outcome in checked)
    names = " ".join(name for name, _ in checked)
    ours = f"{'; '.join(texts)}; seed 0; {processor_name()}"
    return Row(
        "a proof",
        ours,
        "needs none",
        "reproduced" if holds else "not reproduced",
        f"`lmcourse theorems {names}`",
    )


def _levels(curves: PublishedCurves) -> str:
    by_method = [
        f"{method} {', '.join(f'{value:g}' for value in values)}"
        for method, values in curves.accuracy.items()
    ]
    states = ", ".join(map(str, curves.states))
    return f"{states} states: {'; '.join(by_method)} (%, {curves.seeds} seeds)"


def _sweep_text(result: Result) -> str:
    """Both levels and their difference for each network, with seeds, intervals and device."""
    records = chapter13_sweep.cells_of(result.values)
    setting = records[0].cell["setting"]
    texts = []
    for network in ("gru", "bert"):
        if not any(record.cell["method"] == network for record in records):
            continue
        what = prompt_and_head(records, network)
        prompt, head = (chapter13.curve(records, *one, setting) for one in what)
        gain = chapter13_sweep.difference(records, *what)
        parts = [
            f"{name} {', '.join(f'{100 * value:.1f}' for value in curve.mean)}"
            for name, curve in (("prompt", prompt), ("head", head))
        ]
        seeds = [str(n) for n in gain.seeds]
        seeds = seeds if len(set(seeds)) > 1 else seeds[:1]
        differences = (
            f"{100 * d:+.1f}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{100 * e:.1f}"
            for d, e in zip(gain.mean, gain.error, strict=True)
        )
        texts.append(
            f"{network.upper()}, {', '.join(map(str, gain.states))} states: {'; '.join(parts)}; prompt minus "
            f"head {', '.join(differences)} ({', '.join(seeds)} seeds)"
        )
    return (
        f"{'. '.join(texts)}. In %, 95 % intervals, {setting} temperatures; "
        f"{', '.join(result.values['devices'])}, {result.provenance.seconds / 60:.0f} minutes"
    )


def prompt_and_head(records: Sequence[Record], network: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return what stands for prompt and head of a network: the longest prompt there is, and the head."""
    numbers = {name for r in records if r.cell["method"] == network for name in r.numbers}
    longest = max(int(name.removeprefix("prompt_")) for name in numbers if name.startswith("prompt_"))
    return (network, f"prompt_{longest}"), (network, "head")


def sweep_verdict(result: Result, network: str = "gru") -> str:
    """Judge the published curves of prompts and heads: their order, and if our levels are in the bands.

    The order holds at a number of states if the interval of prompt minus head is above zero.
    """
    records = chapter13_sweep.cells_of(result.values)
    what = prompt_and_head(records, network)
    gain = chapter13_sweep.difference(records, *what)
    both = np.isin(gain.states, PROMPT_AND_HEAD.states)
    ordered = (gain.mean - gain.error > 0)[both]
    within = []
    for name, one in zip(("prompt", "head"), what, strict=True):
        ours = chapter13.curve(records, *one, records[0].cell["setting"])
        at = [PROMPT_AND_HEAD.states.index(s) for s in ours.states[both]]
        theirs, band = (np.array(d[name])[at] for d in (PROMPT_AND_HEAD.accuracy, PROMPT_AND_HEAD.band))
        within += list(np.abs(100 * ours.mean[both] - theirs) <= band)
    if not ordered.any():
        return "not reproduced"
    if ordered.all() and all(within):
        return "reproduced"
    return (
        f"partly: prompts beat heads at {ordered.sum()} of {len(ordered)} numbers of states; "
        f"{sum(within)} of {len(within)} levels are in the published band"
    )


def table(claims: list[dict[str, Any]], rows: list[Row], pages: set[str]) -> list[str]:
    """Return the lines of the Markdown table; a claim links to its chapter if the book has it."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for claim, cells in zip(claims, rows, strict=True):
        text = f"**{claim['id']}**, {claim['kind']} {{cite:p}}`{claim['paper']}`: {claim['claim']}"
        if (page := claim.get("chapter")) in pages:
            text += f" ([worked out here](/{page}))"
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return lines


class Ledger(SphinxDirective):
    """The table of claims."""

    def run(self) -> list[nodes.Node]:
        # Noted first: a page that fails has to be read again when the cause is gone.
        modules = ("theorems", "published", *(f"experiments.{name}" for name in EXPERIMENTS))
        code = "import " + ", ".join(f"lmcourse.{name}" for name in modules)
        results_read = [results_folder() / f"{chapter13_sweep.NAME}.{name}.json" for name in ("cpu", "gpu")]
        results_read += [results_folder() / f"{name}.cpu.json" for name in CHAPTER_8]
        there = [path for path in results_read if path.is_file()]  # others would change the folder
        for path in [CLAIMS, Path(__file__), results_folder(), *there, *import_closure(code).values()]:
            self.env.note_dependency(str(path))
        try:
            stored = {"cpu": results.load(chapter13_sweep.NAME, of_profile="cpu")}
            if results_read[1].is_file():
                stored["gpu"] = results.load(chapter13_sweep.NAME, of_profile="gpu")
            stored |= {name: results.load(name, of_profile="cpu") for name in CHAPTER_8}
        except ResultError as error:
            raise self.error(f"ledger: {error}") from None
        for result in stored.values():
            if strict() and result.stale and not result.provenance.needs_gpu:
                message = "ledger: result %s is stale: %s"
                logger.warning(message, result.name, result.stale, location=self.env.docname)
        claims = load_claims()
        checked = outcomes(Path(self.env.app.outdir).parent)
        rows = [row(claim, checked, stored) for claim in claims]
        place = nodes.container(classes=["ledger"])
        text = StringList(table(claims, rows, self.env.found_docs), source=str(CLAIMS))
        self.state.nested_parse(text, self.content_offset, place)
        return [place]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("ledger", Ledger)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
