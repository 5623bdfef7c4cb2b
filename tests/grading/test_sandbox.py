"""Confinement: each wall is seen to stand, and seen to be missed when it is taken out."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lmcourse_grader import exchange, sandbox
from lmcourse_grader.notebook import Chosen
from lmcourse_grader.sandbox import Limits

TWO_SECONDS = Limits(seconds=2)


def call(way, body, limits=TWO_SECONDS):
    """Run a function body confined; return its answer, or the error's text."""
    source = "def f():\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    outcome = sandbox.run(way, "question", exchange.job(Chosen((source,), 0), "f", ({"dict": []},)), limits)
    assert exchange.began(outcome), outcome
    reply = exchange.replies(outcome, 1).cases[0]
    return reply.value if reply.kind == "answer" else reply.text


@pytest.fixture
def weakened(monkeypatch):
    """Take options out of the command line, or limits out of the runner's."""
    command = sandbox.command

    def do(drop="", limit=""):
        def weak(*args, **kwargs):
            parts = command(*args, **kwargs)
            if drop == "--seccomp":
                place = parts.index(drop)
                del parts[place : place + 2]
            elif drop:
                parts.remove(drop)
            if limit:
                told = json.loads(parts[-1])
                del told[limit]
                parts[-1] = json.dumps(told)
            return parts

        monkeypatch.setattr(sandbox, "command", weak)

    return do


CONNECT = "import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=1)\nreturn 'through'"
FORK = "import os\nif os.fork() == 0: os._exit(0)\nreturn 'through'"
ALLOCATE = "import numpy as np\nx = np.empty(2 * 10**9, dtype='u1')\nreturn 'through'"
WRITE = "with open('/tmp/x', 'wb') as f:\n    f.truncate(10**8)\nreturn 'through'"
SHARED = "import ctypes\nreturn 'through' if ctypes.CDLL(None).shmget(0, 4096, 0o1666) >= 0 else 'refused'"
SIGNAL = "import os\nos.kill({pid}, 0)\nreturn 'through'"

WALLS = {
    "network": (CONNECT, "--unshare-net", ""),
    "processes": (FORK, "", "NPROC"),
    "memory": (ALLOCATE, "", "AS"),
    "file size": (WRITE, "", "FSIZE"),
    "system calls": (SHARED, "--seccomp", ""),
}


@pytest.mark.parametrize("name", WALLS)
def test_wall_stands_and_is_missed_without_it(way, weakened, name):
    body, drop, limit = WALLS[name]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        body = body.format(port=listener.getsockname()[1])
        assert call(way, body) != "through"
        weakened(drop, limit)
        assert call(way, body) == "through"


def test_other_processes_are_out_of_sight(way, weakened):
    body = SIGNAL.format(pid=os.getpid())
    assert "No such process" in call(way, body)
    weakened("--unshare-pid")
    assert "No such process" not in call(way, body)


def test_a_file_is_seen_only_if_it_is_bound(way, tmp_path, monkeypatch):
    (tmp_path / "hidden.py").write_text("QUESTIONS = {}")
    tmp_path.chmod(0o755)
    body = "import os\nreturn sorted(os.listdir('/private'))"
    assert "No such file" in call(way, body)
    files = sandbox._files
    bound = ["--ro-bind", str(tmp_path), "/private"]
    monkeypatch.setattr(sandbox, "_files", lambda: [*files()[:-2], *bound, *files()[-2:]])
    assert call(way, body) == ["hidden.py"]


def test_the_folder_has_a_limit(way):
    body = (
        "n = 0\ntry:\n    while n < 1000:\n        with open(f'/tmp/{n}', 'wb') as f: f.write(b'x' * 10**6)\n"
        "        n += 1\nexcept OSError as e: return n, e.errno\nreturn n, 0"
    )
    written, code = call(way, body)
    assert written <= Limits.folder_mb
    assert code == 28


def test_nothing_of_the_environment_comes_in(way, monkeypatch):
    monkeypatch.setenv("SECRET", "a secret")
    found = call(way, "import os\nreturn dict(os.environ)")
    assert set(found) <= {*sandbox.ENVIRONMENT, "PWD", "LC_CTYPE"}


def test_time_ends_everything(way):
    import time

    start = time.monotonic()
    outcome = sandbox.run(
        way,
        "question",
        exchange.job(Chosen(("def f():\n    import time\n    time.sleep(100)",), 0), "f", ({"dict": []},)),
        Limits(seconds=1, patience=0.5),
    )
    assert outcome.ended == "time"
    assert time.monotonic() - start < 20


def test_no_bubblewrap_is_a_clear_refusal(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(sandbox.NoSandbox, match="apt-get install bubblewrap"):
        sandbox.detect()


def test_another_system_is_a_clear_refusal(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(sandbox.NoSandbox, match="WSL"):
        sandbox.detect()


def test_a_sandbox_that_does_not_start_is_a_clear_refusal(monkeypatch):
    command = sandbox.command

    def broken(*args, **kwargs):
        return [*command(*args, **kwargs)[:1], "--no-such-option"]

    monkeypatch.setattr(sandbox, "command", broken)
    with pytest.raises(sandbox.NoSandbox, match="cannot confine here"):
        sandbox.detect()


def as_ordinary_user(program: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a user that is not root, in a view of this machine where that user may read Python."""
    python = [sys.executable, "-c", program]
    if os.geteuid() != 0:
        return subprocess.run(python, capture_output=True, text=True)
    parts = ["bwrap", "--dev-bind", "/", "/"]
    package = Path(sandbox.__file__).parents[1]
    opened: set[Path] = set()
    for folder in (Path(sys.base_prefix), Path(sys.prefix), package, *sandbox._packages().values()):
        closed = [parent for parent in reversed(folder.parents) if not parent.stat().st_mode & 1]
        if closed and closed[0] not in opened:
            opened.add(closed[0])
            parts += ["--perms", "0755", "--tmpfs", str(closed[0])]
        for parent in reversed(folder.parents):
            if closed and parent.is_relative_to(closed[0]) and parent not in opened:
                opened.add(parent)
                parts += ["--perms", "0755", "--dir", str(parent)]
        if closed:
            parts += ["--ro-bind", str(folder), str(folder)]
    become = ["setpriv", "--reuid", "4711", "--regid", "4711", "--clear-groups", "--no-new-privs"]
    path = {"PYTHONPATH": str(package)}
    return subprocess.run(
        [*parts, "--", *become, *python], capture_output=True, text=True, env=os.environ | path, cwd="/"
    )


PROGRAM = """
import os
from lmcourse_grader import exchange, sandbox
from lmcourse_grader.notebook import Chosen
print("uid", os.geteuid())
way = sandbox.detect()
print("way", way)
for body in BODIES:
    source = "def f():\\n" + "".join(f"    {line}\\n" for line in body.split("\\n"))
    job = exchange.job(Chosen((source,), 0), "f", ({"dict": []},))
    reply = exchange.replies(sandbox.run(way, "question", job, sandbox.Limits(seconds=2)), 1).cases[0]
    print("reply", reply.kind, reply.value, reply.text)
"""


def test_an_ordinary_user_confines_too(way):
    allowed = (
        as_ordinary_user("import os; os.execvp('unshare', ['unshare', '--user', 'true'])").returncode == 0
    )
    bodies = [
        "return 'works'",
        CONNECT.format(port=1),
        FORK,
        ALLOCATE,
        SHARED,
        "import os\nreturn os.listdir('/')",
    ]
    done = as_ordinary_user(PROGRAM.replace("BODIES", repr(bodies)))
    if not allowed:
        assert "user namespaces" in done.stderr
        return
    assert "way user" in done.stdout, done.stderr
    assert "uid 0" not in done.stdout
    replies = [line for line in done.stdout.splitlines() if line.startswith("reply")]
    assert len(replies) == len(bodies)
    assert replies[0].startswith("reply answer works")
    assert not [line for line in replies if "through" in line]
    assert "home" not in replies[-1]
