"""Execute the chapters with seeds that nobody looked at, so that what they claim is no luck of their own.

    python tests/nightly.py                        every chapter, five other seeds (what `make nightly` runs)
    python tests/nightly.py 09 13 --seeds 1-3      some chapters, some seeds

Each chapter has one line `SEED = ...`; it is replaced, and all of its assertions have to hold. The profile in
force sets the sizes.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

CHAPTERS = Path(__file__).parents[1] / "chapters"
SEED = re.compile(r"^SEED = \d+$", re.MULTILINE)


def with_seed(notebook: nbformat.NotebookNode, seed: int) -> nbformat.NotebookNode:
    """Return a notebook with another seed; ValueError if it does not have exactly one line for it."""
    places = [cell for cell in notebook.cells if cell.cell_type == "code" and SEED.search(cell.source)]
    if len(places) != 1:
        raise ValueError(f"{len(places)} cells have a line `SEED = ...`; there must be one")
    places[0].source = SEED.sub(f"SEED = {seed}", places[0].source)
    return notebook


def run(path: Path, seed: int) -> str | None:
    """Execute a chapter with another seed; return what failed, or None."""
    start = time.perf_counter()
    notebook = with_seed(nbformat.read(path, as_version=4), seed)
    try:
        NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(CHAPTERS)}}).execute()
        failed = None
    except CellExecutionError as error:
        failed = f"{error.ename}: {error.evalue}"
    seconds = time.perf_counter() - start
    print(f"{path.stem:32} seed {seed:4} {seconds:6.0f} s  {failed or 'all claims hold'}", flush=True)
    return failed


def main() -> int:
    """Run the chapters and seeds that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chapters", nargs="*", help="numbers such as 09; all if none")
    parser.add_argument("--seeds", default="101-105", help="such as 101-105")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    paths = sorted(CHAPTERS.glob("*.ipynb"))
    paths = [p for p in paths if not arguments.chapters or p.name[:2] in arguments.chapters]
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    jobs = [(path, seed) for path in paths for seed in seeds]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(pool.map(lambda job: run(*job), jobs))
    failed = sum(outcome is not None for outcome in outcomes)
    print(f"{len(jobs) - failed} of {len(jobs)} runs hold")
    return 1 if failed or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
