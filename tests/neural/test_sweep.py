"""Sweeps: nothing runs twice, nothing is left half done, and losing a worker changes nothing."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import toy_cells
from typer.testing import CliRunner

from lmcourse.cli import app
from lmcourse.experiments.sweep import SweepError, grid, records, run_sweep, sweep_status

CELLS = grid(states=[4, 10], seed=[0, 1, 2])


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def ran(log):
    return sorted(tuple(map(int, line.split()[:2])) for line in log.read_text().splitlines())


def test_grid():
    assert grid(a=[1, 2], b="xy") == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_finished_cells_never_run_again(tmp_path, log):
    compute = partial(toy_cells.draw, log=str(log))
    seen = []
    first = run_sweep("toy", compute, CELLS[:2], folder=tmp_path, watch=lambda r: seen.append(r.cell))
    assert seen == CELLS[:2]
    found = run_sweep("toy", compute, CELLS, folder=tmp_path)
    assert ran(log) == [(4, 0), (4, 1), (4, 2), (10, 0), (10, 1), (10, 2)]
    assert [r.cell for r in found] == CELLS
    assert found[:2] == first
    assert [r.numbers for r in found] == [toy_cells.draw(**cell).numbers for cell in CELLS]
    assert len(records("toy", folder=tmp_path)) == 6


def test_two_processes_give_the_same(tmp_path, log):
    together = run_sweep("toy", partial(toy_cells.draw, log=str(log)), CELLS, jobs=2, folder=tmp_path)
    assert [r.numbers for r in together] == [toy_cells.draw(**cell).numbers for cell in CELLS]
    processes = {int(line.split()[2]) for line in log.read_text().splitlines()}
    assert os.getpid() not in processes


def test_a_cell_that_fails_stops_no_other_and_leaves_nothing(tmp_path):
    cells = grid(states=[4], seed=[12, 13, 14])
    with pytest.raises(SweepError, match="1 of 3 cells failed:\nstates-4_seed-13: ValueError: thirteen"):
        run_sweep("toy", toy_cells.draw, cells, folder=tmp_path)
    status = sweep_status("toy", toy_cells.draw, cells, folder=tmp_path)
    assert [r.cell["seed"] for r in status.finished] == [12, 14]
    assert status.missing == [cells[1]]


def test_an_interruption_leaves_nothing_of_the_cell_it_hits(tmp_path, log):
    def interrupt(record):
        if record.cell == CELLS[2]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep("toy", toy_cells.draw, CELLS, folder=tmp_path, watch=interrupt)
    kept = sorted(p.name for p in (tmp_path / "toy").iterdir())
    assert kept == [f"states-4_seed-{k}.json" for k in range(3)]
    run_sweep("toy", partial(toy_cells.draw, log=str(log)), CELLS, folder=tmp_path)
    assert ran(log) == [(10, 0), (10, 1), (10, 2)]


def test_other_code_and_damage_are_told(tmp_path):
    run_sweep("toy", toy_cells.draw, CELLS, folder=tmp_path)
    path = tmp_path / "toy" / "states-4_seed-1.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"closure": "other"}))
    assert [r.cell for r in sweep_status("toy", toy_cells.draw, CELLS, folder=tmp_path).stale] == [CELLS[1]]
    path.write_text(path.read_text()[:-9])
    with pytest.raises(SweepError, match=r"states-4_seed-1\.json is damaged"):
        run_sweep("toy", toy_cells.draw, CELLS, folder=tmp_path)


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("LMCOURSE_RESULTS", str(tmp_path))
    monkeypatch.setenv("LMCOURSE_PROFILE", "smoke")
    arguments = ["sweep", "chapter13", "--states", "4", "--seeds", "0-1", "--methods", "exact"]
    before = CliRunner().invoke(app, [*arguments, "--status"])
    assert before.output.startswith("0 of 2 cells finished in 0 s of computing; 2 to do")
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "4 0 exact smoke teaching: head_formula 1.000" in done.output
    assert "2 of 2 cells finished" in done.output
    for wrong, message in (("--seeds=0-", "is neither a number"), ("--methods=lstm", "must be one of exact")):
        refused = CliRunner().invoke(app, [*arguments, wrong], env={"COLUMNS": "200"})
        assert refused.exit_code == 2
        assert message in refused.output


# A cluster on this machine: a scheduler and workers, each a process of its own, talking TCP.


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def cluster(tmp_path):
    """Address of a scheduler, and a function that starts a worker."""
    pytest.importorskip("distributed")
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), str(Path(__file__).parent)])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    started = []

    def start(*arguments):
        command = [sys.executable, "-m", "dask", *arguments]
        output = (tmp_path / f"dask-{len(started)}").open("w")
        started.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=output, stderr=output))
        return started[-1]

    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")

    def worker():
        return start(
            "worker", address, "--host", "127.0.0.1", "--no-nanny", "--nthreads", "1", "--no-dashboard"
        )

    yield address, worker
    for process in started:
        process.kill()
        process.wait()


def test_a_cluster_that_loses_a_worker_gives_the_same(cluster, tmp_path, log):
    from distributed import Client

    address, worker = cluster
    workers = [worker(), worker()]
    with Client(address, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    killed = []

    def kill(record):
        """Once a cell has ended, kill the first worker while it is in the middle of another."""
        if not killed:
            victim = workers[0].pid
            wait_for(lambda: f" {victim}\n" in log.read_text())
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    cells = grid(states=[4, 10], seed=[0, 1, 2, 3, 4])
    compute = partial(toy_cells.draw, log=str(log), pause=0.4)
    found = run_sweep("toy", compute, cells, cluster=address, folder=tmp_path, watch=kill)
    assert [r.numbers for r in found] == [toy_cells.draw(**cell).numbers for cell in cells]
    lines = log.read_text().splitlines()
    assert {int(line.split()[2]) for line in lines} == {w.pid for w in workers}
    assert len(lines) > len(cells), "no cell was in hand when the worker was killed"
    assert workers[0].wait(timeout=10) == -signal.SIGKILL
    assert workers[1].poll() is None


def test_no_scheduler_and_no_dask(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    with pytest.raises(SweepError, match="no Dask scheduler answers at tcp://127"):
        run_sweep(
            "toy",
            toy_cells.draw,
            CELLS,
            cluster=f"tcp://127.0.0.1:{free_port()}",
            folder=tmp_path,
            patience=1,
        )
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SweepError, match="a cluster needs Dask"):
        run_sweep("toy", toy_cells.draw, CELLS, cluster="tcp://127.0.0.1:1", folder=tmp_path)
