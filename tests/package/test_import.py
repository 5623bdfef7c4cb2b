"""Importing the package is quick and light, in processor time (a busy machine does not change it)."""

import subprocess
import sys

HEAVY = ("torch", "transformers", "matplotlib", "ipywidgets", "pandas")


def in_new_process(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_is_quick():
    code = "import time; t = time.process_time(); import lmcourse; print(time.process_time() - t)"
    assert min(float(in_new_process(code)) for _ in range(3)) < 0.5


def test_core_modules_import_nothing_heavy():
    """Every module but the command line, all together, in under half a second and without heavy packages."""
    code = f"""
import importlib, pathlib, sys, time
t = time.process_time()
import lmcourse
for path in pathlib.Path(lmcourse.__path__[0]).glob("*.py"):
    if path.stem not in ("cli", "__init__"):
        importlib.import_module("lmcourse." + path.stem)
print(time.process_time() - t, [m for m in {HEAVY!r} if m in sys.modules])
"""
    outputs = [in_new_process(code).split(" ", 1) for _ in range(3)]
    assert min(float(seconds) for seconds, _ in outputs) < 0.5
    assert outputs[0][1].strip() == "[]"
