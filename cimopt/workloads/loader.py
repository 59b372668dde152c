"""Finds a workload by name in a source, or reads it from a person's own YAML file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cimopt.errors import InputError, unknown_name
from cimopt.types import Workload
from cimopt.workloads.families import build
from cimopt.workloads.published import load_published, published_names
from cimopt.workloads.yaml_file import SUFFIXES, read_workload

ZOO_FOLDER = Path(__file__).with_name("zoo")
SOURCES = ("zoo", "published")
ENTRY_KEYS = ("name", "source", "file", "family", "params")


def names(source: str = "zoo") -> tuple[str, ...]:
    """Networks a source offers. `zoo`: right shapes; `published`: layers as published."""
    _check_source(source)
    if source == "published":
        return published_names()
    return tuple(sorted(path.stem for path in ZOO_FOLDER.glob("*.yaml")))


def load(name_or_path: str | os.PathLike[str], *, source: str = "zoo") -> Workload:
    """One workload.

    Text ending in .yaml or .yml, or holding a path separator, and any `Path`, is a file;
    anything else is a name in `source`. Relative paths start at the current folder.
    """
    _check_source(source)
    if is_path(name_or_path):
        return read_workload(Path(name_or_path).expanduser())
    if source == "published":
        return load_published(str(name_or_path))
    known = names("zoo")
    if name_or_path not in known:
        raise unknown_name("workload", name_or_path, known)
    return read_workload(ZOO_FOLDER / f"{name_or_path}.yaml")


def load_entries(entries: Mapping[str, Mapping[str, object]]) -> tuple[Workload, ...]:
    """The workloads of a config section: key -> {name?, source?, file?, family?, params?}, in order.

    The key is the workload's name in results. Without `file`, `name` (default: the key) is
    looked up in `source` (default: zoo). With `file`, `name` may only repeat the file's own.
    `family` builds the network from `params` (see `families`) and stands alone.
    """
    if not isinstance(entries, Mapping):
        raise InputError("workload must be keyed by name, such as workload.mine.file=./mine.yaml, not a list")
    if not entries:
        raise InputError(f"no workload is chosen (known: {', '.join(names())}, or workload.<name>.file=FILE)")
    return tuple(_load_entry(str(key), entry) for key, entry in entries.items())


def _load_entry(key: str, entry: object) -> Workload:
    if not isinstance(entry, Mapping):
        raise InputError(f"workload.{key}={entry!r} must hold some of: {', '.join(ENTRY_KEYS)}")
    for field, value in entry.items():
        if field not in ENTRY_KEYS:
            raise unknown_name(f"key in workload.{key}:", field, ENTRY_KEYS)
        if value is not None and field != "params" and not isinstance(value, str):
            raise InputError(f"workload.{key}.{field}={value!r} must be text")
    if entry.get("family") is not None or entry.get("params") is not None:
        return _from_family(key, entry)
    name, source, file = (entry.get(field) for field in ("name", "source", "file"))
    if file is None:
        found = load(name or key, source=source or "zoo")
    elif source is not None:
        raise InputError(f"workload.{key}: give either file or source, not both")
    else:
        found = read_workload(Path(file).expanduser())
        if name not in (None, key, found.name):
            raise InputError(f"workload.{key}.name='{name}', but {file} holds '{found.name}'")
    return found if found.name == key else replace(found, name=key)


def _from_family(key: str, entry: Mapping[str, object]) -> Workload:
    others = [field for field in ("source", "file") if entry.get(field) is not None]
    if others:
        raise InputError(f"workload.{key}: give either family or {others[0]}, not both")
    if entry.get("family") is None:
        raise InputError(f"workload.{key}: params belong to a family, such as family: llama")
    if entry.get("name") not in (None, key):
        raise InputError(f"workload.{key}.name='{entry['name']}': a network of a family is called by its key")
    return build(entry["family"], entry.get("params") or {}, key)


def _check_source(source: str) -> None:
    if source not in SOURCES:
        raise unknown_name("workload source", source, SOURCES)


def is_path(given: str | os.PathLike[str]) -> bool:
    """Whether text means a file rather than a name."""
    if not isinstance(given, str):
        return True
    return given.lower().endswith(SUFFIXES) or "/" in given or os.sep in given
