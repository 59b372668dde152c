"""Stage tables on disk: a large table computed once is there for the next process.

Only tables worth keeping are written (SAVE_ROWS new combinations at once: an enumeration, a table of designs). A file's
name holds everything that decides its content, the plug-in's own code included, so an edited model never meets
old rows. The folder is `$CIMOPT_CACHE`, else `$XDG_CACHE_HOME/cimopt` or `~/.cache/cimopt`; it can be deleted.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from cimopt.types import fingerprint

SAVE_ROWS = 5_000


def folder() -> Path:
    """Where stage tables are kept."""
    own = os.environ.get("CIMOPT_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cimopt"
    return (Path(own) if own else base) / "stages"


@functools.cache
def code_of(kind: type, also: tuple[str, ...] = ()) -> str:
    """Hash of the names, sizes and times of the files of a class's package and of other packages it computes with."""
    listed = []
    for name in (kind.__module__.partition(".")[0], *also):
        file = getattr(sys.modules.get(name), "__file__", None)
        root = Path(file).parent if file else None
        for path in sorted(root.rglob("*")) if root else ():
            if path.suffix in (".py", ".csv", ".yaml") and path.is_file():
                status = path.stat()
                listed.append([str(path.relative_to(root)), status.st_size, status.st_mtime_ns])
    return fingerprint(listed)


def path_of(parts: dict[str, Any]) -> Path:
    """The file of one stage table."""
    return folder() / f"{parts['evaluator']}-{parts['stage']}-{fingerprint(parts)}.npz"


def read(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]] | None:
    """Keys (k,) and arrays (k, ...); None when there is no readable file."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        return None
    keys = arrays.pop("__keys__", None)
    return None if keys is None else (keys, arrays)


def write(path: Path, keys: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
    """Moved into place whole; a cache that cannot be written is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, __keys__=keys, **arrays)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError:
        return
