"""ZigZag workload YAML: a list of layers, each an equation over loop dimensions with sizes.

    equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]
    dimension_relations: [ix=2*ox+1*fx, iy=2*oy+1*fy]

Older files of the same tool are Python programs; those are not run and hence not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from cimopt.errors import InputError, unknown_name
from cimopt.types import Layer, Workload
from cimopt.workloads import safe_yaml
from cimopt.workloads.importers.chain import chain_warnings
from cimopt.workloads.importers.loops import LoopNest, Window, layer_of
from cimopt.workloads.importers.options import MAX_SIZE, Imported, Names, Options, counted, label, short, whole

LAYER_KEYS = (
    "id", "name", "operator_type", "equation", "dimension_relations", "loop_dims", "loop_sizes", "time_dim",
    "operand_precision", "operand_source", "pr_loop_dims", "pr_loop_sizes", "padding", "constant_operands",
)  # fmt: skip
NEEDED = ("operator_type", "equation", "loop_dims", "loop_sizes")
PRODUCTS = ("Conv", "Conv_downsample", "Gemm", "MatMul", "SConv")
NO_MACS = ("Pooling", "Pool", "MaxPool", "AveragePool", "GlobalAveragePool", "Add", "Max", "Softmax", "Mul", "Relu")
MAX_TEXT = 500
_OPERAND = r"([A-Za-z]\w*)((?:\[\w*\])+)"
_EQUATION = re.compile(rf"{_OPERAND}\+?=({_OPERAND})([*+])({_OPERAND})")
_TERM = re.compile(r"(?:([^*+]+)\*)?([A-Za-z]\w*)")


def is_workload(data: object) -> bool:
    """Whether YAML content looks like a ZigZag workload."""
    return isinstance(data, list) and bool(data) and isinstance(data[0], Mapping) and "equation" in data[0]


def read(path: Path, options: Options) -> Imported:
    """The layers of one workload file."""
    data = safe_yaml.parse(safe_yaml.read_text(path, "ZigZag workload"), str(path))
    if not is_workload(data):
        raise InputError(f"{path}: no ZigZag workload (a list of layers with 'equation', 'loop_dims', 'loop_sizes')")
    names, layers, ignored = Names(), [], []
    for position, entry in enumerate(data):
        spot = _check(entry, position, path)
        if entry["operator_type"] in NO_MACS:
            ignored.append(entry["operator_type"])
        else:
            name = names.unique(_name(entry, position))
            layers.append(_layer(entry, name, spot, options))
    if not layers:
        raise InputError(f"{path}: no layer with multiply-accumulates")
    workload = Workload(
        name=options.name or path.stem or "zigzag",
        layers=tuple(layers),
        variant="imported",
        source=f"ZigZag workload {path.name}",
    )
    return Imported(workload, "zigzag", counted(ignored), warnings=tuple(chain_warnings(layers)))


def _check(entry: object, position: int, path: Path) -> str:
    """Check one layer's keys; gives the words that name it in errors."""
    if not isinstance(entry, Mapping):
        raise InputError(f"{path}: layer {position} must be 'key: value' pairs, got {short(entry)}")
    spot = f"{path}, layer {short(entry.get('id', position))} (line {safe_yaml.line_of(entry)})"
    for key in entry:
        if key not in LAYER_KEYS:
            raise unknown_name(f"key in {path}, line {safe_yaml.line_of(entry, key)}:", label(key), LAYER_KEYS)
    missing = [key for key in NEEDED if key not in entry]
    if missing:
        raise InputError(f"{spot}: missing {', '.join(missing)}")
    operator = entry["operator_type"]
    if operator not in (*PRODUCTS, *NO_MACS):
        raise unknown_name(f"operator_type in {spot}:", label(operator), (*PRODUCTS, *NO_MACS))
    return spot


def _name(entry: Mapping, position: int) -> str:
    name = entry.get("name")
    if isinstance(name, str) and name:
        return name[:200]
    number = entry.get("id", position)
    return f"layer{number}" if type(number) is int and abs(number) < MAX_SIZE else f"layer{position}"


def _layer(entry: Mapping, name: str, spot: str, options: Options) -> Layer:
    sizes = _sizes(entry, spot)
    output, first, second = _equation(entry["equation"], spot)
    windows, inner = _relations(entry.get("dimension_relations") or [], sizes, spot)
    operands = {operand: dims for operand, dims in (first, second)}
    weights = "W" if "W" in operands else first[0]
    moving = next(o for o in operands if o != weights) if len(operands) == 2 else None
    if moving is None:
        raise InputError(f"{spot}: the equation multiplies '{weights}' by itself")
    for dim in (*output[1], *operands[weights], *(d for d in operands[moving] if d not in inner)):
        if dim not in sizes:
            raise unknown_name(f"dimension in {spot}, equation:", dim, sizes)
    nest = LoopNest(
        sizes=sizes,
        weights=operands[weights],
        inputs=tuple(d for d in operands[moving] if d not in inner),
        outputs=output[1],
        windows=tuple(
            w for w in windows if inner[_inner_of(w, inner)] == w and _inner_of(w, inner) in operands[moving]
        ),
        batch=("b",),
    )
    dynamic = name in options.dynamic or _both_move(entry, weights)
    layer = layer_of(nest, name, spot, dynamic=dynamic)
    return replace(layer, padding=_padding(entry, spot))


def _padding(entry: Mapping, spot: str) -> tuple[int, int, int, int]:
    """(top, left, bottom, right) from one (begin, end) pair per dimension of `pr_loop_dims`; MACs do not need it."""
    pairs, dims = entry.get("padding"), entry.get("pr_loop_dims")
    if pairs is None:
        return (0, 0, 0, 0)
    named = isinstance(dims, list) and all(isinstance(d, str) for d in dims) and len(dims) <= 2
    if not named or not isinstance(pairs, list) or len(pairs) != len(dims):
        raise InputError(f"{spot}: padding needs one [begin, end] per dimension of pr_loop_dims")
    sides = {"y": (0, 0), "x": (0, 0)}
    for dim, pair in zip(dims, pairs, strict=True):
        good = isinstance(pair, list) and len(pair) == 2 and all(type(p) is int and 0 <= p < MAX_SIZE for p in pair)
        if not good:
            raise InputError(f"{spot}: padding of {short(dim)} is {short(pair)}; two whole numbers >= 0 are needed")
        sides["y" if "y" in dim.lower() else "x"] = tuple(pair)
    return (sides["y"][0], sides["x"][0], sides["y"][1], sides["x"][1])


def _inner_of(window: Window, inner: Mapping[str, Window]) -> str:
    return next(name for name, one in inner.items() if one == window)


def _both_move(entry: Mapping, weights: str) -> bool:
    """Whether the second operand is another layer's output: its source is stated and is not the layer itself."""
    source = entry.get("operand_source")
    constant = entry.get("constant_operands")
    if isinstance(constant, list) and weights in constant:
        return False
    if not isinstance(source, Mapping) or entry["operator_type"] in ("Conv", "Conv_downsample", "SConv"):
        return False
    return weights in source and source[weights] != entry.get("id")


def _sizes(entry: Mapping, spot: str) -> dict[str, int]:
    """Lower-case dimension to size."""
    dims, sizes = entry["loop_dims"], entry["loop_sizes"]
    good = isinstance(dims, list) and isinstance(sizes, list) and all(isinstance(d, str) for d in dims)
    if not good or len(dims) != len(sizes):
        raise InputError(f"{spot}: loop_dims and loop_sizes must be lists of equal length")
    lower = [d.lower() for d in dims]
    if len(set(lower)) != len(lower):
        raise InputError(f"{spot}: loop_dims repeats a dimension")
    return {d: whole(size, f"{spot}: size of {short(d)}") for d, size in zip(lower, sizes, strict=True)}


def _equation(value: object, spot: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(output, first, second), each an operand's name and its lower-case dimensions."""
    text = re.sub(r"\s+", "", value) if isinstance(value, str) and len(value) <= MAX_TEXT else ""
    match = _EQUATION.fullmatch(text)
    if not match:
        raise InputError(f"{spot}: equation {short(value)} is not of the form O[..]+=W[..]*I[..]")
    if match[6] != "*":
        raise InputError(f"{spot}: equation {short(value)} adds its operands: it multiplies nothing")

    def operand(name: str, brackets: str) -> tuple[str, tuple[str, ...]]:
        return name, tuple(d.lower() for d in re.findall(r"\[(\w*)\]", brackets) if d)

    return operand(match[1], match[2]), operand(match[4], match[5]), operand(match[8], match[9])


def _relations(value: object, sizes: Mapping[str, int], spot: str) -> tuple[list[Window], dict[str, Window]]:
    """Windows (height first), and the input dimension each stands for: iy = 2*oy + 1*fy."""
    if not isinstance(value, list):
        raise InputError(f"{spot}: dimension_relations must be a list, got {short(value)}")
    inner: dict[str, Window] = {}
    for text in value:
        name, window = _relation(text, sizes, spot)
        if name in inner or name in sizes:
            raise InputError(f"{spot}: '{name}' is defined twice")
        inner[name] = window
    ordered = dict(sorted(inner.items(), key=lambda item: "y" not in item[0]))
    return list(ordered.values()), ordered


def _relation(text: object, sizes: Mapping[str, int], spot: str) -> tuple[str, Window]:
    plain = re.sub(r"\s+", "", text.lower()) if isinstance(text, str) and len(text) <= MAX_TEXT else ""
    name, equal, right = plain.partition("=")
    terms = right.split("+")
    if not equal or not name.isidentifier() or len(terms) != 2:
        raise InputError(f"{spot}: dimension relation {short(text)} is not of the form iy=2*oy+1*fy")
    (step, position), (dilation, kernel) = [_term(term, text, sizes, spot) for term in terms]
    if kernel.startswith("o") and position.startswith("f"):  # written the other way round
        step, position, dilation, kernel = dilation, kernel, step, position
    return name, Window(position, kernel, step, dilation)


def _term(term: str, text: object, sizes: Mapping[str, int], spot: str) -> tuple[int, str]:
    """(factor, dimension); a factor is a whole number, for an index cannot fall between two pixels."""
    match = _TERM.fullmatch(term)
    if not match or match[2] not in sizes:
        raise InputError(f"{spot}: {short(term)} in dimension relation {short(text)} names no loop dimension")
    factor = match[1] or "1"
    if not re.fullmatch(r"[0-9]{1,9}", factor):
        raise InputError(f"{spot}: factor {short(factor)} in dimension relation {short(text)} must be a whole number")
    return whole(int(factor), f"{spot}: factor of {match[2]}"), match[2]
