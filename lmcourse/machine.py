"""What this machine is: processor, GPU, versions. Probing never fails; what is not there is None."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from lmcourse import __version__


def gpu_name() -> str | None:
    """Return the name of the first CUDA GPU that torch can use, or None."""
    try:
        import torch

        return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else None
    except Exception:  # a broken driver raises almost anything
        return None


def processor_name() -> str:
    """Return the processor's name, as far as the operating system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of lmcourse, Python and the numerical packages that this process has loaded."""
    loaded = ("numpy", "scipy", "torch", "transformers", "cvxpy")
    found = {name: str(sys.modules[name].__version__) for name in loaded if name in sys.modules}
    return {"lmcourse": __version__, "python": platform.python_version(), **found}


def memory_gigabytes() -> float | None:
    """Return the machine's main memory in GB, or None where it cannot be asked."""
    try:
        import psutil

        return float(psutil.virtual_memory().total) / 1e9
    except Exception:  # not installed, or a system that psutil does not know
        return None
