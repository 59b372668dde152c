"""Which format a file has, and the one door to all of them."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from cimopt.errors import InputError, unknown_name
from cimopt.workloads import safe_yaml
from cimopt.workloads.importers.options import Imported, Options
from cimopt.workloads.importers.references import identified

BY_SUFFIX = {".onnx": "onnx", ".csv": "scalesim", ".pt": "torch_fx", ".pth": "torch_fx", ".pt2": "torch_fx"}
YAML = (".yaml", ".yml")
# Options with a meaning in some formats only: naming them elsewhere is a mistake, and is said.
_ONLY_FOR = {
    "padding": ("scalesim",),
    "bind": ("onnx", "scalesim"),
    "allow_unsupported": ("onnx",),
    "depthwise": ("scalesim",),
    "weights": ("onnx",),
    "dynamic": ("onnx", "timeloop", "zigzag", "scalesim"),
}


def import_file(path: str | os.PathLike[str], options: Options | None = None) -> Imported:
    """The workload in a file (for Timeloop also a folder) of another tool; every fault is a `CimoptError`."""
    options = options or Options()
    file = Path(path).expanduser()
    kind = detect(file) if options.format == "auto" else options.format
    for name, formats in _ONLY_FOR.items():
        if getattr(options, name) and kind not in formats:
            raise InputError(f"--{name.replace('_', '-')} has no meaning for {kind} files ({', '.join(formats)} only)")
    imported = import_module(f"cimopt.workloads.importers.{kind}").read(file, options)
    _check_dynamic(imported, options)
    return _with_variant(imported)


def _with_variant(imported: Imported) -> Imported:
    """The import with the variant of a well-known network, or how far it is from one."""
    variant, notes = identified(imported.workload)
    workload = imported.workload
    if variant:
        workload = replace(workload, variant=f"{workload.variant}, {variant}")
    return replace(imported, workload=workload, notes=(*imported.notes, *notes))


def _check_dynamic(imported: Imported, options: Options) -> None:
    names = [layer.name for layer in imported.workload.layers]
    for name in options.dynamic:
        if name not in names:
            raise unknown_name("layer in --dynamic", name, names[:50])


def detect(path: Path) -> str:
    """Format by suffix, and for YAML by content."""
    suffix = path.suffix.lower()
    if _is_dir(path):
        return "timeloop"
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix]
    if suffix not in YAML:
        known = ", ".join(sorted([*BY_SUFFIX, *YAML]))
        raise InputError(f"'{path}': the format of this file is not known by its suffix ({known}); name it by --format")
    from cimopt.workloads.importers import timeloop, zigzag

    text, _ = timeloop.prepared(safe_yaml.read_text(path, "file"))
    data = safe_yaml.parse(text, str(path))
    if timeloop.is_problem(data):
        return "timeloop"
    if zigzag.is_workload(data):
        return "zigzag"
    raise InputError(f"'{path}' is neither a Timeloop problem nor a ZigZag workload; name its format by --format")


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
