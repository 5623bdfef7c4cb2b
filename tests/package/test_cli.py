"""The command line, run as a reader runs it."""

import builtins
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from lmcourse import __version__, doctor
from lmcourse.cli import app


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_version():
    assert run("version").output == f"lmcourse {__version__}\n"


def test_doctor_is_content_here(monkeypatch):
    monkeypatch.delenv("LMCOURSE_PROFILE", raising=False)
    result = run("doctor")
    assert result.exit_code == 0, result.output
    assert "This machine can run the course." in result.output
    for topic in (
        "Python",
        "packages",
        "cores",
        "memory",
        "GPU",
        "network",
        "profile",
        "cache folder",
        "data",
    ):
        assert topic in result.output


def test_doctor_names_a_wrong_profile(monkeypatch):
    monkeypatch.setenv("LMCOURSE_PROFILE", "huge")
    result = run("doctor")
    assert result.exit_code == 1
    assert "set it to one of smoke, cpu, gpu" in result.output


def test_doctor_survives_missing_and_broken_packages(monkeypatch):
    """Without torch and psutil, and with a driver that raises, it gives advice and does not crash."""
    original = builtins.__import__

    def broken(name, *arguments, **keywords):
        if name == "torch":
            raise RuntimeError("the driver is broken")
        if name == "psutil":
            raise ImportError(name)
        return original(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", broken)
    monkeypatch.setattr(doctor, "_version", lambda package: None if package == "torch" else "1.0")
    findings = {finding.topic: finding for finding in doctor.examine()}
    assert findings["GPU"].found.startswith("none")
    assert findings["memory"].found == "unknown"
    assert findings["packages for trained models"].status == doctor.PROBLEM
    assert "torch" in findings["packages for trained models"].advice


def test_doctor_looks_at_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path / "not" / "yet"))
    [finding] = [f for f in doctor.examine() if f.topic == "cache folder"]
    assert str(tmp_path / "not" / "yet") in finding.found
    assert finding.status != doctor.PROBLEM
    [data] = [f for f in doctor.examine() if f.topic == "data"]
    assert data.found == "not here: smollm2, reviews, questions"
    assert "lmcourse data fetch" in data.advice


def test_results_are_listed_and_refreshed(monkeypatch, tmp_path):
    import computations

    from lmcourse import results

    monkeypatch.setenv("LMCOURSE_RESULTS", str(tmp_path))
    monkeypatch.delenv("LMCOURSE_STRICT", raising=False)
    results.stored("squares", computations.squares, seed=1, inputs={"n": 2})
    assert run("results", "list").output.startswith("fresh squares: computed at version")
    monkeypatch.setattr(results, "closure_hash", lambda *_: "another hash")
    assert run("results", "list").output.startswith("stale squares")
    assert "squares: computed at" in run("results", "refresh").output
    assert run("results", "list").output.startswith("fresh squares")


@pytest.mark.parametrize("value", ["~nobody-of-that-name/x", "{file}", "{file}/below"])
def test_doctor_names_a_folder_that_cannot_be_written(monkeypatch, tmp_path, value):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LMCOURSE_CACHE", value.format(file=tmp_path / "file"))
    [finding] = [f for f in doctor.examine() if f.topic == "cache folder"]
    assert finding.status == doctor.PROBLEM
    assert "LMCOURSE_CACHE" in finding.advice


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (("results", "list"), {"LMCOURSE_PROFILE": "huge"}, "set it to one of"),
        (("results", "refresh", "nothing-of-that-name"), {}, "no result 'nothing-of-that-name'"),
        (("results", "refresh", "../x"), {}, "lower-case letters"),
        (("theorems", "pinsker", "--n", "0"), {}, "n must be at least 1"),
        (("theorems", "fermat"), {}, "no theorem 'fermat'"),
    ],
)
def test_a_mistake_gets_one_line_and_no_traceback(tmp_path, arguments, variables, message):
    environment = os.environ | {"LMCOURSE_RESULTS": str(tmp_path), "LMCOURSE_PROFILE": ""} | variables
    command = [sys.executable, "-m", "lmcourse.cli", *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode not in (0, None)
    assert message in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("results", "--help"), ("doctor", "--help")])
def test_help(arguments):
    assert run(*arguments).exit_code == 0
