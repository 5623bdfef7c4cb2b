"""For the teacher: how the totals are spread, and how each question went."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from lmcourse_grader.assignment import Assignment
from lmcourse_grader.marks import Result


def write_all(out: Path, assignment: Assignment, results: list[Result]) -> None:
    """Write `distribution.svg` and `questions.svg`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    mpl.rcParams["svg.hashsalt"] = "lmcourse"
    totals = [result.total for result in results if result.total is not None]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.hist(totals, bins=20, range=(0, assignment.points), color="#0072b2", edgecolor="white")
    middle = f", median {median(totals):g}" if totals else ""
    axes.set(xlabel=f"points of {assignment.points:g}", ylabel="students")
    axes.set_title(f"{assignment.title}\n{len(totals)} students{middle}")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    figure.savefig(out / "distribution.svg", metadata={"Date": None})

    figure = Figure(figsize=(7, 1.2 + 0.4 * len(assignment.questions)), layout="constrained")
    axes = figure.subplots()
    names, shares, zeros = [], [], []
    for question in reversed(assignment.questions):
        scores = [
            mark.score / question.points if question.points else 0.0
            for result in results
            for mark in result.marks
            if mark.grade.id == question.id and mark.score is not None
        ]
        if scores:
            names.append(f"{question.title} ({question.points:g})")
            shares.append(100 * sum(scores) / len(scores))
            zeros.append(100 * sum(score == 0 for score in scores) / len(scores))
    places = range(len(names))
    axes.barh(places, shares, color="#0072b2", label="mean of the points, per cent")
    axes.plot(zeros, places, "o", color="#d55e00", label="students without a point, per cent")
    axes.set(yticks=list(places), yticklabels=names, xlim=(0, 100), xlabel="per cent")
    axes.set_title("How each question went")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(out / "questions.svg", metadata={"Date": None})
