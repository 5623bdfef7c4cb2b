"""The command ``lmcourse-grade``."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lmcourse_grader import feedback, gradebook, leaks, marks, plots, sandbox, submissions, tables
from lmcourse_grader import release as releases
from lmcourse_grader import run as grading
from lmcourse_grader.assignment import load

app = typer.Typer(
    help="Grade the course's assignments.", no_args_is_help=True, pretty_exceptions_enable=False
)
SOURCE = Path(__file__).parents[2] / "source"
SAMPLE = Path(__file__).parents[2] / "overlay-sample"
log = logging.getLogger("lmcourse_grader")


def main() -> None:
    """Run the command line; a mistake gets one line, not a traceback."""
    try:
        app()
    except (ValueError, RuntimeError, OSError) as error:
        typer.echo(f"lmcourse-grade: {error}", err=True)
        raise SystemExit(2) from None


@app.command()
def check() -> None:
    """Say whether student code can be confined on this machine."""
    way = sandbox.detect()
    typer.echo(f"Student code can be confined here, {WAYS[way]}.")


WAYS = {
    "root": "as root: bubblewrap, and a user that owns nothing",
    "user": "as an ordinary user: bubblewrap in a user namespace",
    "none": "NOT CONFINED: student code runs as you",
}


@app.command()
def run(
    submitted: Annotated[
        Path, typer.Argument(exists=True, metavar="SUBMISSIONS", help="Folder of notebooks or zips.")
    ],
    assignment: Annotated[str, typer.Option(help="Which assignment, such as a1.")],
    overlay: Annotated[Path, typer.Option(exists=True, help="Your private folder of hidden tests.")],
    out: Annotated[Path, typer.Option(help="Where grades and feedback go.")],
    source: Annotated[Path, typer.Option(help="Folder of assignment sources.")] = SOURCE,
    names: Annotated[str, typer.Option(help="How files are named: plain or canvas.")] = "plain",
    roster: Annotated[
        Path | None, typer.Option(exists=True, help="Canvas's gradebook export, for canvas.csv.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Submissions at a time.")] = os.cpu_count() or 1,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Run student code without confinement.")] = False,
) -> None:
    """Grade submissions: CSV tables, feedback pages, gradebook, plots and a log."""
    way: sandbox.Way = "none" if unsafe else _way()
    out.mkdir(parents=True, exist_ok=True)
    alone = _alone(out / "lock")
    _log_to(out / "log.txt")
    plan = grading.Plan(source / assignment, overlay, out, way)
    grader = grading.Grader(plan)
    _keep_apart([overlay, submitted, out], way)
    hand = marks.read_hand(out / "by-hand.csv", grader.assignment)
    found = submissions.discover(submitted, assignment, names)
    log.info("%s: %d submissions, %s", grader.assignment.title, len(found), WAYS[way])
    with Progress(
        TextColumn("grading"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task("grading", total=len(found))

        def watch(graded: grading.Graded) -> None:
            bar.advance(task)
            _tell(graded)

        graded = grading.run(plan, found, jobs=jobs, watch=watch)
    results = [marks.result(each, grader.assignment, hand) for each in graded]
    unlisted = tables.write_all(out, grader.assignment, results, roster, hand)
    feedback.write_all(out, grader.assignment, results)
    gradebook.write(out / "gradebook.db", grader.assignment, results)
    plots.write_all(out, grader.assignment, results)
    odd = [result for result in results if result.status not in ("graded", "some left to grade by hand")]
    anew = sum(each.fresh > 0 for each in graded)
    typer.echo(f"{len(results)} submissions, {anew} graded anew: {out / 'grades.csv'}")
    for result in odd:
        typer.echo(f"  {result.student}: {result.status}. {result.problem}")
    if strangers := {student for student, _ in hand} - {result.student for result in results}:
        typer.echo(f"by-hand.csv has points of students not among these: {', '.join(sorted(strangers))}")
    if unlisted:
        typer.echo(f"Not in the roster, so not in canvas.csv: {', '.join(unlisted)}")
    if left := submissions.left_out(submitted):
        typer.echo(f"Not looked at, neither notebook nor zip: {', '.join(left)}")
    alone.close()


@app.command()
def release(
    assignment: Annotated[str, typer.Argument(help="Which assignment, such as a1.")],
    out: Annotated[Path, typer.Option(help="Where the zips go.")],
    source: Annotated[Path, typer.Option(help="Folder of assignment sources.")] = SOURCE,
    overlay: Annotated[Path, typer.Option(help="Hidden tests for the grader's zip.")] = SAMPLE,
) -> None:
    """Write the student's, the instructor's and the grader's zip; none if the student's has a leak."""
    task = load(source / assignment)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as draft:
        student, *others = releases.release(task, Path(draft), overlay)
        _report(leaks.scan(leaks.secrets(task, overlay), leaks.documents(student), [leaks.visible(task)]))
        for path in (student, *others):
            path.replace(out / path.name)
            typer.echo(str(out / path.name))


@app.command("leaks")
def find_leaks(
    assignment: Annotated[str, typer.Argument(help="Which assignment, such as a1.")],
    public: Annotated[list[Path], typer.Argument(help="What students can read: files, zips, folders.")],
    source: Annotated[Path, typer.Option(help="Folder of assignment sources.")] = SOURCE,
    overlay: Annotated[Path, typer.Option(help="Your private folder of hidden tests.")] = SAMPLE,
    known: Annotated[list[Path] | None, typer.Option(help="What may be public, such as the package.")] = None,
) -> None:
    """Look for solutions, model answers and hidden tests in what students can read."""
    task = load(source / assignment)
    free = [leaks.visible(task)]
    free += [document for path in known or [] for document in leaks.documents(path)]
    texts = [document for path in public for document in leaks.documents(path)]
    _report(leaks.scan(leaks.secrets(task, overlay, taught=False), texts, free))
    typer.echo(f"{len(texts)} texts hold nothing that students must not see.")


def _report(found: list[leaks.Leak]) -> None:
    for leak in found:
        typer.echo(f"LEAK in {leak.document}: {leak.secret} ({leak.how})", err=True)
    if found:
        raise typer.Exit(code=1)


def _way() -> sandbox.Way:
    try:
        return sandbox.detect()
    except sandbox.NoSandbox as problem:
        raise sandbox.NoSandbox(
            f"{problem}\nNothing was graded. With --unsafe student code runs as you, with your files and "
            "your network: only for code that you would run anyway."
        ) from None


def _keep_apart(private: list[Path], way: sandbox.Way) -> None:
    """Refuse private folders that student code could read."""
    if way == "none":
        return
    for folder in private:
        for bound in sandbox.bound_folders():
            if folder.resolve().is_relative_to(bound.resolve()):
                raise ValueError(f"{folder} lies in {bound}, which student code can read: move it elsewhere")


def _alone(path: Path) -> IO[str]:
    """Hold a lock until the file returned is closed; raise `ValueError` if another grader has it."""
    stream = path.open("w")
    try:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ModuleNotFoundError:  # Windows
        pass
    except BlockingIOError:
        raise ValueError(f"another grader is at work in {path.parent}: wait for it") from None
    return stream


def _log_to(path: Path) -> None:
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.handlers = [handler]
    log.setLevel(logging.INFO)


def _tell(graded: grading.Graded) -> None:
    """Log a submission; only the grader's own words and printable text."""
    student = ascii(graded.submission.student)
    if graded.record is None:
        log.error("%s: %s", student, graded.error)
    elif graded.record.problem:
        log.warning("%s: %s", student, graded.record.problem)
    else:
        said = ", ".join(
            f"{grade.id} {grade.status.value} {grade.seconds:.2f} s" for grade in graded.record.grades
        )
        log.info("%s: %d questions anew in %.1f s: %s", student, graded.fresh, graded.seconds, said)


if __name__ == "__main__":
    main()
