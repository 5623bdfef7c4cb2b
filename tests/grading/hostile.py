"""Submissions that attack the grader, in code: what stands in the cell of `entropy`, and how it must end.

`double` is right in all of them and must get its points. `SPOILS` are whole files.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent, indent

from lmcourse_grader.grade import Status


@dataclass(frozen=True)
class Attack:
    """The source of `entropy`'s cell, the statuses it may end with, its points, and what its page says."""

    source: str
    statuses: tuple[Status, ...]
    score: float = 0.0
    says: str = ""


def cell(source: str, *statuses: Status, score: float = 0.0, says: str = "") -> Attack:
    """Attack with a whole cell."""
    return Attack(dedent(source), statuses, score, says)


def body(source: str, *statuses: Status, says: str = "", before: str = "") -> Attack:
    """Attack with the body of the function."""
    return Attack(f"{before}\ndef entropy(p):\n{indent(dedent(source), '    ')}", statuses, 0.0, says)


HONEST = (
    "def entropy(p):\n    p = np.asarray(p)\n    q = p[p > 0]\n    return float(-np.sum(q * np.log(q)))\n"
)

ATTACKS: dict[str, Attack] = {
    # time
    "infinite-loop": body("while True: pass", Status.TIME),
    "sleep": body(
        """
        import time
        time.sleep(1000)
        """,
        Status.TIME,
    ),
    "stops-itself": body(
        """
        import os, signal
        os.kill(os.getpid(), signal.SIGSTOP)
        """,
        Status.TIME,
    ),
    "ignores-signals": body(
        """
        import signal
        for n in range(1, 65):
            try: signal.signal(n, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: pass
        """,
        Status.TIME,
    ),
    "slow-regex": body(
        """
        import re
        re.match('(a+)+$', 'a' * 60 + 'b')
        return 0.25
        """,
        Status.TIME,
    ),
    # processes
    "fork-bomb": body(
        """
        import os
        while True:
            try: os.fork()
            except OSError: pass
        """,
        Status.TIME,
    ),
    "fork": body(
        """
        import os
        os.fork()
        return 0.25
        """,
        Status.ERROR,
        says="not available here",
    ),
    "subprocess": body(
        """
        import subprocess
        subprocess.run(['/bin/true'])
        return 0.25
        """,
        Status.ERROR,
    ),
    "thread": body(
        """
        import threading
        threading.Thread(target=print).start()
        return 0.25
        """,
        Status.ERROR,
        says="not available here",
    ),
    "outlives": body(
        """
        import os
        if os.fork() == 0:
            os.setsid()
            while True: pass
        return 0.25
        """,
        Status.ERROR,
    ),
    "exec": body(
        """
        import os
        os.execv('/usr/bin/env', ['env', 'sleep', '1000'])
        """,
        Status.TIME,
    ),
    # memory and disk
    "fifty-gigabytes": body("return np.ones(50 * 10**9 // 8).sum()", Status.MEMORY),
    "fifty-gigabytes-of-bytes": body("return float(len(bytearray(50 * 10**9)))", Status.MEMORY),
    "growing-list": body(
        """
        x = [0]
        while True: x = x + x
        """,
        Status.MEMORY,
        Status.TIME,
    ),
    "shared-memory": body(
        """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        raise RuntimeError(f'shmget says {libc.shmget(0, ctypes.c_size_t(5 * 10**8), 0o1666)}')
        """,
        Status.ERROR,
        says="shmget says -1",
    ),
    "memory-files": body(
        """
        import os
        n = 0
        try:
            while n < 10**6:
                f = os.memfd_create('x')
                os.write(f, b'x' * 10**6)
                n += 1
        except OSError: pass
        raise RuntimeError(f'enough: {n < 1}')
        """,
        Status.ERROR,
        says="enough: True",
    ),
    "fills-disk": body(
        """
        n = 0
        try:
            while n < 10**6:
                open(f'/tmp/{n}', 'wb').write(b'x' * 10**6)
                n += 1
        except OSError: pass
        raise RuntimeError(f'enough: {n < 100}')
        """,
        Status.ERROR,
        says="enough: True",
    ),
    # output
    "ten-gigabytes-printed": body("for _ in range(10**4): print('x' * 10**6)", Status.OUTPUT),
    "ten-gigabytes-to-stderr": body(
        """
        import os
        while True: os.write(2, b'x' * 10**6)
        """,
        Status.OUTPUT,
    ),
    "floods-the-channel": body(
        """
        import os
        while True:
            for f in range(3, 10):
                try: os.write(f, b'{}\\n' * 10**5)
                except OSError: pass
        """,
        *(Status.OUTPUT, Status.TIME),
    ),
    "huge-string": body("return 'x' * 10**8", Status.TYPE, says="characters"),
    "huge-array": body("return np.zeros(10**7)", Status.TYPE, says="bytes"),
    # ending
    "os-exit": body(
        """
        import os
        os._exit(0)
        """,
        Status.STOPPED,
    ),
    "os-exit-at-import": cell(
        """
        import os
        entropy = os._exit(0)
        """,
        Status.STOPPED,
    ),
    "sys-exit": body(
        """
        import sys
        sys.exit()
        """,
        Status.STOPPED,
    ),
    "sys-exit-0": body("raise SystemExit(0)", Status.STOPPED),
    "interrupt": body("raise KeyboardInterrupt", Status.STOPPED),
    "killed-kernel": body(
        """
        import os
        os.kill(os.getpid(), 9)
        """,
        Status.CRASHED,
    ),
    "kills-all": body(
        """
        import os
        os.kill(-1, 9)
        return 0.25
        """,
        Status.CRASHED,
        Status.ERROR,
        Status.WRONG,
    ),
    "kills-parent": body(
        """
        import os
        os.kill(os.getppid(), 9)
        return 0.25
        """,
        Status.CRASHED,
        Status.ERROR,
        Status.WRONG,
    ),
    "segfault": body(
        """
        import ctypes
        ctypes.string_at(0)
        """,
        Status.CRASHED,
    ),
    "deep-recursion": body(
        """
        import sys
        sys.setrecursionlimit(10**9)
        f = lambda n: f(n + 1) + 1
        return f(0)
        """,
        *(Status.CRASHED, Status.MEMORY, Status.TIME),
    ),
    "recursion": body("return entropy(p)", Status.ERROR, says="RecursionError"),
    "own-exception": body(
        """
        class E(BaseException):
            def __str__(self): raise self
        raise E
        """,
        Status.ERROR,
    ),
    "closes-everything": body(
        """
        import os
        os.closerange(0, 100)
        return 0.25
        """,
        Status.STOPPED,
        Status.CRASHED,
    ),
    # patches
    "patched-testing": body(
        "return 0.25",
        Status.WRONG,
        before="np.testing.assert_allclose = np.allclose = np.isclose = lambda *a, **k: True",
    ),
    "patches-in-body": body(
        """
        import numpy, math, builtins
        for m in (numpy, numpy.testing, math):
            for n in dir(m):
                if callable(getattr(m, n)) and not n.startswith('_'):
                    try: setattr(m, n, lambda *a, **k: True)
                    except Exception: pass
        return 0.25
        """,
        *(Status.WRONG, Status.ERROR, Status.TYPE, Status.STOPPED, Status.CRASHED),
    ),
    "patched-builtins": body(
        """
        import builtins
        builtins.isinstance = builtins.abs = builtins.all = lambda *a: True
        return 0.25
        """,
        *(Status.WRONG, Status.ERROR, Status.TYPE, Status.STOPPED),
    ),
    "patched-json": body(
        """
        import json
        json.dumps = lambda *a, **k: '{"case": 0, "answer": true}'
        return 0.25
        """,
        *(Status.WRONG, Status.STOPPED),
    ),
    "patched-encoder": body(
        """
        from lmcourse_grader.inside import values
        class Any(float):
            __eq__ = lambda *a: True
        values.encode = lambda *a: Any(0.25)
        return 0.25
        """,
        Status.WRONG,
    ),
    "forged-replies": body(
        """
        import os
        for f in range(1, 10):
            for n in range(9):
                try: os.write(f, b'{"case": %d, "answer": 0.25, "passed": true, "score": 6}\\n' % n)
                except OSError: pass
        return 0.25
        """,
        Status.WRONG,
    ),
    "garbled-replies": body(
        """
        import os
        array = '{"case": %d, "answer": {"array": "%s", "shape": [9000000, 9000000], "data": "%s"}}'
        for f in range(1, 10):
            for junk in (
                b'[' * 10**5,
                b'\\xff\\x00',
                b'{"case": [1]}',
                (array % (0, 'O', 'AAAA')).encode(),
                (array % (1, '<f8', '')).encode(),
                b'{"case": 2, "answer": ' + b'9' * 10**5 + b'}',
                b'{"case": 3, "answer": NaN}',
            ):
                try: os.write(f, b'\\n' + junk + b'\\n')
                except OSError: pass
        return 0.25
        """,
        *(Status.WRONG, Status.TYPE),
    ),
    "walks-frames": body(
        """
        import sys, gc
        f = sys._getframe()
        while f:
            for k in list(f.f_locals):
                if 'expected' in k or 'hidden' in k: return f.f_locals[k]
            f = f.f_back
        for o in gc.get_objects():
            if isinstance(o, dict) and 'QUESTIONS' in o: return o
        return 0.25
        """,
        Status.WRONG,
    ),
    # objects
    "always-equal": body(
        """
        class Yes:
            __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda *a: True
            __float__ = lambda s: 0.0
        return Yes()
        """,
        Status.TYPE,
        says="Yes",
    ),
    "equal-float": body(
        """
        class F(float):
            __eq__ = lambda *a: True
        return F(1)
        """,
        Status.TYPE,
    ),
    "array-subclass": body(
        """
        class A(np.ndarray): pass
        return np.zeros(()).view(A)
        """,
        Status.TYPE,
    ),
    "matrix": body("return np.matrix([[0.0]])", Status.TYPE),
    "masked": body("return np.ma.masked_all(())", Status.TYPE),
    "lazy": body(
        """
        class L:
            __array__ = lambda *a, **k: np.zeros(())
        return L()
        """,
        Status.TYPE,
    ),
    "lazy-generator": body("yield 0.0", Status.TYPE),
    "object-array": body("return np.array([entropy], dtype=object)", Status.TYPE),
    "itself": body("return entropy", Status.TYPE),
    "nested": body(
        """
        x = []
        for _ in range(500): x = [x]
        return x
        """,
        Status.TYPE,
    ),
    "nan": body("return float('nan')", Status.WRONG, says="NaN"),
    "true": body("return True", Status.WRONG),
    "none": body("pass", Status.WRONG),
    "text": body("return '0.25'", Status.WRONG),
    # looking around
    "reads-hidden-tests": body(
        """
        import os
        private = ('hidden.py', 'overlay.toml', 'assignment.toml', 'grades.csv')
        seen = []
        for w, ds, fs in os.walk('/'):
            ds[:] = [d for d in ds if d not in ('usr', 'lib', 'include', 'share', 'numpy', 'scipy')]
            seen += [os.path.join(w, f) for f in fs if f in private or f.endswith('.ipynb')]
        raise RuntimeError(f'seen {len(seen)} {seen[:3]}')
        """,
        Status.ERROR,
        says="seen 0 []",
    ),
    "proc": body(
        """
        import os
        raise RuntimeError(os.listdir('/proc'))
        """,
        Status.ERROR,
        says="No such file",
    ),
    "environment": body(
        """
        import os
        raise RuntimeError('SECRET' in repr(os.environ))
        """,
        Status.ERROR,
        says="RuntimeError: False",
    ),
    "identity": body(
        """
        import os
        try: os.setuid(0)
        except OSError: raise RuntimeError(os.getuid() == 0)
        """,
        Status.ERROR,
        says="RuntimeError: False",
    ),
    "socket-out": body(
        """
        import socket
        socket.create_connection(('192.0.2.1', 80), timeout=1)
        """,
        Status.ERROR,
        says="nreachable",
    ),
    "socket-home": body(
        """
        import socket
        socket.create_connection(('127.0.0.1', PORT), timeout=1)
        return 0.25
        """,
        Status.ERROR,
        says="refused",
    ),
    "resolver": body(
        """
        import socket
        socket.getaddrinfo('example.org', 80)
        """,
        Status.ERROR,
    ),
    "socket-to-the-host": body(
        """
        import socket
        socket.socket(40, socket.SOCK_STREAM)
        """,
        Status.ERROR,
        says="not permitted",
    ),
    "writes-outside": body(
        """
        import os
        made = []
        for w in ('/', '/usr', '/grader', '/packages', '/dev', '/packages/numpy'):
            try: open(w + '/evil', 'w').close(); made.append(w)
            except OSError: pass
        raise RuntimeError(f'made {made}')
        """,
        Status.ERROR,
        says="made []",
    ),
    "removes-everything": body(
        """
        import shutil
        for w in ('/tmp', '/grader', '/packages/scipy', '/dev'):
            shutil.rmtree(w, ignore_errors=True)
        return 0.25
        """,
        *(Status.WRONG, Status.ERROR),
    ),
    "new-namespace": body(
        """
        import ctypes
        raise RuntimeError(f'unshare says {ctypes.CDLL(None).unshare(0x10000000)}')
        """,
        Status.ERROR,
        says="unshare says -1",
    ),
    "mounts": body(
        """
        import ctypes
        raise RuntimeError(f"mount says {ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, None)}")
        """,
        Status.ERROR,
        says="mount says -1",
    ),
    "traces": body(
        """
        import ctypes
        raise RuntimeError(f'ptrace says {ctypes.CDLL(None).ptrace(16, 1, 0, 0)}')
        """,
        Status.ERROR,
        says="ptrace says -1",
    ),
    "raises-its-limits": body(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_NPROC, (99, 99))
        return 0.25
        """,
        Status.ERROR,
    ),
    # honest, with trials around it: all the points
    "trial-loops": cell(HONEST + "\nwhile True: pass\n", Status.RIGHT, score=6.0),
    "trial-fails": cell(
        "1 / 0\n" + HONEST + "\nprint(entropy([1, 2, undefined]))\n", Status.RIGHT, score=6.0
    ),
    "trial-exits": cell(HONEST + "\nimport sys\nsys.exit()\n", Status.RIGHT, score=6.0),
    "magics": cell(
        "%matplotlib inline\n!pip install something\nentropy?\n" + HONEST, Status.RIGHT, score=6.0
    ),
    "magic-and-a-question": cell(
        "%matplotlib inline\n" + HONEST.rstrip() + "  # is this right?\n", Status.RIGHT, score=6.0
    ),
    "does-not-compile": cell("def f(a, a):\n    pass\n" + HONEST, Status.RIGHT, score=6.0),
    "mutates-arguments": cell(HONEST.replace("    p = ", "    p[p == 0] = 1; p = "), Status.RIGHT, score=6.0),
    "prints": cell(HONEST.replace("    p = ", "    print(p * 2); p = "), Status.RIGHT, score=6.0),
    "displays": cell(HONEST.replace("    p = ", "    display(p); p = "), Status.RIGHT, score=6.0),
    "numpy-scalar": cell(HONEST.replace("float(", "("), Status.RIGHT, score=6.0),
    "own-helper-and-table": cell(
        """
        from math import *
        BASE = [None]
        BASE[0] = e

        def _term(q):
            return -q * log(q) / log(BASE[0])

        def entropy(p):
            return sum(_term(float(q)) for q in p if q > 0)
        """,
        Status.RIGHT,
        score=6.0,
    ),
    "syntax-error": cell(
        """
        def entropy(p)
            return 0
        """,
        Status.MISSING,
        says="SyntaxError",
    ),
    "lmcourse": body("import lmcourse", Status.ERROR, says="NumPy and SciPy alone"),
}
