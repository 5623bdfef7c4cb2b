"""Grade a folder of submissions: in parallel, each on its own, only what changed."""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path

from lmcourse_grader import __version__, assignment, exchange, grade, notebook, overlay, records, sandbox
from lmcourse_grader.records import Record
from lmcourse_grader.submissions import Submission, digest

READING = sandbox.Limits(seconds=60, memory_mb=2_000)
WORKER_BYTES = 4_000_000_000
log = logging.getLogger("lmcourse_grader")


@dataclass(frozen=True)
class Plan:
    """What every worker needs to know; it loads the hidden tests itself."""

    source: Path
    overlay: Path
    out: Path
    way: sandbox.Way
    seed: int | str | None = None


@dataclass(frozen=True)
class Graded:
    """A submission's record, how many of its questions were graded anew, and why there is no record."""

    submission: Submission
    record: Record | None
    fresh: int = 0
    seconds: float = 0.0
    error: str = ""


class Grader:
    """Grades submissions against one assignment and overlay."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.assignment = assignment.load(plan.source)
        self.hidden = overlay.load(plan.overlay, self.assignment, seed=plan.seed)
        shown = [asdict(question) for question in self.assignment.questions]
        self.key = _hash(__version__, shown, {name: test.key for name, test in self.hidden.items()})

    def grade(self, submission: Submission) -> Graded:
        """Grade a submission, keeping every grade on record whose code and test are the same."""
        start = time.monotonic()
        folder = self.plan.out / "records"
        old = records.load(folder, submission.safe)
        content = digest(submission.path) if submission.path else submission.problem
        key = _hash(self.key, content)
        if old is not None and old.key == key:
            return Graded(submission, old, 0, time.monotonic() - start)
        known = dict(zip(old.keys.items(), old.grades, strict=False)) if old and not old.problem else {}
        cells, notes, problem = self._read(submission)
        keys, grades, fresh = {}, [], 0
        for question in self.assignment.questions if not problem else ():
            hidden = self.hidden.get(question.id)
            work = notebook.code_for(question, cells) if hidden else notebook.text_for(question, cells)
            keys[question.id] = _hash(__version__, question.id, hidden.key if hidden else "", [str(work)])
            kept = known.get((question.id, keys[question.id]))
            if kept is None:
                kept = grade.grade(question, cells, hidden, self.plan.way)
                fresh += 1
            grades.append(kept)
        record = Record(
            submission.student,
            submission.name,
            submission.safe,
            key,
            problem,
            tuple(notes),
            keys,
            tuple(grades),
        )
        records.save(folder, record)
        return Graded(submission, record, fresh, time.monotonic() - start)

    def _read(self, submission: Submission) -> tuple[list[notebook.Cell], list[str], str]:
        """Return the cells, notes, and why the submission cannot be read (empty if it can)."""
        if submission.path is None:
            return [], [], submission.problem
        with submission.path.open("rb") as stream:
            outcome = sandbox.run(self.plan.way, "read", stream, READING, self.assignment.name)
        exchange.insist_on_start(outcome)
        for message in exchange.messages(outcome):
            if isinstance(message.get("problem"), str):
                return [], [], exchange.text(message["problem"])
            if "cells" in message:
                return notebook.cells(message), [exchange.text(note) for note in message["notes"]], ""
        return [], [], "The file could not be read within the limits of time and memory: clear its outputs."


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


_grader: Grader | None = None


def _start(plan: Plan) -> None:
    """Load the hidden tests in a worker, whose memory is bounded: answers that checks compare are hostile."""
    global _grader
    _bound_memory()
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    _grader = Grader(plan)


def _end_with_the_parent() -> None:
    """End this worker when the command has been killed: another one may be at work in the same folder."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _bound_memory() -> None:
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = WORKER_BYTES if hard == resource.RLIM_INFINITY else min(WORKER_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _work(submission: Submission) -> Graded:
    """Grade in a worker; whatever goes wrong is this submission's alone."""
    assert _grader is not None
    try:
        return _grader.grade(submission)
    except Exception as error:
        log.debug("grading failed", exc_info=True)
        return Graded(submission, None, error=f"{type(error).__name__}: {error}"[:500])


def run(
    plan: Plan, submissions: Iterable[Submission], *, jobs: int | None = None, watch: Callable[[Graded], None]
) -> list[Graded]:
    """Grade submissions in parallel, calling `watch` with each as it ends; return them in order.

    A submission that takes the worker down with it is graded again in a process of its own, and if that
    falls too, it alone has an error.
    """
    waiting = {submission.student: submission for submission in submissions}
    done: dict[str, Graded] = {}

    def take(graded: Graded) -> None:
        done[graded.submission.student] = graded
        watch(graded)

    with _pool(plan, jobs or os.cpu_count() or 1) as pool:
        futures: dict[Future[Graded], Submission] = {}
        try:
            for submission in waiting.values():
                futures[pool.submit(_work, submission)] = submission
            for future in as_completed(futures):
                take(future.result())
        except BrokenProcessPool:
            log.warning("a worker died; what is left is graded one by one")
    for student, submission in waiting.items():
        if student in done:
            continue
        with _pool(plan, 1) as pool:
            try:
                take(pool.submit(_work, submission).result())
            except BrokenProcessPool:
                take(Graded(submission, None, error="the grader's own process died"))
    return [done[student] for student in waiting]


def _pool(plan: Plan, jobs: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn" if os.name == "nt" else "forkserver")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=(plan,))
