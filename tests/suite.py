"""Run the whole suite in stages, and print how long each took beside its budget.

    python tests/suite.py          everything (what `make test` runs)
    python tests/suite.py check    lint, types, architecture and unit tests (what `make check` runs)

The budgets are for two cores and for the finished course of sixteen chapters.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
PYTEST = [sys.executable, "-m", "pytest", "-q", "--durations=3", "--durations-min=2"]


@dataclass(frozen=True)
class Stage:
    """Commands that belong together, and the minutes that they may take in the finished course."""

    name: str
    minutes: float
    commands: list[list[str]]
    profile: str | None = None


LINT = Stage(
    "lint, types, architecture",
    1,
    [
        [str(BIN / "ruff"), "check", "."],
        [str(BIN / "ruff"), "format", "--check", "."],
        [str(BIN / "mypy")],
        [str(BIN / "lint-imports")],
    ],
)
QUICK = Stage("unit tests", 1, [[*PYTEST, "-n", "2", "-m", "not slow", "tests/core", "tests/package"]])
UNIT = Stage(
    "unit and property tests",
    4,
    [[*PYTEST, "-n", "2", "tests/core", "tests/package", "tests/oracles", "tests/neural", "tests/solvers"]],
)
OTHERS = [name for name in ("python3.12", "python3.13") if shutil.which(name)]
PYTHONS = Stage(
    f"core tests on {' and '.join(OTHERS) or 'other Pythons: none found'}",
    1,
    [[str(BIN / "tox"), "run", "-q", "-e", ",".join(name.removeprefix("python") for name in OTHERS)]]
    if OTHERS
    else [],
)
BROWSER = Stage(
    "a browser is there",
    0.1,
    [
        [
            sys.executable,
            "-c",
            "import sys; sys.path.insert(0, 'tests/book'); import site_checks; site_checks.browser_or_exit()",
        ]
    ],
)
BOOK = Stage(
    "strict build",
    10,
    [[str(BIN / "jupyter-book"), "build", ".", "--toc", "book/_toc.yml", "-W", "-n", "--keep-going", "-q"]],
)
NBVAL = Stage(
    "notebooks, smoke profile",
    2,
    [
        [
            *PYTEST,
            "-n",
            "2",
            "--dist",
            "loadfile",
            "chapters",
            "--nbval-lax",
            "--nbval-current-env",
            "--nbval-cell-timeout=300",
        ]
    ],
    profile="smoke",
)
SITE = Stage(
    "site, browser, tests of the tests", 4, [[*PYTEST, "-n", "2", "--dist", "loadfile", "tests/book"]]
)

GRADER = ROOT / ".venv-grader" / "bin"
SANDBOX = Stage("student code can be confined", 0.1, [[str(GRADER / "lmcourse-grade"), "check"]])
GRADING = Stage(
    "grading, with hostile submissions",
    6,
    [
        [str(GRADER / "python"), *PYTEST[1:], "-n", "2", "--dist", "loadfile", "tests/grading"],
        [str(GRADER / "lmcourse-grade"), "leaks", "a1", "_build/html", "--known", "lmcourse"],
    ],
)

STAGES = {
    "all": [BROWSER, SANDBOX, LINT, UNIT, PYTHONS, BOOK, NBVAL, SITE, GRADING],
    "check": [LINT, QUICK],
}


def run(stage: Stage) -> tuple[float, bool]:
    """Run a stage's commands; return the seconds and whether all succeeded."""
    environment = os.environ | {
        "LMCOURSE_STRICT": "1",
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    if stage.profile:
        environment["LMCOURSE_PROFILE"] = stage.profile
    start = time.perf_counter()
    ok = True
    for command in stage.commands:
        print(f"\n== {stage.name}: {Path(command[0]).name} {' '.join(command[1:])}", flush=True)
        ok &= subprocess.run(command, cwd=ROOT, env=environment).returncode == 0
    return time.perf_counter() - start, ok


def main() -> int:
    """Run the stages that the command line names."""
    name = sys.argv[1] if len(sys.argv) > 1 else "all"
    if name not in STAGES:
        print(f"unknown stage set {name!r}; one of: {', '.join(STAGES)}", file=sys.stderr)
        return 2
    outcomes = [(stage, *run(stage)) for stage in STAGES[name]]
    print(f"\n{'stage':42}{'seconds':>9}{'budget':>9}")
    for stage, seconds, ok in outcomes:
        over = "  over its budget" if seconds > 60 * stage.minutes else ""
        print(f"{stage.name:42}{seconds:9.1f}{60 * stage.minutes:9.0f}  {'passed' if ok else 'FAILED'}{over}")
    total = sum(seconds for _, seconds, _ in outcomes)
    print(f"{'all':42}{total:9.1f}{60 * sum(s.minutes for s in STAGES[name]):9.0f}")
    return 0 if all(ok for *_, ok in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
