"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a draft's name; when the block ends without an error, the draft takes the place of `path`."""
    draft = path.with_suffix(".part")
    yield draft
    os.replace(draft, path)
