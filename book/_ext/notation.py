r"""One table of symbols, book/symbols.toml: shown by `symbol-table`, enforced on every formula.

A symbol is a letter, a Greek letter, an accent, a letter in a special alphabet (`\mathbb{P}`), an upright
name (`\mathrm{KL}`), or any of these with an index that the table lists as a whole (`p_L`). A star makes a
symbol of its own: `p^*` has to be listed even where `p` is. Digits, brackets, relations and named functions
such as `\log` are not symbols.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

TABLE = Path(__file__).parents[1] / "symbols.toml"
PARTS = ["all", "I", "II", "III"]

_COMMANDS = re.compile(
    r"\\(?:(?:var)?(?:epsilon|theta|pi|rho|sigma|phi)|alpha|beta|gamma|delta|zeta|eta|iota|kappa|lambda|mu|nu|xi|tau"
    r"|upsilon|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
    r"|(?:wide)?(?:hat|tilde)|bar|overline|vec|d?dot|check|breve|ell|top|infty|hbar|aleph)"
)
_ALPHABET = r"\\(?:mathbb|mathcal|mathbf|mathrm|mathfrak|mathsf|mathit|boldsymbol|bm)(?![a-z])"
_ATOM = re.compile(rf"{_ALPHABET}\s*(?:\{{[^{{}}]*\}}|[A-Za-z0-9])|\\[A-Za-z]+|[A-Za-z]")
_SCRIPT = re.compile(r"[_^](?:\{[^{}]*\}|\\[A-Za-z]+|[^\s{}\\])")
_PSEUDO_INVERSE = re.compile(r"\^(?:\+|\{\+\})")
_NOT_MATHS = re.compile(
    r"\\(?:begin|end|text(?:bf|it|rm|tt)?|mathtt|label|tag|ref|eqref|hspace|color)\*?\s*\{[^{}]*\}|(?<!\\)%.*"
)


def load_table(path: Path = TABLE) -> list[dict[str, Any]]:
    """Return the entries of the symbol table."""
    with path.open("rb") as file:
        return list(tomllib.load(file)["symbol"])


def listed_tokens(table: list[dict[str, Any]]) -> set[str]:
    """Return every token that the table allows."""
    tokens: set[str] = set()
    for entry in table:
        token = entry.get("token", entry["latex"])
        tokens.update(map(_tidy, [token] if isinstance(token, str) else token))
    return tokens


def _tidy(latex: str) -> str:
    """Bring a formula to one spelling: no spaces or needless braces at scripts, `*` for a star."""
    latex = _NOT_MATHS.sub(" ", latex)
    latex = re.sub(r"\\operatorname\*?\s*\{", r"\\mathrm{", latex)
    latex = re.sub(r"\\(?:star|ast)(?![A-Za-z])", "*", latex)
    latex = re.sub(r"\s*([_^])\s*", r"\1", latex)
    latex = re.sub(r"([_^])\{\s*([^\s{}\\])\s*\}", r"\1\2", latex)
    latex = re.sub(rf"({_ALPHABET})\s*([A-Za-z0-9])", r"\1{\2}", latex)
    return latex.strip()


def symbols_in(latex: str, listed: set[str]) -> Iterator[str]:
    """Yield the symbols of a formula, taking a symbol and its indices together where `listed` does.

    >>> list(symbols_in(r"p_L(s) \\ge p^*(w)", {"p_L"}))
    ['p_L', 's', 'p^*', 'w']
    """
    latex = _tidy(latex)
    if _PSEUDO_INVERSE.search(latex):
        yield "+"
    position = 0
    while found := _ATOM.search(latex, position):
        atom, position = found[0], found.end()
        scripts: list[str] = []
        end = position
        while (script := _SCRIPT.match(latex, end)) and len(scripts) < 2:
            scripts.append(script[0])
            end = script.end()
        wholes = [("".join(scripts), end), ("".join(reversed(scripts)), end)]
        wholes += [(scripts[0], position + len(scripts[0]))] if scripts else []
        for suffix, after in wholes:
            if suffix and atom + suffix in listed and ("^*" not in scripts or "^*" in suffix):
                yield atom + suffix
                position = after
                break
        else:
            if "^*" in scripts:
                yield atom + "^*"
                latex = latex[:position] + latex[position:].replace("^*", "", 1)
            elif not atom.startswith("\\") or _COMMANDS.fullmatch(atom) or "{" in atom:
                yield atom


def unlisted(latex: str, listed: set[str]) -> list[str]:
    """Return the symbols of a formula that the table does not list, each once, in order."""
    return list(dict.fromkeys(symbol for symbol in symbols_in(latex, listed) if symbol not in listed))


def check_symbols(app: Sphinx, document: nodes.document) -> None:
    """Warn about each symbol of a page that the table does not list; a strict build stops there."""
    app.env.note_dependency(str(TABLE))
    listed = listed_tokens(load_table())
    seen: set[str] = set()
    for node in document.findall(lambda node: isinstance(node, nodes.math | nodes.math_block)):
        for symbol in unlisted(node.astext(), listed):
            if symbol not in seen:
                seen.add(symbol)
                message = "the symbol %s is not in book/symbols.toml"
                logger.warning(message, symbol, location=node, type="notation")


class SymbolTable(SphinxDirective):
    """The symbols of one part of the course, as a table: `{symbol-table} I`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        part = self.arguments[0]
        if part not in PARTS:
            raise self.error(f"symbol-table knows the parts {', '.join(PARTS)}, not {part!r}")
        rows = ["| Symbol | Name | Meaning | In the papers |", "|---|---|---|---|"]
        for entry in load_table():
            if entry["part"] == part:
                papers = [f"[{key[0].upper()}] ${entry[key]}$" for key in ("saunshi", "wei") if key in entry]
                cells = [f"${entry['latex']}$", entry["name"], entry["meaning"], ", ".join(papers) or "–"]
                rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        box = nodes.container(classes=["lm-symbols"])
        self.state.nested_parse(StringList(rows, source=str(TABLE)), 0, box)
        return [box]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("symbol-table", SymbolTable)
    app.connect("doctree-read", check_symbols)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
