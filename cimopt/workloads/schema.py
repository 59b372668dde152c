"""From plain mappings (as YAML gives them) to `Workload`, strictly.

Unknown keys, wrong types, missing keys, repeated layer names and totals that disagree with
the layers are refused, naming the file, the layer and the key: a misspelt stride that
is quietly ignored gives wrong results for months.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cimopt.errors import InputError, unknown_name
from cimopt.types import LAYER_KINDS, Layer, Workload

LAYER_KEYS = (
    "name", "kind", "in_channels", "out_channels", "kernel", "stride", "padding", "dilation",
    "groups", "out_map", "batch", "repeats", "dynamic", "mean_input", "mean_weight_slice",
    "weight_bits", "activation_bits",
)  # fmt: skip
WORKLOAD_KEYS = ("name", "variant", "source", "input_shape", "totals", "layers")
TOTAL_KEYS = ("layers", "macs", "weights")
_ALWAYS = ("name", "kind", "in_channels", "out_channels")
# A conv without these would quietly become 1x1 on one pixel.
_REQUIRED = {"conv": (*_ALWAYS, "kernel", "out_map"), "linear": _ALWAYS, "matmul": _ALWAYS}
_SIDES = {"kernel": 2, "stride": 2, "dilation": 2, "out_map": 2, "padding": 4}


def workload_from_mapping(data: object, where: str) -> Workload:
    """A `Workload` from the content of one file; `where` names the file in errors."""
    content = _mapping(data, where)
    _check_keys(content, WORKLOAD_KEYS, where)
    _require(content, ("name", "layers"), where)
    listed = content["layers"]
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{where}: layers must be a list with at least one layer")
    workload = Workload(
        name=_text(content, "name", where),
        layers=tuple(_layer(entry, i, where) for i, entry in enumerate(listed)),
        variant=_text(content, "variant", where, default=""),
        source=_text(content, "source", where, default=""),
        input_shape=_input_shape(content.get("input_shape"), where),
    )
    _check_unique(workload, where)
    _check_totals(content.get("totals"), workload, where)
    return workload


def totals_of(workload: Workload) -> dict[str, int]:
    """The totals a file may state: layers (counting repeats), MACs, stationary weights."""
    return {"layers": workload.n_layers, "macs": workload.macs, "weights": workload.weights}


def _layer(entry: object, position: int, where: str) -> Layer:
    content = _mapping(entry, f"{where}: layer {position}")
    spot = f"{where}, layer '{content.get('name', position)}'"
    _check_keys(content, LAYER_KEYS, spot)
    kind = content.get("kind", "linear")
    if kind not in LAYER_KINDS:
        raise unknown_name(f"kind in {spot}:", kind, LAYER_KINDS)
    _require(content, _REQUIRED[kind], spot)
    values = dict(content) | {key: _sides(content[key], key, n, spot) for key, n in _SIDES.items() if key in content}
    values["name"] = _text(content, "name", spot)
    values |= _statistics(content, spot)
    if not isinstance(values.get("dynamic", False), bool):
        raise InputError(f"{spot}: dynamic={values['dynamic']!r} must be true or false")
    try:
        return Layer(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _sides(value: object, key: str, length: int, spot: str) -> tuple:
    """One number for all sides, or exactly one per side; `Layer` checks the numbers."""
    if isinstance(value, list) and len(value) == length:
        return tuple(value)
    if type(value) is int:
        return (value,) * length
    sides = "[top, left, bottom, right]" if length == 4 else "[height, width]"
    raise InputError(f"{spot}: {key}={value!r} must be one whole number or {sides}")


def _statistics(content: Mapping[str, object], spot: str) -> dict[str, object]:
    """`mean_input` as float and `mean_weight_slice` as a tuple, for the keys that are given."""
    found: dict[str, object] = {}
    mean = content.get("mean_input")
    if mean is not None:
        found["mean_input"] = _number(mean, "mean_input", spot)
    slices = content.get("mean_weight_slice")
    if slices is not None:
        if not isinstance(slices, list):
            raise InputError(f"{spot}: mean_weight_slice={slices!r} must be a list of numbers")
        found["mean_weight_slice"] = tuple(_number(s, "mean_weight_slice", spot) for s in slices)
    return found


def _number(value: object, key: str, spot: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{spot}: {key}={value!r} must be a number in 0..1")
    return float(value)


def _text(content: Mapping[str, object], key: str, spot: str, default: str | None = None) -> str:
    value = content.get(key, default)
    if not isinstance(value, str) or (default is None and not value):
        # `name: no` and `name: 1` are not strings in YAML.
        raise InputError(f"{spot}: {key}={value!r} must be text (quote it)")
    return value


def _input_shape(value: object, where: str) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(type(v) is int and v >= 1 for v in value):
        raise InputError(f"{where}: input_shape={value!r} must be a list of whole numbers >= 1")
    return tuple(value)


def _check_unique(workload: Workload, where: str) -> None:
    seen: set[str] = set()
    for layer in workload.layers:
        if layer.name in seen:
            raise InputError(f"{where}: two layers are named '{layer.name}'")
        seen.add(layer.name)


def _check_totals(stated: object, workload: Workload, where: str) -> None:
    """Totals are optional; those stated must be what the layers give."""
    if stated is None:
        return
    content = _mapping(stated, f"{where}: totals")
    _check_keys(content, TOTAL_KEYS, f"{where}, totals")
    for key, right in totals_of(workload).items():
        if key in content and (type(content[key]) is not int or content[key] != right):
            raise InputError(f"{where}: totals.{key} says {content[key]!r}, but the layers give {right}")


def _mapping(data: object, spot: str) -> Mapping[str, object]:
    if not isinstance(data, Mapping):
        raise InputError(f"{spot} must be 'key: value' pairs, got {type(data).__name__}")
    return data


def _check_keys(content: Mapping[str, object], allowed: Sequence[str], spot: str) -> None:
    for key in content:
        if key not in allowed:
            raise unknown_name(f"key in {spot}:", key, allowed)


def _require(content: Mapping[str, object], keys: Sequence[str], spot: str) -> None:
    missing = [key for key in keys if key not in content]
    if missing:
        raise InputError(f"{spot}: missing {', '.join(missing)}")
