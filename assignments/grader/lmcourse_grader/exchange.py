"""Across the wall: a question's job going in, replies coming out, and nothing of them trusted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from lmcourse_grader.inside import values
from lmcourse_grader.notebook import Chosen
from lmcourse_grader.sandbox import NoSandbox, Outcome

MAX_TEXT = 700
MAX_LINES = 10_000


@dataclass(frozen=True)
class Reply:
    """What came back for one case.

    `kind` is "answer" (`value` holds it), "type" (`text` names a type that may not cross), "error" (`text`
    is the exception) or "none": no reply came.
    """

    kind: Literal["answer", "type", "error", "none"]
    value: Any = None
    text: str = ""


@dataclass(frozen=True)
class Replies:
    """All replies of a question; `missing` says that the function was never defined, and why."""

    cases: tuple[Reply, ...]
    missing: str | None = None


def job(chosen: Chosen, function: str, arguments: tuple[Any, ...]) -> bytes:
    """Write the job of one question."""
    return json.dumps(
        {"cells": chosen.sources, "own": chosen.own, "function": function, "cases": arguments}
    ).encode()


def messages(outcome: Outcome) -> list[dict[str, Any]]:
    """Read the lines of the answer channel that are JSON objects; others are dropped, and all after many."""
    found = []
    for line in outcome.answers.split(b"\n", MAX_LINES)[:MAX_LINES]:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(message, dict):
            found.append(message)
    return found


def began(outcome: Outcome) -> bool:
    """Whether the runner got as far as its first line: if not, the fault is not the student's."""
    return outcome.answers.startswith(b'{"ready": true}\n')


def insist_on_start(outcome: Outcome) -> None:
    """Raise `NoSandbox` unless the runner began."""
    if not began(outcome):
        raise NoSandbox(f"the sandbox did not start: {outcome.ended}, {outcome.printed[:300]}")


def replies(outcome: Outcome, n_cases: int) -> Replies:
    """Sort the messages of a question by case; of several for one case the first counts."""
    found: dict[int, Reply] = {}
    missing = None
    for message in messages(outcome):
        if "missing" in message:
            missing = text(message["missing"])
        number = message.get("case")
        if type(number) is int and 0 <= number < n_cases and number not in found:
            found[number] = _reply(message)
    return Replies(tuple(found.get(number, Reply("none")) for number in range(n_cases)), missing)


def _reply(message: dict[str, Any]) -> Reply:
    if "type" in message:
        return Reply("type", text=text(message["type"]))
    if "error" in message:
        told = text(message["error"]) + text(message.get("where"))
        if before := text(message.get("before")):
            told += f". Before that, while the cells were read: {before}"
        return Reply("error", text=told)
    try:
        return Reply("answer", value=values.decode(message["answer"]))
    except (KeyError, ValueError, TypeError, RecursionError, MemoryError):
        return Reply("type", text="something that is not a plain value")


def text(value: Any) -> str:
    """Return a string that is safe to keep and print: short, without control characters."""
    short = value[:MAX_TEXT] if isinstance(value, str) else ""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in short)
