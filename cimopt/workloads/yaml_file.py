"""Reads a workload YAML file: safe tags only, and a key given twice is an error."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cimopt.errors import InputError
from cimopt.types import Workload
from cimopt.workloads.schema import workload_from_mapping

SUFFIXES = (".yaml", ".yml")


def read_workload(path: Path) -> Workload:
    """The workload in a YAML file; every fault is an `InputError` naming the file."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"workload file '{path}' must end in {' or '.join(SUFFIXES)}")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"no workload file '{path}' (relative paths start at {Path.cwd()})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"workload file '{path}' cannot be read: {error}") from error
    return parse_workload(text, str(path))


def parse_workload(text: str, where: str) -> Workload:
    """The workload in YAML text; `where` names it in errors."""
    import yaml

    try:
        data = yaml.load(text, Loader=_loader())  # a safe loader, see below
    except (yaml.YAMLError, ValueError) as error:
        # ValueError: PyYAML builds impossible dates and numbers with the standard library.
        raise InputError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None
    return workload_from_mapping(data, where)


@cache
def _loader() -> type:
    """PyYAML's safe loader (the C one where built, about ten times faster) refusing repeated keys."""
    import yaml

    class StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        """Safe loader; a mapping with the same key twice is an error, not a silent overwrite."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
            keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            for i, key in enumerate(keys):
                if key in keys[:i]:
                    raise yaml.constructor.ConstructorError(None, None, f"key '{key}' is given twice", node.start_mark)
            return super().construct_mapping(node, deep=deep)

    return StrictLoader
