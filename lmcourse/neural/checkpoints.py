"""Checkpoints of a training run: tensors as safetensors, everything else as JSON, never half written.

The tensors go first, into a file named by their step; the JSON file then names it with its hash. So what
the JSON file says is always there, and an interruption costs at most the steps since the last checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lmcourse.folders import write_atomically

STATE = "state.json"
LOCK = ".lock"


class CheckpointError(RuntimeError):
    """A checkpoint that is missing, damaged or of another run, with what to do about it."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a folder to this process: two that train into one would drop each other's files.

    Raises
    ------
    CheckpointError
        If another process has it. One that ended, in whatever way, has not.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / LOCK, timeout=0):
            yield
    except Timeout:
        raise CheckpointError(
            f"another process is training in {folder}; wait for it, or use another folder"
        ) from None


def save_checkpoint(
    folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer, record: Mapping[str, Any]
) -> None:
    """Write the state of a run after `step` steps to `folder`, and drop the one before.

    `record` is what else to keep, JSON values.
    """
    from safetensors.torch import save_file

    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    for index, values in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{index}/{name}": value for name, value in values.items()}
    # Weights that a network uses twice are stored twice: safetensors refuses shared memory.
    copies = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    path = folder / f"step-{step}.safetensors"
    write_atomically(path, lambda p: save_file(copies, str(p)))
    state = {"step": step, "tensors": path.name, "sha256": _sha256(path), "record": dict(record)}
    text = json.dumps(state, indent=1, sort_keys=True) + "\n"
    write_atomically(folder / STATE, lambda p: p.write_text(text, encoding="utf-8"))
    for old in folder.glob("*step-*.safetensors"):  # and what a killed process left of one
        if old != path:
            old.unlink()


def read_checkpoint(folder: Path) -> tuple[int, dict[str, Any], dict[str, Tensor]]:
    """Return step, record and tensors of the checkpoint in a folder.

    Raises
    ------
    CheckpointError
        If there is none, or it was cut short or changed.
    """
    from safetensors.torch import load_file

    advice = f"delete {folder} to train from the beginning"
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        step, record, path = int(state["step"]), dict(state["record"]), folder / state["tensors"]
        digest = state["sha256"]
    except FileNotFoundError:
        raise CheckpointError(f"no checkpoint is in {folder}: train first, or correct the path") from None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / STATE} is damaged ({error}); {advice}") from None
    if not path.is_file():
        raise CheckpointError(f"{path} is missing, though {STATE} names it; {advice}")
    if _sha256(path) != digest:
        raise CheckpointError(f"{path} is not what was saved (its hash differs); {advice}")
    return step, record, load_file(str(path))


def load_weights(model: nn.Module, folder: Path) -> int:
    """Give a model the weights of a checkpoint; return the step they are from.

    Raises
    ------
    CheckpointError
        If the checkpoint is missing or damaged, or of a model of another shape.
    """
    step, _, tensors = read_checkpoint(folder)
    put_weights(model, tensors, folder)
    return step


def put_weights(model: nn.Module, tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Give a model the weights among the tensors of a checkpoint; `folder` is for the error."""
    weights = {name.removeprefix("model/"): t for name, t in tensors.items() if name.startswith("model/")}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        what = str(error).replace("\n", " ")
        raise CheckpointError(
            f"the checkpoint in {folder} is of another model: {what}. Build the model with the sizes that it "
            "was trained with"
        ) from None


def put_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimiser its state among the tensors of a checkpoint."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        kind, _, rest = name.partition("/")
        if kind == "optimizer":
            index, _, key = rest.partition("/")
            state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
