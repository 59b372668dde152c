"""Reads a workload YAML file: safe tags only, and a key given twice is an error."""

from __future__ import annotations

from pathlib import Path

from cimopt.errors import InputError
from cimopt.types import Workload
from cimopt.workloads import safe_yaml
from cimopt.workloads.schema import workload_from_mapping

SUFFIXES = (".yaml", ".yml")


def read_workload(path: Path) -> Workload:
    """The workload in a YAML file; every fault is an `InputError` naming the file."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"workload file '{path}' must end in {' or '.join(SUFFIXES)}; "
            "other formats become one by: cimopt workload import FILE"
        )
    return parse_workload(safe_yaml.read_text(path, "workload file"), str(path))


def parse_workload(text: str, where: str) -> Workload:
    """The workload in YAML text; `where` names it in errors."""
    return workload_from_mapping(safe_yaml.parse(text, where), where)
