"""A tiny course around a copy of the package, to plant defects in and to watch the build."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def notebook(*cells: str) -> nbformat.NotebookNode:
    """Return a notebook of a title and the given cells: Markdown if they start with "#", else code."""
    book = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for i, source in enumerate(cells):
        make = nbformat.v4.new_markdown_cell if source.startswith("#") else nbformat.v4.new_code_cell
        book.cells.append(make(source, id=f"cell-{i}"))
    return book


class TinyCourse:
    """A checkout in a folder of its own, with the real configuration and the chapters it is given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("_config.yml", "requirements.txt"):
            shutil.copy(ROOT / name, folder / name)
        for name in ("book/_ext", "book/_static", "lmcourse"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("references.bib", "symbols.toml"):
            if (ROOT / "book" / name).exists():
                shutil.copy(ROOT / "book" / name, folder / "book" / name)
        (folder / "chapters").mkdir()
        (folder / "book" / "intro.md").write_text("# Welcome\n")
        self.chapters: list[str] = []

    def add(self, name: str, *cells: str) -> None:
        """Add or replace a chapter."""
        nbformat.write(notebook(*cells), self.folder / "chapters" / f"{name}.ipynb")
        if name not in self.chapters:
            self.chapters.append(name)
        entries = "".join(f"      - file: chapters/{chapter}\n" for chapter in self.chapters)
        toc = f"format: jb-book\nroot: book/intro\nparts:\n  - numbered: 2\n    chapters:\n{entries}"
        (self.folder / "book" / "_toc.yml").write_text(toc)

    def build(self, **environment: str) -> subprocess.CompletedProcess[str]:
        """Build it strictly, as `make book` does."""
        command = ["build", ".", "--toc", "book/_toc.yml", "-W", "-n", "--keep-going"]
        return self._run([str(BIN / "jupyter-book"), *command], environment)

    def run(self, *arguments: str, **environment: str) -> None:
        """Run Python in it, with its copy of the package."""
        result = self._run([sys.executable, *arguments], environment)
        assert result.returncode == 0, result.stdout + result.stderr

    def _run(self, command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        variables = {
            "PYTHONPATH": str(self.folder),
            "LMCOURSE_STRICT": "1",
            "LMCOURSE_PROFILE": "smoke",
            "LMCOURSE_RESULTS": "",
        }
        return subprocess.run(
            command,
            cwd=self.folder,
            env=os.environ | variables | environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    def page(self, name: str) -> str:
        """Return a built chapter's HTML."""
        return (self.folder / "_build" / "html" / "chapters" / f"{name}.html").read_text(encoding="utf-8")
