"""Files that are broken, odd or built to do harm, and how they must end."""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from notebooks import DOUBLE, ENTROPY, cell, notebook, save, tiny


@dataclass(frozen=True)
class Spoil:
    """Writes files into a folder; the status and points they must end with, and what the page says."""

    write: Callable[[Path], object]
    status: str
    total: float | None
    says: str = ""


GRADED, UNREADABLE, DECIDE = "some left to grade by hand", "cannot be read", "needs a decision"


def raw(name: str, data: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def book(name: str, made: dict) -> Callable[[Path], object]:
    return lambda folder: save(folder / name, made)


def packed(*members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return stream.getvalue()


GOOD = json.dumps(tiny()).encode()


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def many_outputs(folder: Path) -> None:
    """A right notebook with 200 MB of outputs."""
    made = tiny()
    made["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "@"}]
    before, after = json.dumps(made).split("@")
    with (folder / "outputs.ipynb").open("w") as stream:
        stream.write(before)
        for _ in range(200):
            stream.write("x" * 1_000_000)
        stream.write(after)


def bomb() -> bytes:
    """A zip of half a megabyte that unpacks to 500 MB."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("tiny.ipynb", "w") as member,
    ):
        for _ in range(500):
            member.write(b" " * 1_000_000)
    return stream.getvalue()


def encrypted() -> bytes:
    data = bytearray(packed(("tiny.ipynb", GOOD)))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1
    return bytes(data)


def corrupt() -> bytes:
    """A zip whose directory is whole and whose compressed data are not."""
    data = bytearray(packed(("tiny.ipynb", GOOD)))
    data[60:100] = bytes(40)
    return bytes(data)


def two_files(folder: Path) -> None:
    save(folder / "two.ipynb", tiny())
    (folder / "two.zip").write_bytes(
        packed(("tiny.ipynb", json.dumps(tiny(double="def double(x): pass")).encode()))
    )


def same_twice(folder: Path) -> None:
    save(folder / "same" / "a.ipynb", tiny())
    save(folder / "same" / "copy" / "a.ipynb", tiny())


def outward(folder: Path) -> None:
    os.symlink("/etc/passwd", folder / "outward.ipynb")


def without(*ids: str) -> dict:
    made = tiny()
    made["cells"] = [c for c in made["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") not in ids]
    return made


def unmarked() -> dict:
    made = tiny()
    for c in made["cells"]:
        c["metadata"] = {}
    return made


def doubled() -> dict:
    made = tiny(entropy="def entropy(p):\n    return 0.25\n")
    made["cells"].insert(4, cell(ENTROPY, "entropy"))
    return made


def doubled_stub() -> dict:
    made = tiny()
    made["cells"].insert(4, cell("def entropy(p):\n    raise NotImplementedError\n", "entropy"))
    return made


def split() -> dict:
    """The answer in two cells, the helper in the second, which has no mark."""
    made = tiny(entropy="def entropy(p):\n    return helper(p)\n")
    made["cells"].insert(4, cell(ENTROPY.replace("entropy", "helper")))
    return made


def kernel(name: object, language: object) -> dict:
    return tiny() | {"metadata": {"kernelspec": {"name": name, "language": language}}}


def deep() -> bytes:
    return b'{"cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


def members(n: int) -> bytes:
    return packed(*((f"{k}.txt", b"") for k in range(n)), ("tiny.ipynb", GOOD))


SPOILS: dict[str, Spoil] = {
    "not-json": Spoil(raw("not-json.ipynb", b"print('hello')"), UNREADABLE, 0, "not JSON"),
    "empty": Spoil(raw("empty.ipynb", b""), UNREADABLE, 0, "empty"),
    "no-cells": Spoil(book("no-cells.ipynb", notebook()), UNREADABLE, 0, "no cells"),
    "a-list": Spoil(raw("a-list.ipynb", b"[]"), UNREADABLE, 0, "not a Jupyter notebook"),
    "cells-of-anything": Spoil(
        raw(
            "cells-of-anything.ipynb",
            b'{"cells": [1, null, {"cell_type": 3}, {"cell_type": "code", "source": 7}]}',
        ),
        UNREADABLE,
        0,
    ),
    "old-format": Spoil(raw("old-format.ipynb", b'{"worksheets": []}'), UNREADABLE, 0, "2013"),
    "deep": Spoil(raw("deep.ipynb", deep()), UNREADABLE, 0),
    "long-number": Spoil(raw("long-number.ipynb", b'{"cells": ' + b"9" * 10**6 + b"}"), UNREADABLE, 0),
    "binary": Spoil(raw("binary.ipynb", bytes(range(256)) * 100), UNREADABLE, 0),
    "memory": Spoil(
        raw("memory.ipynb", b'{"cells": [' + b"[{}]," * 20_000_000 + b"0]}"), UNREADABLE, 0, "clear"
    ),
    "outputs": Spoil(many_outputs, GRADED, 10),
    "long-source": Spoil(book("long-source.ipynb", tiny(double=DOUBLE + "#" * 3_000_000)), UNREADABLE, 0),
    "utf-16": Spoil(raw("utf-16.ipynb", GOOD.decode().encode("utf-16")), GRADED, 10, "not UTF-8"),
    "bom": Spoil(raw("bom.ipynb", b"\xef\xbb\xbf" + GOOD), GRADED, 10),
    "latin": Spoil(
        raw("latin.ipynb", GOOD.decode().replace("By inspection", "Voilà").encode("cp1252")),
        GRADED,
        10,
        "not UTF-8",
    ),
    "surrogates": Spoil(raw("surrogates.ipynb", GOOD.replace(b"By inspection", b"\\ud800")), GRADED, 10),
    "kernel": Spoil(
        raw(
            "kernel.ipynb",
            json.dumps(tiny() | notebook(kernel="conda-env-x") | {"cells": tiny()["cells"]}).encode(),
        ),
        GRADED,
        10,
        "conda-env-x",
    ),
    "language": Spoil(book("language.ipynb", kernel("x", "\ud800\x1b[2J")), GRADED, 10, "for ??[2J"),
    "duplicated": Spoil(book("duplicated.ipynb", doubled()), GRADED, 10, "2 times"),
    "duplicated-stub": Spoil(book("duplicated-stub.ipynb", doubled_stub()), GRADED, 4, "2 times"),
    "split": Spoil(book("split.ipynb", split()), GRADED, 10),
    "deleted": Spoil(book("deleted.ipynb", without("entropy")), GRADED, 4, "No function entropy"),
    "all-deleted": Spoil(book("all-deleted.ipynb", without("double", "entropy", "proof")), GRADED, 0),
    "unmarked": Spoil(book("unmarked.ipynb", unmarked()), GRADED, 10, "found by name"),
    "untouched": Spoil(
        book(
            "untouched.ipynb",
            tiny(
                double="import numpy as np\ndef double(x):\n    raise NotImplementedError\n",
                entropy="def entropy(p):\n    raise NotImplementedError\n",
            ),
        ),
        GRADED,
        0,
        "left as it was handed out",
    ),
    "zip": Spoil(raw("zip.zip", packed(("some/where/tiny.ipynb", GOOD), ("data.csv", b"1"))), GRADED, 10),
    "zip-mac": Spoil(
        raw("zip-mac.zip", packed(("tiny.ipynb", GOOD), ("__MACOSX/._tiny.ipynb", b"\0"))), GRADED, 10
    ),
    "zip-link": Spoil(
        raw("zip-link.zip", packed((link("tiny.ipynb"), b"/etc/passwd"))), UNREADABLE, 0, "link"
    ),
    "zip-parent": Spoil(
        raw("zip-parent.zip", packed(("../../tiny.ipynb", GOOD))), UNREADABLE, 0, "leads out"
    ),
    "zip-absolute": Spoil(
        raw("zip-absolute.zip", packed(("/etc/tiny.ipynb", GOOD))), UNREADABLE, 0, "leads out"
    ),
    "zip-backslash": Spoil(
        raw("zip-backslash.zip", packed(("..\\tiny.ipynb", GOOD))), UNREADABLE, 0, "leads out"
    ),
    "zip-bomb": Spoil(raw("zip-bomb.zip", bomb()), UNREADABLE, 0, "300 MB"),
    "zip-many": Spoil(raw("zip-many.zip", members(5_000)), UNREADABLE, 0, "5001 files"),
    "zip-none": Spoil(raw("zip-none.zip", packed(("a.txt", b"x"))), UNREADABLE, 0, "no notebook"),
    "zip-two": Spoil(
        raw("zip-two.zip", packed(("a.ipynb", GOOD), ("b.ipynb", GOOD))), UNREADABLE, 0, "hand in one"
    ),
    "zip-damaged": Spoil(raw("zip-damaged.zip", packed(("tiny.ipynb", GOOD))[:200]), UNREADABLE, 0),
    "zip-corrupt": Spoil(raw("zip-corrupt.zip", corrupt()), UNREADABLE, 0),
    "zip-encrypted": Spoil(raw("zip-encrypted.zip", encrypted()), UNREADABLE, 0),
    "zip-in-name-only": Spoil(raw("zip-in-name-only.zip", GOOD), GRADED, 10),
    "outward": Spoil(outward, DECIDE, None, "symbolic link"),
    "two": Spoil(two_files, DECIDE, None, "which one counts"),
    "same": Spoil(same_twice, GRADED, 10),
    "=cmd|' 'C calc'!A0": Spoil(book("=cmd|' 'C calc'!A0.ipynb", tiny()), GRADED, 10),
    "+1": Spoil(book("+1.ipynb", tiny()), GRADED, 10),
    "@SUM(1)": Spoil(book("@SUM(1).ipynb", tiny()), GRADED, 10),
    "-rf": Spoil(book("-rf.ipynb", tiny()), GRADED, 10),
    "....": Spoil(book(".....ipynb", tiny()), GRADED, 10),
    "..%2F..%2Fetc": Spoil(book("..%2F..%2Fetc.ipynb", tiny()), GRADED, 10),
    "..\\..\\evil": Spoil(book("..\\..\\evil.ipynb", tiny()), GRADED, 10),
    "<img src=x onerror=alert(1)>": Spoil(book("<img src=x onerror=alert(1)>.ipynb", tiny()), GRADED, 10),
    "a?b": Spoil(book("a\nb.ipynb", tiny()), GRADED, 10),
    "Zoë Ünal": Spoil(book("Zoë Ünal.ipynb", tiny()), GRADED, 10),
    "CON": Spoil(book("CON.ipynb", tiny()), GRADED, 10),
    "x" * 200: Spoil(book("x" * 200 + ".ipynb", tiny()), GRADED, 10),
}
