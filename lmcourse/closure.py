"""The import closure: which modules of the package a piece of code reaches, and a hash of their sources.

Stored results and executed chapters are keyed on it, so that they are redone when, and only when, code that
they use has changed. Imports are read from the source, inside functions too, and `import_module` with a
literal name; an import by a computed name is not seen.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent


def import_closure(source: str, package: Path = PACKAGE) -> dict[str, Path]:
    """Return every module of the package that Python code imports, directly or through others.

    Parameters
    ----------
    source
        Python source code from outside the package.
    package
        Folder of the package, named as it is imported.

    Returns
    -------
    dict
        Module name to file, sorted by name. Importing a module runs the packages around it, so these are in.

    Raises
    ------
    SyntaxError
        If the source, or a module that it reaches, is not Python.
    """
    found: dict[str, Path] = {}
    waiting = list(_imported(source, "", package))
    while waiting:
        name = waiting.pop()
        path = _module_file(name, package)
        if path is None or name in found:
            continue
        found[name] = path
        parent = name.rpartition(".")[0]
        inside = name if path.name == "__init__.py" else parent
        waiting += [parent, *_imported(path.read_text(encoding="utf-8"), inside, package)]
    return dict(sorted(found.items()))


def closure_hash(source: str, package: Path = PACKAGE) -> str:
    """Return the SHA-256, in hexadecimal, of the sources in `import_closure`."""
    digest = hashlib.sha256()
    for name, path in import_closure(source, package).items():
        digest.update(f"{name}\n".encode())
        digest.update(path.read_text(encoding="utf-8").encode() + b"\0")
    return digest.hexdigest()


def _imported(source: str, inside: str, package: Path) -> Iterator[str]:
    """Yield the dotted names that code in the package `inside` ("" for outside) imports, as candidates."""
    root = package.name
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == root)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                base = inside.split(".")
                base = base[: len(base) - node.level + 1]
                module = ".".join([*base, module] if module else base)
            if module.split(".")[0] == root:
                yield module
                yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            name = node.args[0].value
            if called in ("import_module", "__import__") and isinstance(name, str):
                yield name


def _module_file(name: str, package: Path) -> Path | None:
    """Return the file of a module of the package, or None if the name is no module (but, say, a function)."""
    parts = name.split(".")
    if parts[0] != package.name:
        return None
    path = package.joinpath(*parts[1:])
    for candidate in (path / "__init__.py", path.with_suffix(".py")):
        if candidate.is_file():
            return candidate
    return None
