"""Run the runner where it can harm nothing: bubblewrap, limits, a clock.

Inside there is a Python, NumPy, SciPy and one small folder to write to; no network, no other process, no
file of the teacher's, no environment, no `/proc`. As root, bubblewrap makes the namespaces itself and the
runner becomes a user that owns nothing; as an ordinary user it runs in a user namespace, which the host
must allow.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import math
import os
import random
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from lmcourse_grader import seccomp

INSIDE = Path(__file__).parent / "inside"
SHOWN = Path("/grader/lmcourse_grader/inside")  # where student code's process sees it
PACKAGES = ("numpy", "numpy.libs", "scipy", "scipy.libs")
ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the same submission, the same order of sets, the same grade
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
MEGABYTE = 1_000_000
KEPT_OUTPUT = 4_000

Way = Literal["root", "user", "none"]


class NoSandbox(RuntimeError):
    """No way to confine student code on this machine; the message says what to do."""


@dataclass(frozen=True)
class Limits:
    """What one process of student code may use.

    `seconds` are of processor time, so that a busy machine fails nobody; the clock on the wall may show
    `patience` times as many, and some to start in.
    """

    seconds: float = 10.0
    memory_mb: int = 1_500
    folder_mb: int = 16
    output_mb: int = 10
    answers_mb: int = 16
    patience: float = 3.0

    @property
    def wall(self) -> float:
        """Seconds on the wall after which a process is killed."""
        return self.patience * self.seconds + 2

    def resources(self, way: Way) -> dict[str, int]:
        """Return the process limits that the runner sets, by the names of `resource`."""
        found = {
            "AS": self.memory_mb * MEGABYTE,
            "CPU": math.ceil(self.seconds),
            "FSIZE": self.folder_mb * MEGABYTE,
            "NOFILE": 64,
            "CORE": 0,
        }
        if way != "none":  # no second process and no thread: memory is then bounded by that of one
            found["NPROC"] = 1
        return found


@dataclass(frozen=True)
class Outcome:
    """How a confined process ended, and what came out of it.

    `ended` is "exit" (`code` is the exit code), "signal" (`code` is its number), "time", "output" or
    "answers" (more of either than allowed).
    """

    ended: Literal["exit", "signal", "time", "output", "answers"]
    code: int
    answers: bytes
    printed: str
    seconds: float


def bound_folders() -> list[Path]:
    """Folders of this machine that student code can read."""
    return [Path("/usr"), *_prefixes(), INSIDE, *_packages().values()]


def _prefixes() -> list[Path]:
    """Return the folders that Python itself needs, beside /usr."""
    found = [Path(os.path.realpath(sys.executable)).parents[1], Path(sys.base_prefix)]
    return [prefix for prefix in dict.fromkeys(found) if not prefix.is_relative_to("/usr")]


@functools.cache
def _packages() -> dict[str, Path]:
    """Return the folders of NumPy and SciPy and of the libraries they bring."""
    found = {}
    for name in ("numpy", "scipy"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise NoSandbox(f"{name} is not installed beside the grader")
        home = Path(spec.origin).parent
        for folder in (home, home.with_name(f"{name}.libs")):
            if folder.is_dir():
                found[folder.name] = folder
    return found


def command(way: Way, task: str, limits: Limits, assignment: str, filter_fd: int | None = None) -> list[str]:
    """Return the command line that does a task ("read" or "question") in a way.

    `filter_fd` is an open file with a filter of system calls.
    """
    told: dict[str, Any] = limits.resources(way) | {"assignment": assignment}
    python = os.path.realpath(sys.executable)
    flags = ["-s", "-S", "-P", "-B", "-X", "utf8"]
    if way == "none":
        told["packages"] = sorted({str(folder.parent) for folder in _packages().values()})
        return [python, *flags, str(INSIDE / "runner.py"), task, json.dumps(told)]
    shared = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    parts = ["bwrap", *shared, "--die-with-parent", "--new-session", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        parts += ["--setenv", name, value]
    become = []
    if way == "root":
        parts += ["--cap-drop", "ALL"]
        for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
            parts += ["--cap-add", capability]
        # A user that nobody is, and another in each run: the limit on processes counts by user.
        nobody = str(random.SystemRandom().randrange(0x7000_0000, 0x7FFF_0000))
        become = [shutil.which("setpriv") or "setpriv", f"--reuid={nobody}", f"--regid={nobody}"]
        become += ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    else:
        parts += ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"]
    parts += _files()
    if filter_fd is not None:
        parts += ["--seccomp", str(filter_fd)]
    return [*parts, "--", *become, python, *flags, str(SHOWN / "runner.py"), task, json.dumps(told)]


def _files() -> list[str]:
    """Bubblewrap's options for the files inside: what is bound, all read-only but /tmp."""
    parts: list[str] = []
    made = {Path("/")}

    def bind(source: Path, target: Path) -> None:
        for folder in reversed(target.parents):
            if folder not in made:
                made.add(folder)
                parts.extend(["--perms", "0755", "--dir", str(folder)])
        made.add(target)
        parts.extend(["--ro-bind", str(source), str(target)])

    bind(Path("/usr"), Path("/usr"))
    for name in ("/lib", "/lib64", "/lib32", "/bin"):
        if os.path.islink(name):
            parts += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            bind(Path(name), Path(name))
    for prefix in _prefixes():
        bind(prefix, prefix)
    bind(INSIDE, SHOWN)
    for name, folder in _packages().items():
        bind(folder, Path("/packages") / name)
    parts += ["--perms", "0755", "--dir", "/dev"]
    for device in ("null", "zero", "urandom", "random"):
        parts += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    size = str(Limits.folder_mb * MEGABYTE)
    parts += ["--perms", "0777", "--size", size, "--tmpfs", "/tmp", "--chdir", "/tmp"]
    return [*parts, "--remount-ro", "/"]


def run(
    way: Way, task: str, data: bytes | IO[bytes], limits: Limits, assignment: str = "assignment"
) -> Outcome:
    """Do a task in a way, with a job on standard input; always returns within the limit of time."""
    with tempfile.TemporaryFile() as spool, tempfile.TemporaryFile() as filter_file:
        calls = seccomp.program() if way != "none" else None
        filter_file.write(calls or b"")
        filter_file.seek(0)
        filter_fd = filter_file.fileno() if calls else None
        if isinstance(data, bytes):
            spool.write(data)
            spool.seek(0)
            data = spool
        start = time.monotonic()
        process = subprocess.Popen(
            command(way, task, limits, assignment, filter_fd),
            pass_fds=[] if filter_fd is None else [filter_fd],
            stdin=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=ENVIRONMENT | {"PATH": os.environ.get("PATH", os.defpath)},
            cwd="/",
        )
        try:
            return _watch(process, limits, start)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def _watch(process: subprocess.Popen[bytes], limits: Limits, start: float) -> Outcome:
    """Read both pipes until they close, or until time or size runs out."""
    assert process.stdout is not None
    assert process.stderr is not None
    answers, printed, printed_size = bytearray(), bytearray(), 0
    deadline = start + limits.wall

    def outcome(ended: Literal["exit", "signal", "time", "output", "answers"], code: int = 0) -> Outcome:
        text = printed.decode("utf-8", "replace")
        return Outcome(ended, code, bytes(answers), text, time.monotonic() - start)

    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(max(left, 0)) if left > 0 else []
            if not ready:
                return outcome("time")
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    answers += chunk
                    if len(answers) > limits.answers_mb * MEGABYTE:
                        return outcome("answers")
                else:
                    printed += chunk[: max(KEPT_OUTPUT - len(printed), 0)]
                    printed_size += len(chunk)
                    if printed_size > limits.output_mb * MEGABYTE:
                        return outcome("output")
    try:
        code = process.wait(timeout=max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        return outcome("time")
    number = -code if code < 0 else code - 128 if code > 128 else 0
    slow = time.monotonic() - start >= limits.resources("none")["CPU"] + 1  # when the kernel kills for time
    if number == signal.SIGXCPU or (number == signal.SIGKILL and slow):
        return outcome("time")
    return outcome("signal", number) if number else outcome("exit", code)


PROBE = b'{"cells": [{"cell_type": "code", "metadata": {}, "source": "1"}], "metadata": {}, "nbformat": 4}'


def detect() -> Way:
    """Return the way in which student code can be confined here; raise `NoSandbox` with advice if none."""
    if sys.platform != "linux":
        raise NoSandbox(
            "Student code is confined by bubblewrap, which needs Linux: on Windows use WSL, on macOS a Linux "
            "container or virtual machine (the grader's README shows both)."
        )
    if shutil.which("bwrap") is None:
        raise NoSandbox("bubblewrap is not installed: apt-get install bubblewrap (or your system's like).")
    way: Way = "root" if os.geteuid() == 0 else "user"
    outcome = run(way, "read", PROBE, Limits())
    if outcome.ended == "exit" and outcome.code == 0 and b'"cells"' in outcome.answers:
        return way
    advice = (
        "inside a container, root needs CAP_SYS_ADMIN (docker run --privileged) and setpriv of util-linux"
        if way == "root"
        else "the host must allow user namespaces to ordinary users: see the grader's README, or run as root"
    )
    raise NoSandbox(f"bubblewrap cannot confine here ({outcome.printed.strip()[:300]}): {advice}.")
