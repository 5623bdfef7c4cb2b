"""Stored results: computations that take more than a few seconds, kept with where they came from.

A result is *fresh* while the inputs, the seed and the import closure of the function that computed it are
what they were. A strict build (``LMCOURSE_STRICT=1``) refuses one that is stale, unless it needs a GPU that
this machine does not have: it is then shown with its `note`.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib
import inspect
import json
import operator
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lmcourse.closure import PACKAGE, closure_hash, import_closure
from lmcourse.folders import results_folder
from lmcourse.machine import gpu_name, processor_name, versions
from lmcourse.profiles import profile, strict
from lmcourse.provenance import Provenance, Result, ResultError, read_result, write_result

Compute = Callable[..., Mapping[str, Any]]

_NAME = re.compile("[a-z][a-z0-9-]*")
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{i}" for port in ("com", "lpt") for i in range(10))}
_STARTED = time.time()


def stored(
    name: str,
    compute: Compute,
    *,
    seed: int,
    inputs: Mapping[str, Any] | None = None,
    needs_gpu: bool = False,
    folder: Path | None = None,
) -> Result:
    """Return a stored result, computing it if it is missing or stale.

    Parameters
    ----------
    name
        Lower-case letters, digits and hyphens, a letter first. Every profile has a file of its own.
    compute
        A function of a module, called as ``compute(seed=seed, **inputs)``. It returns a dictionary of
        numbers, strings, lists (kept as JSON) and arrays (kept as npz). One that gathers what was computed
        earlier, or elsewhere, says itself how long that took, as ``seconds``. Outside the package only its
        own file, and what that imports from the package, is watched for changes.
    seed
        Passed to `compute`.
    inputs
        The other arguments; JSON values.
    needs_gpu
        If the computation needs a GPU. A stale one is then returned as it is where there is none.
    folder
        Where results are kept; `lmcourse.folders.results_folder()` by default.

    Raises
    ------
    ResultError
        If the stored file is damaged; in a strict build (``LMCOURSE_STRICT=1``), if it is stale and this
        machine could compute it again; if a GPU is needed, there is none and nothing is stored; if its code
        was changed while this process had it loaded.
    TypeError
        If `compute` is not a function of a module, or returns something else than the above.
    """
    path = _path(name, folder)
    inputs, seed = _as_json(name, dict(inputs or {})), operator.index(seed)
    function = _function_name(compute)
    possible = not needs_gpu or gpu_name() is not None
    if path.is_file():
        result = read_result(path)
        stale = _why_stale(result.provenance, function, inputs, seed)
        if not stale or not possible:
            return Result(name, result.values, result.arrays, result.provenance, stale)
        if strict():
            raise ResultError(
                f"result {name!r} is stale: {stale}. Run: lmcourse results refresh {name} "
                f"(profile {profile()}), and look at what changed"
            )
    elif not possible:
        raise ResultError(f"result {name!r} is not stored for profile {profile()!r} and needs a GPU")
    result = _compute(name, compute, function, inputs, seed, needs_gpu)
    if not strict():
        write_result(path, result)
    return result


def load(name: str, folder: Path | None = None, of_profile: str | None = None) -> Result:
    """Return a stored result, and whether it is fresh; of the profile in force unless another is named.

    Raises
    ------
    ResultError
        If it is missing, cut short or edited.
    """
    result = read_result(_path(name, folder, of_profile))
    p = result.provenance
    stale = _why_stale(p, p.function, p.inputs, p.seed)
    return Result(name, result.values, result.arrays, p, stale)


def refresh(name: str, folder: Path | None = None) -> Result:
    """Compute a stored result again, with the function, inputs and seed that its file names.

    Raises
    ------
    ResultError
        If it is missing or damaged, if its function is gone, or if it needs a GPU and there is none.
    """
    path = _path(name, folder)
    p = read_result(path).provenance
    if p.needs_gpu and gpu_name() is None:
        raise ResultError(f"result {name!r} needs a GPU and this machine shows none")
    module, _, attribute = p.function.partition(":")
    try:
        compute = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ResultError(f"result {name!r} was computed by {p.function}, which is gone: {error}") from None
    result = _compute(name, compute, p.function, p.inputs, p.seed, p.needs_gpu)
    write_result(path, result)
    return result


def names(folder: Path | None = None) -> list[str]:
    """Return the names of the results stored for the profile in force, sorted."""
    suffix = f".{profile()}.json"
    found = (p.name.removesuffix(suffix) for p in (folder or results_folder()).glob(f"*{suffix}"))
    return sorted(name for name in found if _NAME.fullmatch(name))


def stale(folder: Path | None = None) -> dict[str, str]:
    """Return the results that are stale although this machine could compute them again, with the reason.

    Raises
    ------
    ResultError
        If a file is damaged.
    """
    found = {}
    for name in names(folder):
        result = load(name, folder)
        if result.stale and (not result.provenance.needs_gpu or gpu_name() is not None):
            found[name] = result.stale
    return found


def _path(name: str, folder: Path | None, of_profile: str | None = None) -> Path:
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise ValueError(
            f"a result's name is lower-case letters, digits and hyphens, a letter first, and no name that "
            f"Windows reserves; got {name!r}"
        )
    return (folder or results_folder()) / f"{name}.{of_profile or profile()}.json"


def _function_name(compute: Compute) -> str:
    module = getattr(compute, "__module__", None)
    name = getattr(compute, "__qualname__", "<")
    if module in (None, "__main__") or "<" in name or "." in name:
        raise TypeError(f"a stored result is computed by a function of a module, got {compute!r} of {module}")
    return f"{module}:{name}"


def _closure(function: str) -> str:
    """Hash the modules of the package that `function` reaches, and its own file if it is outside."""
    module = function.partition(":")[0]
    if module.split(".")[0] == PACKAGE.name:
        return closure_hash(f"import {module}")
    source = inspect.getsource(importlib.import_module(module))
    return hashlib.sha256((source + closure_hash(source)).encode()).hexdigest()


def _why_stale(p: Provenance, function: str, inputs: Mapping[str, Any], seed: int) -> str:
    """Say how what is asked for differs from what was computed; the empty string if it does not."""
    if p.function != function:
        return f"it was computed by {p.function}, not {function}"
    if _text(p.inputs) != _text(inputs):
        return f"the inputs were {p.inputs}, not {dict(inputs)}"
    if p.seed != seed:
        return f"the seed was {p.seed}, not {seed}"
    try:
        now = _closure(function)
    except (ImportError, OSError) as error:
        return f"its code cannot be found: {error}"
    return "" if p.closure == now else f"the code that {function} uses has changed"


def _compute(
    name: str, compute: Compute, function: str, inputs: Mapping[str, Any], seed: int, needs_gpu: bool
) -> Result:
    closure = _closure(function)
    _refuse_changed_code(name, function)
    start = time.perf_counter()
    output = compute(seed=seed, **inputs)
    seconds = time.perf_counter() - start
    arrays = {key: value for key, value in output.items() if isinstance(value, np.ndarray)}
    for key, array in arrays.items():
        if array.dtype.hasobject:
            raise TypeError(f"result {name!r}: array {key!r} holds Python objects; store numbers or strings")
    values = _as_json(name, {key: value for key, value in output.items() if key not in arrays})
    seconds = values.pop("seconds", seconds)
    p = Provenance(
        function=function,
        inputs=dict(inputs),
        seed=seed,
        profile=profile(),
        needs_gpu=needs_gpu,
        device=(gpu_name() if needs_gpu else None) or processor_name(),
        seconds=round(seconds, 3),
        closure=closure,
        versions=versions(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    return Result(name, values, arrays, p)


def _refuse_changed_code(name: str, function: str) -> None:
    """Refuse to compute with code that was loaded before its file was last changed."""
    module = sys.modules[function.partition(":")[0]]
    own = Path(inspect.getfile(module))
    files = {own, *import_closure(f"import {module.__name__}").values()}
    files |= set(import_closure(own.read_text(encoding="utf-8")).values())
    changed = sorted(path.name for path in files if path.stat().st_mtime > _STARTED)
    if changed:
        raise ResultError(
            f"result {name!r}: {', '.join(changed)} changed after this process started, so it may "
            "run the code from before; restart it (in a notebook: restart the kernel)"
        )


def _as_json(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return values as they come back from JSON; TypeError if they do not."""
    try:
        return dict(json.loads(json.dumps(values, allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"result {name!r}: {error}; inputs and values are finite numbers, strings and lists (arrays are "
            "for values only)"
        ) from None


def _text(inputs: Mapping[str, Any]) -> str:
    return json.dumps(dict(inputs), sort_keys=True)
