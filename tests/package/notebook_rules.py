"""What every notebook of the course must satisfy, as functions that return what is wrong with one."""

from __future__ import annotations

import ast
import re

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}

# Code, mathematics, links, tags and the options of a directive may hold numbers; what a directive says may not.
_NOT_PROSE = re.compile(
    r"^(`{3,})(?!`)(?!\{).*?^\1\s*$|^(`{3,})\{math\}.*?^\2\s*$|`+[^`\n]*`+|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)"
    r"|</?[a-zA-Z][^<>]*>|^:[\w-]+:.*?$",
    re.DOTALL | re.MULTILINE,
)
_TYPED_NUMBER = re.compile(
    r"\d*[.]\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+|\d+\s*(?:\\?%|percent|per cent|points|seconds|minutes)"
)
_NUMBER_AS_MATHS = re.compile(r"\$\s*[-−]?\d*[.]\d+\s*(?:\\?%)?\s*\$")


def outputs_left_in(notebook: NotebookNode) -> list[str]:
    """Outputs, execution counts and widget states belong to a run, not to version control."""
    found = [
        f"cell {cell.id} has outputs or an execution count"
        for cell in notebook.cells
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None)
    ]
    return found + ["widget states are saved"] * ("widgets" in notebook.metadata)


def foreign_metadata(notebook: NotebookNode) -> list[str]:
    """A kernel name of one machine, or cell ids made at random, change with every save."""
    found = []
    if dict(notebook.metadata.get("kernelspec", {})) != KERNEL:
        found.append(f"the kernel is {dict(notebook.metadata.get('kernelspec', {}))}, not {KERNEL}")
    ids = [cell.get("id", "") for cell in notebook.cells]
    found += [
        f"cell id {i!r} is not two or more words or a word, joined by hyphens"
        for i in ids
        if not _readable(i)
    ]
    return found + [f"cell id {i!r} is used twice" for i in sorted({i for i in ids if ids.count(i) > 1})]


def _readable(cell_id: str) -> bool:
    words = cell_id.split("-")
    return bool(re.fullmatch(r"[a-z][a-z0-9-]*", cell_id)) and any(
        re.fullmatch("[a-z]{3,}", w) for w in words
    )


def numbers_typed_in_prose(notebook: NotebookNode) -> list[str]:
    """A number that was computed is interpolated; prose has no decimals and no percentages of its own."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose = _NOT_PROSE.sub(" ", cell.source)
            hits = _TYPED_NUMBER.findall(prose) + _NUMBER_AS_MATHS.findall(cell.source)
            found += [f"cell {cell.id}: {hit!r}" for hit in hits]
    return found


def numbers_typed_in_titles(notebook: NotebookNode) -> list[str]:
    """The title of a figure interpolates its numbers too."""
    found = []
    for cell, call in _calls(notebook, {"show", "explore"}):
        for keyword in call.keywords:
            if keyword.arg in ("title", "alt"):
                formats = [
                    n.format_spec for n in ast.walk(keyword.value) if isinstance(n, ast.FormattedValue)
                ]
                specs = {n for spec in formats if spec for n in ast.walk(spec)}  # as `.0%`
                nodes = [n for n in ast.walk(keyword.value) if isinstance(n, ast.Constant) and n not in specs]
                texts = [n.value for n in nodes]
                for text in texts:
                    if isinstance(text, str):
                        found += [f"cell {cell.id}: {hit!r}" for hit in _TYPED_NUMBER.findall(text)]
    return found


def unsaid_figures(notebook: NotebookNode) -> list[str]:
    """Figures go through `figures.show` and `figures.explore`, which require a title and a description."""
    found = []
    for cell, call in _calls(notebook, {"show", "explore"}):
        owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
        if owner != "figures":
            found.append(
                f"cell {cell.id}: {owner}.{call.func.attr}() shows a figure without title and description"
            )
        elif not {"title", "alt"} <= {keyword.arg for keyword in call.keywords}:
            found.append(f"cell {cell.id}: figures.{call.func.attr}() lacks title= or alt=")
    return found


def maths_macros(notebook: NotebookNode) -> list[str]:
    """Macros show as raw text in JupyterLab and Colab."""
    pattern = re.compile(r"\\(?:newcommand|def|DeclareMathOperator|renewcommand)\b")
    return [f"cell {cell.id}: {m[0]}" for cell in notebook.cells for m in pattern.finditer(cell.source)]


def branches_on_the_profile(notebook: NotebookNode) -> list[str]:
    """A profile changes sizes only: code that asks which profile is in force could skip an assertion."""
    found = []
    for cell, tree in _trees(notebook):
        for node in ast.walk(tree):
            if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert | ast.Match):
                test = node.subject if isinstance(node, ast.Match) else node.test
                named = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
                named |= {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
                texts = {n.value for n in ast.walk(test) if isinstance(n, ast.Constant)}
                if named & {"profile", "choose"} or "LMCOURSE_PROFILE" in texts:
                    found.append(
                        f"cell {cell.id}, line {node.lineno}: a branch or assertion asks for the profile"
                    )
    return found


def asserts_nothing(notebook: NotebookNode) -> list[str]:
    """A chapter ends by asserting what it claims."""
    last = [tree for _, tree in _trees(notebook)][-2:]
    checked = any(isinstance(node, ast.Assert) for tree in last for node in ast.walk(tree))
    return [] if checked else ["the closing cells assert nothing"]


RULES = (
    outputs_left_in,
    foreign_metadata,
    numbers_typed_in_prose,
    numbers_typed_in_titles,
    unsaid_figures,
    maths_macros,
    branches_on_the_profile,
    asserts_nothing,
)


def _trees(notebook: NotebookNode) -> list[tuple[NotebookNode, ast.Module]]:
    to_python = TransformerManager().transform_cell
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [(cell, ast.parse(to_python(cell.source))) for cell in code]


def _calls(notebook: NotebookNode, names: set[str]) -> list[tuple[NotebookNode, ast.Call]]:
    return [
        (cell, node)
        for cell, tree in _trees(notebook)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names
    ]


def read(path: object) -> NotebookNode:
    """Read a notebook as it is on disk."""
    return nbformat.read(path, as_version=4)
