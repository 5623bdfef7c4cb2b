"""Grade one question of one submission: run it confined, compare outside, say what was wrong."""

from __future__ import annotations

import copy
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from lmcourse_grader import exchange, sandbox
from lmcourse_grader.assignment import Question
from lmcourse_grader.exchange import Reply
from lmcourse_grader.hidden import Case
from lmcourse_grader.notebook import TEXT_STUB, Cell, code_for, text_for
from lmcourse_grader.overlay import HiddenQuestion


class Status(StrEnum):
    """How a question ended, in a teacher's words."""

    RIGHT = "right"
    PARTLY = "partly right"
    WRONG = "wrong"
    TYPE = "wrong type"
    ERROR = "raises an error"
    UNDONE = "not attempted"
    MISSING = "function not found"
    TIME = "out of time"
    MEMORY = "out of memory"
    OUTPUT = "too much output"
    STOPPED = "stopped Python"
    CRASHED = "crashed Python"
    LOOK = "hidden test failed: look"
    HAND = "to grade by hand"


EXPLAINED = {
    Status.TIME: "Your code did not finish in time. Look for a loop that never ends, or one over array "
    "entries that NumPy could do at once.",
    Status.MEMORY: "Your code asked for more memory than there is. Look for arrays larger than they need be.",
    Status.OUTPUT: "Your code printed or returned far too much. Take out the printing.",
    Status.STOPPED: "Your code ended Python (exit, quit, sys.exit or os._exit) instead of returning.",
    Status.CRASHED: "Python crashed while running your code. Look for recursion that never ends.",
    Status.UNDONE: "This question was left as it was handed out.",
}


@dataclass(frozen=True)
class CaseGrade:
    """One case: passed, or what was wrong and a hint."""

    label: str
    passed: bool
    weight: float = 1.0
    message: str = ""
    hint: str = ""


@dataclass(frozen=True)
class QuestionGrade:
    """A question's grade. `score` is None until a written answer is graded by hand."""

    id: str
    status: Status
    score: float | None
    seconds: float = 0.0
    cases: tuple[CaseGrade, ...] = ()
    note: str = ""
    printed: str = ""
    text: str = ""


def grade(
    question: Question, notebook: list[Cell], hidden: HiddenQuestion | None, way: sandbox.Way
) -> QuestionGrade:
    """Grade a question; written ones are only collected."""
    if question.kind == "written":
        text = text_for(question, notebook)
        if text.strip() in ("", TEXT_STUB):
            return QuestionGrade(question.id, Status.UNDONE, 0.0, note=EXPLAINED[Status.UNDONE])
        return QuestionGrade(question.id, Status.HAND, None, text=text)
    if hidden is None:
        raise ValueError(f"{question.id} has no hidden test")
    chosen = code_for(question, notebook)
    if chosen is None:
        note = f"No function {question.function} was found in the notebook."
        return QuestionGrade(question.id, Status.MISSING, 0.0, note=note)
    work = exchange.job(chosen, question.function, hidden.arguments)
    outcome = sandbox.run(way, "question", work, question.limits)
    exchange.insist_on_start(outcome)
    replies = exchange.replies(outcome, len(hidden.cases))
    if replies.missing is not None:
        cause = f": {replies.missing}" if replies.missing else "."
        note = f"{chosen.note} No function {question.function} was defined{cause}".strip()
        return QuestionGrade(question.id, Status.MISSING, 0.0, outcome.seconds, (), note, outcome.printed)
    judged = tuple(
        _judge(case, reply, hidden) for case, reply in zip(hidden.cases, replies.cases, strict=True)
    )
    status = _status(judged, replies.cases, outcome)
    cases = tuple(case for case, _ in judged)
    won = sum(case.weight for case in cases if case.passed) / sum(case.weight for case in cases)
    if hidden.question.all_or_nothing and won < 1:
        won = 0.0
    note = " ".join(part for part in (chosen.note, EXPLAINED.get(status, "")) if part)
    return QuestionGrade(
        question.id, status, round(question.points * won, 4), outcome.seconds, cases, note, outcome.printed
    )


CHECK_SECONDS = 10


@contextmanager
def _clock(seconds: int) -> Iterator[None]:
    """Raise `TimeoutError` in a check that takes too long (in a process's main thread, on Unix)."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise TimeoutError("the check took too long")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _judge(case: Case, reply: Reply, hidden: HiddenQuestion) -> tuple[CaseGrade, Status]:
    """Compare one reply with what is right; return the grade and the status it suggests."""

    def failed(message: str, status: Status, hint: str = case.hint) -> tuple[CaseGrade, Status]:
        return CaseGrade(case.label, False, case.weight, message, hint), status

    expected = f" Expected: {hidden.question.expects}." if hidden.question.expects else ""
    if reply.kind == "none":
        return failed("No answer came.", Status.ERROR, "")
    if reply.kind == "type":
        return failed(f"The answer has the wrong type: {reply.text}.{expected}", Status.TYPE)
    if reply.kind == "error":
        name = reply.text.split(":")[0].split(" ")[0]
        if name == "NotImplementedError":
            return failed("Not written yet.", Status.UNDONE, "")
        if name in ("MemoryError", "_ArrayMemoryError"):
            return failed("Not enough memory.", Status.MEMORY, "")
        if name in ("SystemExit", "KeyboardInterrupt"):
            return failed("The function ended Python instead of returning.", Status.STOPPED, "")
        more = ""
        if name in ("BlockingIOError", "RuntimeError") and (
            "temporarily" in reply.text or "thread" in reply.text
        ):
            more = " Other processes and threads are not available here."
        elif "No module named" in reply.text:
            more = " Write it with NumPy and SciPy alone: nothing else is there."
        return failed(f"The function raised {reply.text}.{more}", Status.ERROR)
    try:
        with _clock(CHECK_SECONDS):
            message = hidden.question.check(copy.deepcopy(case), reply.value)
        if not isinstance(message, str | None):
            raise TypeError(f"a check returns None or a sentence, not {message!r:.20}")
    except Exception as error:
        return failed(
            f"This answer could not be compared ({type(error).__name__}); your teacher is told.{expected}",
            Status.LOOK,
        )
    if message is None:
        return CaseGrade(case.label, True, case.weight), Status.RIGHT
    return failed(f"{message[:1].upper()}{message[1:]}".rstrip(".") + ".", Status.WRONG)


def _status(
    judged: tuple[tuple[CaseGrade, Status], ...], replies: tuple[Reply, ...], outcome: sandbox.Outcome
) -> Status:
    """One word for all cases: what stopped the process first, then the worst that a case met."""
    suggested = [status for _, status in judged]
    if Status.LOOK in suggested:
        return Status.LOOK
    if any(reply.kind == "none" for reply in replies):
        if outcome.ended == "time":
            return Status.TIME
        if outcome.ended in ("output", "answers"):
            return Status.OUTPUT
        if outcome.ended == "exit":
            return Status.STOPPED
        return Status.CRASHED
    for status in (Status.MEMORY, Status.STOPPED):
        if status in suggested:
            return status
    if all(status is Status.RIGHT for status in suggested):
        return Status.RIGHT
    if Status.RIGHT in suggested:
        return Status.PARTLY
    for status in (Status.TYPE, Status.ERROR, Status.UNDONE):
        if all(found is status for found in suggested):
            return status
    return Status.WRONG
