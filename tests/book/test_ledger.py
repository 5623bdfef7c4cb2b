"""The ledger: every claim has a verdict by rule, and results that were edited or are stale stop the build."""

import copy
import json
import re
import shutil
import sys

import pytest
from tiny import ROOT, TinyCourse

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import ledger
import real_text

from lmcourse.experiments import chapter08, chapter08_ladder, chapter08_table, chapter13_sweep
from lmcourse.provenance import Provenance, Result
from lmcourse.published import PROMPT_AND_HEAD

STORED = ROOT / "results" / f"{chapter13_sweep.NAME}.cpu.json"
REAL_TEXT = [ROOT / "results" / f"{module.NAME}.cpu.json" for module in (chapter08_table, chapter08_ladder)]
CHECKED = {"gibbs": {"passed": True, "instances": 7, "worst_ratio": 0.5}}


def sweep(prompt, head, method="gru", setting="teaching", device="a processor"):
    """A result in which accuracies are these functions of the number of states, give or take a hair."""
    cells = []
    for states in (8, 10):
        for seed, hair in enumerate((-1e-4, 0, 1e-4)):
            cell = {"states": states, "seed": seed, "method": method, "size": "cpu", "setting": setting}
            numbers = {"prompt_20": prompt(states) + hair, "prompt_5": 0.1, "head": head(states)}
            cells.append({"cell": cell, "numbers": numbers, "speed": {}, "seconds": 60.0})
    p = Provenance("f", {}, 0, "cpu", False, "here", 360.0, "", {}, "")
    return Result("sweep", {"cells": cells, "devices": [device]}, {}, p)


def published(way, states):
    return PROMPT_AND_HEAD.accuracy[way][PROMPT_AND_HEAD.states.index(states)] / 100


@pytest.mark.parametrize(
    ("prompt", "head", "verdict"),
    [
        (lambda s: published("prompt", s), lambda s: published("head", s), "reproduced"),
        (lambda s: published("head", s), lambda s: published("prompt", s), "not reproduced"),
        (
            lambda s: published("prompt", s) if s == 8 else 0.5,
            lambda s: published("head", s),
            "partly: prompts beat heads at 1 of 2 numbers of states; 3 of 4 levels are in the published band",
        ),
        (
            lambda s: 0.9999,
            lambda s: 0.99,
            "partly: prompts beat heads at 2 of 2 numbers of states; 1 of 4 levels are in the published band",
        ),
    ],
)
def test_verdicts_on_the_curves(prompt, head, verdict):
    assert ledger.sweep_verdict(sweep(prompt, head)) == verdict


def test_a_row_of_the_curves_says_seeds_interval_and_device():
    claim = {"id": "W4", "experiment": "prompt-and-head"}
    row = ledger.row(claim, {}, {"cpu": sweep(lambda s: 0.9, lambda s: 0.8)})
    assert row.cpu.replace("\N{NO-BREAK SPACE}", " ") == (
        "GRU, 8, 10 states: prompt 90.0, 90.0; head 80.0, 80.0; prompt minus head +10.0 ± 0.0, +10.0 ± 0.0 "
        "(3 seeds). In %, 95 % intervals, teaching temperatures; a processor, 6 minutes"
    )
    assert row.published.startswith("4, 8, 10, 15, 25, 30 states: prompt 99.7, 97,")
    assert row.gpu == ledger.NO_GPU
    assert row.verdict.startswith("partly")
    assert row.command == "`lmcourse results refresh chapter13-sweep`; on a GPU `make gpu`"


def test_a_run_on_a_gpu_has_its_own_column_and_verdict():
    """There BERT counts, whatever the temperatures; here the order is the other way round."""
    claim = {"id": "W4", "experiment": "prompt-and-head"}
    on_gpu = sweep(lambda s: 0.7, lambda s: 0.8, "bert", "paper", "a large GPU")
    row = ledger.row(claim, {}, {"cpu": sweep(lambda s: 0.9, lambda s: 0.8), "gpu": on_gpu})
    assert row.gpu.startswith(
        "BERT, 8, 10 states: prompt 70.0, 70.0; head 80.0, 80.0; prompt minus head -10.0"
    )
    assert row.gpu.endswith("paper temperatures; a large GPU, 6 minutes")
    assert row.verdict.startswith("on a CPU: partly: prompts beat heads at 2 of 2")
    assert row.verdict.endswith("On a GPU: not reproduced")


def test_both_networks_of_a_sweep_are_shown():
    both = sweep(lambda s: 0.9, lambda s: 0.8)
    both.values["cells"] += sweep(lambda s: 0.7, lambda s: 0.6, "bert").values["cells"]
    row = ledger.row({"id": "W4", "experiment": "prompt-and-head"}, {}, {"cpu": both})
    assert "(3 seeds). BERT, 8, 10 states: prompt 70.0, 70.0; head 60.0, 60.0" in row.cpu


def test_rows_of_theorems_and_of_what_is_not_attempted():
    row = ledger.row({"theorems": ["gibbs"]}, CHECKED, {})
    assert row.cpu.startswith("7 instances, worst ratio 0.5; seed 0")
    assert (row.verdict, row.command) == ("reproduced", "`lmcourse theorems gibbs`")
    failed = copy.deepcopy(CHECKED)
    failed["gibbs"]["passed"] = False
    assert ledger.row({"theorems": ["gibbs"]}, failed, {}).verdict == "not reproduced"
    assert ledger.row({"id": "S1"}, {}, {}).verdict == ledger.NO_CHAPTER


FITS = ("quadratic", "mean_from_hidden", "moved")
BACKWARDS = {f"{t}_{f}": 10 + k for t in chapter08.TASKS for k, f in enumerate(real_text.SYMBOL)}


RANDOM_3_ENOUGH_4, RANDOM_4_ENOUGH_3 = (
    f"partly: on 3 of 4 tasks: task words beat random words on {better}, and keep nine tenths of the gain of "
    f"$f(s)$ on {enough}"
    for better, enough in ((3, 4), (4, 3))
)


def real_text_values(**changes):
    """Values of the table of chapter 8 in which every claim holds, but for the changes: task_feature_way."""
    level = {"hidden": 85, "mean_embedding": 84, "task_logits": 83, "class_logits": 80, "random_logits": 75}
    hair = [0.001 * k for k in (-1, 0, 1, -1, 1, 9, 9, 9, 9, 9)]  # the last five are not to be looked at
    accuracy = {
        task: {
            name: {"alone": [(v - 5) / 100 + h for h in hair], "prompted": [v / 100 + 2 * h for h in hair]}
            for name, v in (level | {"majority": 50}).items()
        }
        for task in chapter08.TASKS
    }
    for key, value in changes.items():
        task, _, feature = key.partition("_")
        if task in accuracy:
            accuracy[task][feature]["prompted"] = [value / 100 + 2 * h for h in hair]
    fits = {"linear": 0.9, "quadratic": 0.95, "mean_from_hidden": 0.95, "own": 0.85, "moved": 0.845}
    fits |= {key: value for key, value in changes.items() if key in fits}
    return {"accuracy": accuracy, "log_partition": {n: [v + h for h in hair] for n, v in fits.items()}}


@pytest.mark.parametrize(
    ("judge", "changes", "verdict"),
    [
        (real_text.completion, {}, "reproduced: on 4 of 4 tasks"),
        (real_text.completion, {"movie_random_logits": 83}, RANDOM_3_ENOUGH_4),
        (real_text.completion, {"questions_task_logits": 79}, RANDOM_4_ENOUGH_3),
        (real_text.completion, {f"{t}_task_logits": 60 for t in chapter08.TASKS}, "not reproduced"),
        (real_text.quadratic, {}, "reproduced: on 3 of 3 tests"),
        (real_text.quadratic, {"quadratic": 0.85}, "partly: on 2 of 3 tests"),
        (real_text.quadratic, {"mean_from_hidden": 0.85, "moved": 0.8}, "partly: on 1 of 3 tests"),
        (
            real_text.quadratic,
            dict.fromkeys(("quadratic", "mean_from_hidden", "moved"), 0.1),
            "not reproduced",
        ),
        (real_text.orders, {}, "partly: 21 of 21 orders"),
        (real_text.orders, {"movie_task_logits": 84.5}, "partly: 20 of 21 orders"),
        (
            real_text.orders,
            {f"{t}_{f}": 10 for t in chapter08.TASKS for f in real_text.SYMBOL},
            "not reproduced",
        ),
    ],
)
def test_verdicts_on_real_text(judge, changes, verdict):
    assert judge(real_text_values(**changes))[1].startswith(verdict)


def test_a_row_on_real_text_says_device_and_command():
    p = Provenance("f", {}, 0, "cpu", False, "a processor", 360.0, "", {}, "")
    stored = {chapter08_table.NAME: Result(chapter08_table.NAME, real_text_values(), {}, p)}
    row = ledger.row({"id": "S1", "experiment": "completion"}, {}, stored)
    assert row.published == "no number in hand"
    assert row.cpu.startswith("task words: movie 83.0, +8.0 ± 0.0 against random words, 95 % of the gain")
    assert row.cpu.endswith("(a processor, 6 minutes)")
    assert (row.gpu, row.command) == (ledger.NO_GPU, "`lmcourse results refresh chapter08-table`")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    course = TinyCourse(tmp_path_factory.mktemp("ledger"))
    course.add("10_head_tuning", "# Heads", "assert True")
    toc = course.folder / "book" / "_toc.yml"
    pages = "".join(f"      - file: book/{name}\n" for name in ("theorems", "ledger", "bibliography"))
    toc.write_text(f"{toc.read_text()}  - chapters:\n{pages}")
    for name in ("claims.toml", "ledger.md", "theorems.md", "bibliography.md"):
        shutil.copy(ROOT / "book" / name, course.folder / "book")
    (course.folder / "results").mkdir()
    for path in (STORED, *REAL_TEXT):
        shutil.copy(path, course.folder / "results")
    result = course.build()
    assert result.returncode == 0, result.stdout + result.stderr
    return course


def test_the_page_has_every_claim_with_a_verdict(course):
    page = (course.folder / "_build" / "html" / "book" / "ledger.html").read_text(encoding="utf-8")
    body = page[page.index("<tbody") : page.index("</tbody")]
    rows = [re.findall(r"<td.*?</td>", row, re.DOTALL) for row in body.split("</tr>")[:-1]]
    texts = [[" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in row] for row in rows]
    claims = ledger.load_claims()
    assert [text[0].split()[0] for text in texts] == [claim["id"] for claim in claims]
    for claim, text in zip(claims, texts, strict=True):
        attempted = "theorems" in claim or claim.get("experiment") not in (None, "memory-and-vanilla")
        assert (text[4] == ledger.NO_CHAPTER) is not attempted
        assert bool(text[5]) is attempted
    [heads] = [row for row, claim in zip(rows, claims, strict=True) if claim["id"] == "W1"]
    assert 'href="../chapters/10_head_tuning.html"' in heads[0]


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (lambda record: record["values"]["cells"][0]["numbers"].update(head=1.0), "was edited"),
        (None, "no result 'chapter13-sweep' is stored"),
    ],
)
def test_a_result_that_is_edited_or_missing_stops_the_build(course, plant, message):
    path = course.folder / "results" / STORED.name
    before = path.read_text()
    try:
        if plant:
            record = json.loads(before)
            plant(record)
            path.write_text(json.dumps(record))
        else:
            path.unlink()
        (course.folder / "book" / "ledger.md").touch()
        result = course.build()
        assert result.returncode != 0
        assert message in result.stdout + result.stderr
    finally:
        path.write_text(before)


def test_a_stale_result_stops_the_strict_build(course):
    path = course.folder / "lmcourse" / "hmm.py"
    path.write_text(path.read_text() + "\n# changed\n")
    result = course.build()
    assert result.returncode != 0
    assert "ledger: result chapter13-sweep is stale" in result.stderr
