"""A progress bar that is silent in pages and logs."""

from __future__ import annotations

import sys
from typing import Any

from lmcourse.profiles import strict


def bar(total: int, done: int = 0, unit: str = "step") -> Any:
    """Return a tqdm bar, shown on a terminal or in a notebook that somebody is running, and nowhere else."""
    notebook = _in_notebook() and not strict()
    if notebook:
        from tqdm.notebook import tqdm
    else:
        from tqdm.std import tqdm
    live = notebook or sys.stderr.isatty()
    return tqdm(total=total, initial=done, unit=unit, leave=False, disable=not live)


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return hasattr(get_ipython(), "kernel")
