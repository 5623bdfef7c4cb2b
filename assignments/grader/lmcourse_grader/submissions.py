"""Find what was handed in: one file a student, names made safe, nothing followed out of the folder."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".ipynb", ".zip")
MAX_BYTES = 300_000_000
# Canvas names the files of a bulk download so: doejane_LATE_4711_123456_a1-2.ipynb
CANVAS = re.compile(r"^(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_\d+_.*$", re.IGNORECASE)


@dataclass(frozen=True)
class Submission:
    """One student's file; `problem` says why there is none to grade, in a sentence for the student."""

    student: str
    name: str
    path: Path | None
    problem: str = ""

    @property
    def safe(self) -> str:
        """A file name for this student, different for different students."""
        plain = re.sub(r"[^A-Za-z0-9_@-]", "_", self.student)[:60]
        if plain == self.student and plain == plain.lower():
            return plain
        return f"{plain or 'student'}.{hashlib.sha256(self.student.encode()).hexdigest()[:8]}"


def discover(folder: Path, assignment: str, names: str = "plain") -> list[Submission]:
    """List the submissions in a folder: files ``STUDENT.ipynb`` or ``.zip``, or folders ``STUDENT/``.

    Parameters
    ----------
    folder
        What the students handed in; or one file.
    assignment
        A notebook of this name is preferred where a student's folder holds several.
    names
        "plain", or "canvas" for the names of Canvas's bulk download.
    """
    if names not in ("plain", "canvas"):
        raise ValueError(f"names are plain or canvas, not {names!r}")
    if not folder.exists():
        raise ValueError(f"{folder} does not exist")
    entries = sorted(folder.iterdir()) if folder.is_dir() else [folder]
    found: dict[str, list[Path]] = {}
    people: dict[str, str] = {}
    for entry in entries:
        if entry.name.startswith(".") and entry.suffix.lower() not in SUFFIXES:
            continue
        if not (entry.is_dir() or entry.suffix.lower() in SUFFIXES or entry.is_symlink()):
            continue
        student, person = _who(entry, names)
        people[student] = person
        found.setdefault(student, []).extend(_files(entry, assignment))
    return [_one(student, people[student], paths) for student, paths in sorted(found.items())]


def left_out(folder: Path) -> list[str]:
    """Name what lies in a folder of submissions and is none: whoever handed it in has no row."""
    return sorted(
        ascii(entry.name)[1:-1]
        for entry in (folder.iterdir() if folder.is_dir() else ())
        if not (entry.name.startswith(".") or entry.is_dir() or entry.is_symlink())
        and entry.suffix.lower() not in SUFFIXES
    )


def _who(entry: Path, names: str) -> tuple[str, str]:
    stem = entry.name if entry.is_dir() else entry.name[: -len(entry.suffix)] if entry.suffix else entry.name
    stem = unicodedata.normalize("NFC", stem.encode("utf-8", "replace").decode())
    stem = "".join(character if character.isprintable() else "?" for character in stem) or "?"
    if names == "canvas" and (match := CANVAS.match(stem)):
        return match["id"], match["name"]
    return stem, ""


def _files(entry: Path, assignment: str) -> list[Path]:
    """Files of an entry; links are listed, not followed."""
    if entry.is_symlink() or not entry.is_dir():
        return [entry]
    files = [
        Path(where, name)
        for where, folders, names in os.walk(entry)
        if ".ipynb_checkpoints" not in Path(where).parts and "__MACOSX" not in Path(where).parts
        for name in sorted(names)
        if Path(name).suffix.lower() in SUFFIXES
    ]
    named = [file for file in files if file.stem.lower() == assignment.lower()]
    return named or files


def _one(student: str, person: str, paths: list[Path]) -> Submission:
    problem, chosen = "", None
    if any(path.is_symlink() or not path.is_file() for path in paths):
        problem = "What was handed in is a symbolic link, not a file."
    elif not paths:
        problem = "There is no notebook and no zip file."
    elif too_large := [path for path in paths if path.stat().st_size > MAX_BYTES]:
        problem = f"The file {too_large[0].name[:60]} is larger than 300 MB: clear the notebook's outputs."
    elif len(paths) > 1 and len({digest(path) for path in paths}) > 1:
        listed = ", ".join(sorted(path.name[:60] for path in paths)[:5])
        problem = f"There are {len(paths)} files ({listed}) and it is not clear which one counts."
    else:
        chosen = paths[0]
    return Submission(student, person, chosen, problem)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
