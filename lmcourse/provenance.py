"""The record that a stored result is: values, arrays, and where they come from.

A JSON file with an npz file beside it when there are arrays, both under checksums: one that was cut short or
edited is refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmcourse.folders import write_atomically


class ResultError(RuntimeError):
    """A stored result that is missing, stale, cut short or edited, with what to do about it."""


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from.

    Attributes
    ----------
    function
        ``module:name`` of the function that computed it.
    inputs, seed, profile
        What it was called with, and the profile in force.
    needs_gpu
        Whether only a machine with a GPU can compute it again.
    device
        Name of the processor or GPU.
    seconds
        Wall time.
    closure
        Hash of the import closure of the function's module.
    versions
        Of Python, lmcourse and the numerical packages that were loaded.
    created
        Date and time, UTC.
    """

    function: str
    inputs: dict[str, Any]
    seed: int
    profile: str
    needs_gpu: bool
    device: str
    seconds: float
    closure: str
    versions: dict[str, str]
    created: str


@dataclass(frozen=True)
class Result:
    """A computed or stored result.

    Attributes
    ----------
    name
        Name under which it is stored.
    values
        Numbers, strings and lists.
    arrays
        Arrays.
    provenance
        Where it comes from.
    stale
        Why it is not fresh, or the empty string.
    """

    name: str
    values: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    provenance: Provenance
    stale: str = ""

    @property
    def fresh(self) -> bool:
        """Whether computing it again would run the same code on the same inputs."""
        return not self.stale

    @property
    def note(self) -> str:
        """One line for the reader: by which version, on what device, in which time, and whether stale."""
        p = self.provenance
        line = (
            f"computed at version {p.versions['lmcourse']} ({p.closure[:8]}) on {p.device}, "
            f"profile {p.profile}, {p.seconds:.0f} s, {p.created[:10]}"
        )
        return f"{line}; not recomputed since: {self.stale}" if self.stale else line


def write_result(path: Path, result: Result) -> None:
    """Write a result to the JSON file `path`, its arrays to an npz file beside it.

    The arrays' file is named by their hash and written first, so that the JSON file always names a whole one,
    whoever else writes at the same time.
    """
    before = _named_arrays(path)
    record: dict[str, Any] = {
        "name": result.name,
        "provenance": asdict(result.provenance),
        "values": result.values,
        "arrays": None,
    }
    if result.arrays:
        data = _npz(result.arrays)
        digest = _sha256(data)
        arrays = path.with_suffix(f".{digest[:12]}.npz")
        write_atomically(arrays, lambda p: p.write_bytes(data))
        record["arrays"] = {"file": arrays.name, "sha256": digest}
    record["sha256"] = _sha256(_canonical(record))
    text = json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    write_atomically(path, lambda p: p.write_text(text, encoding="utf-8"))
    if before and before != (record["arrays"] or {}).get("file"):
        (path.parent / before).unlink(missing_ok=True)


def _npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return an npz archive, the same bytes for the same arrays, whatever they are called."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue()


def _named_arrays(path: Path) -> str | None:
    """Return the name of the arrays' file in the record at `path`, or None."""
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["arrays"]["file"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_result(path: Path) -> Result:
    """Read what `write_result` wrote.

    Raises
    ------
    ResultError
        If the file is missing, cut short or edited, belongs elsewhere, or its arrays are damaged.
    """
    name, profile, *_ = path.name.split(".")
    advice = f"restore {path.name} from version control, or delete it and compute it again"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        digest = record.pop("sha256")
    except FileNotFoundError:
        raise ResultError(f"no result {name!r} is stored as {path}") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise ResultError(f"result {name!r} is cut short or not a result file; {advice}") from None
    if digest != _sha256(_canonical(record)):
        raise ResultError(f"result {name!r} was edited since it was computed (checksum differs); {advice}")
    if (record.get("name"), record["provenance"]["profile"]) != (name, profile):
        was = f"{record.get('name')}.{record['provenance']['profile']}.json"
        raise ResultError(f"{path.name} was stored as {was}; a result keeps its name and profile: {advice}")
    arrays: dict[str, NDArray[Any]] = {}
    if record["arrays"]:
        file = path.parent / record["arrays"]["file"]
        if not file.is_file() or _sha256(file.read_bytes()) != record["arrays"]["sha256"]:
            raise ResultError(f"the arrays of result {name!r} ({file.name}) are missing or changed; {advice}")
        with np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
    return Result(name, record["values"], arrays, Provenance(**record["provenance"]))


def _canonical(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, sort_keys=True, ensure_ascii=False).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
