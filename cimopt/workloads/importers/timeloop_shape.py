"""The `shape` of a Timeloop problem: dimensions, coefficients and the projections of its data spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cimopt.errors import InputError, unknown_name
from cimopt.workloads import safe_yaml
from cimopt.workloads.importers.options import MAX_SIZE, label, short

SHAPE_KEYS = ("name", "dimensions", "coefficients", "data_spaces", "data-spaces", "version")
SPACE_KEYS = ("name", "projection", "read_write", "read-write")
_ROLES = {
    "weights": ("weights", "weight", "filters", "filter", "w", "b"),
    "inputs": ("inputs", "input", "activations", "a", "i"),
    "outputs": ("outputs", "output", "psums", "o", "z"),
}


@dataclass(frozen=True)
class Axis:
    """A window by names: dimensions, and the coefficients that scale them ("" where there is none)."""

    position: str
    kernel: str
    stride: str = ""
    dilation: str = ""


@dataclass(frozen=True)
class Shape:
    """Names only; sizes come with the instance. `windows` in the order height, width."""

    dimensions: tuple[str, ...]
    coefficients: Mapping[str, int]
    weights: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    windows: tuple[Axis, ...]

    @property
    def crossed(self) -> str:
        """A height axis scaled by a width coefficient (or the reverse), in words; "" when there is none."""
        for axis, letter in zip(self.windows, "WH", strict=False):
            if axis.stride.startswith(letter):
                return f"{axis.position}, {axis.kernel} to {axis.stride}"
        return ""


CNN_SHAPE = Shape(
    dimensions=("C", "M", "R", "S", "N", "P", "Q", "G"),
    coefficients={"Hstride": 1, "Wstride": 1, "Hdilation": 1, "Wdilation": 1},
    weights=("G", "C", "M", "R", "S"),
    inputs=("N", "G", "C"),
    outputs=("N", "G", "M", "P", "Q"),
    windows=(Axis("P", "R", "Hstride", "Hdilation"), Axis("Q", "S", "Wstride", "Wdilation")),
)


def read_shape(data: object, path: Path) -> Shape:
    """A shape from its YAML mapping, or the name of the built-in CNN layer."""
    if isinstance(data, str):
        if data.lower().replace("_", "-") in ("cnn-layer", "cnn layer"):
            return CNN_SHAPE
        raise unknown_name(f"shape in {path}:", label(data), ("cnn-layer",))
    if not isinstance(data, Mapping):
        raise InputError(f"{path}: shape must be 'key: value' pairs or a name, got {short(data)}")
    _check_keys(data, SHAPE_KEYS, path, "shape")
    dimensions = _names(data.get("dimensions"), f"{path}: shape.dimensions")
    coefficients = _coefficients(data.get("coefficients") or [], path)
    both = sorted(set(dimensions) & set(coefficients))
    if both:
        raise InputError(f"{path}: '{label(both[0])}' is both a dimension and a coefficient")
    spaces = _spaces(data.get("data_spaces", data.get("data-spaces")), (dimensions, tuple(coefficients)), path)
    inputs, windows = _windows(spaces["inputs"], dimensions, f"{path}: shape, inputs")
    return Shape(
        dimensions=dimensions,
        coefficients=coefficients,
        weights=_plain(spaces["weights"], f"{path}: shape, weights"),
        inputs=inputs,
        outputs=_plain(spaces["outputs"], f"{path}: shape, outputs"),
        windows=windows,
    )


def _check_keys(data: Mapping, allowed: Sequence[str], path: Path, what: str) -> None:
    for key in data:
        if key not in allowed:
            line = safe_yaml.line_of(data, key)
            raise unknown_name(f"key in {path}, line {line} ({what}):", label(key), allowed)


def _names(value: object, spot: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) and v for v in value):
        raise InputError(f"{spot} must be a list of names (quote N and Y), got {short(value)}")
    if len(set(value)) != len(value):
        raise InputError(f"{spot} repeats a name")
    return tuple(value)


def _coefficients(value: object, path: Path) -> dict[str, int]:
    if not isinstance(value, list):
        raise InputError(f"{path}: shape.coefficients must be a list, got {short(value)}")
    found: dict[str, int] = {}
    for entry in value:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise InputError(f"{path}: each of shape.coefficients needs a name, got {short(entry)}")
        _check_keys(entry, ("name", "default"), path, "coefficients")
        default = entry.get("default", 1)
        if type(default) is not int or not 1 <= default < MAX_SIZE:
            raise InputError(
                f"{path}: coefficient {short(entry['name'])} has default {short(default)}; whole numbers only"
            )
        found[entry["name"]] = default
    return found


def _spaces(value: object, names: tuple[Sequence[str], Sequence[str]], path: Path) -> dict[str, list[list[list[str]]]]:
    """Projections by role: each a list of axes, each a sum of terms; `names` are dimensions, coefficients."""
    if not isinstance(value, list) or len(value) != 3:
        raise InputError(f"{path}: shape.data_spaces must list weights, inputs and outputs, got {short(value)}")
    found = {}
    for entry in value:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise InputError(f"{path}: each of shape.data_spaces needs a name, got {short(entry)}")
        _check_keys(entry, SPACE_KEYS, path, "data_spaces")
        role = next((r for r, known in _ROLES.items() if entry["name"].lower() in known), None)
        if role is None or role in found:
            known = [n.capitalize() for n in _ROLES]
            raise unknown_name(f"data space in {path}, line {safe_yaml.line_of(entry)}:", label(entry["name"]), known)
        found[role] = _projection(entry.get("projection"), names, f"{path}: projection of {entry['name']}")
    return found


def _projection(value: object, names: tuple[Sequence[str], Sequence[str]], spot: str) -> list[list[list[str]]]:
    if isinstance(value, str):
        value = safe_yaml.parse(value, spot)
    if not isinstance(value, list):
        raise InputError(f"{spot} must be a list of axes such as [[C]], got {short(value)}")
    for axis in value:
        if not isinstance(axis, list) or not axis:
            raise InputError(f"{spot}: an axis is {short(axis)}; a list such as [[P, Hstride], [R]] is needed")
        for term in axis:
            if not isinstance(term, list) or not 1 <= len(term) <= 2:
                raise InputError(f"{spot}: a term is {short(term)}; [dimension] or [dimension, coefficient] is needed")
            for name, known in zip(term, names, strict=False):
                if not isinstance(name, str) or name not in known:
                    raise unknown_name(f"name in {spot}", label(name), known)
    return value


def _plain(axes: list[list[list[str]]], spot: str) -> tuple[str, ...]:
    """Dimensions of an operand whose axes are single dimensions."""
    for axis in axes:
        if len(axis) != 1 or len(axis[0]) != 1:
            raise InputError(f"{spot}: sums and coefficients are supported on inputs only")
    return tuple(axis[0][0] for axis in axes)


def _windows(axes: list[list[list[str]]], dimensions: tuple[str, ...], spot: str) -> tuple[tuple[str, ...], tuple]:
    """Plain dimensions and sliding axes of the inputs."""
    plain, windows = [], []
    for axis in axes:
        if len(axis) == 1 and len(axis[0]) == 1:
            plain.append(axis[0][0])
        elif len(axis) == 2:
            windows.append(_axis(axis, dimensions))
        else:
            raise InputError(f"{spot}: an axis has {len(axis)} terms; one dimension, or a window of two, is supported")
    # P and R along the height, as the public layer files mean them; else in the order given.
    windows.sort(key=lambda w: w.position not in ("P", "OY"))
    return tuple(plain), tuple(windows)


def _axis(axis: list[list[str]], dimensions: tuple[str, ...]) -> Axis:
    """Which of two terms is the kernel: R, S or F..., or the one scaled by a dilation; else the second."""

    def is_kernel(term: list[str]) -> bool:
        return term[0] in ("R", "S", "T", "FX", "FY") or any("dilation" in t.lower() for t in term[1:])

    a, b = axis
    kernel, position = (a, b) if is_kernel(a) and not is_kernel(b) else (b, a)
    return Axis(position[0], kernel[0], *[(*t[1:], "")[0] for t in (position, kernel)])
