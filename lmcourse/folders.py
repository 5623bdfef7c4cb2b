"""Where the course keeps its files, and how it writes them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder for what can be fetched or computed again.

    ``LMCOURSE_CACHE`` if it is set, else the user's cache folder of this operating system. The folder is
    not created here.
    """
    chosen = os.environ.get("LMCOURSE_CACHE", "").strip()
    if chosen:
        return Path(chosen).expanduser().resolve()
    try:
        from platformdirs import user_cache_path
    except ModuleNotFoundError:  # the theory alone is installed
        return Path.home() / ".cache" / "lmcourse"
    return user_cache_path("lmcourse", appauthor=False)


def project_folder(start: Path | None = None) -> Path | None:
    """Return the course's checkout around `start` (the working folder by default), or None outside one."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / "_config.yml").is_file() and (folder / "chapters").is_dir():
            return folder
    return None


def results_folder() -> Path:
    """Return the folder of stored results.

    ``LMCOURSE_RESULTS`` if it is set, else ``results/`` of the checkout around the working folder, else
    ``results/`` of the cache folder (where the package is installed without the course around it).
    """
    chosen = os.environ.get("LMCOURSE_RESULTS", "").strip()
    if chosen:
        return Path(chosen).expanduser().resolve()
    return (project_folder() or cache_folder()) / "results"


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write(temporary)`` and rename the result to `path`, so that no half-written file is ever there.

    Parameters
    ----------
    path
        The final name; its folder is created.
    write
        Writes the whole file under the name that it is given.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o644)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
