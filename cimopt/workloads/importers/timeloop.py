"""Timeloop problem files: one YAML per layer, in a folder or alone.

A problem states a `shape` (dimensions, coefficients, how data spaces are indexed) and an
`instance` (sizes). Output sizes are stated, so MACs need no padding. Public layer files keep the
shape in an included base file and differ from it in spelling the strides; see `_Included`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cimopt.errors import InputError, unknown_name
from cimopt.types import Layer, Workload
from cimopt.workloads import safe_yaml
from cimopt.workloads.importers.chain import chain_warnings
from cimopt.workloads.importers.loops import LoopNest, Window, layer_of
from cimopt.workloads.importers.options import Imported, Names, Options, label, short, whole
from cimopt.workloads.importers.timeloop_shape import CNN_SHAPE, Shape, read_shape

SUFFIXES = (".yaml", ".yml")
MAX_FILES = 5_000
PROBLEM_KEYS = ("version", "shape", "instance", "name", "notes", "dnn_name", "histograms", "densities", "<<<")
NOT_READ = ("histograms", "densities")
_INCLUDE = re.compile(r"^[ \t]*\{\{\s*include_text\(\s*['\"]([^'\"\n]*)['\"]\s*\)\s*\}\}[ \t]*$", re.M)
_RECURSIVE_MERGE = re.compile(r"^([ \t]*<<<?[ \t]*:)[ \t]*\*([A-Za-z0-9_]+)[ \t]*$", re.M)
# As public layer files spell them, and as the base file they include declares them.
_SPELLINGS = {"HStride": "Hstride", "WStride": "Wstride"}


@dataclass
class _Report:
    """What the reading of all files had to say."""

    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    respelt: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def read(path: Path, options: Options) -> Imported:
    """The layers of one file, or of all YAML files of a folder in the order of their names."""
    report, names = _Report(), Names()
    layers = [_read_layer(file, names, options, report) for file in _files(path)]
    if report.respelt:
        report.warnings.append(
            f"{', '.join(report.respelt)}: HStride, WStride are read as the strides they mean; the shape declares "
            "Hstride, Wstride, and Timeloop itself runs such files with strides of 1"
        )
    workload = Workload(
        name=options.name or path.stem or "timeloop",
        layers=tuple(layers),
        variant="imported",
        source=f"Timeloop problems {path.name}",
    )
    warnings = [*report.warnings, *chain_warnings(workload.layers)]
    return Imported(workload, "timeloop", notes=tuple(report.notes), warnings=tuple(warnings))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES)
    if not found:
        raise InputError(f"folder '{path}' holds no Timeloop problem (*.yaml)")
    if len(found) > MAX_FILES:
        raise InputError(f"folder '{path}' holds {len(found)} YAML files; at most {MAX_FILES} are read")
    return found


def is_problem(data: object) -> bool:
    """Whether YAML content looks like a Timeloop problem."""
    return isinstance(data, Mapping) and "problem" in data


def prepared(text: str) -> tuple[str, bool]:
    """Text that is YAML, and whether it includes a base file (which is not opened).

    Timeloop's front end expands `{{include_text(...)}}` first and merges recursively with `<<<`.
    The line count stays, so that errors still name the right line.
    """
    included = bool(_INCLUDE.search(text))
    text = _INCLUDE.sub("", text)

    def merge(match: re.Match[str]) -> str:
        defined = re.search(rf"&{match[2]}\b", text)
        return match[0] if defined else f"{match[1]} null"

    return _RECURSIVE_MERGE.sub(merge, text), included


def _read_layer(path: Path, names: Names, options: Options, report: _Report) -> Layer:
    text, included = prepared(safe_yaml.read_text(path, "Timeloop problem"))
    data = safe_yaml.parse(text, str(path))
    if not is_problem(data):
        raise InputError(f"{path}: no 'problem' in this file")
    problem = _problem(data, path)
    for key in NOT_READ:
        if key in problem:
            report.note(f"'{key}' of a problem is not read")
    if "shape" in problem:
        shape = read_shape(problem["shape"], path)
    else:
        shape = CNN_SHAPE
        report.note(
            "files without a shape are read as CNN layers: C, M, R, S, P, Q, N and G (groups), "
            "with P and R along the height"
        )
    sizes, coefficients, respelt = _instance(problem, shape, included, path)
    if respelt:
        report.respelt.append(path.name)
    name = names.unique(_name(problem, path))
    return _layer(name, shape, sizes, coefficients, str(path), name in options.dynamic, report)


def _problem(data: Mapping, path: Path) -> Mapping:
    """The problem section, with `<<<` merged: keys of the section win over those of the base."""
    problem = data["problem"]
    if not isinstance(problem, Mapping):
        raise InputError(f"{path}: problem must be 'key: value' pairs, got {short(problem)}")
    base = problem.get("<<<")
    if isinstance(base, Mapping):
        problem = {**base, **{k: v for k, v in problem.items() if k != "<<<"}}
    for key in problem:
        if key not in PROBLEM_KEYS:
            raise unknown_name(f"key in {_spot(path, data['problem'], key)} (problem):", label(key), PROBLEM_KEYS[:-1])
    if "instance" not in problem:
        raise InputError(f"{path}: problem has no instance (the sizes of its dimensions)")
    return problem


def _spot(path: Path, mapping: object, key: object) -> str:
    line = safe_yaml.line_of(mapping, key)
    return f"{path}, line {line}" if line else str(path)


def _name(problem: Mapping, path: Path) -> str:
    """The problem's own name, else the file's; digits alone get a word before them."""
    name = problem.get("name")
    if isinstance(name, str) and name:
        return name
    return f"layer{path.stem}" if path.stem.isdigit() else path.stem or "layer"


def _instance(
    problem: Mapping, shape: Shape, included: bool, path: Path
) -> tuple[dict[str, int], dict[str, int], bool]:
    """Sizes of all dimensions (1 where unstated), values of all coefficients, and whether keys were respelt."""
    instance = problem["instance"]
    if not isinstance(instance, Mapping):
        raise InputError(f"{path}: instance must be 'dimension: size' pairs, got {short(instance)}")
    sizes = dict.fromkeys(shape.dimensions, 1)
    coefficients = dict(shape.coefficients)
    # Only in the family of files that include a base: elsewhere the shape is known, and so is the fault.
    respell = included and set(_SPELLINGS) <= set(instance) and "shape" not in problem
    known = (*shape.dimensions, *shape.coefficients)
    for key, value in instance.items():
        spot = _spot(path, instance, key)
        right = _SPELLINGS[key] if respell and key in _SPELLINGS else key
        if right in coefficients:
            coefficients[right] = whole(value, f"{spot}: {key}")
        elif right in sizes:
            sizes[right] = whole(value, f"{spot}: {key}")
        elif key in NOT_READ:
            continue
        else:
            raise unknown_name(f"key in {spot} (instance):", label(key), known)
    return sizes, coefficients, respell


def _layer(
    name: str, shape: Shape, sizes: dict[str, int], values: dict[str, int], where: str, dynamic: bool, report: _Report
) -> Layer:
    windows = tuple(
        Window(w.position, w.kernel, values.get(w.stride, 1), values.get(w.dilation, 1)) for w in shape.windows
    )
    if shape.crossed:
        report.note(f"the shape ties {shape.crossed}: strides are those of the shape's own projection")
    nest = LoopNest(sizes, shape.weights, shape.inputs, shape.outputs, windows, batch=("N",))
    return layer_of(nest, name, where, dynamic=dynamic)
