"""Sweeps: one function over many cells, on the processors of one machine or of a cluster.

A cell is a set of arguments; what it gives is kept as one JSON file, written whole once the cell has ended.
So a finished cell is never computed again, and one that was interrupted leaves nothing. Only the process
that runs the sweep writes: the machines of a cluster need no common disk.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lmcourse.closure import closure_hash
from lmcourse.folders import results_folder, write_atomically
from lmcourse.machine import gpu_name, processor_name, versions

Cell = Mapping[str, Any]


class Outcome(NamedTuple):
    """What a cell measured: numbers that its arguments determine, and speeds, which depend on the machine."""

    numbers: dict[str, float]
    speed: dict[str, float]


Compute = Callable[..., Outcome]


@dataclass(frozen=True)
class Record:
    """A finished cell.

    Attributes
    ----------
    cell
        The arguments.
    numbers, speed
        What it gave; see `Outcome`.
    seconds
        Wall time.
    device
        Name of the GPU or processor that computed it.
    closure
        Hash of the code that computed it.
    versions
        Of Python and the numerical packages.
    created
        Date and time, UTC.
    """

    cell: dict[str, Any]
    numbers: dict[str, float]
    speed: dict[str, float]
    seconds: float
    device: str
    closure: str
    versions: dict[str, str]
    created: str


class Status(NamedTuple):
    """Where a sweep stands: the cells asked for, and the seconds that the finished ones took."""

    finished: list[Record]
    missing: list[Cell]
    stale: list[Record]  # those of the finished that other code computed
    seconds: float


class SweepError(RuntimeError):
    """Cells that failed, or a record that is damaged."""


def grid(**axes: Sequence[Any]) -> list[Cell]:
    """All combinations of the values of each argument, the last argument fastest."""
    cells: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        cells = [{**cell, name: value} for cell in cells for value in values]
    return list(cells)


def run_sweep(
    name: str,
    compute: Compute,
    cells: Sequence[Cell],
    *,
    jobs: int = 1,
    cluster: str | None = None,
    folder: Path | None = None,
    watch: Callable[[Record], object] | None = None,
    patience: float = 30,
) -> list[Record]:
    """Compute the cells that are not finished, and return the records of all that were asked for, in order.

    Parameters
    ----------
    name : str
        Lower-case words joined by hyphens: the folder of the records.
    compute : callable
        A function of a module, called as ``compute(**cell)``; it returns an `Outcome`.
    cells : sequence of dict
        Arguments: numbers and strings.
    jobs : int
        Processes on this machine; not used with a cluster.
    cluster : str, optional
        Address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``. Its workers need this package.
    folder : Path, optional
        Where sweeps are kept; `sweeps/` among the stored results by default.
    watch : callable, optional
        Called with each record when its cell has ended.
    patience : float
        Seconds to wait for a cluster's scheduler.

    Raises
    ------
    SweepError
        If cells failed; all others have then been computed and kept.
    """
    home = _home(name, folder)
    status = sweep_status(name, compute, cells, folder=folder)
    failures = []
    for record, error in _run(compute, status.missing, jobs, cluster, patience):
        if error:
            failures.append(f"{_key(record.cell)}: {error}")
            continue
        text = json.dumps(asdict(record), indent=1, sort_keys=True, allow_nan=False) + "\n"
        write_atomically(home / f"{_key(record.cell)}.json", functools.partial(_write, text))
        if watch:
            watch(record)
    if failures:
        raise SweepError(f"{len(failures)} of {len(cells)} cells failed:\n" + "\n".join(failures))
    return sweep_status(name, compute, cells, folder=folder).finished


def sweep_status(name: str, compute: Compute, cells: Sequence[Cell], *, folder: Path | None = None) -> Status:
    """Look up which cells are finished; nothing is computed. Parameters are those of `run_sweep`."""
    home, closure = _home(name, folder), _closure(compute)
    finished, missing = [], []
    for cell in cells:
        path = home / f"{_key(cell)}.json"
        if path.is_file():
            finished.append(_read(path))
        else:
            missing.append(cell)
    stale = [record for record in finished if record.closure != closure]
    return Status(finished, missing, stale, sum(record.seconds for record in finished))


def records(name: str, *, folder: Path | None = None) -> list[Record]:
    """All finished cells of a sweep, sorted by name."""
    return [_read(path) for path in sorted(_home(name, folder).glob("*.json"))]


def _run(
    compute: Compute, cells: Sequence[Cell], jobs: int, cluster: str | None, patience: float
) -> Iterator[tuple[Record, str]]:
    """Yield records as cells end, in any order."""
    if not cells:
        return
    from joblib import Parallel, delayed

    tasks = [delayed(_finish)(compute, dict(cell)) for cell in cells]
    with _backend(cluster, patience):
        n_jobs = -1 if cluster else min(jobs, len(cells))
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all")(
            tasks
        )


@contextlib.contextmanager
def _backend(cluster: str | None, patience: float) -> Iterator[None]:
    from joblib import parallel_config

    if cluster is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise SweepError(
            "a cluster needs Dask, which is not installed: in the folder of the course, "
            'pip install ".[cluster]"'
        ) from None
    try:
        client = Client(cluster, timeout=patience, set_as_default=False)
    except (OSError, ValueError) as error:
        raise SweepError(
            f"no Dask scheduler answers at {cluster} ({error}); start one with: dask scheduler"
        ) from None
    with client, parallel_config("dask", client=client):
        yield


def _finish(compute: Compute, cell: dict[str, Any]) -> tuple[Record, str]:
    """Compute one cell, wherever this runs; an error is returned, so that it stops no other cell."""
    start = time.perf_counter()
    outcome, error = Outcome({}, {}), ""
    try:
        outcome = compute(**cell)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    record = Record(
        cell=cell,
        numbers=outcome.numbers,
        speed=outcome.speed,
        seconds=round(time.perf_counter() - start, 2),
        device=gpu_name() or processor_name(),
        closure=_closure(compute),
        versions=versions(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    return record, error


def _home(name: str, folder: Path | None) -> Path:
    return (folder or results_folder() / "sweeps") / name


def _key(cell: Cell) -> str:
    """File name of a cell: its arguments, readable."""
    return "_".join(f"{name}-{value}" for name, value in cell.items())


def _closure(compute: Compute) -> str:
    function = compute.func if isinstance(compute, functools.partial) else compute
    return closure_hash(f"import {function.__module__}")


def _write(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8")


def _read(path: Path) -> Record:
    try:
        return Record(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise SweepError(f"{path} is damaged ({error}); delete it, and its cell is computed again") from None
