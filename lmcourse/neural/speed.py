"""How fast a machine computes, and which share of that a training run used."""

from __future__ import annotations

import time

import torch


def peak_flops(device: torch.device | str = "cpu", *, bf16: bool = False, seconds: float = 0.1) -> float:
    """Floating-point operations per second of a large matrix product: the peak in practice.

    Parameters
    ----------
    device : torch.device or str
        Where; on a CPU, with the threads that torch uses at present.
    bf16 : bool
        In bfloat16 rather than float32.
    seconds : float
        Time to spend; the fastest product counts.
    """
    device = torch.device(device)
    size = 8192 if device.type == "cuda" else 768
    a = torch.ones(size, size, device=device, dtype=torch.bfloat16 if bf16 else torch.float32)
    best = 0.0
    end = time.perf_counter() + seconds
    while best == 0.0 or time.perf_counter() < end:
        _wait(device)
        start = time.perf_counter()
        a @ a
        _wait(device)
        best = max(best, 2.0 * size**3 / (time.perf_counter() - start))
    return best


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
