"""The command line, run as a reader runs it."""

import builtins

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
    for topic in ("Python", "packages", "cores", "memory", "GPU", "network", "profile", "cache folder"):
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


@pytest.mark.parametrize("arguments", [("--help",), ("results", "--help"), ("doctor", "--help")])
def test_help(arguments):
    assert run(*arguments).exit_code == 0
