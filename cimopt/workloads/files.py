"""Any file that holds a network: our own YAML, or a file of another tool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cimopt.workloads import safe_yaml
from cimopt.workloads.importers import Imported, Options, import_file
from cimopt.workloads.importers.timeloop import prepared
from cimopt.workloads.loader import is_path, load
from cimopt.workloads.yaml_file import SUFFIXES, read_workload


def read_any(name_or_path: str, options: Options) -> Imported:
    """A zoo name, our own workload YAML, or an import of any other file or folder."""
    path = Path(name_or_path).expanduser()
    if not is_path(name_or_path) and not path.suffix and not path.is_dir() and options.format == "auto":
        return Imported(load(name_or_path), "workload")
    if options.format == "auto" and path.suffix.lower() in SUFFIXES and not path.is_dir() and _is_ours(path):
        return Imported(read_workload(path), "workload")
    return import_file(path, options)


def _is_ours(path: Path) -> bool:
    """Whether a YAML file is a workload of ours, or nothing that another tool would write."""
    text, _ = prepared(safe_yaml.read_text(path, "workload file"))
    data = safe_yaml.parse(text, str(path))
    return not (isinstance(data, Mapping) and "problem" in data) and not isinstance(data, list)
