"""Which statements of a notebook a function needs: those that bind the names it uses, and theirs.

A notebook holds more than definitions: trials that fail, plots, a loop of ten minutes. Running it from top
to bottom would let a trial sink a right answer. So from the cells up to the question's own, only these
statements are run, in their order: those that bind the function's name; those that bind a name which a kept
statement reads; those that change such a name in place (``TABLE[0] = 1``, ``TABLE.append(1)``), unless the
name is a module's; and ``from x import *``.
"""

from __future__ import annotations

import ast
import copy
import re
import symtable
from collections.abc import Iterable

MAGIC = re.compile(r"(\s*)([%!?]|.*\?\s*$|[\w, ]+=\s*[%!])")


def parse(source: str) -> ast.Module:
    """Parse a cell, without IPython's magics; raise `SyntaxError` if what is left is not Python.

    Only a line at which Python stumbles is taken for a magic: others may look like one, such as a comment
    that ends in a question mark.
    """
    if source.lstrip().startswith("%%"):
        return ast.Module(body=[], type_ignores=[])
    lines = source.split("\n")
    while True:
        try:
            return ast.parse("\n".join(lines))
        except SyntaxError as error:
            place = (error.lineno or 0) - 1
            if not (0 <= place < len(lines) and (magic := MAGIC.match(lines[place]))):
                raise
            lines[place] = magic[1] and f"{magic[1]}pass"


def needed(statements: Iterable[ast.stmt], names: Iterable[str]) -> list[ast.stmt]:
    """Return the statements that the names need, in their order; each import stands alone in its own."""
    statements = [part for statement in statements for part in _parts(statement)]
    facts = [(statement, _binds(statement), _reads(statement)) for statement in statements]
    modules = {
        name
        for statement, binds, _ in facts
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for name in binds
    }
    wanted, kept = set(names), set()
    grown = True
    while grown:
        grown = False
        for place, (statement, binds, reads) in enumerate(facts):
            if place in kept:
                continue
            if "*" in binds or binds & wanted or (_changes(statement) - modules) & wanted:
                kept.add(place)
                wanted |= reads
                grown = True
    return [facts[place][0] for place in sorted(kept)]


def _parts(statement: ast.stmt) -> list[ast.stmt]:
    """Split ``from scipy import optimize, special``: one of them may be slow, missing, or not needed."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return [statement]
    parts: list[ast.stmt] = []
    for alias in statement.names:
        part = copy.copy(statement)
        part.names = [alias]
        parts.append(part)
    return parts


def _binds(statement: ast.stmt) -> set[str]:
    """Names that a top-level statement binds; a function or class binds its own name only."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    found: set[str] = set()
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
                continue
            case ast.Lambda():
                continue
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.alias(name=name, asname=asname):
                found.add(asname or name.split(".")[0])
            case ast.ExceptHandler(name=str(name)):
                found.add(name)
        todo += ast.iter_child_nodes(node)
    return found


def _reads(statement: ast.stmt) -> set[str]:
    """Names of the notebook's that a statement uses: a function's own variables are not among them."""
    try:
        todo = [symtable.symtable(ast.unparse(statement), "cell", "exec")]
    except (SyntaxError, ValueError, RecursionError):  # it parses, and does not compile: `def f(a, a)`
        return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    found: set[str] = set()
    while todo:
        table = todo.pop()
        outermost = table.get_type() == "module"
        found |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_global() or (outermost and symbol.is_referenced())
        }
        todo += table.get_children()
    return found


def _changes(statement: ast.stmt) -> set[str]:
    """Names whose objects a statement may change in place."""
    targets: list[ast.expr] = []
    match statement:
        case ast.Assign(targets=targets):
            pass
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            targets = [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute() as function)):
            targets = [function]
        case ast.For() | ast.While() | ast.If() | ast.With() | ast.Try():
            bodies = [
                *statement.body,
                *getattr(statement, "orelse", []),
                *getattr(statement, "finalbody", []),
            ]
            return {name for inner in bodies for name in _changes(inner)}
    return {name for target in targets if (name := _root(target)) is not None}


def _root(node: ast.expr) -> str | None:
    """Return the name at the bottom of ``a.b[c].d``."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None
