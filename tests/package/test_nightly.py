"""The nightly run changes the seed, and notices a claim that holds for one seed only."""

import sys
from pathlib import Path

import nbformat
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import nightly


def notebook(*cells):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])


def test_the_seed_is_replaced():
    changed = nightly.with_seed(notebook("import numpy\nSEED = 9\nprint(SEED)", "x = SEED"), 101)
    assert changed.cells[0].source == "import numpy\nSEED = 101\nprint(SEED)"


@pytest.mark.parametrize("cells", [("x = 1",), ("SEED = 1", "SEED = 2")])
def test_a_chapter_without_its_one_seed_is_refused(cells):
    with pytest.raises(ValueError, match="there must be one"):
        nightly.with_seed(notebook(*cells), 101)


def test_every_chapter_has_its_one_seed():
    for path in nightly.CHAPTERS.glob("*.ipynb"):
        nightly.with_seed(nbformat.read(path, as_version=4), 101)


def test_a_lucky_claim_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(nightly, "CHAPTERS", tmp_path)
    path = tmp_path / "01_lucky.ipynb"
    nbformat.write(notebook("SEED = 9", "assert SEED % 2 == 1"), path)
    assert nightly.run(path, 101) is None
    assert nightly.run(path, 102).startswith("AssertionError")
