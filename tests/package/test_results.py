"""Stored results: kept with provenance, refused when damaged, noticed when stale."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import computations
import numpy as np
import pytest

from lmcourse import results
from lmcourse.folders import write_atomically
from lmcourse.provenance import ResultError


@pytest.fixture(autouse=True)
def relaxed(monkeypatch):
    monkeypatch.delenv("LMCOURSE_STRICT", raising=False)
    monkeypatch.delenv("LMCOURSE_PROFILE", raising=False)


@pytest.fixture
def kept(tmp_path):
    """A stored result: its folder, the call that stored it, and what it returned."""

    def call(**changes):
        arguments = {"seed": 3, "inputs": {"n": 5}, "folder": tmp_path} | changes
        return results.stored("squares", computations.squares, **arguments)

    return tmp_path, call, call()


def test_comes_back_as_it_was_stored(kept, monkeypatch):
    _, call, first = kept
    monkeypatch.setattr(results, "_compute", lambda *_: pytest.fail("computed again"))
    second = call()
    assert second.values == first.values == {"total": first.values["total"], "names": ["a", "b"]}
    np.testing.assert_array_equal(second.arrays["squares"], first.arrays["squares"])
    assert second.fresh
    p = second.provenance
    assert (p.function, p.inputs, p.seed, p.profile) == ("computations:squares", {"n": 5}, 3, "cpu")
    assert {"lmcourse", "python", "numpy"} <= set(p.versions)
    assert p.device
    assert p.seconds >= 0


@pytest.mark.parametrize(("change", "reason"), [({"seed": 4}, "seed"), ({"inputs": {"n": 6}}, "inputs")])
def test_other_inputs_compute_it_again(kept, change, reason):
    _, call, first = kept
    second = call(**change)
    assert second.fresh
    assert second.values != first.values
    assert call(**change).values == second.values


def test_changed_code_makes_it_stale(kept, monkeypatch):
    folder, call, _ = kept
    assert results.stale(folder) == {}
    monkeypatch.setattr(results, "closure_hash", lambda *_: "another hash")
    assert "code that computations:squares uses has changed" in results.stale(folder)["squares"]
    assert not results.load("squares", folder).fresh
    monkeypatch.setenv("LMCOURSE_STRICT", "1")
    with pytest.raises(ResultError, match=r"stale: the code .* lmcourse results refresh squares"):
        call()


def test_a_stale_result_that_needs_a_missing_gpu_is_shown_as_such(kept, monkeypatch):
    folder, call, _ = kept
    monkeypatch.setattr(results, "gpu_name", lambda: "Some GPU")
    call(seed=5, needs_gpu=True)
    monkeypatch.setattr(results, "gpu_name", lambda: None)
    monkeypatch.setattr(results, "closure_hash", lambda *_: "another hash")
    monkeypatch.setenv("LMCOURSE_STRICT", "1")
    result = call(seed=5, needs_gpu=True)
    assert not result.fresh
    assert re.match(r"computed at version \S+ \(\w{8}\) on Some GPU, .* not recomputed since", result.note)
    assert results.stale(folder) == {}
    with pytest.raises(ResultError, match="needs a GPU"):
        results.refresh("squares", folder)
    with pytest.raises(ResultError, match=r"not stored .* needs a GPU"):
        results.stored("another", computations.squares, seed=1, needs_gpu=True, folder=folder)


def test_refresh_runs_what_the_file_names(kept, monkeypatch):
    folder, _, first = kept
    monkeypatch.setattr(results, "closure_hash", lambda *_: "another hash")
    again = results.refresh("squares", folder)
    assert again.fresh
    assert again.values == first.values
    assert results.stale(folder) == {}


@pytest.mark.parametrize("length", [0, 1, 0.5, 0.99])
def test_a_file_cut_short_is_refused(kept, length):
    folder, call, _ = kept
    path = folder / "squares.cpu.json"
    data = path.read_bytes()
    path.write_bytes(data[: int(length if length == 1 else length * len(data))])
    with pytest.raises(ResultError, match=r"cut short.*restore squares\.cpu\.json"):
        call()


def test_an_edited_file_is_refused(kept):
    folder, call, _ = kept
    path = folder / "squares.cpu.json"
    record = json.loads(path.read_text())
    record["values"]["total"] += 1
    path.write_text(json.dumps(record))
    with pytest.raises(ResultError, match="edited since"):
        call()


def test_missing_or_changed_arrays_are_refused(kept):
    folder, call, _ = kept
    [arrays] = folder.glob("*.npz")
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(ResultError, match=r"arrays .* missing or changed"):
        call()
    arrays.unlink()
    with pytest.raises(ResultError, match=r"arrays .* missing or changed"):
        call()


def test_a_crash_while_writing_leaves_what_was_there(kept):
    folder, _, _ = kept
    path = folder / "squares.cpu.json"
    before = {p.name: p.read_bytes() for p in folder.iterdir()}

    def half(temporary):
        temporary.write_text('{"half')
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, half)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_old_arrays_are_dropped(kept):
    folder, call, _ = kept
    call(seed=7)
    assert len(list(folder.glob("*.npz"))) == 1


def test_a_profile_has_a_file_of_its_own(kept, monkeypatch):
    folder, call, _ = kept
    monkeypatch.setenv("LMCOURSE_PROFILE", "smoke")
    assert results.names(folder) == []
    call(inputs={"n": 2})
    assert results.names(folder) == ["squares"]
    monkeypatch.delenv("LMCOURSE_PROFILE")
    assert results.load("squares", folder).provenance.inputs == {"n": 5}


def test_a_strict_build_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("LMCOURSE_STRICT", "1")
    results.stored("squares", computations.squares, seed=1, inputs={"n": 2}, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_stored_is_refused(tmp_path):
    with pytest.raises(TypeError, match="finite"):
        results.stored("a", computations.not_finite, seed=1, folder=tmp_path)
    with pytest.raises(TypeError, match="Python objects"):
        results.stored("a", computations.objects, seed=1, folder=tmp_path)
    with pytest.raises(TypeError, match="function of a module"):
        results.stored("a", lambda seed: {}, seed=1, folder=tmp_path)
    with pytest.raises(TypeError, match="function of a module"):
        results.stored("a", computations.Kept.method, seed=1, folder=tmp_path)
    with pytest.raises(TypeError, match=r"not JSON serializable.* inputs and values"):
        results.stored("a", computations.squares, seed=1, inputs={"n": np.arange(3)}, folder=tmp_path)


@pytest.mark.parametrize("name", ["../a", "A", "-a", "nul", "a b", ""])
def test_a_name_that_some_system_cannot_keep_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="lower-case letters, digits and hyphens"):
        results.stored(name, computations.squares, seed=1, folder=tmp_path)


def test_a_missing_result_says_so(tmp_path):
    with pytest.raises(ResultError, match="no result 'none'"):
        results.load("none", tmp_path)


def test_a_result_keeps_its_name_and_profile(kept, monkeypatch):
    folder, _, _ = kept
    (folder / "squares.smoke.json").write_bytes((folder / "squares.cpu.json").read_bytes())
    monkeypatch.setenv("LMCOURSE_PROFILE", "smoke")
    with pytest.raises(ResultError, match=r"stored as squares\.cpu\.json"):
        results.load("squares", folder)


def test_inputs_of_another_type_are_other_inputs(tmp_path):
    for n in (1, 1.0):
        results.stored("odd", computations.odd_names, seed=1, inputs={"n": n}, folder=tmp_path)
    assert isinstance(results.load("odd", tmp_path).provenance.inputs["n"], float)


def test_arrays_may_have_any_name(tmp_path):
    results.stored("odd", computations.odd_names, seed=1, folder=tmp_path)
    loaded = results.load("odd", tmp_path).arrays
    assert sorted(loaded) == ["allow_pickle", "file"]


def test_code_changed_under_a_running_process_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_STARTED", 0.0)
    with pytest.raises(ResultError, match=r"computations\.py.* changed after this process started"):
        results.stored("squares", computations.squares, seed=1, inputs={"n": 1}, folder=tmp_path)


def test_two_writers_leave_one_whole_result(tmp_path):
    """Several processes store other versions of one result at once; every reader finds a whole one."""
    code = (
        "import sys; from pathlib import Path; import computations; from lmcourse import results\n"
        "for n in range(int(sys.argv[1]), 40, 4):\n"
        "    inputs, folder = {'n': n}, Path(sys.argv[2])\n"
        "    results.stored('squares', computations.squares, seed=n, inputs=inputs, folder=folder)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(k), str(tmp_path)], env=environment) for k in (1, 2)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    result = results.load("squares", tmp_path)
    assert len(result.arrays["squares"]) == result.provenance.inputs["n"]


def test_files_of_others_are_passed_over(kept):
    folder, _, _ = kept
    (folder / "squares (1).cpu.json").write_text("a copy by a file manager")
    assert results.names(folder) == ["squares"]


def test_another_profile_can_be_named(kept, monkeypatch):
    folder, _, first = kept
    monkeypatch.setenv("LMCOURSE_PROFILE", "smoke")
    with pytest.raises(ResultError, match="no result 'squares'"):
        results.load("squares", folder)
    assert results.load("squares", folder, of_profile="cpu").values == first.values


def test_what_was_gathered_says_how_long_it_took(tmp_path):
    found = results.stored("gathered", computations.gathered, seed=1, folder=tmp_path)
    assert found.provenance.seconds == 3600
    assert found.values == {"answer": 1}
    assert "3600 s" in results.load("gathered", tmp_path).note
