"""Entry-point lookup: plug-ins are found by name among installed distributions, never by a dotted path in YAML."""

from __future__ import annotations

import functools
import hashlib
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from cimopt.errors import InputError, unknown_name

GROUPS = ("cimopt.evaluators", "cimopt.samplers", "cimopt.workloads", "cimopt.commands", "cimopt.confs")


@dataclass(frozen=True)
class Plugin:
    """One announced name: its group, the distribution that brings it and that one's version."""

    group: str
    name: str
    target: str
    distribution: str
    version: str


def installed(group: str) -> list[Plugin]:
    """Every announced name of a group, sorted."""
    found = [
        Plugin(group, e.name, e.value, e.dist.name if e.dist else "?", e.dist.version if e.dist else "?")
        for e in entry_points(group=group)
    ]
    return sorted(found, key=lambda p: p.name)


def load(group: str, name: str) -> Any:
    """The announced object.

    Raises InputError for an unknown name (with the nearest right one), a name announced twice, or a
    plug-in that cannot be imported (with the original error's text).
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if entry.name == name and name in found and found[name].value != entry.value:
            raise InputError(f"two installed distributions announce '{name}' in {group}; remove one of them")
        found[entry.name] = entry
    if name not in found:
        raise unknown_name(group.removeprefix("cimopt.").removesuffix("s"), name, found)
    try:
        return found[name].load()
    except Exception as error:  # whatever a plug-in's import raises is what its author must see
        raise InputError(
            f"plug-in '{name}' ({found[name].value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def conf_packages() -> list[str]:
    """Importable packages with config groups that plug-ins announce, for Hydra's search path."""
    return sorted({entry.value for entry in entry_points(group="cimopt.confs")})


@functools.cache
def code_of(module: str, *, alone: bool = False) -> str:
    """Hash of what an imported module's code says: of its whole top-level package, or of its own file (`alone`).

    The same on every machine, and another after an edit: for names of results that the code decides.
    """
    top = module if alone else module.partition(".")[0]
    file = Path(sys.modules[top].__file__)
    files = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" and not alone else [file]
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
