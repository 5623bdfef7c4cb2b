"""Execute the chapters in parallel, and again only when something that they use has changed.

jupyter-cache keeps an executed notebook for each state of its code cells. What it does not see is added
here: the modules of `lmcourse` that the cells reach and its data files, Python files beside the chapters, the
requirements, the profile, and, if the cells reach `lmcourse.results`, the stored results. All of it becomes
one fingerprint in the notebook's kernel metadata, which is part of jupyter-cache's key.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from docutils import nodes
from IPython.core.inputtransformer2 import TransformerManager
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.executors.utils import single_nb_execution
from myst_nb.sphinx_ import NbMetadataCollector
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError
from sphinx.util import logging

from lmcourse import __version__, results
from lmcourse.closure import PACKAGE, closure_hash, import_closure
from lmcourse.folders import results_folder
from lmcourse.profiles import profile, strict

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements.txt"

WHAT_TO_DO = (
    "No page was written. Open the chapter in JupyterLab, run it to that cell and mend it; the next "
    "build executes only what you changed."
)

_RUNS_PYTHON = re.compile(r"^\s*%%?(?:time|timeit|capture|prun)\b", re.MULTILINE)

logger = logging.getLogger(__name__)


def source_of(notebook: NotebookNode) -> str:
    """Return a notebook's code cells as Python; of a magic that runs Python, what it runs."""
    to_python = TransformerManager().transform_cell
    cells = [_RUNS_PYTHON.sub("", cell.source) for cell in notebook.cells if cell.cell_type == "code"]
    return "\n".join(to_python(cell) for cell in cells)


def fingerprint(notebook: NotebookNode) -> str:
    """Hash everything but its own cells that decides what a notebook prints."""
    source = source_of(notebook)
    watched = [
        *(ROOT / "chapters").glob("*.py"),
        *(f for f in PACKAGE.rglob("*") if _is_data(f)),
        REQUIREMENTS,
    ]
    parts = [
        closure_hash(source),
        profile(),
        platform.python_version(),
        *(path.read_text(encoding="utf-8", errors="replace") for path in sorted(watched)),
    ]
    if "lmcourse.results" in import_closure(source):  # of all profiles: a small run may show a large result
        parts += [path.read_text(encoding="utf-8") for path in sorted(results_folder().glob("*.json"))]
        parts += [results.load(name).stale for name in results.names()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _is_data(path: Path) -> bool:
    return path.is_file() and path.suffix not in (".py", ".pyc")


def read(text: str) -> NotebookNode:
    """Read a notebook from its text, its fingerprint where jupyter-cache looks."""
    notebook = nbformat.reads(text, as_version=4)
    try:
        notebook.metadata.setdefault("kernelspec", NotebookNode())["fingerprint"] = fingerprint(notebook)
    except SyntaxError as error:
        raise ExtensionError(f"a code cell is not Python: {error.msg}: {error.text}") from error
    return notebook


def refuse_stale_results(app: Sphinx) -> None:
    """Stop a strict build whose stored results this machine could, and should, compute again."""
    if strict() and (stale := results.stale()):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in stale.items())
        raise ExtensionError(f"stale results ({reasons}). Run: lmcourse results refresh {' '.join(stale)}")


def outdated(app: Sphinx, env: BuildEnvironment, *_: object) -> list[str]:
    """Return the documents whose fingerprint has changed since the last build."""
    before: dict[str, str] = getattr(env, "fingerprints", {})
    now = {}
    for docname in env.found_docs:
        path = Path(env.doc2path(docname))
        if path.suffix == ".ipynb":
            now[docname] = read(path.read_text(encoding="utf-8")).metadata.kernelspec.fingerprint
    env.fingerprints = now  # type: ignore[attr-defined]
    return [docname for docname in now if before.get(docname) != now[docname]]


def execute_missing(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Execute, one on each core, the notebooks about to be read that the cache does not have.

    Those that succeed are kept even if another fails, so that the next build executes only what was mended.
    """
    if app.config.nb_execution_mode != "cache":
        return
    cache = get_cache(app.config.nb_execution_cache_path)
    missing = []
    for docname in docnames:
        path = Path(env.doc2path(docname))
        if path.suffix == ".ipynb":
            notebook = read(path.read_text(encoding="utf-8"))
            try:
                cache.match_cache_notebook(notebook)
            except KeyError:
                missing.append((path, notebook))
    if not missing:
        return
    cores = os.cpu_count() or 1
    # One thread a kernel: several kernels of several threads each only get in one another's way.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    logger.info("executing %d notebooks on %d cores, profile %s", len(missing), cores, profile())

    def execute(item: tuple[Path, NotebookNode]) -> Any:
        path, notebook = item
        return single_nb_execution(
            notebook, cwd=str(path.parent), timeout=app.config.nb_execution_timeout, allow_errors=False
        )

    failures = []
    with ThreadPoolExecutor(cores) as pool:
        for (path, notebook), outcome in zip(missing, pool.map(execute, missing), strict=True):
            if outcome.err is not None:
                logger.error(str(outcome.err))  # the cell and its traceback
                failures.append(failure(path, notebook, outcome.err))
            else:
                notebook.metadata.pop("widgets", None)  # the page has the same sliders without a kernel
                bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": outcome.time})
                cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
                logger.info("executed %s in %.1f s", path.name, outcome.time)
    if failures:
        message = "\n".join([*failures, WHAT_TO_DO])
        atexit.register(print, f"\n{message}", file=sys.stderr)  # after the traceback of Jupyter Book
        raise ExtensionError(message)


def failure(path: Path, notebook: NotebookNode, error: Exception) -> str:
    """Say in two lines where a notebook stopped, and with which error.

    A cell is numbered as JupyterLab shows it, by its turn among those that ran.
    """
    ran = [cell for cell in notebook.cells if cell.get("execution_count")]
    if not ran:
        return f"{path.name} stopped before its first cell: {error}"
    lines = ran[-1].source.strip().splitlines()
    if isinstance(error, CellExecutionError):
        name, value = error.ename, error.evalue
    else:  # it took too long
        name, value = type(error).__name__, str(error)
    why = f"{name}: {value.splitlines()[0]}" if value.strip() else name
    return f"{path.name}, cell [{ran[-1].execution_count}], which begins `{lines[0]}`:\n    {why}"


def say_what_ran(app: Sphinx, doctree: nodes.document) -> None:
    """Put one line under a chapter's title: how long it ran, with which profile and versions."""
    executed = NbMetadataCollector.get_exec_data(app.env, app.env.docname)
    title = next(iter(doctree.findall(nodes.title)), None)
    if not executed or title is None or executed["runtime"] is None:
        return
    text = (
        f"Executed in {executed['runtime']:.0f} s with profile {profile()}, "
        f"lmcourse {__version__}, Python {platform.python_version()}."
    )
    line = nodes.paragraph("", text, classes=["lm-executed"])
    title.parent.insert(title.parent.index(title) + 1, line)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the steps to Sphinx."""
    app.connect("builder-inited", refuse_stale_results)
    app.connect("env-get-outdated", outdated)
    app.connect("env-before-read-docs", execute_missing)
    app.connect("doctree-read", say_what_ran)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
