"""The command ``lmcourse``."""

from __future__ import annotations

from typing import Annotated

import typer

from lmcourse import __version__

app = typer.Typer(help="The course Why Language Models Help, from the command line.", no_args_is_help=True)
results_app = typer.Typer(help="Stored results: what there is, what is stale, how to compute it again.")
app.add_typer(results_app, name="results", no_args_is_help=True)


def main() -> None:
    """Run the command line."""
    app()


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


@app.command("theorems")
def check_theorems(
    names: Annotated[list[str] | None, typer.Argument(help="Which; all if none is named.")] = None,
    n: Annotated[int, typer.Option(help="Number of instances for each.")] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
) -> None:
    """Try to break the theorems; exit code 1 if one fails its check."""
    from lmcourse import theorems

    failed = []
    typer.echo(f"{'theorem':24}{'':8}{'instances':>10}{'worst ratio':>13}{'informative':>13}{'seconds':>9}")
    for name in names or theorems.names():
        if name not in theorems.names():
            raise typer.BadParameter(f"no theorem {name!r}; there are {', '.join(theorems.names())}")
        r = theorems.check(name, n=n, seed=seed)
        failed += [] if r.passed else [name]
        typer.echo(
            f"{name:24}{'passed' if r.passed else 'FAILED':8}{r.instances:10}{r.worst_ratio:13.4g}"
            f"{r.informative:13.0%}{r.seconds:9.1f}"
        )
    raise typer.Exit(code=1 if failed else 0)


@results_app.command("list")
def list_results() -> None:
    """List the results stored for the profile in force, with where they come from."""
    from lmcourse import results

    for name in results.names():
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


if __name__ == "__main__":
    main()
