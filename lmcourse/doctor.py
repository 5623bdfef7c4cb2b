"""Whether this machine can run the course, and what to do where it cannot."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lmcourse import __version__, data
from lmcourse.folders import cache_folder, project_folder, results_folder
from lmcourse.machine import gpu_name, memory_gigabytes, processor_name
from lmcourse.profiles import profile

OK, ADVICE, PROBLEM = "ok", "advice", "problem"

_NEEDED_FOR = {
    "the theory": ("numpy", "scipy"),
    "the chapters": ("matplotlib", "ipywidgets", "ipykernel"),
    "trained models": ("torch", "transformers", "safetensors", "gguf", "scikit-learn"),
    "convex programs": ("cvxpy", "clarabel", "mpmath"),
    "the book": ("jupyter-book", "sphinx-proof", "sphinx-exercise"),
}
_EXTRA = {
    "the chapters": "chapters",
    "trained models": "neural",
    "convex programs": "solvers",
    "the book": "book",
}


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report.

    Attributes
    ----------
    topic
        What was looked at.
    status
        ``"ok"``, ``"advice"`` (works, could be better) or ``"problem"`` (something will not run).
    found
        What was found.
    advice
        What to do; empty when all is well.
    """

    topic: str
    status: str
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Look at Python, packages, cores, memory, GPU, network, profile and folders. Nothing here fails."""
    return [
        _python(),
        *_packages(),
        _cores(),
        _memory(),
        _gpu(),
        _network(),
        _profile(),
        _folder("cache folder", cache_folder, "LMCOURSE_CACHE"),
        _data(),
        _folder("results folder", results_folder, "LMCOURSE_RESULTS"),
        _project(),
    ]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] != (3, 11):
        advice = "the exact pins in requirements.txt are for Python 3.11; the package itself runs here"
        return Finding("Python", ADVICE, version, advice)
    return Finding("Python", OK, version)


def _packages() -> list[Finding]:
    findings = []
    for purpose, packages in _NEEDED_FOR.items():
        versions = {package: _version(package) for package in packages}
        missing = [package for package, version in versions.items() if version is None]
        found = ", ".join(f"{p} {v}" for p, v in versions.items() if v is not None) or "none"
        if missing:
            extra = _EXTRA.get(purpose)
            target = f'".[{extra}]"' if extra else "."
            advice = (
                f"missing: {', '.join(missing)}; in the course's folder: make setup, or pip install {target}"
            )
            findings.append(Finding(f"packages for {purpose}", PROBLEM, found, advice))
        else:
            findings.append(Finding(f"packages for {purpose}", OK, found))
    return findings


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cores() -> Finding:
    cores = os.cpu_count() or 1
    found = f"{cores} ({processor_name()})"
    if cores < 2:
        return Finding("cores", ADVICE, found, "chapters are timed on two cores; expect twice the time")
    return Finding("cores", OK, found)


def _memory() -> Finding:
    memory = memory_gigabytes()
    if memory is None:
        return Finding("memory", ADVICE, "unknown", "chapters need about 4 GB, the real-text chapter 8 GB")
    found = f"{memory:.1f} GB"
    if memory < 4:
        advice = "close other programs, or use LMCOURSE_PROFILE=smoke; chapters are made for 4 GB and more"
        return Finding("memory", ADVICE, found, advice)
    return Finding("memory", OK, found)


def _gpu() -> Finding:
    name = gpu_name()
    if name is None:
        return Finding("GPU", OK, "none; none is needed, every chapter runs on the processor")
    if profile_or_none() != "gpu":
        return Finding("GPU", ADVICE, name, "LMCOURSE_PROFILE=gpu runs the chapters at the papers' sizes")
    return Finding("GPU", OK, name)


def _network() -> Finding:
    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    found = "not used: the course runs without it once it is installed and its data is fetched"
    return Finding("network", OK, found + (" (HF_HUB_OFFLINE is set)" if offline else ""))


def _data() -> Finding:
    try:
        missing = [name for name in data.names() if data.problems(name)]
    except (OSError, RuntimeError):  # the line on the cache folder says why
        missing = data.names()
    if missing:
        advice = "chapter 8 reads it: lmcourse data fetch"
        return Finding("data", ADVICE, f"not here: {', '.join(missing)}", advice)
    return Finding("data", OK, ", ".join(data.names()))


def profile_or_none() -> str | None:
    """Return the profile in force, or None where its variable is wrong."""
    try:
        return profile()
    except ValueError:
        return None


def _profile() -> Finding:
    try:
        name = profile()
    except ValueError as error:
        return Finding("profile", PROBLEM, os.environ["LMCOURSE_PROFILE"], str(error))
    if name == "gpu" and gpu_name() is None:
        return Finding(
            "profile", ADVICE, name, "there is no GPU here: unset LMCOURSE_PROFILE, or wait for long"
        )
    return Finding("profile", OK, name)


def _folder(topic: str, find: Callable[[], Path], variable: str) -> Finding:
    """Look at a folder that the course writes to, or at the nearest one above it that exists."""
    advice = f"set {variable} to a folder that can be written to"
    try:
        folder = find()
        existing = next(f for f in (folder, *folder.parents) if f.exists())
        free = shutil.disk_usage(existing).free / 1e9
    except (OSError, RuntimeError, StopIteration) as error:  # an unknown user, a broken link
        return Finding(topic, PROBLEM, f"{os.environ.get(variable)}: {error}", advice)
    found = f"{folder} ({free:.0f} GB free)"
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        return Finding(topic, PROBLEM, found, advice)
    if free < 2:
        return Finding(topic, ADVICE, found, f"less than 2 GB free: set {variable} to a larger disk")
    return Finding(topic, OK, found)


def _project() -> Finding:
    folder = project_folder()
    if folder is None:
        return Finding("course", ADVICE, f"lmcourse {__version__}, no checkout around this folder", "")
    return Finding("course", OK, f"lmcourse {__version__} in {folder}")
