"""Finds a workload by name in a source, or reads it from a person's own YAML file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cimopt import plugins
from cimopt.errors import InputError, unknown_name
from cimopt.types import Workload
from cimopt.workloads.families import FAMILIES
from cimopt.workloads.knobs import BITS
from cimopt.workloads.published import load_published, published_names
from cimopt.workloads.searched import PLUGIN_GROUP, NetworkEntry, Networks
from cimopt.workloads.yaml_file import SUFFIXES, read_workload

ZOO_FOLDER = Path(__file__).with_name("zoo")
SOURCES = ("zoo", "published")
ENTRY_KEYS = ("name", "source", "file", "family", "params", "search")


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


def networks_of(entries: Mapping[str, Mapping[str, object]]) -> Networks:
    """The workloads of a config section: key -> {name?, source?, file?, family?, params?, search?}, in order.

    The key is the workload's name in results. Without `file`, `name` (default: the key) is a plug-in's network
    or looked up in `source` (default: zoo). With `file`, `name` may only repeat the file's own. `family`
    builds the network (see `families`). `params` and `search` set and leave open its knobs; networks that
    are of no family have `weight_bits` and `activation_bits`.
    """
    if not isinstance(entries, Mapping):
        raise InputError("workload must be keyed by name, such as workload.mine.file=./mine.yaml, not a list")
    if not entries:
        raise InputError(f"no workload is chosen (known: {', '.join(names())}, or workload.<name>.file=FILE)")
    return Networks(tuple(_entry(str(key), {} if entry is None else entry) for key, entry in entries.items()))


def load_entries(entries: Mapping[str, Mapping[str, object]]) -> tuple[Workload, ...]:
    """The networks of a config section that leaves nothing to a search."""
    found = networks_of(entries)
    if found.parameters:
        raise InputError(f"{found.parameters[0].name} is left to a search (workload.<name>.search): give it in params")
    return found.first


def _entry(key: str, entry: object) -> NetworkEntry:
    if not isinstance(entry, Mapping):
        raise InputError(f"workload.{key}={entry!r} must hold some of: {', '.join(ENTRY_KEYS)}")
    for field, value in entry.items():
        if field not in ENTRY_KEYS:
            raise unknown_name(f"key in workload.{key}:", field, ENTRY_KEYS)
        if value is not None and field not in ("params", "search") and not isinstance(value, str):
            raise InputError(f"workload.{key}.{field}={value!r} must be text")
    if not re.fullmatch(r"[^./\\\s][^./\\]*", key):
        raise InputError(f"workload.{key}: a workload's name must not be empty or contain a point or a slash")
    knobs = {"params": _params(key, entry.get("params")), "search": _search(key, entry.get("search"))}
    name, source, file = (entry.get(field) for field in ("name", "source", "file"))
    if entry.get("family") is not None:
        _check_alone(key, entry)
        return NetworkEntry(key, family=entry["family"], **knobs)
    if file is None and source is None and str(name or key) in _announced():
        return NetworkEntry(key, plugin=str(name or key), **knobs)
    for knob in (*knobs["params"], *knobs["search"]):
        if knob not in BITS:
            raise InputError(
                f"workload.{key}: '{knob}' is a parameter of a family (family: {', '.join(FAMILIES)}); a network of the "
                f"zoo or of a file has {' and '.join(BITS)}"
            )
    return NetworkEntry(key, fixed=_fixed(key, name, source, file), **knobs)


def _params(key: str, given: object) -> dict[str, object]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"workload.{key}.params must be 'name: value' pairs, got {type(given).__name__}")
    return {str(name): value for name, value in given.items()}


def _search(key: str, given: object) -> dict[str, tuple]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(f"workload.{key}.search must be 'name: [choices]' pairs, got {type(given).__name__}")
    for name, choices in given.items():
        if not isinstance(choices, Sequence) or isinstance(choices, str) or not choices:
            raise InputError(f"workload.{key}.search.{name}={choices!r} must be a list of choices")
    return {str(name): tuple(choices) for name, choices in given.items()}


def _announced() -> set[str]:
    """Networks that installed plug-ins bring along."""
    return {p.name for p in plugins.installed(PLUGIN_GROUP)}


def _fixed(key: str, name: str | None, source: str | None, file: str | None) -> Workload:
    if file is None:
        found = load(name or key, source=source or "zoo")
    elif source is not None:
        raise InputError(f"workload.{key}: give either file or source, not both")
    else:
        found = read_workload(Path(file).expanduser())
        if name not in (None, key, found.name):
            raise InputError(f"workload.{key}.name='{name}', but {file} holds '{found.name}'")
    return found if found.name == key else replace(found, name=key)


def _check_alone(key: str, entry: Mapping[str, object]) -> None:
    others = [field for field in ("source", "file") if entry.get(field) is not None]
    if others:
        raise InputError(f"workload.{key}: give either family or {others[0]}, not both")
    if entry.get("name") not in (None, key):
        raise InputError(f"workload.{key}.name='{entry['name']}': a network of a family is called by its key")


def _check_source(source: str) -> None:
    if source not in SOURCES:
        raise unknown_name("workload source", source, SOURCES)


def is_path(given: str | os.PathLike[str]) -> bool:
    """Whether text means a file rather than a name."""
    if not isinstance(given, str):
        return True
    return given.lower().endswith(SUFFIXES) or "/" in given or os.sep in given
