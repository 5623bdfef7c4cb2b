"""The program inside the sandbox: ``runner.py read`` or ``runner.py question``.

A job comes on standard input. Answers leave on what was standard output, a line of JSON each; what student
code prints goes to standard error. Nothing here knows a right answer, so nothing here is worth attacking.
"""

from __future__ import annotations
import __future__

import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
PACKAGES = "/packages"


def main() -> None:
    """Set the limits, take the answer channel, do the job."""
    task, limits = sys.argv[1], json.loads(sys.argv[2])
    _limit(limits)
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message, allow_nan=False) + "\n")
        channel.flush()

    send({"ready": True})
    data = sys.stdin.buffer.read()
    if task == "read":
        from lmcourse_grader.inside import reading

        try:
            send(reading.read(data, limits["assignment"]))
        except reading.Unreadable as problem:
            send({"problem": str(problem)})
        except MemoryError:
            send({"problem": "The file needs more memory than any notebook should: clear its outputs."})
        return
    if os.path.isdir(PACKAGES):
        sys.path.append(PACKAGES)
    else:  # not confined: the grader's own packages
        sys.path += limits["packages"]
    question(json.loads(data), send)


def _limit(limits: dict[str, Any]) -> None:
    """Lower this process's limits for good."""
    import resource

    for name in ("AS", "CPU", "FSIZE", "NPROC", "NOFILE", "CORE"):
        if name in limits:
            soft = limits[name]  # processor time first gets a signal, a second later the end
            hard = soft + 1 if name == "CPU" else soft
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (soft, hard))


def question(job: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    """Define the function from the student's cells and call it on each case."""
    import random

    import numpy as np

    from lmcourse_grader.inside import values

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002, for code that draws without a seed: the same grade twice
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    module.__dict__["display"] = lambda *objects, **how: None  # in a notebook it is always there
    trouble = define(job["cells"], job["own"], job["function"], module.__dict__)
    function = module.__dict__.get(job["function"])
    if not callable(function):
        send({"missing": trouble[-1] if trouble else None})
        return
    for number, arguments in enumerate(job["cases"]):
        message: dict[str, Any] = {"case": number}
        try:
            message["answer"] = values.encode(function(**values.decode(arguments)))
        except values.NotPlain as problem:
            message["type"] = str(problem)
        except BaseException as error:
            message |= _describe(error)
            if trouble and isinstance(error, NameError):
                message["before"] = trouble[-1]
        send(message)
    send({"done": len(job["cases"])})


def define(cells: list[str], own: int, name: str, namespace: dict[str, Any]) -> list[str]:
    """Run the statements that a name needs; return what went wrong in them, a line each."""
    import ast

    from lmcourse_grader.inside import slicing

    trouble, statements, broken = [], [], False
    for number, source in enumerate(cells):
        try:
            for statement in slicing.parse(source).body:
                statement.cell = f"code cell {number + 1}"  # type: ignore[attr-defined]
                statements.append(statement)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            trouble.append(
                f"{type(error).__name__} in code cell {number + 1}" + (f", line {line}" if line else "")
            )
            broken |= number == own
    if broken:  # the question's own cell: what an earlier cell defines is not the answer
        return trouble
    for statement in slicing.needed(statements, [name]):
        code = ast.Module(body=[statement], type_ignores=[])
        try:
            exec(
                compile(
                    code,
                    statement.cell,  # type: ignore[attr-defined]
                    "exec",
                    flags=__future__.annotations.compiler_flag,
                    dont_inherit=True,
                ),
                namespace,
            )
        except BaseException as error:
            told = _describe(error)
            trouble.append(f"{told['error']}{told['where']}")
    return trouble


def _describe(error: BaseException) -> dict[str, Any]:
    """Name an exception and the line of the student's cell it came from."""
    try:
        text = str(error)[:500]
    except BaseException:
        text = ""
    place, trace = "", error.__traceback__
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if filename.startswith("code cell "):
            place = f" ({filename}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return {
        "error": f"{type(error).__name__[:80]}: {text}" if text else type(error).__name__[:80],
        "where": place,
    }


if __name__ == "__main__":
    main()
