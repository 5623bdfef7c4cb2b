"""What every notebook of the course must satisfy, as functions that return what is wrong with one."""

from __future__ import annotations

import ast
import re

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}

# Code, mathematics, links, tags and the options of a directive may hold numbers; its text may not.
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
    """Nor has the text of a figure: no string of a cell that shows one holds a decimal or a percentage."""
    found = []
    for cell in {id(cell): cell for cell, _ in _figure_calls(notebook)}.values():
        tree = _tree(cell)
        interpolated = [node for node in ast.walk(tree) if isinstance(node, ast.FormattedValue)]
        specs = {
            n for node in interpolated if node.format_spec for n in ast.walk(node.format_spec)
        }  # as `.0%`
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in specs:
                if not re.search("[A-Za-z]{2}", node.value):
                    continue  # the label of a tick
                found += [f"cell {cell.id}: {hit!r}" for hit in _TYPED_NUMBER.findall(node.value)]
        constants = [n.value for n in interpolated if isinstance(n.value, ast.Constant)]
        found += [f"cell {cell.id}: {{{n.value!r}}} interpolates a constant" for n in constants]
    return found


def unsaid_figures(notebook: NotebookNode) -> list[str]:
    """Figures go through `figures.show` and `figures.explore`, which require a title and a description."""
    found = []
    for cell, call in _figure_calls(notebook):
        name = ast.unparse(call.func)
        if name not in ("figures.show", "figures.explore"):
            found.append(f"cell {cell.id}: {name}() may show a figure without title and description")
        elif not {"title", "alt"} <= {keyword.arg for keyword in call.keywords}:
            found.append(f"cell {cell.id}: {name}() lacks title= or alt=")
    return found


def maths_macros(notebook: NotebookNode) -> list[str]:
    """Macros show as raw text in JupyterLab and Colab."""
    pattern = re.compile(r"\\(?:newcommand|def|DeclareMathOperator|renewcommand)\b")
    return [f"cell {cell.id}: {m[0]}" for cell in notebook.cells for m in pattern.finditer(cell.source)]


def branches_on_the_profile(notebook: NotebookNode) -> list[str]:
    """A profile changes sizes only, and what a chapter asserts it asserts in every profile.

    So nothing that says where the code runs takes part in a decision, `choose` chooses among whole numbers
    and collections of them, and no assertion stands under a condition.
    """
    found = []
    for cell, tree in _trees(notebook):
        where = f"cell {cell.id}"
        places = {"profile", "gpu_name", "environ", "getenv"}
        for node in ast.walk(tree):  # names that stand for one of these
            if (
                isinstance(node, ast.Assign)
                and places & _names(node.value)
                and isinstance(node.value, ast.Call)
            ):
                places |= {
                    n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)
                }
        for node in ast.walk(tree):
            if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert | ast.Match | ast.comprehension):
                tests = node.ifs if isinstance(node, ast.comprehension) else [getattr(node, "test", None)]
                tests += [node.subject] if isinstance(node, ast.Match) else []
                if any(places & _names(test) for test in tests if test is not None):
                    found.append(f"{where}: a decision or assertion asks where the code runs")
            if isinstance(node, ast.BoolOp | ast.Compare) and places & _names(node):
                found.append(f"{where}: a condition asks where the code runs")
            if isinstance(node, ast.Call) and _last_name(node.func) == "choose":
                for keyword in node.keywords:
                    if not _is_size(keyword.value):
                        found.append(
                            f"{where}: choose({keyword.arg}={ast.unparse(keyword.value)}) is no size"
                        )
            if isinstance(node, ast.If | ast.Try) and any(isinstance(n, ast.Assert) for n in ast.walk(node)):
                found.append(f"{where}: an assertion stands under a condition")
    return found


def _is_size(value: ast.expr) -> bool:
    """Whether an expression is a positive whole number, or a collection of things that are no decision."""
    if isinstance(value, ast.Constant):
        return type(value.value) is int and value.value > 0
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return not any(isinstance(n, ast.Constant) and isinstance(n.value, bool) for n in ast.walk(value))
    return isinstance(value, ast.Call | ast.BinOp | ast.Name)


def asserts_nothing(notebook: NotebookNode) -> list[str]:
    """A chapter ends by asserting what it claims."""
    asserts = [n for _, tree in _trees(notebook)[-2:] for n in ast.walk(tree) if isinstance(n, ast.Assert)]
    if not any(_names(node.test) for node in asserts):
        return ["the closing cells assert nothing"]
    empty = [n for n in asserts if isinstance(n.test, ast.Constant | ast.Tuple)]
    return [f"`{ast.unparse(node)}` is always true" for node in empty]


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


def _tree(cell: NotebookNode) -> ast.Module:
    """Parse a cell; of a magic that runs Python, what it runs."""
    source = re.sub(r"^\s*%%?(?:time|timeit|capture|prun)\b", "", cell.source, flags=re.MULTILINE)
    return ast.parse(TransformerManager().transform_cell(source))


def _trees(notebook: NotebookNode) -> list[tuple[NotebookNode, ast.Module]]:
    return [(cell, _tree(cell)) for cell in notebook.cells if cell.cell_type == "code"]


def _figure_calls(notebook: NotebookNode) -> list[tuple[NotebookNode, ast.Call]]:
    """Calls of anything named `show` or `explore`, under whatever name it was imported from."""
    return [
        (cell, node)
        for cell, tree in _trees(notebook)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _last_name(node.func) in ("show", "explore")
    ]


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _names(node: ast.AST) -> set[str]:
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def read(path: object) -> NotebookNode:
    """Read a notebook as it is on disk."""
    return nbformat.read(path, as_version=4)
