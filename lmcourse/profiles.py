"""How large the experiments are: `smoke`, `cpu` or `gpu`.

The environment variable ``LMCOURSE_PROFILE`` names the profile. A profile changes sizes and nothing
else: what a chapter asserts, it asserts in every profile. ``LMCOURSE_STRICT`` is the other switch.
"""

from __future__ import annotations

import os
from typing import TypeVar

PROFILES = ("smoke", "cpu", "gpu")
DEFAULT = "cpu"

T = TypeVar("T")


def profile() -> str:
    """Return the profile in force.

    Returns
    -------
    str
        ``"smoke"`` (seconds, to see that everything runs), ``"cpu"`` (two cores; the default) or
        ``"gpu"`` (the sizes of the papers).

    Raises
    ------
    ValueError
        If ``LMCOURSE_PROFILE`` is set to anything else.
    """
    name = os.environ.get("LMCOURSE_PROFILE", "").strip() or DEFAULT
    if name not in PROFILES:
        raise ValueError(
            f"LMCOURSE_PROFILE is {name!r}; set it to one of {', '.join(PROFILES)}, "
            f"or unset it for {DEFAULT!r}"
        )
    return name


def choose(*, smoke: T, cpu: T, gpu: T) -> T:
    """Return the size that belongs to the profile in force.

    Parameters
    ----------
    smoke, cpu, gpu
        The value in each profile. All three are required, so that no chapter is silent about one.

    Examples
    --------
    >>> n_sequences = choose(smoke=200, cpu=5000, gpu=50000)
    """
    return {"smoke": smoke, "cpu": cpu, "gpu": gpu}[profile()]


def strict() -> bool:
    """Whether stale results are errors, as in a strict build (``LMCOURSE_STRICT=1``)."""
    return os.environ.get("LMCOURSE_STRICT", "") not in ("", "0")
